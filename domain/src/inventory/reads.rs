//! What may be read from a group: a reservation with what is left at T as the leader would stamp it now, maps and the
//! catalogue as applied, and the advice that a seat is visibly taken.

use super::checkouts::ALTERNATIVES;
use super::command::{BestAvailable, Cart, Checkout, Command, Request};
use super::copy::{Copy, Machine};
use super::group::{Fed, Group, Hosted};
use super::locals::Now;
use super::outcome::{Outcome, Refusal};
use super::query::{Answer, Query};
use super::record::ReservationView;
use crate::ids::{Epoch, EventId, NodeId, Partition, SeatRef, SectionId};
use crate::time::{Ticks, WallMs};
use std::collections::BTreeMap;

/// What is left at this moment of something that has not ended.
fn counted_down(mut view: ReservationView, now: Ticks) -> ReservationView {
    if !view.status.is_terminal() {
        view.remaining_ms = view.deadline.remaining_ms(now);
    }
    view
}

impl Group {
    /// Reads. `elapsed_since_last_entry_ms` is what the leader would stamp now; a follower gives 0.
    pub fn query(&self, partition: &Partition, query: &Query, elapsed_since_last_entry_ms: u32) -> Answer {
        match partition {
            Partition::Meta => self.query_meta(query),
            Partition::Seats { event, section } => {
                let Some(copy) = self.seats.get(&(*event, *section)) else { return NEVER_HERE };
                let Some(seats) = copy.readable() else { return Answer::Moved { epoch: copy.epoch } };
                match query {
                    Query::SeatMap => Answer::SeatMap(seats.map()),
                    Query::Plan => Answer::Plan(Box::new(seats.plan().clone())),
                    Query::Stock => Answer::Stock(seats.stock()),
                    Query::Owners => Answer::Owners(seats.owners()),
                    _ => feed_of(copy, query),
                }
            }
            Partition::Checkouts { event, bucket } => {
                let Some(copy) = self.checkouts.get(&(*event, *bucket)) else { return NEVER_HERE };
                let Some(judge) = copy.active() else { return Answer::Moved { epoch: copy.epoch } };
                // A stamp that no entry carries yet may never be: the next leader does not make it up. It shortens what is
                // left to count down from, and ends nothing.
                let (t, stamped) = (judge.time(self.clock), judge.time(self.clock_after(elapsed_since_last_entry_ms)));
                let seen = |view| counted_down(view, stamped);
                match query {
                    Query::Reservation(id) => Answer::Reservation(judge.reservation(id, t).map(seen).map(Box::new)),
                    Query::Live(ids) => Answer::Live(judge.live(ids, t)),
                    Query::Records => Answer::Records(judge.reservations(t).into_iter().map(seen).collect()),
                    Query::Answered { user, key, fingerprint } => {
                        let answered = judge.answered(user, key, fingerprint, t).map(|outcome| match outcome {
                            Outcome::Reservation(view) => Outcome::Reservation(Box::new(seen(*view))),
                            other => other,
                        });
                        Answer::Answered(answered.map(Box::new))
                    }
                    _ => feed_of(copy, query),
                }
            }
            Partition::Promotion { event, code } => {
                let Some(copy) = self.promotions.get(&(*event, code.clone())) else { return NEVER_HERE };
                let Some(promotion) = copy.active() else { return Answer::Moved { epoch: copy.epoch } };
                match query {
                    Query::PromotionUses => Answer::PromotionUses(promotion.uses()),
                    _ => feed_of(copy, query),
                }
            }
        }
    }

    fn query_meta(&self, query: &Query) -> Answer {
        let Some(meta) = &self.meta else { return NEVER_HERE };
        match query {
            Query::Events => Answer::Events(meta.events()),
            Query::Placement => Answer::Placement(meta.placement().clone()),
            Query::Moves => Answer::Moves(meta.moves()),
            Query::Reserved => Answer::Reserved(meta.reserved().clone()),
            Query::Feed { .. } => Answer::Feed(Vec::new()),
            _ => unfit(query, &Partition::Meta),
        }
    }

    /// A refusal that the applied state already shows, as advice and without an entry: only for a Begin whose key is
    /// unknown and which nothing but its seats could refuse. `None` means: propose it.
    pub fn preview(&self, request: &Request, now: WallMs) -> Option<Refusal> {
        let (Partition::Checkouts { event, bucket }, Command::Checkout(Checkout::Begin(begin))) =
            (&request.partition, &request.command)
        else {
            return None;
        };
        let judge = self.checkouts.get(&(*event, *bucket))?.active()?;
        let now = Now { t: judge.time(self.clock), wall: now };
        if judge.knows(&begin.user, &begin.key) || !judge.would_admit(begin, now) {
            return None;
        }
        match &begin.cart {
            Cart::Chosen { seats, places } => self.visibly_taken(*event, seats, places),
            Cart::Best(wish) => self.visibly_full(*event, wish),
        }
    }

    fn visibly_taken(&self, event: EventId, seats: &[SeatRef], places: &[(SectionId, u32)]) -> Option<Refusal> {
        let section = |section| self.seats.get(&(event, section)).and_then(|copy| copy.active());
        let is_taken = |seat: &&SeatRef| section(seat.section).is_some_and(|s| s.is_taken(seat.seat));
        let mut taken: Vec<SeatRef> = seats.iter().filter(is_taken).copied().collect();
        if !taken.is_empty() {
            taken.sort_unstable();
            return Some(Refusal::SeatsTaken(taken));
        }
        places.iter().find_map(|(id, wanted)| {
            let left = section(*id)?.stock().free;
            (left < *wanted).then_some(Refusal::PlacesTaken { section: *id, left })
        })
    }

    /// Every section of the wish is here and has fewer free seats than the party needs.
    fn visibly_full(&self, event: EventId, wish: &BestAvailable) -> Option<Refusal> {
        let mut alternatives = Vec::new();
        for section in &wish.sections {
            let seats = self.seats.get(&(event, *section)).and_then(|copy| copy.active())?;
            if seats.stock().free >= u32::from(wish.count) {
                return None;
            }
            alternatives.push(seats.alternative());
        }
        alternatives.retain(|other| other.free > 0);
        alternatives.truncate(ALTERNATIVES);
        Some(Refusal::NoMatchingSeats { alternatives })
    }

    /// Which life each node leads, as the meta group knows it.
    pub fn lives(&self) -> Option<&BTreeMap<NodeId, u128>> {
        self.meta.as_ref().map(|meta| meta.lives())
    }

    /// The version of a partition that has one (seats, meta) and is here.
    pub fn version(&self, partition: &Partition) -> Option<u64> {
        match partition {
            Partition::Meta => self.meta.as_ref().map(|meta| meta.version()),
            Partition::Seats { event, section } => Some(self.seats.get(&(*event, *section))?.readable()?.version()),
            Partition::Checkouts { .. } | Partition::Promotion { .. } => None,
        }
    }

    /// What is hosted here.
    pub fn partitions(&self) -> Vec<Hosted> {
        fn hosted<M: Machine>(partition: Partition, copy: &Copy<M>, size: impl Fn(&M) -> (u64, u64)) -> Hosted {
            let (size, alarms) = copy.any().map_or((0, 0), size);
            Hosted { partition, epoch: copy.epoch, stage: copy.stage, size, alarms }
        }
        let meta = self.meta.iter().map(|meta| Hosted {
            partition: Partition::Meta,
            epoch: Epoch(0),
            stage: super::Stage::Active,
            size: meta.size(),
            alarms: 0,
        });
        let seats = self.seats.iter().map(|((event, section), copy)| {
            let partition = Partition::Seats { event: *event, section: *section };
            hosted(partition, copy, |seats| (u64::from(seats.plan().capacity), seats.alarms()))
        });
        let checkouts = self.checkouts.iter().map(|((event, bucket), copy)| {
            hosted(Partition::Checkouts { event: *event, bucket: *bucket }, copy, |judge| (judge.size(), 0))
        });
        let promotions = self.promotions.iter().map(|((event, code), copy)| {
            let partition = Partition::Promotion { event: *event, code: code.clone() };
            hosted(partition, copy, |promotion| (promotion.uses().len() as u64, promotion.alarms()))
        });
        meta.chain(seats).chain(checkouts).chain(promotions).collect()
    }
}

const NEVER_HERE: Answer = Answer::Moved { epoch: Epoch(0) };

/// The question that every kind of partition understands; only an active copy answers it.
fn feed_of<M: Machine + Fed>(copy: &Copy<M>, query: &Query) -> Answer {
    match (query, copy.active()) {
        (Query::Feed { after, max }, Some(machine)) => Answer::Feed(machine.feed().after(*after, *max)),
        (Query::Feed { .. }, None) => Answer::Moved { epoch: copy.epoch },
        _ => Answer::Invalid("this partition does not answer that question".into()),
    }
}

fn unfit(query: &Query, partition: &Partition) -> Answer {
    Answer::Invalid(format!("{partition} does not answer {query:?}"))
}
