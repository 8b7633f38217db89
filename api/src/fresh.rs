//! One value kept in memory and refilled by one caller at a time.
//!
//! Whoever finds the value old and nobody refilling refills it; the others take what there is. When the refill fails, what
//! is there is served on: for browsing, an old answer is better than none.

use raft_store::client::ClientError;
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// After a failed refill nobody tries again before this.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// A value with its age.
pub struct Fresh<T> {
    state: StdMutex<State<T>>,
    refill: Mutex<()>,
}

struct State<T> {
    value: Option<(Arc<T>, Instant)>,
    failed: Option<(ClientError, Instant)>,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self { state: StdMutex::new(State { value: None, failed: None }), refill: Mutex::new(()) }
    }
}

impl<T> Fresh<T> {
    /// The value, if there is one, and when it came.
    pub fn peek(&self) -> Option<(Arc<T>, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    /// The value, if `good` accepts it with its age; else what `load` gives, asked once for everybody who waits.
    pub async fn get<F>(
        &self,
        good: impl Fn(&T, Duration) -> bool,
        load: impl FnOnce() -> F,
    ) -> Result<Arc<T>, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        if let Some(value) = self.good(&good) {
            return Ok(value);
        }
        let _turn = match self.refill.try_lock() {
            Ok(turn) => turn,
            Err(_busy) => {
                if let Some((value, _)) = self.peek() {
                    return Ok(value);
                }
                self.refill.lock().await
            }
        };
        if let Some(value) = self.good(&good) {
            return Ok(value);
        }
        if let Some(error) = self.failed_lately() {
            return self.peek().map(|(value, _)| value).ok_or(error);
        }
        let loaded = load().await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match loaded {
            Ok(value) => {
                let value = Arc::new(value);
                *state = State { value: Some((value.clone(), Instant::now())), failed: None };
                Ok(value)
            }
            Err(error) => {
                state.failed = Some((error.clone(), Instant::now()));
                state.value.as_ref().map(|(value, _)| value.clone()).ok_or(error)
            }
        }
    }

    fn good(&self, good: &impl Fn(&T, Duration) -> bool) -> Option<Arc<T>> {
        self.peek().filter(|(value, since)| good(value, since.elapsed())).map(|(value, _)| value)
    }

    fn failed_lately(&self) -> Option<ClientError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.as_ref().filter(|(_, at)| at.elapsed() < AFTER_FAILURE).map(|(error, _)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn many_ask_and_one_loads() {
        let fresh = Fresh::default();
        let loads = AtomicU32::new(0);
        let ask = || {
            fresh.get(
                |_: &u32, _| true,
                || async {
                    tokio::task::yield_now().await;
                    Ok(loads.fetch_add(1, Ordering::Relaxed))
                },
            )
        };
        let answers = futures::future::join_all((0..50).map(|_| ask())).await;
        assert!(answers.into_iter().all(|answer| *answer.expect("a value") == 0));
        assert_eq!(loads.into_inner(), 1);
    }

    #[tokio::test]
    async fn an_old_value_is_better_than_an_error() {
        let fresh = Fresh::default();
        let failing = || async { Err(ClientError::Timeout) };
        assert_eq!(fresh.get(|_: &u32, _| false, failing).await, Err(ClientError::Timeout));
        let fresh = Fresh::default();
        assert_eq!(fresh.get(|_: &u32, _| false, || async { Ok(7) }).await.map(|value| *value), Ok(7));
        assert_eq!(fresh.get(|_: &u32, _| false, failing).await.map(|value| *value), Ok(7));
    }
}
