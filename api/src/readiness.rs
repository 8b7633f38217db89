//! Whether this process can do its work now: it asks what it depends on every few seconds, and says in words what is
//! missing. A ledger that is away makes paying wait, and holds go on: so it is said, and nothing is stopped.

use crate::planes::Planes;
use std::time::Duration;
use telemetry::Operations;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(3);

/// Follow the store until `shutdown`. A process without a plane that reads the store has nothing to follow.
pub async fn watch(planes: Planes, operations: Operations, shutdown: CancellationToken) {
    let store = planes.browse.map(|plane| plane.store).or(planes.buy.map(|plane| plane.store));
    let Some(store) = store else { return };
    operations.set_unready("store", "not asked yet");
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
