//! Events that are called off: written down once, for good, and carried out a few orders at a time.
//!
//! There is no list of what is still to be done that could be lost or run twice: a booking of a cancelled event that is
//! live is owed its refund, also one that is made after the cancellation.

use crate::Result;
use domain::ids::{EventId, ReservationId, UserId};
use domain::money::Minor;
use domain::time::WallMs;
use std::future::Future;

/// That an event is called off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// Which.
    pub event: EventId,
    /// The operator who said so first.
    pub by: UserId,
    /// When.
    pub at: WallMs,
    /// Whether every hold of the event has ended.
    pub holds_ended: bool,
}

/// An order that is owed a refund because its event is called off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelledOrder {
    /// What was paid.
    pub reservation: ReservationId,
    /// The operator who called the event off.
    pub by: UserId,
}

/// So many orders, and what they are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub orders: u64,
    /// Together, in the event's currency.
    pub amount: Minor,
}

/// How far a cancellation is, or what one would have to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// None: the event is not called off.
    pub cancellation: Option<Cancellation>,
    /// Orders with seats that are still sold: each is owed a refund of them.
    pub sold: Tally,
    /// Refunds of this cancellation on their way.
    pub refunding: Tally,
    /// Those that arrived.
    pub refunded: Tally,
    /// Those that the provider could not make: an operator must.
    pub failed: Tally,
}

/// Calling events off.
pub trait Cancellations {
    /// Call an event off. The first operator's word stands; repeating it changes nothing.
    fn cancel_event(&self, event: EventId, by: &UserId, now: WallMs) -> impl Future<Output = Result<()>> + Send;

    /// How far it is.
    fn cancellation(&self, event: EventId) -> impl Future<Output = Result<Progress>> + Send;

    /// Every event that is called off.
    fn cancelled_events(&self) -> impl Future<Output = Result<Vec<EventId>>> + Send;

    /// Orders that are owed a refund by a cancellation and have not got it, oldest first.
    fn cancelled_orders(&self, max: u32) -> impl Future<Output = Result<Vec<CancelledOrder>>> + Send;

    /// Cancelled events that may still have holds.
    fn with_holds(&self) -> impl Future<Output = Result<Vec<Cancellation>>> + Send;

    /// No hold of a cancelled event is left, and none can begin.
    fn holds_ended(&self, event: EventId) -> impl Future<Output = Result<()>> + Send;
}
