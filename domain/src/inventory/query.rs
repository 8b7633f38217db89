//! What may be read. A reservation is read linearizably; maps and the catalogue from any replica's applied state.

use super::event::FeedEntry;
use super::outcome::Outcome;
use super::record::{EventRecord, ReservationView, SectionPlan};
use crate::ids::{
    Attempt, Bucket, Epoch, EventId, GroupId, IdempotencyKey, NodeId, Partition, PromotionCode, ReservationId,
    SectionId, UserId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A question to one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// To R: one reservation.
    Reservation(ReservationId),
    /// To R: which of these are known and not terminal.
    Live(Vec<ReservationId>),
    /// To S: the state of every seat.
    SeatMap,
    /// To S: the geometry.
    Plan,
    /// To S: how many are free, held, sold and blocked.
    Stock,
    /// To S: who owns each seat; for audits.
    Owners,
    /// To any: facts after a position.
    Feed {
        /// The last position that the reader has.
        after: u64,
        /// At most this many.
        max: u32,
    },
    /// To P: how often it was used.
    PromotionUses,
    /// To R: every record and limit that it keeps; for audits.
    Records,
    /// To meta: the whole catalogue.
    Events,
    /// To meta: where everything lives.
    Placement,
    /// To meta: moves that are not done.
    Moves,
    /// To R: what a Begin under this key was answered, if it ever was one. Opens nothing.
    Answered {
        /// Whose key.
        user: UserId,
        /// The key.
        key: IdempotencyKey,
        /// Of the request that is repeated now.
        fingerprint: [u8; 16],
    },
    /// To meta: groups that are to be.
    Reserved,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The record, if it is known.
    Reservation(Option<Box<ReservationView>>),
    /// Those that are known and not terminal.
    Live(Vec<ReservationId>),
    /// Two bits a seat.
    SeatMap(SeatMap),
    /// The geometry.
    Plan(Box<SectionPlan>),
    /// Counts.
    Stock(Stock),
    /// Owner and state of each seat that is not free.
    Owners(Vec<Owner>),
    /// Facts in order.
    Feed(Vec<FeedEntry>),
    /// Reservations that use the promotion now.
    PromotionUses(Vec<ReservationId>),
    /// Every record.
    Records(Vec<ReservationView>),
    /// The catalogue.
    Events(Vec<EventRecord>),
    /// Placement.
    Placement(Placement),
    /// The partition is not active here.
    Moved {
        /// The epoch this copy knows of.
        epoch: Epoch,
    },
    /// The question does not fit this partition.
    Invalid(String),
    /// Moves that are not done.
    Moves(Vec<Move>),
    /// What the key's Begin would be answered now; `None` where the key is not known.
    Answered(Option<Box<Outcome>>),
    /// Groups whose numbers are taken, with their members, that have not begun.
    Reserved(BTreeMap<GroupId, BTreeMap<NodeId, String>>),
}

/// One attempt to move a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which.
    pub partition: Partition,
    /// Numbered per partition, from 1.
    pub attempt: Attempt,
    /// The source.
    pub from: GroupId,
    /// The target.
    pub to: GroupId,
    /// The epoch after the move.
    pub epoch: Epoch,
    /// How far meta has decided.
    pub stage: MoveStage,
}

/// How far meta has decided a move. The drivers finish each: Activate and Drop after a commit, Unfreeze after an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveStage {
    /// Freeze, then Install, then commit.
    Begun,
    /// The target serves.
    Committed,
    /// The source serves on.
    Aborted,
}

/// The state of every seat of a section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatMap {
    /// Rises with every change; comparable only for one section.
    pub version: u64,
    /// Seats in the section.
    pub count: u32,
    /// Four seats a byte, most significant pair first: 0 free, 1 held, 2 sold, 3 blocked.
    pub packed: Vec<u8>,
}

impl SeatMap {
    /// The two bits of one seat.
    pub fn state(&self, seat: u32) -> Option<SeatState> {
        let byte = self.packed.get(seat as usize / 4).filter(|_| seat < self.count)?;
        Some(match (byte >> (6 - 2 * (seat % 4))) & 0b11 {
            0 => SeatState::Free,
            1 => SeatState::Held,
            2 => SeatState::Sold,
            _ => SeatState::Blocked,
        })
    }
}

/// A seat as everybody sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatState {
    /// Can be had.
    Free,
    /// In somebody's checkout.
    Held,
    /// Gone.
    Sold,
    /// Kept by the box office.
    Blocked,
}

/// Seats by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// Can be had.
    pub free: u32,
    /// In a checkout.
    pub held: u32,
    /// Gone.
    pub sold: u32,
    /// Kept by the box office.
    pub blocked: u32,
}

/// Who owns a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The seat.
    pub seat: crate::ids::SeatIndex,
    /// Its owner.
    pub reservation: ReservationId,
    /// Held, sold or blocked.
    pub state: SeatState,
}

/// Where everything lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Replicas of each group and where clients reach them.
    pub groups: BTreeMap<GroupId, BTreeMap<NodeId, String>>,
    /// Events and what lives where.
    pub events: BTreeMap<EventId, EventPlacement>,
}

/// Where one event's partitions live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPlacement {
    /// Where a partition lives that is not listed below.
    pub home: (GroupId, Epoch),
    /// `checkouts` buckets.
    pub buckets: u16,
    /// Sections in plan order.
    pub sections: Vec<SectionId>,
    /// Codes that have a partition.
    pub promotions: Vec<PromotionCode>,
    /// Partitions that live elsewhere.
    pub moved: BTreeMap<Partition, (GroupId, Epoch)>,
}

impl EventPlacement {
    /// The group and epoch of a partition of this event.
    pub fn locate(&self, partition: &Partition) -> (GroupId, Epoch) {
        self.moved.get(partition).copied().unwrap_or(self.home)
    }

    /// Every partition of the event.
    pub fn partitions(&self, event: EventId) -> Vec<Partition> {
        let fans = (0..self.buckets).map(Bucket);
        let buckets = fans.chain([Bucket::BOX_OFFICE]).map(|bucket| Partition::Checkouts { event, bucket });
        let sections = self.sections.iter().map(|section| Partition::Seats { event, section: *section });
        let codes = self.promotions.iter().map(|code| Partition::Promotion { event, code: code.clone() });
        buckets.chain(sections).chain(codes).collect()
    }
}
