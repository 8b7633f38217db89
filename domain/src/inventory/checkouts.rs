//! The reservations and limits of the users of one bucket (R): the only judge. PREPARING → HELD → {PAID, EXPIRED,
//! CANCELLED}; PREPARING → ABORTED; OFFERED → HELD or EXPIRED or CANCELLED. Terminals absorb. Limits, counters and the
//! record change in the same entry.
//!
//! `begin` opens, `votes` gathers what other groups answer, `ends` closes, `refunds` gives back, `upkeep` lets time pass,
//! `owed` says what must still be told to whom.

mod begin;
mod ends;
mod owed;
mod rebuild;
mod refunds;
mod sound;
mod upkeep;
mod votes;

pub(super) use begin::ALTERNATIVES;
pub(super) use sound::Judged;

use super::command::{BestAvailable, CheckoutRules, Purpose, Take};
use super::copy::Machine;
use super::feed::Feed;
use super::locals::{Now, Participant};
use super::outcome::{Outcome, Refusal};
use super::record::{QuotedSeat, ReservationView, Status};
use crate::ids::{
    Bucket, EventId, IdempotencyKey, PassId, PaymentId, PromotionCode, RefundId, ReservationId, SeatIndex, SeatRef,
    SectionId, UserId,
};
use crate::money::{Currency, Minor};
use crate::time::{Ticks, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A bucket's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkouts {
    event: EventId,
    bucket: Bucket,
    rules: CheckoutRules,
    clock: Clock,
    /// Of the next reservation.
    next: u64,
    records: BTreeMap<ReservationId, Record>,
    /// A key is one user's own: another's cannot be asked for by it.
    keys: BTreeMap<(UserId, IdempotencyKey), Known>,
    accounts: BTreeMap<UserId, Account>,
    /// Consumed passes, until their reservation is collected.
    passes: BTreeMap<PassId, ReservationId>,
    /// What runs out, and when.
    deadlines: BTreeSet<(Ticks, ReservationId)>,
    /// Not (terminal and acknowledged); the least of them is the watermark.
    open: BTreeSet<ReservationId>,
    /// Those with something to tell a participant.
    owed: BTreeSet<ReservationId>,
    /// Ready to be collected once they are old enough, by the time of their end.
    finished: BTreeSet<(Ticks, ReservationId)>,
    /// Keys that were refused without a record, in order of time.
    refused: VecDeque<(Ticks, UserId, IdempotencyKey)>,
    /// Participants ever asked, and the watermark that each has confirmed.
    told: BTreeMap<Participant, (u16, u64)>,
    /// The watermark that participants are to be told.
    mark: (u16, u64),
    /// A Begin sent at or before this may be the late twin of one that was collected.
    floor: WallMs,
    /// When the last collection was complete.
    collected_at: Ticks,
    pub(super) feed: Feed,
}

/// The watermark of which nobody need be told: nothing is below it.
const UNMARKED: (u16, u64) = (0, 1);

/// T = the group's clock + an offset, or where it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Clock {
    Running { offset: i64 },
    Stopped { t: Ticks },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    fingerprint: [u8; 16],
    answer: Answered,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Answered {
    Record(ReservationId),
    Refused(Refusal),
}

/// What one user holds and owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    live: Option<ReservationId>,
    offers: BTreeSet<ReservationId>,
    /// Seats preparing, offered or held.
    held: u32,
    /// Seats paid and not returned.
    bought: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    user: UserId,
    /// `None` once collected: what is left is the paid row.
    key: Option<IdempotencyKey>,
    purpose: Purpose,
    status: Status,
    parts: Vec<Part>,
    /// Sections still to be tried, and for what.
    chain: Option<Box<Chain>>,
    /// Seats counted against the limit.
    count: u32,
    seats: Vec<QuotedSeat>,
    discount_bps: u16,
    total: Minor,
    currency: Currency,
    together: bool,
    promotion: Option<PromotionCode>,
    pass: Option<PassId>,
    begun: Ticks,
    hold_ms: u32,
    /// Of the prepare, the offer or the hold. A block has none: the end of time.
    deadline: Ticks,
    payment: Option<PaymentId>,
    created_at: WallMs,
    ended_at: Option<WallMs>,
    /// The same in service time.
    ended: Ticks,
    /// Why it was aborted.
    refusal: Option<Refusal>,
    /// The ledger has written down how it ended, or need not.
    ledger_acked: bool,
    note: Option<String>,
    refunds: Option<Box<Refunds>>,
}

/// A participant of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    who: Participant,
    /// What to ask it for; `None` where the claim was made in the entry of its Begin.
    take: Option<Take>,
    vote: Voted,
    /// It has done what the record's end asks of it, or was never owed anything.
    acked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Voted {
    Asked,
    Yes,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Chain {
    next: VecDeque<SectionId>,
    wish: BestAvailable,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Refunds {
    returned: BTreeSet<SeatRef>,
    /// Which refunds have been applied.
    known: BTreeMap<RefundId, Vec<SeatRef>>,
    /// Returns that their section has not acknowledged.
    returning: BTreeMap<SectionId, BTreeSet<SeatIndex>>,
}

impl Checkouts {
    /// A bucket without reservations. Its time starts at the group's.
    pub fn new(event: EventId, bucket: Bucket, rules: CheckoutRules) -> Result<Self, String> {
        check(&rules)?;
        Ok(Self {
            event,
            bucket,
            rules,
            clock: Clock::Running { offset: 0 },
            next: 1,
            records: BTreeMap::new(),
            keys: BTreeMap::new(),
            accounts: BTreeMap::new(),
            passes: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            open: BTreeSet::new(),
            owed: BTreeSet::new(),
            finished: BTreeSet::new(),
            refused: VecDeque::new(),
            told: BTreeMap::new(),
            mark: (rules.incarnation, 1),
            floor: WallMs(0),
            collected_at: Ticks(0),
            feed: Feed::default(),
        })
    }

    /// A repeated Create: only a newer version changes anything. An incarnation never falls.
    pub fn update(&mut self, rules: CheckoutRules) -> Result<(), String> {
        check(&rules)?;
        if rules.version > self.rules.version {
            let incarnation = self.rules.incarnation.max(rules.incarnation);
            self.rules = CheckoutRules { incarnation, ..rules };
        }
        Ok(())
    }

    /// Which event and bucket.
    pub fn identity(&self) -> (EventId, Bucket) {
        (self.event, self.bucket)
    }

    /// Its service time when the group's clock shows `clock`.
    pub(super) fn time(&self, clock: Ticks) -> Ticks {
        match self.clock {
            Clock::Running { offset } => Ticks(clock.0.saturating_add_signed(offset)),
            Clock::Stopped { t } => t,
        }
    }

    /// Records kept, live and paid ones included.
    pub fn size(&self) -> u64 {
        self.records.len() as u64
    }

    /// One reservation.
    pub fn reservation(&self, id: &ReservationId, t: Ticks) -> Option<ReservationView> {
        self.records.get(id).map(|record| record.view(*id, t))
    }

    /// Those that are known and not terminal.
    pub fn live(&self, ids: &[ReservationId], t: Ticks) -> Vec<ReservationId> {
        let is_live = |id: &&ReservationId| self.records.get(id).is_some_and(|r| !r.status_at(t).is_terminal());
        ids.iter().filter(is_live).copied().collect()
    }

    /// Every record.
    pub fn reservations(&self, t: Ticks) -> Vec<ReservationView> {
        self.records.iter().map(|(id, record)| record.view(*id, t)).collect()
    }

    /// Whether anything can run out.
    pub fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// Whether something has run out that no entry has ended yet.
    pub(super) fn is_behind(&self, clock: Ticks) -> bool {
        self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= self.time(clock))
    }

    fn answer(&self, id: ReservationId, now: Now) -> Outcome {
        match self.records.get(&id) {
            None => Outcome::Unknown,
            Some(Record { status: Status::Aborted, refusal, .. }) => {
                Outcome::Refused(refusal.clone().unwrap_or(Refusal::PrepareTimeout))
            }
            Some(record) => Outcome::Reservation(Box::new(record.view(id, now.t))),
        }
    }

    /// The one place that says in which of the sets a record belongs.
    fn tidy(&mut self, id: ReservationId) {
        let Some(record) = self.records.get(&id) else { return };
        let told = record.parts.iter().all(|part| part.acked);
        let over = record.status.is_terminal() && told;
        let returning = record.refunds.as_ref().is_some_and(|refunds| !refunds.returning.is_empty());
        let asking = record.status == Status::Preparing && record.parts.iter().any(|part| part.vote == Voted::Asked);
        let owes = asking || returning || (record.status.is_terminal() && !told);
        put(&mut self.open, id, !over);
        put(&mut self.owed, id, owes);
        let collectable = over && !returning && record.ledger_acked && record.key.is_some();
        put(&mut self.finished, (record.ended, id), collectable);
    }

    /// The mark below which every reservation is over and acknowledged.
    fn least_open(&self) -> (u16, u64) {
        self.open.first().map_or((self.rules.incarnation, self.next), |id| (id.incarnation, id.sequence))
    }
}

impl Record {
    /// Where it stands at `t`: what has run out is over, swept or not.
    fn status_at(&self, t: Ticks) -> Status {
        match self.status {
            Status::Held | Status::Offered if self.deadline <= t => Status::Expired,
            Status::Preparing if self.deadline <= t => Status::Aborted,
            status => status,
        }
    }

    fn view(&self, id: ReservationId, t: Ticks) -> ReservationView {
        let status = self.status_at(t);
        let remaining_ms = if status.is_terminal() { 0 } else { self.deadline.remaining_ms(t) };
        ReservationView {
            id,
            user: self.user.clone(),
            status,
            seats: if status == Status::Preparing { Vec::new() } else { self.seats.clone() },
            total: self.total,
            currency: self.currency,
            promotion: self.promotion.clone(),
            deadline: self.deadline,
            remaining_ms,
            payment: self.payment,
            together: self.together && status != Status::Preparing,
            created_at: self.created_at,
            ended_at: self.ended_at,
            note: self.note.clone(),
        }
    }
}

impl Account {
    fn is_empty(&self) -> bool {
        self.live.is_none() && self.offers.is_empty() && self.held == 0 && self.bought == 0
    }
}

impl Machine for Checkouts {
    fn stop(&mut self, clock: Ticks) {
        self.clock = Clock::Stopped { t: self.time(clock) };
    }

    fn start(&mut self, clock: Ticks) {
        if let Clock::Stopped { t } = self.clock {
            self.clock = Clock::Running { offset: t.0.cast_signed().wrapping_sub(clock.0.cast_signed()) };
        }
    }
}

fn put<T: Ord>(set: &mut BTreeSet<T>, item: T, belongs: bool) {
    if belongs {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}

fn check(rules: &CheckoutRules) -> Result<(), String> {
    if !crate::limits::HOLD_TTL_MS.contains(&rules.hold_ttl_ms) {
        return Err(format!("a hold cannot last {} ms", rules.hold_ttl_ms));
    }
    Ok(())
}
