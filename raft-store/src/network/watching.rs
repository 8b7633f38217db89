//! One client's watch of one event: versions of its partitions as they change here, coalesced while they wait. Hints to
//! pull, so nothing is lost by leaving all but the newest out.

use crate::group::{ChangeStream, Changes};
use crate::node::Node;
use crate::runtime::{sleep, timeout};
use crate::wire;
use crate::wire::frames::{Change, WatchFrame};
use domain::ids::EventId;
use futures::future::{BoxFuture, select_all};
use std::time::Duration;
use tokio::sync::mpsc;

/// Frames that wait for a slow watcher; while they do, changes coalesce.
pub(super) const FRAMES_AHEAD: usize = 1;
/// Least time between two frames: a burst of holds is one hint.
const REST: Duration = Duration::from_millis(50);
/// A watcher that takes nothing for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells of changes until the watcher is gone or too slow.
pub async fn watch(node: Node, event: EventId, frames: mpsc::Sender<WatchFrame>) {
    // Subscribe first, then say reset: whatever changes after the reset is told.
    let mut waiting: Vec<_> = node.groups().iter().map(|group| next(group.watch())).collect();
    if frames.send(WatchFrame { reset: true, changes: Vec::new() }).await.is_err() {
        return;
    }
    let mut news = Changes::new();
    loop {
        let changed = tokio::select! {
            biased;
            () = frames.closed() => return,
            ((stream, changes), _, rest) = select_all(std::mem::take(&mut waiting)) => {
                waiting = rest;
                waiting.push(next(stream));
                changes
            }
        };
        news.extend(changed.into_iter().filter(|(partition, _)| partition.event() == Some(event)));
        if news.is_empty() {
            continue;
        }
        let Some(Ok(permit)) = timeout(PATIENCE, frames.reserve()).await else {
            tracing::warn!(%event, "a watcher is too slow and is dropped");
            return;
        };
        let changes = std::mem::take(&mut news).into_iter();
        let changes = changes.map(|(partition, version)| Change { partition: wire::encode(&partition), version });
        permit.send(WatchFrame { reset: false, changes: changes.collect() });
        sleep(REST).await;
    }
}

fn next(mut stream: ChangeStream) -> BoxFuture<'static, (ChangeStream, Changes)> {
    Box::pin(async move {
        let changes = stream.next().await;
        (stream, changes)
    })
}
