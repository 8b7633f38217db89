//! What the operator sees of the waiting room. The only label is the event.

use domain::ids::EventId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use telemetry::Operations;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: u32,
}

/// Counters and gauges; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    waiting: Family<Event, Gauge>,
    inside: Family<Event, Gauge>,
    parked: Family<Event, Gauge>,
    sockets: Family<Event, Gauge>,
    admitted: Family<Event, Counter>,
    dropped: Family<Event, Counter>,
    expired: Family<Event, Counter>,
    refused: Counter,
}

impl Metrics {
    /// Registered with the process.
    pub(crate) fn register(operations: &Operations) -> Self {
        let metrics = Self::default();
        let mut registry = operations.registry();
        let queue = registry.sub_registry_with_prefix("queue");
        queue.register("waiting", "Fans in line or in the draw", metrics.waiting.clone());
        queue.register("inside", "Fans let in who have not left", metrics.inside.clone());
        queue.register("parked", "Fans away who may come back to their place", metrics.parked.clone());
        queue.register("sockets", "Open WebSockets of this process", metrics.sockets.clone());
        queue.register("admitted", "Fans let in by this process", metrics.admitted.clone());
        queue.register("dropped", "Fans dropped for silence by this process", metrics.dropped.clone());
        queue.register("expired", "Leases that ended unused, found by this process", metrics.expired.clone());
        queue.register("unavailable", "Requests refused because Redis did not answer", metrics.refused.clone());
        metrics
    }

    /// How many wait and how many are inside.
    pub(crate) fn counts(&self, event: EventId, waiting: u64, inside: u64) {
        self.waiting.get_or_create(&label(event)).set(signed(waiting));
        self.inside.get_or_create(&label(event)).set(signed(inside));
    }

    /// A tick was done.
    pub(crate) fn tick(&self, event: EventId, tick: &crate::store::Tick) {
        self.counts(event, tick.waiting, tick.inside);
        self.parked.get_or_create(&label(event)).set(signed(tick.parked));
        self.admitted.get_or_create(&label(event)).inc_by(tick.admitted);
        self.dropped.get_or_create(&label(event)).inc_by(tick.dropped);
        self.expired.get_or_create(&label(event)).inc_by(tick.expired);
    }

    /// A socket opened.
    pub(crate) fn socket_opened(&self, event: EventId) {
        self.sockets.get_or_create(&label(event)).inc();
    }

    /// A socket closed.
    pub(crate) fn socket_closed(&self, event: EventId) {
        self.sockets.get_or_create(&label(event)).dec();
    }

    /// A request was refused because Redis did not answer.
    pub(crate) fn unavailable(&self) {
        self.refused.inc();
    }
}

fn label(event: EventId) -> Event {
    Event { event: event.0 }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
