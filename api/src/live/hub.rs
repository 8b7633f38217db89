//! One upstream watch an event, however many viewers.
//!
//! Changes are gathered for a moment and sent to everybody as one message of server-sent events; a viewer that is eight
//! messages behind is disconnected, and counted, so that nobody's slow line costs the others memory.

use super::viewer::Viewer;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::metrics::Metrics;
use axum::body::Bytes;
use domain::ids::{EventId, Partition, SectionId};
use domain::inventory::EventRecord;
use futures::StreamExt;
use raft_store::client::WatchItem;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Messages that a viewer may be behind.
const BEHIND: usize = 8;
/// Something is sent at least so often, so that a dead line is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// All viewers of one process.
pub struct Hub {
    catalogue: Arc<Catalogue>,
    metrics: Metrics,
    interval: Duration,
    max_viewers: usize,
    shutdown: CancellationToken,
    events: Mutex<BTreeMap<EventId, broadcast::Sender<Bytes>>>,
}

/// This process has as many viewers as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyViewers;

impl Hub {
    /// Watches nothing yet: an event's watch begins with the first interest in it, and ends with `shutdown`.
    pub fn new(catalogue: Arc<Catalogue>, metrics: Metrics, config: &Config, shutdown: CancellationToken) -> Self {
        Self {
            catalogue,
            metrics,
            interval: Duration::from_millis(config.push_interval_ms.max(1)),
            max_viewers: config.max_viewers,
            shutdown,
            events: Mutex::default(),
        }
    }

    /// A new viewer of this event.
    pub fn view(&self, event: &EventRecord) -> Result<Viewer, TooManyViewers> {
        let receiver = self.follow(event);
        let viewers = self.metrics.viewers();
        if viewers.inc() >= i64::try_from(self.max_viewers).unwrap_or(i64::MAX) {
            viewers.dec();
            return Err(TooManyViewers);
        }
        Ok(Viewer::new(reset(), receiver, self.metrics.clone(), self.shutdown.clone()))
    }

    /// Make sure that this event is watched: maps in memory are then refilled when they change.
    pub fn follow(&self, event: &EventRecord) -> broadcast::Receiver<Bytes> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = events.get(&event.id) {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(BEHIND);
        events.insert(event.id, sender.clone());
        let watch = Watch { event: event.id, catalogue: self.catalogue.clone(), sender };
        tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(watch.run(self.interval)));
        receiver
    }
}

/// The upstream watch of one event.
struct Watch {
    event: EventId,
    catalogue: Arc<Catalogue>,
    sender: broadcast::Sender<Bytes>,
}

impl Watch {
    async fn run(self, interval: Duration) {
        let mut upstream = self.catalogue.store().watch(self.event);
        let mut gathered = Gathered::default();
        let mut tick = tokio::time::interval(interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut quiet = tokio::time::Instant::now();
        loop {
            tokio::select! {
                item = upstream.next() => match item {
                    Some(item) => self.take(item, &mut gathered),
                    // A watch never ends by itself; if it does, open another.
                    None => {
                        tokio::time::sleep(interval).await;
                        upstream = self.catalogue.store().watch(self.event);
                    }
                },
                _ = tick.tick() => {
                    if let Some(message) = self.message(&mut gathered, quiet.elapsed()).await {
                        quiet = tokio::time::Instant::now();
                        // An error means that nobody is watching.
                        let _nobody = self.sender.send(message);
                    }
                }
            }
        }
    }

    fn take(&self, item: WatchItem, gathered: &mut Gathered) {
        match item {
            WatchItem::Reset => gathered.reset = true,
            WatchItem::Changed { partition: Partition::Seats { event, section }, version } if event == self.event => {
                self.catalogue.announce(event, section, version);
                let newest = gathered.changed.entry(section).or_default();
                *newest = version.max(*newest);
            }
            WatchItem::Changed { .. } => {}
        }
    }

    async fn message(&self, gathered: &mut Gathered, quiet: Duration) -> Option<Bytes> {
        if std::mem::take(&mut gathered.reset) {
            gathered.changed.clear();
            return Some(reset());
        }
        if gathered.changed.is_empty() {
            return (quiet >= KEEP_ALIVE).then(|| Bytes::from_static(b": still here\n\n"));
        }
        let changed = std::mem::take(&mut gathered.changed);
        // Names come from memory; without them nobody could be told which section it is, so that everything is pulled.
        let Ok(event) = self.catalogue.event(self.event).await else { return Some(reset()) };
        Some(invalidations(&event, &changed))
    }
}

#[derive(Default)]
struct Gathered {
    reset: bool,
    changed: BTreeMap<SectionId, u64>,
}

fn reset() -> Bytes {
    Bytes::from_static(b"event: reset\ndata: {}\n\n")
}

fn invalidations(event: &EventRecord, changed: &BTreeMap<SectionId, u64>) -> Bytes {
    let mut text = String::new();
    for (id, version) in changed {
        if let Some(section) = event.section(*id) {
            let data = serde_json::json!({"section": section.name, "version": version});
            // Writing to a string cannot fail.
            let _ok = write!(text, "event: invalidate\ndata: {data}\n\n");
        }
    }
    Bytes::from(text)
}
