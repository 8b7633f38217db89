//! Whether this process can do its work now: it asks the store every few seconds, and says in words what is missing.
//!
//! The ledger and the waiting room are not asked: without them holds or payments wait, and everything else goes on, so
//! that no balancer should take this process out.

use crate::planes::Planes;
use std::future::Future;
use std::time::Duration;
use telemetry::Operations;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(3);

/// Follow the store until `shutdown`; unready from now on until it has answered. A process without a plane that reads
/// the store has nothing to follow.
pub fn watch(planes: Planes, operations: Operations, shutdown: CancellationToken) -> impl Future<Output = ()> {
    let store = planes.browse.map(|plane| plane.store).or(planes.buy.map(|plane| plane.store));
    if store.is_some() {
        operations.set_unready("store", "not asked yet");
    }
    async move {
        let Some(store) = store else { return };
        loop {
            match tokio::time::timeout(TIMEOUT, store.events()).await {
                Ok(Ok(_events)) => operations.set_ready("store"),
                Ok(Err(error)) => operations.set_unready("store", error.to_string()),
                Err(_elapsed) => operations.set_unready("store", "no answer in time"),
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}
