//! Tickets: one per booked seat, by constraint; the code's secret is sealed at rest.

use crate::Result;
use crate::payments::SeatLine;
use domain::ids::{BookingId, EventId, PaymentId, ReservationId, SeatRef, TicketId, UserId};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use std::future::Future;

/// A booking: a paid reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Its id.
    pub id: BookingId,
    /// The reservation.
    pub reservation: ReservationId,
    /// The payment that bought it.
    pub payment: PaymentId,
    /// Whose it is.
    pub user: UserId,
    /// What was paid.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// Its seats, those refunded too.
    pub seats: Vec<SeatLine>,
}

/// Whether a ticket lets somebody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// It does.
    Valid,
    /// Refunded: it no longer does.
    Revoked,
}

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// Of this booking.
    pub booking: BookingId,
    /// The reservation that was paid.
    pub reservation: ReservationId,
    /// The event.
    pub event: EventId,
    /// Whose it is.
    pub user: UserId,
    /// The seat, with its labels and price.
    pub seat: SeatLine,
    /// Of the price.
    pub currency: Currency,
    /// The secret of its rotating code, sealed ([`crate::Sealer`]).
    pub sealed_secret: Vec<u8>,
    /// Which one it is of those that the ticket had: rises with each device that is removed.
    pub secret_version: u32,
    /// Whether it lets somebody in.
    pub state: TicketState,
    /// When it was issued.
    pub issued_at: WallMs,
    /// When it was revoked.
    pub revoked_at: Option<WallMs>,
}

/// Issuing and reading tickets.
pub trait Tickets {
    /// One booking.
    fn booking(&self, booking: BookingId) -> impl Future<Output = Result<Option<Booking>>> + Send;

    /// Consume message `message` of `order.paid`: one ticket per live seat with these sealed secrets, and the mail that
    /// says so, in one transaction with the inbox row. A seat that has a ticket keeps it and its secret.
    fn issue_tickets(
        &self,
        message: u64,
        booking: BookingId,
        secrets: &[(SeatRef, Vec<u8>)],
        now: WallMs,
    ) -> impl Future<Output = Result<()>> + Send;

    /// A fan's tickets, newest first.
    fn tickets_of_user(&self, user: &UserId) -> impl Future<Output = Result<Vec<Ticket>>> + Send;

    /// One ticket.
    fn ticket(&self, ticket: TicketId) -> impl Future<Output = Result<Option<Ticket>>> + Send;

    /// The tickets of a booking, in seat order.
    fn tickets_of_booking(&self, booking: BookingId) -> impl Future<Output = Result<Vec<Ticket>>> + Send;

    /// Every ticket of an event, revoked ones too, in seat order: what a gate must know.
    fn tickets_of_event(&self, event: EventId) -> impl Future<Output = Result<Vec<Ticket>>> + Send;
}
