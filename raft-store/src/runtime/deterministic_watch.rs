//! A watch channel whose waiters wake in the order in which they came. tokio's picks among several queues by a random
//! number from a process-wide counter, so that the same seed would run differently the second time in one process.

use openraft_rt::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft_rt::{OptionalSend, OptionalSync};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::task::{Poll, Waker};

#[derive(Default)]
struct Ends {
    version: u64,
    senders: usize,
    receivers: usize,
    next_receiver: u64,
    waiting: BTreeMap<u64, Waker>,
}

struct Shared<T> {
    value: RwLock<T>,
    ends: Mutex<Ends>,
}

impl<T> Shared<T> {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().expect("no holder of this lock panics")
    }

    fn value(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().expect("a simulated node that panicked is gone")
    }

    fn wake(&self, changed: bool) {
        let waiting = {
            let mut ends = self.ends();
            ends.version += u64::from(changed);
            std::mem::take(&mut ends.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    fn receiver(self: &Arc<Self>, seen: Option<u64>) -> Receiver<T> {
        let mut ends = self.ends();
        ends.next_receiver += 1;
        ends.receivers += 1;
        let (id, seen) = (ends.next_receiver, seen.unwrap_or(ends.version));
        Receiver { shared: self.clone(), seen, id }
    }
}

/// The channel.
pub struct DeterministicWatch;

/// Its writing end.
pub struct Sender<T>(Arc<Shared<T>>);

/// Its reading end.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
    id: u64,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.ends().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let last = {
            let mut ends = self.0.ends();
            ends.senders -= 1;
            ends.senders == 0
        };
        if last {
            self.0.wake(false);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receiver(Some(self.seen))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut ends = self.shared.ends();
        ends.receivers -= 1;
        ends.waiting.remove(&self.id);
    }
}

impl Watch for DeterministicWatch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let ends = Ends { senders: 1, ..Ends::default() };
        let shared = Arc::new(Shared { value: RwLock::new(init), ends: Mutex::new(ends) });
        let receiver = shared.receiver(None);
        (Sender(shared), receiver)
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<DeterministicWatch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.ends().receivers == 0 {
            return Err(SendError(value));
        }
        *self.0.value.write().expect("a simulated node that panicked is gone") = value;
        self.0.wake(true);
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let modified = modify(&mut self.0.value.write().expect("a simulated node that panicked is gone"));
        if modified {
            self.0.wake(true);
        }
        modified
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.0.value()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.0.receiver(None)
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<DeterministicWatch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        poll_fn(|context| {
            let mut ends = self.shared.ends();
            if ends.version != self.seen {
                self.seen = ends.version;
                Poll::Ready(Ok(()))
            } else if ends.senders == 0 {
                Poll::Ready(Err(RecvError(())))
            } else {
                ends.waiting.insert(self.id, context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value();
        self.seen = self.shared.ends().version;
        value
    }
}
