//! Tasks, timers and clocks of the store. The only file that knows whether it runs for real or in simulation: everything
//! else asks here for time and tasks, and therefore runs the same code in both.

#[cfg(madsim)]
#[path = "runtime/deterministic_watch.rs"]
mod deterministic_watch;
#[cfg(not(madsim))]
#[path = "runtime/real.rs"]
mod host;
#[cfg(madsim)]
#[path = "runtime/simulated.rs"]
mod host;

pub use host::{Rt, abort, new_life, run_blocking, wall_now};
#[cfg(madsim)]
pub use host::{reset_clocks, set_clock};

use domain::time::WallMs;
use openraft_rt::AsyncRuntime;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A point of the monotonic clock.
pub type Instant = <Rt as AsyncRuntime>::Instant;
/// A running task; dropping it leaves the task running.
pub type JoinHandle<T> = <Rt as AsyncRuntime>::JoinHandle<T>;

/// The monotonic clock of this node.
pub fn now() -> Instant {
    <Instant as openraft_rt::Instant>::now()
}

/// Milliseconds from `earlier` until now; zero if it lies ahead.
pub fn millis_since(earlier: Instant) -> u64 {
    u64::try_from(openraft_rt::Instant::elapsed(&earlier).as_millis()).unwrap_or(u64::MAX)
}

/// Starts a task.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Rt::spawn(future)
}

/// Waits by this node's clock.
pub async fn sleep(duration: Duration) {
    Rt::sleep(duration).await;
}

/// Waits for the future at most this long.
pub async fn timeout<F>(duration: Duration, future: F) -> Option<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    Rt::timeout(duration, future).await.ok()
}

/// The wall clock that a node goes by: its machine's, unless somebody sets it wrong. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Arc<AtomicI64>);

impl WallClock {
    /// Milliseconds since the epoch.
    pub fn now(&self) -> WallMs {
        WallMs(wall_now().0.saturating_add_signed(self.0.load(Ordering::Relaxed)))
    }

    /// Lets it run ahead of the machine's, or behind, by so much.
    pub fn set_ahead_ms(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}
