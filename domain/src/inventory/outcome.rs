//! What a command came to. An outcome is a replicated answer; a refusal gives the reason. Variants are only ever appended.

use super::record::ReservationView;
use crate::ids::{Attempt, Epoch, GroupId, ReservationId, SeatRef};
use crate::time::WallMs;
use serde::{Deserialize, Serialize};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The record as it now stands: answers Begin, Accept, Extend, Cancel and a Pay that sold.
    Reservation(Box<ReservationView>),
    /// Final, stored under the key where there is one, and not to be granted later to the key's twin.
    Refused(Refusal),
    /// The same without an entry, as advice: the leader already sees that it is lost. Not final.
    Advised(Refusal),
    /// Pay came too late or does not match: the money goes back.
    MustRefund(RefundReason),
    /// The record is still preparing: ask again.
    Preparing,
    /// No such reservation; only an active copy may say so.
    Unknown,
    /// Older than the partition's floor: not final, nothing stored.
    Stale {
        /// Ask with a clock after this.
        floor: WallMs,
    },
    /// The partition is not active here: not final, nothing stored.
    Moved {
        /// The epoch this copy knows of.
        epoch: Epoch,
    },
    /// A participant's answer to Prepare.
    Voted(super::command::Vote),
    /// Done, or already done.
    Done,
    /// Freeze: the partition's whole state.
    Exported(Vec<u8>),
    /// MoveBegin: the number of the attempt and where the partition is now.
    MoveBegun {
        /// The attempt.
        attempt: Attempt,
        /// The source.
        from: GroupId,
        /// The epoch after the move.
        epoch: Epoch,
    },
    /// The command does not fit this partition or its state; nothing changed.
    Invalid(String),
    /// Bounded state is full: not final, nothing stored.
    Overloaded,
    /// RegisterNode: the id was another's, whose data folder is not the one that asks.
    AnotherLife,
}

/// Why money goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    /// The hold had run out.
    Expired,
    /// The hold had been ended.
    Cancelled,
    /// It never became a hold.
    Aborted,
    /// Another payment bought it.
    AlreadyPaid,
    /// Amount or currency is not the quote.
    AmountMismatch,
    /// The store knows no such reservation.
    UnknownReservation,
}

/// Why a hold was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Somebody else owns these; every one of them is named.
    SeatsTaken(Vec<SeatRef>),
    /// A standing area has fewer places left than asked for.
    PlacesTaken {
        /// The area.
        section: crate::ids::SectionId,
        /// Places left.
        left: u32,
    },
    /// Best available found nothing; what else there would be.
    NoMatchingSeats {
        /// The largest party that could sit together now, and whether a split party would fit.
        alternatives: Vec<Alternative>,
    },
    /// No such seat, or a seat asked for as a place, or the other way round.
    NoSuchSeat(SeatRef),
    /// The user has a checkout already; this one.
    CheckoutOpen(ReservationId),
    /// The key was used for something else.
    KeyReused,
    /// Held and bought seats would pass the event's limit.
    TicketLimit {
        /// The limit.
        limit: u16,
        /// What the user holds and owns now.
        has: u16,
    },
    /// The pass has been consumed by an earlier hold.
    PassUsed,
    /// No such code.
    PromotionUnknown,
    /// All uses are taken.
    PromotionExhausted,
    /// This user has used the code.
    PromotionUsed,
    /// The sale has not begun.
    NotOnSale {
        /// When it does.
        on_sale_at: WallMs,
    },
    /// The event is closed or cancelled.
    SaleClosed,
    /// More seats than a cart may have, none at all, or one twice.
    BadCart(String),
    /// A participant did not answer in time.
    PrepareTimeout,
    /// The partition that should take part does not exist, or refused a reservation below its watermark.
    ParticipantGone,
    /// The sum of prices does not fit.
    PriceOverflow,
}

/// Something else that could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// In this section.
    pub section: crate::ids::SectionId,
    /// Free seats in all.
    pub free: u32,
    /// The longest run of neighbours.
    pub largest_together: u32,
}
