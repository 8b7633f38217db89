//! Payments until money is captured: begun by the buy plane, opened at the provider, moved by the provider's word.

use crate::Result;
use domain::ids::{IdempotencyKey, PaymentId, ReservationId, SeatRef, UserId};
use domain::money::{Currency, Minor};
use domain::order::payment::{PaymentState, PaymentStatus};
use domain::order::webhook::ProviderEvent;
use domain::time::WallMs;
use serde::{Deserialize, Serialize};
use std::future::Future;

/// One seat of an order with its labels and price as they were when the fan decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatLine {
    /// The seat.
    pub seat: SeatRef,
    /// Section as printed.
    pub section: String,
    /// Row as printed; empty for a standing place.
    pub row: String,
    /// Seat as printed.
    pub label: String,
    /// What the fan pays for it.
    pub price: Minor,
}

/// A wish to pay for a reservation. Amount and currency come from the frozen quote, never from the browser.
#[derive(Clone, Debug)]
pub struct BeginPayment {
    /// A fresh id; used only if the request is new.
    pub payment: PaymentId,
    /// The request's key: per user, a repeated one is one payment.
    pub key: IdempotencyKey,
    /// Digest of the request's content.
    pub fingerprint: String,
    /// What is paid for.
    pub reservation: ReservationId,
    /// Who pays.
    pub user: UserId,
    /// Where mail goes; without it, none is sent to a real address.
    pub email: Option<String>,
    /// Such as `card`.
    pub method: String,
    /// The provider's token of the card, when the client has one already.
    pub token: Option<String>,
    /// The quote.
    pub amount: Minor,
    /// The quote's currency.
    pub currency: Currency,
    /// The seats of the quote.
    pub seats: Vec<SeatLine>,
    /// Whether the event lets a fan try another card until the deadline.
    pub retry_declined: bool,
    /// Now.
    pub now: WallMs,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// A new payment.
    Begun(PaymentView),
    /// The same request had been made: this is its payment as it stands.
    Repeated(PaymentView),
    /// The key was used for another request.
    KeyReused,
    /// Another payment for this reservation is under way, or has succeeded.
    AlreadyOpen(PaymentView),
    /// An earlier payment failed and took the reservation with it: its seats are being freed, or are free.
    Released,
}

/// A payment as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentView {
    /// Its id.
    pub id: PaymentId,
    /// What it pays for.
    pub reservation: ReservationId,
    /// Whose it is.
    pub user: UserId,
    /// Where it stands.
    pub state: PaymentState,
    /// What is asked for.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// The provider's id, once saved.
    pub reference: Option<String>,
    /// What the browser needs to confirm it, once saved.
    pub client_secret: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it began.
    pub created_at: WallMs,
}

impl PaymentView {
    /// What the fan is told.
    pub fn status(&self) -> PaymentStatus {
        self.state.status()
    }
}

/// A payment that is to be opened at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeTask {
    /// The payment; also the idempotency key at the provider.
    pub payment: PaymentId,
    /// What it pays for.
    pub reservation: ReservationId,
    /// What is asked for.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// Such as `card`.
    pub method: String,
    /// Present: confirm at once with it.
    pub token: Option<String>,
    /// Attempts so far that may have reached the provider.
    pub tries: u32,
    /// When it began.
    pub created_at: WallMs,
}

/// A payment without an outcome: its hold is extended, and the provider is asked when no webhook came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPayment {
    /// The payment.
    pub payment: PaymentId,
    /// What it pays for.
    pub reservation: ReservationId,
    /// The provider's id, once saved.
    pub reference: Option<String>,
    /// When it began.
    pub created_at: WallMs,
    /// When the provider should be asked.
    pub ask_at: WallMs,
}

/// A payment that was given up without knowing whether the provider charged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPayment {
    /// The payment.
    pub payment: PaymentId,
    /// When it was given up.
    pub since: WallMs,
}

/// What became of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachOutcome {
    /// Saved.
    Saved,
    /// Saved before.
    Known,
    /// The payment has another reference, or the reference another payment: an incident, nothing changed.
    Conflict,
}

/// What became of a verified event. Everything but the last two deserves a 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// Written down, and what it says has been done.
    Recorded,
    /// Written down before, with the same content.
    Duplicate,
    /// Amount or currency is not the payment's: an incident, a refund obligation, no sale.
    Mismatch,
    /// The id came before with other content: an incident.
    ConflictingDuplicate,
    /// The reference is not saved yet, or not ours: nothing is recorded, the provider tries again.
    UnknownReference,
}

/// Payments before settlement.
pub trait Payments {
    /// Step 1: a stable payment in INITIALIZING and `payment.initialize` in the outbox. Never beside a pending release,
    /// which would cancel the reservation while it is being paid.
    fn begin_payment(&self, request: &BeginPayment) -> impl Future<Output = Result<BeginOutcome>> + Send;

    /// What [`begin_payment`](Self::begin_payment) answers to a user's key that was used before, whatever has become of
    /// the reservation since; begins nothing.
    fn begun(
        &self,
        user: &UserId,
        key: &IdempotencyKey,
        fingerprint: &str,
    ) -> impl Future<Output = Result<Option<BeginOutcome>>> + Send;

    /// One payment.
    fn payment(&self, payment: PaymentId) -> impl Future<Output = Result<Option<PaymentView>>> + Send;

    /// The latest payment of a reservation.
    fn payment_of(&self, reservation: ReservationId) -> impl Future<Output = Result<Option<PaymentView>>> + Send;

    /// Payments in INITIALIZING whose next try is due, oldest first.
    fn to_initialize(&self, now: WallMs, max: u32) -> impl Future<Output = Result<Vec<InitializeTask>>> + Send;

    /// The provider did not answer properly: try again at `retry_at`. Only what may have been `sent` counts as a try.
    fn delay_initialize(
        &self,
        payment: PaymentId,
        retry_at: WallMs,
        sent: bool,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Step 3: the provider's reference; INITIALIZING becomes PENDING, and a later state stays as it is.
    fn attach_reference(
        &self,
        payment: PaymentId,
        reference: &str,
        client_secret: Option<&str>,
        now: WallMs,
    ) -> impl Future<Output = Result<AttachOutcome>> + Send;

    /// Refused before any money moved: FAILED, seats to be released, the fan to be told.
    fn fail_payment(&self, payment: PaymentId, reason: &str, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// The same without proof that no money moved: the provider is asked about it for [`LOST_FOR_MS`].
    fn give_up(&self, payment: PaymentId, reason: &str, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Payments given up less than [`LOST_FOR_MS`] ago whose fate is not known and is to be asked for now.
    fn lost_payments(&self, now: WallMs, max: u32) -> impl Future<Output = Result<Vec<LostPayment>>> + Send;

    /// Those that were given up earlier than that: they stay FAILED, nobody asks about them any more, and an incident says
    /// so. A word of the provider that comes even later still counts. How many.
    fn end_lost(&self, now: WallMs, max: u32) -> impl Future<Output = Result<u32>> + Send;

    /// Payments without an outcome, oldest first.
    fn open_payments(&self, max: u32) -> impl Future<Output = Result<Vec<OpenPayment>>> + Send;

    /// The provider had no outcome yet: ask again at `ask_at`.
    fn ask_again(&self, payment: PaymentId, ask_at: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// Step 4: one verified event (or the answer to our own authenticated query, in its words).
    fn record_event(&self, event: &ProviderEvent, now: WallMs) -> impl Future<Output = Result<WebhookOutcome>> + Send;
}

/// How long after its reference was saved a payment without a webhook is asked about.
pub const FIRST_ASK_MS: u64 = 30_000;

/// How long the provider is asked about a payment that was given up without its word. Its keys live as long.
pub const LOST_FOR_MS: u64 = 24 * 60 * 60 * 1_000;

/// How long a payment may be without an outcome before somebody must look. The provider is asked on, because "processing" is
/// neither outcome; a payment that it never took is given up.
pub const UNRESOLVED_MS: u64 = 24 * 60 * 60 * 1_000;

/// How long a reference may stay unknown before somebody must look.
pub const UNKNOWN_REFERENCE_MS: u64 = 15 * 60 * 1_000;

/// The line of a seat that the store sold: labels from the frozen quote, price from the store.
pub(crate) fn line_of(lines: &[SeatLine], quoted: &domain::inventory::record::QuotedSeat) -> SeatLine {
    match lines.iter().find(|line| line.seat == quoted.seat) {
        Some(line) => SeatLine { price: quoted.net(), ..line.clone() },
        // The store's word on what was sold stands; only the labels are lost.
        None => SeatLine {
            seat: quoted.seat,
            section: format!("section {}", quoted.seat.section),
            row: String::new(),
            label: format!("#{}", quoted.seat.seat.0 + 1),
            price: quoted.net(),
        },
    }
}
