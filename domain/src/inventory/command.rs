//! What may be asked of a partition. Commands are imperatives; every one is idempotent, because no error from a proposal
//! proves that it was not written. New variants are only ever appended: their numbers are log bytes.

use super::record::{EventRecord, EventStatus, QuotedSeat, SectionPlan};
use crate::ids::{
    Attempt, Bucket, Epoch, EventId, GroupId, IdempotencyKey, NodeId, Partition, PassId, PaymentId, PromotionCode,
    RefundId, ReservationId, SeatIndex, SeatRef, SectionId, UserId,
};
use crate::money::{Currency, Minor};
use crate::time::{Stamp, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One replicated entry: what the leader gathered while the last one was being written. Without requests it is a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, by the leader.
    pub stamp: Stamp,
    /// At most [`crate::limits::ENTRY_REQUESTS`].
    pub requests: Vec<Request>,
}

/// A command for one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whose machine applies it.
    pub partition: Partition,
    /// What it is to do.
    pub command: Command,
}

/// Everything that can be replicated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// To a `checkouts` partition (R): the fan's side of a reservation.
    Checkout(Checkout),
    /// To a participant (S or P): take, give back, sell.
    Participate(Participate),
    /// To any partition: create it, acknowledge its feed, move it.
    Manage(Manage),
    /// To the meta partition.
    Meta(Meta),
}

/// Commands of the `checkouts` partition, the only judge of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Checkout {
    /// Open a reservation.
    Begin(Box<Begin>),
    /// A participant's answer to Prepare.
    Vote {
        /// The reservation.
        reservation: ReservationId,
        /// Who answers.
        participant: Partition,
        /// What it says.
        vote: Vote,
    },
    /// A waitlist offer becomes a hold.
    Accept {
        /// The offered reservation.
        reservation: ReservationId,
        /// Who accepts.
        user: UserId,
    },
    /// Its payment is in progress: move the deadline, within the fixed bound.
    Extend {
        /// The reservation.
        reservation: ReservationId,
        /// The payment in progress.
        payment: PaymentId,
    },
    /// The linearizable judge between payment and expiry: the commit point of the sale.
    Pay {
        /// The reservation.
        reservation: ReservationId,
        /// The captured payment.
        payment: PaymentId,
        /// What was captured.
        amount: Minor,
        /// Its currency.
        currency: Currency,
    },
    /// End a hold or an offer. `user` must be its owner, unless an operator or the settlement asks (`None`).
    Cancel {
        /// The reservation.
        reservation: ReservationId,
        /// On whose behalf.
        user: Option<UserId>,
    },
    /// Give seats of a paid reservation back; sent only by the ledger's outbox.
    Refund {
        /// The refund, so that a repeated one is one.
        refund: RefundId,
        /// The paid reservation.
        reservation: ReservationId,
        /// Which of its seats.
        seats: Vec<SeatRef>,
    },
    /// A participant has done what the record's end asked of it.
    Ack {
        /// The reservation.
        reservation: ReservationId,
        /// Who.
        participant: Partition,
        /// What it has done: an old acknowledgement of a sale says nothing about a later return.
        done: Done,
    },
    /// The ledger has written down how it ended.
    LedgerAck {
        /// The reservation.
        reservation: ReservationId,
    },
    /// A participant has dropped its remembered answers below this: no need to tell it again.
    Marked {
        /// Who.
        participant: Partition,
        /// Of which incarnation.
        incarnation: u16,
        /// The watermark that it was told.
        below: u64,
    },
}

impl Checkout {
    /// The reservation that it is about; a Begin has none yet.
    pub fn reservation(&self) -> Option<ReservationId> {
        match self {
            Self::Begin(_) | Self::Marked { .. } => None,
            Self::Vote { reservation, .. }
            | Self::Accept { reservation, .. }
            | Self::Extend { reservation, .. }
            | Self::Pay { reservation, .. }
            | Self::Cancel { reservation, .. }
            | Self::Refund { reservation, .. }
            | Self::Ack { reservation, .. }
            | Self::LedgerAck { reservation } => Some(*reservation),
        }
    }
}

impl Participate {
    /// The reservation that it is about; a watermark is about many.
    pub fn reservation(&self) -> Option<ReservationId> {
        match self {
            Self::Watermark { .. } => None,
            Self::Prepare { reservation, .. }
            | Self::Release { reservation }
            | Self::Sell { reservation }
            | Self::Return { reservation, .. } => Some(*reservation),
        }
    }
}

/// What a participant acknowledges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// The claim is given back.
    Released,
    /// The claim is sold.
    Sold,
    /// These seats are back on sale.
    Returned(Vec<SeatIndex>),
}

/// A request for a hold (or, by an operator, for an offer or a block).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Makes a repeated request one request.
    pub key: IdempotencyKey,
    /// Digest of what was asked: the same key with another one is refused.
    pub fingerprint: [u8; 16],
    /// Who asks.
    pub user: UserId,
    /// What for.
    pub cart: Cart,
    /// A code to be claimed with the seats.
    pub promotion: Option<PromotionCode>,
    /// Consumed by the first successful hold; `None` only for operators.
    pub pass: Option<PassId>,
    /// The sender's wall clock, compared with R's floor.
    pub sent_at: WallMs,
    /// A shorter hold than the event's.
    pub hold_ttl_ms: Option<u32>,
    /// What it is to become.
    pub purpose: Purpose,
    /// Why the box office blocks the seat; for people.
    pub note: Option<String>,
}

impl Begin {
    /// The bucket that judges it, of an event with so many: the user's own, or the box office's for a block.
    pub fn bucket(&self, buckets: u16) -> Bucket {
        match self.purpose {
            Purpose::Block => Bucket::BOX_OFFICE,
            Purpose::Checkout | Purpose::Offer => self.user.bucket(buckets),
        }
    }
}

/// What a reservation is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A fan's checkout.
    #[default]
    Checkout,
    /// An offer to somebody on the waitlist.
    Offer,
    /// A box-office block of one seat or place: no deadline, no limits, ended only by Cancel. Lives in
    /// [`Bucket::BOX_OFFICE`], so that what never ends holds back no fan's watermark.
    Block,
}

/// What is wanted. Together at most [`crate::limits::CART_SEATS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cart {
    /// Chosen seats, and standing places by count.
    Chosen {
        /// Distinct seats of seated sections.
        seats: Vec<SeatRef>,
        /// Places of standing sections; each section at most once.
        places: Vec<(SectionId, u32)>,
    },
    /// The store picks and claims in one step.
    Best(BestAvailable),
}

/// A wish for the best seats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BestAvailable {
    /// Sections to try, preferred first.
    pub sections: Vec<SectionId>,
    /// How many seats.
    pub count: u8,
    /// Whether they must be neighbours in one row.
    pub contiguous: bool,
    /// How many of them for wheelchair users.
    pub accessible: u8,
    /// No seat may cost more, before the discount.
    pub max_price: Option<Minor>,
}

/// A participant's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote {
    /// Everything asked for is taken, at these prices; `discount_bps` from a promotion.
    Yes {
        /// Seats with frozen gross prices; empty from a promotion.
        seats: Vec<QuotedSeat>,
        /// Taken off every seat, in basis points; zero from seats.
        discount_bps: u16,
        /// Whether all are neighbours.
        together: bool,
    },
    /// Nothing is taken; why.
    No(super::Refusal),
}

/// Commands of participants. They never decide and never time out on their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Participate {
    /// Take all or nothing, at once.
    Prepare {
        /// For which reservation.
        reservation: ReservationId,
        /// Its owner; a promotion counts one use a user.
        user: UserId,
        /// What.
        take: Take,
        /// What for: a block is shown as such, and the rule against single seats does not bind it.
        purpose: Purpose,
    },
    /// It ended unpaid: give back, and remember, even if it is unknown yet.
    Release {
        /// The reservation.
        reservation: ReservationId,
    },
    /// It is paid.
    Sell {
        /// The reservation.
        reservation: ReservationId,
    },
    /// Refunded seats go back on sale.
    Return {
        /// The reservation.
        reservation: ReservationId,
        /// Which seats.
        seats: Vec<SeatIndex>,
    },
    /// R's least reservation that is not (terminal and acknowledged): drop remembered answers below, refuse a Prepare below.
    Watermark {
        /// Of which bucket.
        bucket: Bucket,
        /// Of which incarnation.
        incarnation: u16,
        /// The least live sequence.
        below: u64,
    },
}

/// What a participant is to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Take {
    /// These seats.
    Seats(Vec<SeatIndex>),
    /// Any places of a standing area.
    Places(u32),
    /// The best that this section has.
    Best(BestAvailable),
    /// One use of a promotion.
    Use,
}

/// Commands that every kind of partition understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manage {
    /// Create, or update what may change (idempotent by version).
    Create(Box<Spec>),
    /// A consumer has stored the feed up to here, inclusive.
    AckFeed {
        /// The last stored position.
        upto: u64,
    },
    /// Export and stop: the first step of a move.
    Freeze {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Meta aborted the attempt.
    Unfreeze {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Take an exported partition in, not yet active.
    Install {
        /// Which attempt.
        attempt: Attempt,
        /// The epoch it will have.
        epoch: Epoch,
        /// What Freeze exported.
        exported: Vec<u8>,
    },
    /// Meta committed: serve.
    Activate {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Meta committed: forget.
    Drop {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Bring a partition back that was rebuilt after a disaster; nothing if it is here already.
    Restore {
        /// Its state.
        state: Vec<u8>,
    },
}

/// What a new partition is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spec {
    /// A section's seats.
    Seats {
        /// Geometry.
        plan: SectionPlan,
        /// What a seat costs.
        price: PriceRule,
    },
    /// One bucket of users.
    Checkouts(CheckoutRules),
    /// A promotion.
    Promotion {
        /// Taken off every seat, in basis points.
        discount_bps: u16,
        /// Uses over all orders.
        cap: u32,
    },
}

/// How a section's prices are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceRule {
    /// Before occupancy.
    pub base: Minor,
    /// Whether occupancy and date count.
    pub dynamic: bool,
    /// Within seven days of it prices rise.
    pub event_starts_at: WallMs,
}

/// What a `checkouts` partition must know of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutRules {
    /// Version of the event record that these come from; an older one changes nothing.
    pub version: u64,
    /// Of every price.
    pub currency: Currency,
    /// How long a hold lasts.
    pub hold_ttl_ms: u32,
    /// Seats one user may hold and own.
    pub user_limit: u16,
    /// No hold before.
    pub on_sale_at: WallMs,
    /// Whether holds may begin at all.
    pub status: EventStatus,
    /// Raised by a restore.
    pub incarnation: u16,
}

impl CheckoutRules {
    /// What this record says, of an event that was never restored.
    pub fn of(event: &EventRecord) -> Self {
        Self {
            version: event.version,
            currency: event.currency,
            hold_ttl_ms: event.hold_ttl_ms,
            user_limit: event.user_limit,
            on_sale_at: event.on_sale_at,
            status: event.status,
            incarnation: 0,
        }
    }
}

/// Commands of the meta partition: catalogue and placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meta {
    /// Write an event's record, if its version is newer, and place its partitions (default: all in one group).
    Publish {
        /// The record.
        event: Box<EventRecord>,
        /// Codes that have a partition.
        promotions: Vec<PromotionCode>,
        /// Groups over which sections and buckets are spread; one for all when empty.
        groups: Vec<GroupId>,
    },
    /// Close, reopen or cancel.
    SetStatus {
        /// The event.
        event: EventId,
        /// What it becomes.
        status: EventStatus,
    },
    /// A group exists, with these replicas.
    RegisterGroup {
        /// The group.
        group: GroupId,
        /// Its replicas and where clients reach them.
        nodes: BTreeMap<NodeId, String>,
    },
    /// Start an attempt to move a partition.
    MoveBegin {
        /// Which.
        partition: Partition,
        /// Where to.
        to: GroupId,
    },
    /// The commit point of a move.
    MoveCommit {
        /// Which.
        partition: Partition,
        /// Which attempt.
        attempt: Attempt,
    },
    /// Give an attempt up, before its commit.
    MoveAbort {
        /// Which.
        partition: Partition,
        /// Which attempt.
        attempt: Attempt,
    },
    /// Both ends of a decided move have done their part: forget it.
    MoveDone {
        /// Which.
        partition: Partition,
        /// Which attempt.
        attempt: Attempt,
    },
    /// A group is to be made on these nodes. The number is theirs alone: whoever asks for it with other nodes is refused.
    ReserveGroup {
        /// The group.
        group: GroupId,
        /// Its replicas and where clients reach them.
        nodes: BTreeMap<NodeId, String>,
    },
    /// A node says which life it leads: minted when its data folder was begun. The first word stands for ever, so that a
    /// node whose folder was lost never speaks for the one that made promises under its id.
    RegisterNode {
        /// Which node.
        node: NodeId,
        /// Its life.
        life: u128,
    },
}
