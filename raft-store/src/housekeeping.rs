//! When to snapshot and what to purge. Both are driven from here, never by openraft itself: a purge may only follow what
//! is applied and behind a durable snapshot, or a queued apply finds its entries gone.

use crate::group::GroupHandle;
use crate::runtime::{Instant, millis_since, now, sleep};
use crate::wal::Wal;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often to look.
const PERIOD: Duration = Duration::from_millis(500);
/// With more segments than this, a quiet group is snapshotted too, so that it does not keep the oldest ones.
const MANY_SEGMENTS: u64 = 4;

/// Entries are kept in memory until they are purged: past this many bytes it is time, however few they are.
const MANY_BYTES: usize = 64 << 20;
/// Between two snapshots that were not made because of their number of entries.
const AT_MOST_EVERY_MS: u64 = 10_000;

/// Looks after one group until the node stops.
pub async fn run(group: GroupHandle, wal: Wal, snapshot_every: u64, stop: CancellationToken) {
    let snapshot_every = snapshot_every.max(1);
    let mut pressed_at: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
        let pressed = wal.counters().segments.load(Ordering::Relaxed) > MANY_SEGMENTS || group.log_bytes() > MANY_BYTES;
        let status = group.status();
        let Some(applied) = status.applied else { continue };
        let since = applied.saturating_sub(status.snapshot.unwrap_or(0));
        let rested = pressed_at.is_none_or(|at| millis_since(at) >= AT_MOST_EVERY_MS);
        if since >= snapshot_every || (pressed && rested && since > 0) {
            tracing::debug!(group = %group.id(), applied, "snapshotting");
            pressed_at = Some(now());
            if group.raft().trigger().snapshot().await.is_err() {
                return;
            }
        }
        // A follower that was away for a moment still catches up from the log.
        let keep = if pressed { 0 } else { snapshot_every / 4 };
        let upto = status.snapshot.map(|snapshot| snapshot.min(applied)).and_then(|upto| upto.checked_sub(keep));
        if let Some(upto) = upto.filter(|upto| status.purged.is_none_or(|purged| purged < *upto))
            && group.raft().trigger().purge_log(upto).await.is_err()
        {
            return;
        }
    }
}
