//! When to snapshot and what to purge. Both are driven from here, never by openraft itself: a purge may only follow what
//! is applied and behind a durable snapshot, or a queued apply finds its entries gone.

use crate::group::GroupHandle;
use crate::runtime::sleep;
use crate::wal::Wal;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often to look.
const PERIOD: Duration = Duration::from_millis(500);
/// With more segments than this, a quiet group is snapshotted too, so that it does not keep the oldest ones.
const MANY_SEGMENTS: u64 = 4;

/// Looks after one group until the node stops.
pub async fn run(group: GroupHandle, wal: Wal, snapshot_every: u64, stop: CancellationToken) {
    let snapshot_every = snapshot_every.max(1);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
        let crowded = wal.counters().segments.load(Ordering::Relaxed) > MANY_SEGMENTS;
        let status = group.status();
        let Some(applied) = status.applied else { continue };
        let since = applied.saturating_sub(status.snapshot.unwrap_or(0));
        if since >= snapshot_every || (crowded && since > 0) {
            tracing::debug!(group = %group.id(), applied, "snapshotting");
            if group.raft().trigger().snapshot().await.is_err() {
                return;
            }
        }
        // A follower that was away for a moment still catches up from the log.
        let keep = if crowded { 0 } else { snapshot_every / 4 };
        let upto = status.snapshot.map(|snapshot| snapshot.min(applied)).and_then(|upto| upto.checked_sub(keep));
        if let Some(upto) = upto.filter(|upto| status.purged.is_none_or(|purged| purged < *upto))
            && group.raft().trigger().purge_log(upto).await.is_err()
        {
            return;
        }
    }
}
