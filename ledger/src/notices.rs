//! Messages to fans and incidents for operators. Each message is retried on its own and then kept as a dead letter.

use crate::Result;
use domain::ids::UserId;
use domain::time::WallMs;
use serde_json::Value;
use std::future::Future;

/// Seconds to wait after the first, second, … failure; after the last one a message is dead.
pub const RETRY_AFTER_S: [u64; 4] = [5, 10, 20, 40];

/// The order is paid; its tickets are ready.
pub const ORDER_CONFIRMED: &str = "order_confirmed";
/// The hold ran out.
pub const HOLD_EXPIRED: &str = "hold_expired";
/// Nothing was charged and the seats are free again.
pub const PAYMENT_FAILED: &str = "payment_failed";
/// Money is on its way back.
pub const REFUND_ON_ITS_WAY: &str = "refund_on_its_way";

/// Incident: a payment has been without an outcome for [`crate::payments::UNRESOLVED_MS`]. Its outcome closes it.
pub const PAYMENT_UNRESOLVED: &str = "payment_unresolved";
/// Incident: a payment was given up and nobody asks about it any more. A word of the provider closes it.
pub const PAYMENT_LOST: &str = "payment_lost";
/// Kind of incident: an order of a cancelled event whose refund could not be asked for.
pub const CANCELLATION_STUCK: &str = "cancellation_stuck";

/// A message to a fan.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Its id.
    pub id: u64,
    /// To whom.
    pub user: UserId,
    /// Where mail goes, if known.
    pub email: Option<String>,
    /// Which message.
    pub kind: String,
    /// What it is about.
    pub payload: Value,
    /// Failed attempts.
    pub tries: u32,
    /// When it was written.
    pub created_at: WallMs,
}

/// Something that an operator should look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// Its id.
    pub id: u64,
    /// What kind.
    pub kind: String,
    /// What it is about; one open incident per kind and subject.
    pub subject: String,
    /// What was seen.
    pub detail: Value,
    /// Since when.
    pub opened_at: WallMs,
}

/// Messages and incidents.
pub trait Notices {
    /// Consume `message` of the messages consumer: write what the fan is to be told, with the inbox row.
    fn consume_message(&self, message: u64, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Messages whose time has come.
    fn notices_due(&self, now: WallMs, max: u32) -> impl Future<Output = Result<Vec<Notice>>> + Send;

    /// Sent.
    fn notice_sent(&self, notice: u64, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Not sent: again later, or dead after the last attempt.
    fn notice_failed(&self, notice: u64, error: &str, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Messages given up on.
    fn dead_letters(&self) -> impl Future<Output = Result<Vec<Notice>>> + Send;

    /// Try a dead letter again from the start; whether there was one.
    fn replay(&self, notice: u64, now: WallMs) -> impl Future<Output = Result<bool>> + Send;

    /// What a fan was told, newest first.
    fn notices_of(&self, user: &UserId) -> impl Future<Output = Result<Vec<Notice>>> + Send;

    /// Raise an incident; one per kind and subject stays open.
    fn raise(&self, kind: &str, subject: &str, detail: &Value, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Open incidents, oldest first.
    fn incidents(&self, now: WallMs) -> impl Future<Output = Result<Vec<Incident>>> + Send;

    /// An operator has dealt with it; whether it was open.
    fn close_incident(&self, incident: u64, now: WallMs) -> impl Future<Output = Result<bool>> + Send;
}
