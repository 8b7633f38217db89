//! Reads for audits: what the ledger says is sold, and whether every captured cent became a ticket or went back.

use crate::Result;
use domain::ids::{BookingId, EventId, PaymentId, ReservationId, SeatRef};
use domain::inventory::rebuild::Sale;
use domain::money::{Currency, Minor};
use domain::order::payment::PaymentState;
use domain::time::WallMs;
use std::future::Future;

/// A seat that the ledger says is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSeat {
    /// The seat.
    pub seat: SeatRef,
    /// The reservation that owns it.
    pub reservation: ReservationId,
    /// Its booking.
    pub booking: BookingId,
}

/// Where the money of one payment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The payment.
    pub payment: PaymentId,
    /// What it pays for.
    pub reservation: ReservationId,
    /// Where it stands.
    pub state: PaymentState,
    /// Currency asked for.
    pub currency: Currency,
    /// Captured by the provider; zero until then.
    pub captured: Minor,
    /// Price of booked seats that are live.
    pub booked: Minor,
    /// Price of live seats that have a valid ticket.
    pub ticketed: Minor,
    /// Given back.
    pub refunded: Minor,
    /// Owed or on its way back.
    pub refunding: Minor,
    /// When it began.
    pub created_at: WallMs,
}

impl Balance {
    /// Whether every captured cent is in a ticket or went back: what must hold once everything has come to rest.
    pub fn is_conserved(&self) -> bool {
        self.captured.checked_sub(self.ticketed).and_then(|rest| rest.checked_sub(self.refunded)) == Some(Minor(0))
    }

    /// Whether it is still on its way to one of the two.
    pub fn is_settling(&self) -> bool {
        self.state == PaymentState::Captured || self.refunding > Minor(0) || self.booked != self.ticketed
    }
}

/// Audit reads.
pub trait Audit {
    /// Every seat of an event with a live booking, in seat order.
    fn live_seats(&self, event: EventId) -> impl Future<Output = Result<Vec<LiveSeat>>> + Send;

    /// Every sale of an event, with what was given back of it, by reservation: what a lost store is rebuilt from.
    fn sales(&self, event: EventId) -> impl Future<Output = Result<Vec<Sale>>> + Send;

    /// Every payment of an event (or of all), with where its money is, oldest first.
    fn balances(&self, event: Option<EventId>) -> impl Future<Output = Result<Vec<Balance>>> + Send;
}
