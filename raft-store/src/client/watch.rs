//! Which partition of an event changed: a hint to pull. One upstream stream, coalesced, and it opens with a reset whenever
//! it is (re)opened, so that nothing that was missed matters.

use super::Client;
use super::router::{Router, millis};
use crate::runtime;
use crate::wire;
use crate::wire::frames::WatchFrame;
use domain::ids::{EventId, GroupId, Partition};
use domain::inventory::query::EventPlacement;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Items that may wait for a watcher before the upstream is left to coalesce.
const ITEMS_AHEAD: usize = 64;
/// How often a watcher looks whether the event's partitions have gone to groups that it does not watch.
const LOOK_MS: u64 = 1_000;
/// Pause before a broken stream is opened again.
const REOPEN_MS: u64 = 200;

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// Anything may have changed: pull everything that you show.
    Reset,
    /// This partition has at least this version now.
    Changed {
        /// Which.
        partition: Partition,
        /// Its version; a seat map pulled with it as `min_version` shows the change.
        version: u64,
    },
}

impl Client {
    /// Watches an event until the stream is dropped. Reconnects by itself; never ends.
    pub fn watch(&self, event: EventId) -> impl Stream<Item = WatchItem> + Send + Unpin + 'static {
        let (items, watched) = mpsc::channel(ITEMS_AHEAD);
        runtime::spawn(follow(self.router.clone(), event, items));
        tokio_stream::wrappers::ReceiverStream::new(watched)
    }
}

async fn follow(router: Arc<Router>, event: EventId, items: mpsc::Sender<WatchItem>) {
    let mut round = 0;
    loop {
        if let Some((mut frames, groups)) = open(&router, event, round).await {
            // The streams are up: from here on every change is told, so what is pulled after this reset is complete.
            if items.send(WatchItem::Reset).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                told = pump(&mut frames, &items) => if told.is_none() {
                    return;
                },
                () = outgrown(&router, event, &groups) => {}
            }
        }
        round += 1;
        tokio::select! {
            biased;
            () = items.closed() => return,
            () = runtime::sleep(millis(REOPEN_MS)) => {}
        }
    }
}

type Frames = SelectAll<BoxStream<'static, Result<WatchFrame, String>>>;

/// The groups that host an event's partitions.
fn groups(placement: &EventPlacement) -> BTreeSet<GroupId> {
    placement.moved.values().chain([&placement.home]).map(|(group, _)| *group).collect()
}

/// Returns once a partition of the event is in a group that is not watched.
async fn outgrown(router: &Router, event: EventId, watched: &BTreeSet<GroupId>) {
    loop {
        runtime::sleep(millis(LOOK_MS)).await;
        if let Ok(placement) = router.young_placement(event, LOOK_MS).await
            && !groups(&placement).is_subset(watched)
        {
            return;
        }
    }
}

/// Opens streams to as few nodes as have a replica of every group of the event.
async fn open(router: &Router, event: EventId, round: usize) -> Option<(Frames, BTreeSet<GroupId>)> {
    let watched = groups(&router.event_placement(event).await.ok()?);
    let mut missing = watched.clone();
    let mut frames = SelectAll::new();
    while let Some(group) = missing.first().copied() {
        let replicas = router.replicas(group);
        let address = replicas.get(round % replicas.len().max(1))?.clone();
        missing.retain(|group| !router.replicas(*group).contains(&address));
        let opened = runtime::timeout(router.config.connect_timeout(), router.dial.watch(&address, event)).await;
        match opened {
            Some(Ok(stream)) => frames.push(stream),
            Some(Err(reason)) => {
                tracing::debug!(address, reason, "cannot watch");
                return None;
            }
            None => return None,
        }
    }
    Some((frames, watched))
}

/// Passes changes on until a stream ends (`Some`) or the watcher is gone (`None`).
async fn pump(frames: &mut Frames, items: &mpsc::Sender<WatchItem>) -> Option<()> {
    let mut opened = 0;
    let streams = frames.len();
    loop {
        let frame = tokio::select! {
            biased;
            () = items.closed() => return None,
            frame = frames.next() => frame,
        };
        // Any of the streams breaking breaks all: the next opening tells a reset.
        let Some(Ok(frame)) = frame else { return Some(()) };
        if frames.len() < streams {
            return Some(());
        }
        if frame.reset {
            opened += 1;
            // The first reset of each stream is the one that was told already.
            if opened > streams {
                items.send(WatchItem::Reset).await.ok()?;
            }
        }
        let mut newest = BTreeMap::new();
        for change in frame.changes {
            match wire::decode::<Partition>("partition", &change.partition) {
                Ok(partition) => newest.insert(partition, change.version),
                Err(_) => return Some(()),
            };
        }
        for (partition, version) in newest {
            items.send(WatchItem::Changed { partition, version }).await.ok()?;
        }
    }
}
