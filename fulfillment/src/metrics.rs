//! What an operator sees of fulfilment. One gauge per age, unit in the name, no ids as labels.

use ledger::outbox::Backlog;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use telemetry::Operations;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    step: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    outcome: &'static str,
}

/// The metrics of this process.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    done: Family<Step, Counter>,
    failed: Family<Step, Counter>,
    provider: Family<Answer, Counter>,
    unpublished: Gauge,
    undelivered: Gauge,
    initializing: Gauge,
    captured: Gauge,
    unticketed: Gauge,
    refunding: Gauge,
    dead_letters: Gauge,
    incidents: Gauge,
}

impl Metrics {
    /// Registered with this process.
    pub fn new(operations: &Operations) -> Self {
        let metrics = Self::default();
        let mut registry = operations.registry();
        let sub = registry.sub_registry_with_prefix("fulfillment");
        sub.register("steps_done", "Items that a step has done", metrics.done.clone());
        sub.register("steps_failed", "Passes of a step that failed in part", metrics.failed.clone());
        sub.register("provider_answers", "Answers of the payment provider, errors included", metrics.provider.clone());
        let gauges = [
            ("outbox_oldest_unpublished_ms", "Age of the oldest fact not yet published", &metrics.unpublished),
            ("outbox_oldest_undelivered_ms", "Age of the oldest fact not yet handled", &metrics.undelivered),
            ("oldest_initializing_ms", "Age of the oldest payment not yet at the provider", &metrics.initializing),
            ("oldest_captured_ms", "Age of the oldest captured payment without an outcome", &metrics.captured),
            ("oldest_paid_without_ticket_ms", "Age of the oldest booking without tickets", &metrics.unticketed),
            ("oldest_refund_ms", "Age of the oldest refund not finished", &metrics.refunding),
            ("dead_letters", "Messages given up on", &metrics.dead_letters),
            ("incidents_open", "Incidents that nobody has closed", &metrics.incidents),
        ];
        for (name, help, gauge) in gauges {
            sub.register(name, help, gauge.clone());
        }
        drop(registry);
        metrics
    }

    /// A step did so much.
    pub fn did(&self, step: &'static str, count: usize) {
        self.done.get_or_create(&Step { step }).inc_by(count as u64);
    }

    /// A pass of a step failed, at least in part.
    pub fn failed(&self, step: &'static str) {
        self.failed.get_or_create(&Step { step }).inc();
    }

    /// The payment provider answered; or failed, or was not reached.
    pub fn provider_answered(&self, properly: bool) {
        let outcome = if properly { "answered" } else { "failed" };
        self.provider.get_or_create(&Answer { outcome }).inc();
    }

    /// What is on its way.
    pub fn backlog(&self, backlog: &Backlog) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.unpublished, backlog.unpublished_ms);
        set(&self.undelivered, backlog.undelivered_ms);
        set(&self.initializing, backlog.initializing_ms);
        set(&self.captured, backlog.captured_ms);
        set(&self.unticketed, backlog.unticketed_ms);
        set(&self.refunding, backlog.refunding_ms);
        set(&self.dead_letters, backlog.dead_letters);
        set(&self.incidents, backlog.incidents);
    }
}
