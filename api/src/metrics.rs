//! What an operator sees of the HTTP planes. One function a metric; labels are bounded: plane, route template, class.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;
use telemetry::Operations;

/// Upper bounds in seconds: around the 200 ms and 400 ms by which the waiting room adapts.
const BOUNDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 2.5, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    plane: &'static str,
    method: String,
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    plane: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decided {
    outcome: &'static str,
}

/// The metrics of one process. Clones share one state.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    durations: Family<Route, Histogram, fn() -> Histogram>,
    holds: Family<Decided, Histogram, fn() -> Histogram>,
    refusals: Family<Refused, Counter>,
    viewers: Gauge,
    viewers_dropped: Counter,
    connections: Gauge,
}

fn seconds() -> Histogram {
    Histogram::new(BOUNDS)
}

impl Metrics {
    /// Registered with `operations`, under the listener's name: a process may have two.
    pub fn new(operations: &Operations, listener: &str) -> Self {
        let histogram: fn() -> Histogram = seconds;
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            holds: Family::new_with_constructor(histogram),
            refusals: Family::default(),
            viewers: Gauge::default(),
            viewers_dropped: Counter::default(),
            connections: Gauge::default(),
        };
        let mut registry = operations.registry();
        let registry = registry.sub_registry_with_prefix(listener);
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("request_duration_seconds", "Time to the head of the answer", metrics.durations.clone());
        registry.register("hold_duration_seconds", "Time the store took to decide a hold", metrics.holds.clone());
        registry.register("refusals", "Answers with an error code", metrics.refusals.clone());
        registry.register("viewers", "Open streams of seat changes", metrics.viewers.clone());
        registry.register(
            "viewers_dropped",
            "Streams ended because they did not keep up",
            metrics.viewers_dropped.clone(),
        );
        registry.register("connections", "Open connections", metrics.connections.clone());
        metrics
    }

    /// A request was answered.
    pub fn answered(&self, plane: &'static str, method: &str, route: &str, status: u16, took: Duration) {
        let class = match status {
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        };
        let labels = Request { plane, method: method.to_owned(), route: route.to_owned(), status: class };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&Route { plane, route: route.to_owned() }).observe(took.as_secs_f64());
    }

    /// The store decided a hold: `held`, `refused`, `advised` or `failed`.
    pub fn hold_decided(&self, outcome: &'static str, took: Duration) {
        self.holds.get_or_create(&Decided { outcome }).observe(took.as_secs_f64());
    }

    /// An error code went out. Codes are the fixed words of this crate.
    pub fn refused(&self, code: &str) {
        self.refusals.get_or_create(&Refused { code: code.to_owned() }).inc();
    }

    /// Open streams of seat changes.
    pub fn viewers(&self) -> &Gauge {
        &self.viewers
    }

    /// A stream was ended because its viewer did not keep up.
    pub fn viewer_dropped(&self) {
        self.viewers_dropped.inc();
    }

    /// Open connections.
    pub fn connections(&self) -> &Gauge {
        &self.connections
    }
}
