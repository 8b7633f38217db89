//! A Raft group's machine: the partitions that it hosts, its clock, and the one match that brings a request to its
//! partition. Same entries, same state, same outcomes on every replica; what hosts drain (changes, seat history) is no part
//! of the replicated state.

use super::checkouts::Checkouts;
use super::command::{Checkout, Command, Entry, Manage, Meta, Participate, Request, Spec};
use super::copy::{Copy, Machine, Stage};
use super::invariants::Sound;
use super::locals::{Locals, Now};
use super::news::{News, SeatChange};
use super::outcome::Outcome;
use super::placement::Catalogue;
use super::promotion::Promotion;
use super::seats::Seats;
use super::shared::Shared;
use crate::ids::{Bucket, Epoch, EventId, GroupId, Partition, PromotionCode, SectionId};
use crate::limits;
use crate::time::{Stamp, Ticks, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The replicated state of one group. A snapshot is its serde form; postcard of it is deterministic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    pub(super) id: GroupId,
    /// Service time of the group; a bucket's T is an offset from it.
    pub(super) clock: Ticks,
    pub(super) meta: Option<Catalogue>,
    pub(super) seats: BTreeMap<(EventId, SectionId), Shared<Copy<Seats>>>,
    pub(super) checkouts: BTreeMap<(EventId, Bucket), Shared<Copy<Checkouts>>>,
    pub(super) promotions: BTreeMap<(EventId, PromotionCode), Shared<Copy<Promotion>>>,
    #[serde(skip)]
    pub(super) news: News,
}

/// A hosted partition, for status pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosted {
    /// Which.
    pub partition: Partition,
    /// How often it has moved.
    pub epoch: Epoch,
    /// Whether it serves here.
    pub stage: Stage,
    /// Seats of a section, records of a bucket, uses of a promotion, events of the catalogue.
    pub size: u64,
    /// Messages received that no correct sender sends; anything but zero wants an engineer.
    pub alarms: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self::new(GroupId::META)
    }
}

impl Group {
    /// An empty group; the meta group has its catalogue from the start.
    pub fn new(id: GroupId) -> Self {
        Self {
            id,
            clock: Ticks(0),
            meta: (id == GroupId::META).then(Catalogue::default),
            seats: BTreeMap::new(),
            checkouts: BTreeMap::new(),
            promotions: BTreeMap::new(),
            news: News::default(),
        }
    }

    /// Which group it is.
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Applies one entry: time first, then what has run out (at most [`limits::ENDED_PER_ENTRY`]), then each request in
    /// order. One outcome a request.
    pub fn apply(&mut self, entry: &Entry) -> Vec<Outcome> {
        self.news.seats.clear();
        self.clock = self.clock_after(entry.stamp.elapsed_ms);
        self.sweep(entry.stamp.wall);
        let outcomes = entry.requests.iter().map(|request| self.serve(request, entry.stamp)).collect();
        self.raise_marks();
        outcomes
    }

    /// The group's clock when a leader would stamp this much; what the clamp cuts off is never made up.
    pub(super) fn clock_after(&self, elapsed_ms: u32) -> Ticks {
        self.clock.plus(u64::from(elapsed_ms.min(limits::TICK_CLAMP_MS)))
    }

    fn serve(&mut self, request: &Request, stamp: Stamp) -> Outcome {
        match (&request.partition, &request.command) {
            (Partition::Meta, Command::Meta(command)) => self.serve_meta(command),
            (Partition::Checkouts { event, bucket }, Command::Checkout(command)) => {
                self.serve_checkout((*event, *bucket), command, stamp)
            }
            (Partition::Seats { event, section }, Command::Participate(command)) => {
                self.serve_seats((*event, *section), command, stamp)
            }
            (Partition::Promotion { event, code }, Command::Participate(command)) => {
                self.serve_promotion(&(*event, code.clone()), command)
            }
            (partition, Command::Manage(command)) => self.manage(partition, command),
            (partition, _) => Outcome::Invalid(format!("{partition} does not understand this command")),
        }
    }

    fn serve_meta(&mut self, command: &Meta) -> Outcome {
        let Some(meta) = &mut self.meta else { return NEVER_HERE };
        let before = meta.version();
        let outcome = meta.apply(command);
        if meta.version() != before {
            self.news.changed(Partition::Meta, meta.version());
        }
        outcome
    }

    fn serve_checkout(&mut self, key: (EventId, Bucket), command: &Checkout, stamp: Stamp) -> Outcome {
        let Self { clock, seats, checkouts, promotions, news, .. } = self;
        let Some(copy) = checkouts.get_mut(&key) else { return NEVER_HERE };
        let epoch = copy.epoch;
        let Some(judge) = copy.active_mut() else { return Outcome::Moved { epoch } };
        let now = Now { t: judge.time(*clock), wall: stamp.wall };
        let locals = &mut Locals { event: key.0, seats, promotions, news };
        if command.reservation().is_some_and(|id| (id.event, id.bucket) != key) {
            return Outcome::Invalid("the reservation belongs to another partition".into());
        }
        match command {
            Checkout::Begin(begin) => judge.begin(begin, now, locals),
            Checkout::Vote { reservation, participant, vote } => {
                judge.vote(*reservation, participant, vote, now, locals)
            }
            Checkout::Accept { reservation, user } => judge.accept(*reservation, user, now, locals),
            Checkout::Extend { reservation, payment: _ } => judge.extend(*reservation, now, locals),
            Checkout::Pay { reservation, payment, amount, currency } => {
                judge.pay(*reservation, *payment, (*amount, *currency), now, locals)
            }
            Checkout::Cancel { reservation, user } => judge.cancel(*reservation, user.as_ref(), now, locals),
            Checkout::Refund { refund, reservation, seats } => judge.refund(*refund, *reservation, seats, now, locals),
            Checkout::Ack { reservation, participant, done } => judge.acknowledge(*reservation, participant, done),
            Checkout::LedgerAck { reservation } => judge.ledger_acknowledge(*reservation),
            Checkout::Marked { participant, incarnation, below } => judge.marked(participant, (*incarnation, *below)),
        }
    }

    fn serve_seats(&mut self, key: (EventId, SectionId), command: &Participate, stamp: Stamp) -> Outcome {
        let Self { seats, news, .. } = self;
        let Some(copy) = seats.get_mut(&key) else { return NEVER_HERE };
        let epoch = copy.epoch;
        let Some(seats) = copy.active_mut() else { return Outcome::Moved { epoch } };
        if command.reservation().is_some_and(|id| id.event != key.0) {
            return Outcome::Invalid("the reservation belongs to another event".into());
        }
        let done = match command {
            Participate::Prepare { reservation, take, purpose, user: _ } => {
                return Outcome::Voted(seats.prepare(*reservation, take, *purpose, stamp.wall, news));
            }
            Participate::Release { reservation } => seats.release(*reservation, news),
            Participate::Sell { reservation } => seats.sell(*reservation, stamp.wall, news),
            Participate::Return { reservation, seats: back } => {
                seats.give_back(*reservation, back, news);
                Ok(())
            }
            Participate::Watermark { bucket, incarnation, below } => {
                seats.watermark(*bucket, *incarnation, *below);
                Ok(())
            }
        };
        done.map_or_else(|alarm| Outcome::Invalid(alarm.to_string()), |()| Outcome::Done)
    }

    fn serve_promotion(&mut self, key: &(EventId, PromotionCode), command: &Participate) -> Outcome {
        let Some(copy) = self.promotions.get_mut(key) else { return NEVER_HERE };
        let epoch = copy.epoch;
        let Some(promotion) = copy.active_mut() else { return Outcome::Moved { epoch } };
        if command.reservation().is_some_and(|id| id.event != key.0) {
            return Outcome::Invalid("the reservation belongs to another event".into());
        }
        let done = match command {
            Participate::Prepare { reservation, user, .. } => {
                return Outcome::Voted(promotion.prepare(*reservation, user));
            }
            Participate::Release { reservation } => promotion.release(*reservation),
            Participate::Sell { reservation } => promotion.sell(*reservation),
            Participate::Return { .. } => Ok(()),
            Participate::Watermark { bucket, incarnation, below } => {
                promotion.watermark(*bucket, *incarnation, *below);
                Ok(())
            }
        };
        done.map_or_else(|alarm| Outcome::Invalid(alarm.to_string()), |()| Outcome::Done)
    }

    fn manage(&mut self, partition: &Partition, command: &Manage) -> Outcome {
        if let Manage::Create(spec) = command {
            return self.create(partition, spec);
        }
        let clock = self.clock;
        let outcome = match partition {
            Partition::Meta => Outcome::Invalid("the meta partition is neither moved nor fed".into()),
            Partition::Seats { event, section } => {
                let key = (*event, *section);
                let fits = |seats: &Seats| (seats.event(), seats.plan().section) == key;
                manage_copy(&mut self.seats, &key, command, clock, fits)
            }
            Partition::Checkouts { event, bucket } => {
                let key = (*event, *bucket);
                manage_copy(&mut self.checkouts, &key, command, clock, |judge| judge.identity() == key)
            }
            Partition::Promotion { event, code } => {
                let key = (*event, code.clone());
                manage_copy(&mut self.promotions, &key, command, clock, |p| p.identity() == (key.0, &key.1))
            }
        };
        if !matches!(command, Manage::AckFeed { .. }) {
            self.report(partition);
        }
        outcome
    }

    /// A partition is created once; where a copy was before, only a move brings it back.
    fn create(&mut self, partition: &Partition, spec: &Spec) -> Outcome {
        let done = match (partition, spec) {
            (Partition::Seats { event, section }, Spec::Seats { plan, price }) if plan.section == *section => {
                create_copy(
                    &mut self.seats,
                    (*event, *section),
                    || Seats::new(*event, plan.clone(), *price),
                    |seats| seats.update(plan, *price).map(|_| ()),
                )
            }
            (Partition::Checkouts { event, bucket }, Spec::Checkouts(rules)) => create_copy(
                &mut self.checkouts,
                (*event, *bucket),
                || Checkouts::new(*event, *bucket, *rules),
                |judge| judge.update(*rules),
            ),
            (Partition::Promotion { event, code }, Spec::Promotion { discount_bps, cap }) => create_copy(
                &mut self.promotions,
                (*event, code.clone()),
                || Promotion::new(*event, code.clone(), *discount_bps, *cap),
                |promotion| promotion.update(*discount_bps, *cap),
            ),
            _ => Outcome::Invalid(format!("this is no description of {partition}")),
        };
        self.report(partition);
        done
    }

    /// Tells the watch stream about a partition that came, changed or went.
    fn report(&mut self, partition: &Partition) {
        if let Some(version) = self.version(partition) {
            self.news.changed(partition.clone(), version);
        }
    }

    fn sweep(&mut self, wall: WallMs) {
        let Self { clock, seats, checkouts, promotions, news, .. } = self;
        let mut budget = limits::ENDED_PER_ENTRY;
        for ((event, _), copy) in checkouts {
            // A look that changes nothing copies nothing, if a snapshot still shares the bucket.
            if !copy.active().is_some_and(|judge| judge.is_due(judge.time(*clock))) {
                continue;
            }
            let Some(judge) = copy.active_mut() else { continue };
            let now = Now { t: judge.time(*clock), wall };
            judge.sweep(now, &mut budget, &mut Locals { event: *event, seats, promotions, news });
        }
    }

    fn raise_marks(&mut self) {
        let Self { seats, checkouts, promotions, news, .. } = self;
        for ((event, _), copy) in checkouts {
            if copy.active().and_then(Checkouts::mark_to_raise).is_none() {
                continue;
            }
            let Some(judge) = copy.active_mut() else { continue };
            judge.raise_mark(&mut Locals { event: *event, seats, promotions, news });
        }
    }

    /// Messages that this group owes, at most about `limit`: Prepare for what is preparing; Sell, Release, Return for what
    /// is not acknowledged; watermarks. Their partitions may be in other groups. Sending them again is harmless; feed what
    /// comes back through [`super::reply`].
    pub fn pending(&self, limit: usize) -> Vec<Request> {
        self.pending_for(limit, &|_| true)
    }

    /// The same for the partitions that are wanted, so that those that do not answer crowd nobody out.
    pub fn pending_for(&self, limit: usize, wanted: &dyn Fn(&Partition) -> bool) -> Vec<Request> {
        let mut messages = Vec::new();
        for judge in self.judges() {
            judge.owe(&mut messages, limit, wanted);
        }
        messages
    }

    fn judges(&self) -> impl Iterator<Item = &Checkouts> {
        self.checkouts.values().filter_map(|copy| copy.active())
    }

    /// Whether time must be proposed each second, because something here can run out.
    pub fn has_deadlines(&self) -> bool {
        self.judges().any(Checkouts::has_deadlines)
    }

    /// Whether more has run out than one entry may end: the leader should propose another tick at once.
    pub fn is_behind(&self) -> bool {
        self.judges().any(|judge| judge.is_behind(self.clock))
    }

    /// Partitions changed since the last drain, with their versions; for the watch stream.
    pub fn drain_changed(&mut self) -> Vec<(Partition, u64)> {
        std::mem::take(&mut self.news.changed).into_iter().collect()
    }

    /// Owners changed by the last [`Group::apply`] only; for the history index.
    pub fn drain_seat_changes(&mut self) -> Vec<SeatChange> {
        std::mem::take(&mut self.news.seats)
    }

    /// A digest of the replicated state: equal on every replica that has applied the same entries.
    pub fn state_hash(&self) -> [u8; 32] {
        use sha2::Digest;
        let bytes = postcard::to_stdvec(self).expect("the state is plain data");
        sha2::Sha256::digest(bytes).into()
    }

    /// What contradicts itself within a partition.
    pub(super) fn sound(&self) -> Result<(), String> {
        fn each<K: std::fmt::Debug, M: Machine + Sound>(copies: &BTreeMap<K, Shared<Copy<M>>>) -> Result<(), String> {
            copies
                .iter()
                .filter_map(|(key, copy)| copy.any().map(|machine| (key, machine)))
                .try_for_each(|(key, machine)| machine.sound().map_err(|text| format!("{key:?}: {text}")))
        }
        self.meta.iter().try_for_each(Sound::sound)?;
        each(&self.seats)?;
        each(&self.checkouts)?;
        each(&self.promotions)
    }
}

const NEVER_HERE: Outcome = Outcome::Moved { epoch: Epoch(0) };

fn create_copy<K: Ord, M: Machine + Clone>(
    copies: &mut BTreeMap<K, Shared<Copy<M>>>,
    key: K,
    new: impl FnOnce() -> Result<M, String>,
    update: impl FnOnce(&mut M) -> Result<(), String>,
) -> Outcome {
    let done = match copies.get_mut(&key) {
        Some(copy) => {
            let epoch = copy.epoch;
            let Some(machine) = copy.active_mut() else { return Outcome::Moved { epoch } };
            update(machine)
        }
        None => new().map(|machine| _ = copies.insert(key, Copy::new(machine).into())),
    };
    done.map_or_else(Outcome::Invalid, |()| Outcome::Done)
}

/// Acknowledging the feed and the steps of a move.
fn manage_copy<K: Ord + Clone, M: Machine + Fed + Clone>(
    copies: &mut BTreeMap<K, Shared<Copy<M>>>,
    key: &K,
    command: &Manage,
    clock: Ticks,
    fits: impl FnOnce(&M) -> bool,
) -> Outcome {
    if let Manage::Install { attempt, epoch, exported } = command {
        let copy = copies.entry(key.clone()).or_insert_with(|| Copy::absent().into());
        return copy.install(*attempt, *epoch, exported, fits);
    }
    if let Manage::Restore { state } = command {
        return restore_copy(copies, key, state, clock, fits);
    }
    let Some(copy) = copies.get_mut(key) else { return NEVER_HERE };
    match command {
        Manage::AckFeed { upto } => {
            let epoch = copy.epoch;
            let Some(machine) = copy.active_mut() else { return Outcome::Moved { epoch } };
            machine.feed_mut().acknowledge(*upto);
            Outcome::Done
        }
        Manage::Freeze { attempt } => copy.freeze(*attempt, clock),
        Manage::Unfreeze { attempt } => copy.unfreeze(*attempt, clock),
        Manage::Activate { attempt } => copy.activate(*attempt, clock),
        Manage::Drop { attempt } => copy.discard(*attempt),
        Manage::Create(_) | Manage::Install { .. } | Manage::Restore { .. } => {
            Outcome::Invalid("it is served elsewhere".into())
        }
    }
}

/// Only where no copy ever was: a restore is for an empty store.
fn restore_copy<K: Ord + Clone, M: Machine + Clone>(
    copies: &mut BTreeMap<K, Shared<Copy<M>>>,
    key: &K,
    state: &[u8],
    clock: Ticks,
    fits: impl FnOnce(&M) -> bool,
) -> Outcome {
    if let Some(copy) = copies.get(key) {
        return if copy.active().is_some() { Outcome::Done } else { Outcome::Moved { epoch: copy.epoch } };
    }
    match postcard::from_bytes::<M>(state) {
        Ok(mut machine) if fits(&machine) => {
            machine.start(clock);
            copies.insert(key.clone(), Copy::new(machine).into());
            Outcome::Done
        }
        Ok(_) => Outcome::Invalid("the state is of another partition".into()),
        Err(error) => Outcome::Invalid(format!("the state does not read: {error}")),
    }
}

/// A machine with an outbox.
pub(super) trait Fed {
    /// The outbox.
    fn feed(&self) -> &super::feed::Feed;
    /// The outbox.
    fn feed_mut(&mut self) -> &mut super::feed::Feed;
}

macro_rules! fed {
    ($($machine:ty),*) => {$(
        impl Fed for $machine {
            fn feed(&self) -> &super::feed::Feed {
                &self.feed
            }
            fn feed_mut(&mut self) -> &mut super::feed::Feed {
                &mut self.feed
            }
        }
    )*};
}

fed!(Seats, Checkouts, Promotion);

/// Participants have no time of their own.
macro_rules! timeless {
    ($($machine:ty),*) => {$(
        impl Machine for $machine {
            fn stop(&mut self, _: Ticks) {}
            fn start(&mut self, _: Ticks) {}
        }
    )*};
}

timeless!(Seats, Promotion);
