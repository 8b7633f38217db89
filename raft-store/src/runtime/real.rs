//! The real host: tokio, the system's clocks, and an abort that says why.

use domain::time::WallMs;
use std::io::{self, Read};

/// openraft's runtime.
pub use openraft_rt_tokio::TokioRuntime as Rt;

/// Milliseconds since the epoch by this machine's wall clock.
pub fn wall_now() -> WallMs {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// A number that no other node will ever draw.
pub fn new_life() -> io::Result<u128> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Ends the process at once: what is promised to be on disk may not be there, and nothing may be answered any more.
pub fn abort(reason: &str) -> ! {
    tracing::error!(reason, "aborting: this node can no longer keep its promises");
    #[allow(clippy::print_stderr)]
    {
        eprintln!("encore node: aborting: {reason}");
    }
    std::process::abort()
}

/// Runs what blocks (disk) beside the tasks.
pub async fn run_blocking<F, T>(work: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The runtime is ending: this is no failure of the disk, and there is nobody left to tell.
        Err(error) if error.is_cancelled() => std::future::pending().await,
        Err(error) => Err(io::Error::other(error)),
    }
}
