//! One value kept in memory and refilled by one caller at a time.
//!
//! Whoever finds the value old and nobody refilling refills it; the others take what there is, if it will do meanwhile, or
//! else wait a little. When the refill fails, what is there is served on: for browsing, an old answer is better than none.

use raft_store::client::ClientError;
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// After a failed refill nobody tries again before this.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How long anybody waits for another's refill while there is a value.
const WAIT: Duration = Duration::from_secs(1);

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
        self.get_or(good, |_| true, load).await
    }

    /// The same, where only a value that `does` is taken while somebody else refills: a refill that is under way may have
    /// been asked for before the change that this caller was told of.
    pub async fn get_or<F>(
        &self,
        good: impl Fn(&T, Duration) -> bool,
        does: impl Fn(&T) -> bool,
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
                let there = self.peek().map(|(value, _)| value);
                match there {
                    Some(value) if does(&value) => return Ok(value),
                    Some(value) => match tokio::time::timeout(WAIT, self.refill.lock()).await {
                        Ok(turn) => turn,
                        Err(_elapsed) => return Ok(self.peek().map_or(value, |(newer, _)| newer)),
                    },
                    None => self.refill.lock().await,
                }
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
    async fn who_was_told_of_a_change_is_not_given_what_was_asked_for_before_it() {
        let fresh = Arc::new(Fresh::default());
        let version = Arc::new(AtomicU32::new(1));
        let (asked, may_answer) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        assert_eq!(fresh.get(|_, _| false, || async { Ok(1) }).await.map(|value| *value), Ok(1));
        // Somebody refills: the store has answered with version 1, and the answer is on its way.
        let slow = {
            let (fresh, version) = (fresh.clone(), version.clone());
            let (asked, may_answer) = (asked.clone(), may_answer.clone());
            tokio::spawn(async move {
                let load = || async {
                    let read = version.load(Ordering::Relaxed);
                    asked.notify_one();
                    may_answer.notified().await;
                    Ok(read)
                };
                fresh.get(|_, _| false, load).await.map(|value| *value)
            })
        };
        asked.notified().await;
        version.store(2, Ordering::Relaxed);
        let told =
            fresh.get_or(|value, _| *value >= 2, |value| *value >= 2, || async { Ok(version.load(Ordering::Relaxed)) });
        let answer = async {
            // Who was told of nothing takes what there is.
            assert_eq!(fresh.get(|_, _| false, || async { Ok(9) }).await.map(|value| *value), Ok(1));
            may_answer.notify_one();
        };
        let (told, ()) = tokio::join!(told, answer);
        assert_eq!(told.map(|value| *value), Ok(2));
        assert_eq!(slow.await.expect("it ends"), Ok(1));
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
