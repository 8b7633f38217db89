//! The outbox: facts written with the transaction that made them true, then carried to consumers in order.
//!
//! By default PostgreSQL itself carries them: relaying copies a row to each consumer's queue of deliveries and marks it
//! published, in one transaction under a transaction-scoped advisory lock. Unpublished rows are taken in id order, never
//! from an id onwards, because the order of a sequence is not the order of commits.

use crate::Result;
#[cfg(doc)]
use domain::limits;
use domain::time::WallMs;
use serde_json::Value;
use std::future::Future;

/// `payment.initialize`: a payment is to be opened at the provider.
pub const PAYMENT_INITIALIZE: &str = "payment.initialize";
/// `payment.failed`: nothing was charged.
pub const PAYMENT_FAILED: &str = "payment.failed";
/// `order.paid`: seats are booked.
pub const ORDER_PAID: &str = "order.paid";
/// `payment.refund_required`: money is owed.
pub const REFUND_REQUIRED: &str = "payment.refund_required";

/// The consumer that issues tickets. Financial: a failure stops it, and it tries again.
pub const TICKETS: &str = "tickets";
/// The consumer that turns facts into messages to fans.
pub const MESSAGES: &str = "messages";

/// Who consumes a topic.
pub fn consumers_of(topic: &str) -> &'static [&'static str] {
    match topic {
        ORDER_PAID => &[TICKETS],
        PAYMENT_FAILED | REFUND_REQUIRED => &[MESSAGES],
        _ => &[],
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxMessage {
    /// Its place; also the id under which a consumer remembers it.
    pub id: u64,
    /// What kind of fact.
    pub topic: String,
    /// What it is about: a payment id.
    pub key: String,
    /// The fact.
    pub payload: Value,
    /// When it was written.
    pub created_at: WallMs,
}

/// Age of what is still on its way; the first thing an operator looks at. Milliseconds, zero when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Oldest fact that was not published.
    pub unpublished_ms: u64,
    /// Oldest fact that a consumer has not handled.
    pub undelivered_ms: u64,
    /// Oldest payment in INITIALIZING.
    pub initializing_ms: u64,
    /// Oldest captured payment without an outcome.
    pub captured_ms: u64,
    /// Oldest booking with a live seat that has no ticket.
    pub unticketed_ms: u64,
    /// Oldest refund that the provider has not finished.
    pub refunding_ms: u64,
    /// Messages given up on.
    pub dead_letters: u64,
    /// Incidents that nobody closed.
    pub incidents: u64,
}

/// Relaying and consuming.
pub trait Outbox {
    /// Publish up to `max` facts to their consumers; how many. Zero also when another relay is at it.
    fn relay(&self, now: WallMs, max: u32) -> impl Future<Output = Result<u32>> + Send;

    /// What a consumer has to handle, in order.
    fn deliveries(&self, consumer: &str, max: u32) -> impl Future<Output = Result<Vec<OutboxMessage>>> + Send;

    /// Remove what was handled long ago, up to `max` rows a table, the oldest first; how many rows. Facts that a consumer has
    /// not handled stay ([`limits::OUTBOX_KEPT_MS`], [`limits::INBOX_KEPT_MS`], [`limits::WEBHOOKS_KEPT_MS`]).
    fn prune(&self, now: WallMs, max: u32) -> impl Future<Output = Result<u32>> + Send;

    /// What is on its way, and for how long.
    fn backlog(&self, now: WallMs) -> impl Future<Output = Result<Backlog>> + Send;
}
