//! Settlement: captured money becomes a booking or a refund, and the store's end of a reservation is written down.

use crate::Result;
use domain::ids::{BookingId, EventId, Partition, PaymentId, ReservationId, UserId};
use domain::inventory::record::QuotedSeat;
use domain::money::{Currency, Minor};
use domain::order::refund::RefundReason;
use domain::time::WallMs;
use std::future::Future;

/// A captured payment on which the store has not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPayment {
    /// The payment.
    pub payment: PaymentId,
    /// What it pays for.
    pub reservation: ReservationId,
    /// What was captured.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
}

/// What is written down of a captured payment. The first outcome wins, by constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The seats are booked, now or before.
    Booked(BookingId),
    /// The money goes back, decided now or before.
    Refunding,
    /// There is no captured payment of this id.
    NotCaptured,
}

/// Seats of a payment that failed, to be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseTask {
    /// The payment that failed.
    pub payment: PaymentId,
    /// The reservation to cancel.
    pub reservation: ReservationId,
}

/// How a reservation ended, from the store's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The hold ran out.
    Expired,
    /// It was cancelled.
    Cancelled,
}

/// A fact of the feed that the ledger writes down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedNote {
    /// Whose feed.
    pub partition: Partition,
    /// Its place there.
    pub position: u64,
    /// The event, for the message.
    pub event: EventId,
    /// The reservation that ended.
    pub reservation: ReservationId,
    /// Whose it was.
    pub user: UserId,
    /// How.
    pub ending: Ending,
    /// When, for people.
    pub at: WallMs,
}

/// From captured to settled.
pub trait Settlement {
    /// Captured payments without an outcome, oldest first.
    fn captured(&self, max: u32) -> impl Future<Output = Result<Vec<CapturedPayment>>> + Send;

    /// Step 6 after PAID: payment SUCCEEDED, booking, seats, `order.paid`. If the ledger already has a live booking of a
    /// seat, its second check wins: an incident and a refund instead.
    fn settle_paid(
        &self,
        payment: PaymentId,
        seats: &[QuotedSeat],
        now: WallMs,
    ) -> impl Future<Output = Result<SettleOutcome>> + Send;

    /// Step 6 after REFUND or UNKNOWN: REFUND_REQUIRED, refund row, `payment.refund_required`. Whatever the reason was, of a
    /// cancelled event it is the cancellation.
    fn settle_refund(
        &self,
        payment: PaymentId,
        reason: RefundReason,
        now: WallMs,
    ) -> impl Future<Output = Result<SettleOutcome>> + Send;

    /// Reservations whose payment failed and whose seats the store should free, oldest first.
    fn releases_due(&self, max: u32) -> impl Future<Output = Result<Vec<ReleaseTask>>> + Send;

    /// The store freed them, or had nothing to free.
    fn mark_released(&self, payment: PaymentId) -> impl Future<Output = Result<()>> + Send;

    /// Write an ending down and tell the fan, once per place in the feed.
    fn record_ending(&self, note: &FeedNote, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Whether the outcome of a payment is written down: a booking, or a decided refund.
    fn is_settled(&self, payment: PaymentId) -> impl Future<Output = Result<bool>> + Send;
}
