//! Refunds: owed in the same transaction that made them necessary, sent once, converging with the provider's reports.

use crate::Result;
use domain::ids::{IdempotencyKey, PaymentId, RefundId, ReservationId, SeatRef, UserId};
use domain::money::{Currency, Minor};
use domain::order::refund::{RefundReason, RefundReport, RefundState};
use domain::time::WallMs;
use std::future::Future;

/// A refund that the provider has not acknowledged, or has not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundTask {
    /// The refund.
    pub refund: RefundId,
    /// Of this payment.
    pub payment: PaymentId,
    /// Its place among the payment's refunds; with the payment it is the key at the provider.
    pub sequence: u32,
    /// The provider's id of the payment.
    pub reference: String,
    /// The provider's id of the refund, once known.
    pub refund_reference: Option<String>,
    /// How much goes back.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// REQUIRED: to be sent. SENT: to be asked about.
    pub state: RefundState,
    /// Attempts so far.
    pub tries: u32,
}

/// Seats that a committed refund gives back to the sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnTask {
    /// The refund.
    pub refund: RefundId,
    /// The paid reservation.
    pub reservation: ReservationId,
    /// Which of its seats.
    pub seats: Vec<SeatRef>,
}

/// An operator's wish to give money back.
#[derive(Clone, Debug)]
pub struct RefundOrder {
    /// What was paid.
    pub reservation: ReservationId,
    /// Which of its seats; none for all that are live.
    pub seats: Option<Vec<SeatRef>>,
    /// Why, as the fan is told.
    pub reason: RefundReason,
    /// Who asks.
    pub operator: UserId,
    /// The request's key: per operator, a repeated one is one refund.
    pub key: IdempotencyKey,
    /// Digest of the request's content.
    pub fingerprint: String,
    /// Now.
    pub now: WallMs,
}

/// What came of an operator's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOutcome {
    /// Bookings are no longer live, tickets revoked, the refund owed; by this request, now or before.
    Requested(RefundId),
    /// The key was used for another request.
    KeyReused,
    /// There is nothing live among those seats: refunded before.
    NothingLeft,
    /// Some of those seats are not the order's, or were refunded before; nothing was done.
    NotAllLive(Vec<SeatRef>),
    /// No booking of that reservation.
    NotBooked,
}

/// A refund as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundView {
    /// Its id.
    pub id: RefundId,
    /// Of this payment.
    pub payment: PaymentId,
    /// How much.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// Where it stands.
    pub state: RefundState,
    /// Why.
    pub reason: String,
}

/// Giving money back.
pub trait Refunds {
    /// Give seats of a booking back: bookings not live, tickets revoked, refund owed, in one transaction. A repeated
    /// request has its first answer; another one for the same seats finds nothing left.
    fn request_refund(&self, order: &RefundOrder) -> impl Future<Output = Result<RefundOutcome>> + Send;

    /// Refunds to send, or to ask about, whose time has come; oldest first.
    fn refunds_due(&self, now: WallMs, max: u32) -> impl Future<Output = Result<Vec<RefundTask>>> + Send;

    /// The provider did not answer properly, or has not finished: look again at `retry_at`.
    fn delay_refund(&self, refund: RefundId, retry_at: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// The provider's answer about one of our refunds.
    fn refund_reported(
        &self,
        refund: RefundId,
        refund_reference: &str,
        report: RefundReport,
        now: WallMs,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Seats of committed refunds that the store has not taken back.
    fn returns_due(&self, max: u32) -> impl Future<Output = Result<Vec<ReturnTask>>> + Send;

    /// The store took them back.
    fn mark_returned(&self, refund: RefundId) -> impl Future<Output = Result<()>> + Send;

    /// Every refund of a payment, in sequence.
    fn refunds_of(&self, payment: PaymentId) -> impl Future<Output = Result<Vec<RefundView>>> + Send;
}

/// How long after a report a refund that is not finished is asked about.
pub const ASK_AGAIN_MS: u64 = 30_000;

/// Why these seats (none for all) of an order cannot be refunded while those are live; `None` if they can.
pub(crate) fn refused(wanted: Option<&[SeatRef]>, live: &[SeatRef]) -> Option<RefundOutcome> {
    let wanted = wanted.unwrap_or(live);
    let missing: Vec<SeatRef> = wanted.iter().copied().filter(|seat| !live.contains(seat)).collect();
    match missing.len() {
        // Also if none are wanted: a refund of nothing is none.
        all if all == wanted.len() => Some(RefundOutcome::NothingLeft),
        0 => None,
        _ => Some(RefundOutcome::NotAllLive(missing)),
    }
}
