//! Facts for outside. Each partition keeps an ordered outbox of them in its replicated state until a consumer has stored
//! them; that is how the ledger's side learns, at least once and in order. Variants are only ever appended.

use super::record::ReservationView;
use crate::ids::{RefundId, ReservationId, SeatRef, SectionId};
use crate::time::WallMs;
use serde::{Deserialize, Serialize};

/// One fact in a partition's feed. Positions rise by one, from 1, and never restart, not even by a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedEntry {
    /// Its place in the feed.
    pub position: u64,
    /// The leader's wall clock; for people.
    pub at: WallMs,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The commit point of a hold.
    Held(Box<ReservationView>),
    /// An offer was made.
    Offered(Box<ReservationView>),
    /// The deadline passed.
    Expired(Box<ReservationView>),
    /// Its owner or an operator ended it.
    Cancelled(Box<ReservationView>),
    /// The commit point of a sale.
    Paid(Box<ReservationView>),
    /// Refunded seats go back on sale.
    Released {
        /// The paid reservation.
        reservation: ReservationId,
        /// The refund that gave them back.
        refund: RefundId,
        /// Which seats.
        seats: Vec<SeatRef>,
    },
    /// The last free seat of a section was sold.
    SoldOut {
        /// The section.
        section: SectionId,
    },
}
