//! The seats of one section (S): a participant. It takes all or nothing, gives back, sells and returns, only when told; it
//! never decides and never times out. Free → Held → Sold, Held → Free, and Sold → Free only by a Return.
//!
//! One answer is remembered for each reservation until the watermark passes it, so that a message that comes late, twice or
//! before its time finds its answer. Each command costs what it touches, not what the section holds.

mod rebuild;
mod search;
mod sound;

use super::best_available::Party;
use super::command::{PriceRule, Purpose, Take, Vote};
use super::event::Fact;
use super::feed::Feed;
use super::news::{News, SeatChangeKind};
use super::outcome::Refusal;
use super::pricing;
use super::query::{Owner, SeatMap, SeatState, Stock};
use super::record::{QuotedSeat, SectionKind, SectionPlan};
use super::shared::Shared;
use super::watermark::Marks;
use crate::ids::{Bucket, EventId, Partition, ReservationId, SeatIndex, SeatRef};
use crate::limits;
use crate::money::Minor;
use crate::time::WallMs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A section's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    event: EventId,
    plan: Shared<SectionPlan>,
    price: PriceRule,
    version: u64,
    /// The map as everybody sees it, kept current seat by seat.
    map: SeatMap,
    stock: Stock,
    /// One answer a reservation, and what it owns.
    claims: BTreeMap<ReservationId, Claim>,
    marks: Marks,
    /// No place below it is free; where the search in a standing area starts.
    first_free: u32,
    /// Messages that no correct sender sends.
    alarms: u64,
    /// Facts for outside.
    pub(super) feed: Feed,
}

/// What this section answered to a reservation, and which seats are its now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    answer: Given,
    /// Owned now, at frozen prices, ascending.
    seats: Vec<Taken>,
    together: bool,
    block: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    seat: SeatIndex,
    gross: Minor,
}

/// No, or Yes (held) → Released, or Yes → Sold → Returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Given {
    No(Refusal),
    Held,
    Sold,
    Released,
    /// Every seat that it had here is returned (or it was never known here).
    Returned,
}

/// Seats that a check found to be had; nothing is taken yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    seats: Vec<SeatIndex>,
    gross: Minor,
    together: bool,
}

impl Pick {
    /// The seats at their prices, as a vote carries them.
    pub fn quoted(&self, plan: &SectionPlan) -> Vec<QuotedSeat> {
        let seat = |seat: &SeatIndex| SeatRef { section: plan.section, seat: *seat };
        self.seats.iter().map(|s| QuotedSeat { seat: seat(s), gross: self.gross, discount: Minor(0) }).collect()
    }

    /// Whether all are neighbours.
    pub fn together(&self) -> bool {
        self.together
    }
}

/// A command that no correct sender sends; nothing changed, and it is not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("alarm: {0}")]
pub struct Alarm(pub String);

impl Seats {
    /// All seats free. The plan is checked: what it says of its size must be true.
    pub fn new(event: EventId, plan: SectionPlan, price: PriceRule) -> Result<Self, String> {
        check(&plan, &price)?;
        let count = plan.capacity;
        let map = SeatMap { version: 1, count, packed: vec![0; count.div_ceil(4) as usize] };
        let stock = Stock { free: count, ..Stock::default() };
        let (claims, marks, feed) = (BTreeMap::new(), Marks::default(), Feed::default());
        let plan = plan.into();
        Ok(Self { event, plan, price, version: 1, map, stock, claims, marks, first_free: 0, alarms: 0, feed })
    }

    /// A repeated Create: a new price counts from the next claim on, another geometry only while nothing was ever claimed.
    pub fn update(&mut self, plan: &SectionPlan, price: PriceRule) -> Result<bool, String> {
        check(plan, &price)?;
        if *plan == *self.plan && price == self.price {
            return Ok(false);
        }
        if *plan != *self.plan {
            if !self.claims.is_empty() || self.version > 1 {
                return Err(format!("section {} is on sale: its geometry cannot change", self.plan.name));
            }
            // What was asked, answered and told is as true of the new geometry: a late Prepare must not find it forgotten.
            let fresh = Self::new(self.event, plan.clone(), price)?;
            let (feed, marks) = (std::mem::take(&mut self.feed), std::mem::take(&mut self.marks));
            *self = Self { feed, marks, alarms: self.alarms, ..fresh };
        }
        self.price = price;
        Ok(true)
    }

    /// The geometry.
    pub fn plan(&self) -> &SectionPlan {
        &self.plan
    }

    /// The map with its version.
    pub fn map(&self) -> SeatMap {
        SeatMap { version: self.version, ..self.map.clone() }
    }

    /// Rises with every change of the map.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Seats by state.
    pub fn stock(&self) -> Stock {
        self.stock
    }

    /// Messages received that no correct sender sends.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// Which event.
    pub fn event(&self) -> EventId {
        self.event
    }

    /// Everything that is not free, by seat.
    pub fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<Owner> = self
            .claims
            .iter()
            .flat_map(|(id, claim)| {
                claim.seats.iter().map(|taken| Owner { seat: taken.seat, reservation: *id, state: claim.state() })
            })
            .collect();
        owners.sort_unstable_by_key(|owner| (owner.seat, owner.reservation));
        owners
    }

    /// Whether this could be taken now, and at what price. Changes nothing.
    pub fn check(&self, take: &Take, purpose: Purpose, now: WallMs) -> Result<Pick, Refusal> {
        let (found, max) = match take {
            Take::Seats(seats) => (self.chosen(seats)?, None),
            Take::Places(count) => (self.places(*count)?, None),
            Take::Best(wish) => {
                let party = Party {
                    count: usize::from(wish.count),
                    accessible: usize::from(wish.accessible),
                    contiguous: wish.contiguous,
                    spare_singles: purpose != Purpose::Block,
                };
                (self.best(party)?, wish.max_price)
            }
            Take::Use => return Err(Refusal::BadCart("a section has seats, not uses".into())),
        };
        let taken = self.stock.held + self.stock.sold;
        let multiplier = pricing::multiplier_bps(&self.price, taken, self.plan.capacity, now);
        let gross = pricing::gross(self.price.base, multiplier).ok_or(Refusal::PriceOverflow)?;
        if max.is_some_and(|max| gross > max) {
            return Err(Refusal::NoMatchingSeats { alternatives: vec![self.alternative()] });
        }
        Ok(Pick { seats: found.seats, gross, together: found.together })
    }

    /// Takes what [`Seats::check`] found in this very state.
    pub fn take(&mut self, id: ReservationId, pick: &Pick, purpose: Purpose, news: &mut News) {
        let block = purpose == Purpose::Block;
        let seats: Vec<Taken> = pick.seats.iter().map(|seat| Taken { seat: *seat, gross: pick.gross }).collect();
        let claim = Claim { answer: Given::Held, seats, together: pick.together, block };
        let (state, kind) = (claim.state(), if block { SeatChangeKind::Blocked } else { SeatChangeKind::Held });
        self.paint(id, &pick.seats, state, kind, news);
        self.claims.insert(id, claim);
    }

    /// Take all or nothing for `id`, or repeat what was answered.
    pub fn prepare(&mut self, id: ReservationId, take: &Take, purpose: Purpose, now: WallMs, news: &mut News) -> Vote {
        match self.claims.get(&id) {
            Some(Claim { answer: Given::No(refusal), .. }) => return Vote::No(refusal.clone()),
            Some(claim) if claim.answer == Given::Held => return self.yes(claim),
            Some(_) => return Vote::No(Refusal::ParticipantGone),
            None if self.marks.is_below(&id) => return Vote::No(Refusal::ParticipantGone),
            None => {}
        }
        match self.check(take, purpose, now) {
            Ok(pick) => {
                self.take(id, &pick, purpose, news);
                self.yes(&self.claims[&id])
            }
            Err(refusal) => {
                self.remember(id, Given::No(refusal.clone()));
                Vote::No(refusal)
            }
        }
    }

    /// Gives back what is held for `id`, and remembers it.
    pub fn release(&mut self, id: ReservationId, news: &mut News) -> Result<(), Alarm> {
        match self.claims.get(&id).map(|claim| &claim.answer) {
            None | Some(Given::No(_)) => self.remember(id, Given::Released),
            Some(Given::Held) => {
                let seats = self.give_up(id, Given::Released);
                self.paint(id, &seats, SeatState::Free, SeatChangeKind::Released, news);
            }
            Some(Given::Released) => {}
            Some(Given::Sold | Given::Returned) => return Err(self.alarm(format!("release of {id}, which is sold"))),
        }
        Ok(())
    }

    /// Sells what is held for `id`.
    pub fn sell(&mut self, id: ReservationId, now: WallMs, news: &mut News) -> Result<(), Alarm> {
        match self.claims.get(&id).map(|claim| &claim.answer) {
            Some(Given::Held) => {}
            Some(Given::Sold | Given::Returned) => return Ok(()),
            _ if self.marks.is_below(&id) => return Ok(()),
            _ => return Err(self.alarm(format!("sale of {id}, which holds nothing here"))),
        }
        let claim = self.claims.get_mut(&id).expect("it was just found");
        if claim.block {
            return Err(self.alarm(format!("sale of {id}, which is a block")));
        }
        claim.answer = Given::Sold;
        let seats: Vec<SeatIndex> = claim.seats.iter().map(|taken| taken.seat).collect();
        self.paint(id, &seats, SeatState::Sold, SeatChangeKind::Sold, news);
        if self.stock.free == 0 && self.stock.held == 0 {
            self.feed.push(now, Fact::SoldOut { section: self.plan.section });
        }
        Ok(())
    }

    /// Puts refunded seats of `id` back on sale: those that are still its own.
    pub fn give_back(&mut self, id: ReservationId, seats: &[SeatIndex], news: &mut News) {
        let Some(claim) = self.claims.get_mut(&id) else { return self.remember(id, Given::Returned) };
        match claim.answer {
            Given::Held | Given::Sold => {}
            // It has nothing to give: acknowledged, or it would be sent for ever; counted, because nothing paid ends so.
            Given::No(_) | Given::Released => {
                self.alarms += 1;
                return;
            }
            Given::Returned => return,
        }
        let back: BTreeSet<SeatIndex> = seats.iter().copied().collect();
        let own: Vec<SeatIndex> = claim.seats.iter().map(|taken| taken.seat).filter(|s| back.contains(s)).collect();
        claim.seats.retain(|taken| !back.contains(&taken.seat));
        let nothing_left = claim.seats.is_empty();
        self.paint(id, &own, SeatState::Free, SeatChangeKind::Returned, news);
        if nothing_left {
            self.give_up(id, Given::Returned);
        }
    }

    /// Drops remembered answers below the mark. What is owned stays owned.
    pub fn watermark(&mut self, bucket: Bucket, incarnation: u16, below: u64) {
        let Some((from, to)) = self.marks.raise(self.event, bucket, incarnation, below) else { return };
        let passed: Vec<ReservationId> =
            self.claims.range(from..to).filter(|(_, claim)| claim.seats.is_empty()).map(|(id, _)| *id).collect();
        for id in passed {
            self.claims.remove(&id);
        }
    }

    /// Whether this seat exists and is not free; for advice.
    pub fn is_taken(&self, seat: SeatIndex) -> bool {
        self.map.state(seat.0).is_some_and(|state| state != SeatState::Free)
    }

    fn is_free(&self, seat: u32) -> bool {
        self.map.state(seat) == Some(SeatState::Free)
    }

    fn yes(&self, claim: &Claim) -> Vote {
        let section = self.plan.section;
        let quoted = |taken: &Taken| QuotedSeat {
            seat: SeatRef { section, seat: taken.seat },
            gross: taken.gross,
            discount: Minor(0),
        };
        let seats = claim.seats.iter().map(quoted).collect();
        Vote::Yes { seats, discount_bps: 0, together: claim.together }
    }

    /// Keeps an answer that owns nothing; below the watermark nobody will ask.
    fn remember(&mut self, id: ReservationId, answer: Given) {
        if self.marks.is_below(&id) {
            self.claims.remove(&id);
        } else {
            self.claims.insert(id, Claim { answer, seats: Vec::new(), together: false, block: false });
        }
    }

    /// Leaves only the answer; gives what was owned.
    fn give_up(&mut self, id: ReservationId, answer: Given) -> Vec<SeatIndex> {
        let seats = self.claims.remove(&id).map_or(Vec::new(), |claim| claim.seats);
        self.remember(id, answer);
        seats.iter().map(|taken| taken.seat).collect()
    }

    fn alarm(&mut self, text: String) -> Alarm {
        self.alarms += 1;
        Alarm(text)
    }

    /// The one place where a seat changes its state: map, counters, version and history together.
    fn paint(&mut self, id: ReservationId, seats: &[SeatIndex], to: SeatState, kind: SeatChangeKind, news: &mut News) {
        if seats.is_empty() {
            return;
        }
        for seat in seats {
            let from = self.map.state(seat.0).expect("only seats of the plan are claimed");
            assert!(may_become(from, to), "{id}: seat {seat} of {} cannot go from {from:?} to {to:?}", self.plan.name);
            *count_of(&mut self.stock, from) -= 1;
            *count_of(&mut self.stock, to) += 1;
            let (byte, shift) = (seat.0 as usize / 4, 6 - 2 * (seat.0 % 4));
            self.map.packed[byte] = self.map.packed[byte] & !(0b11 << shift) | (bits(to) << shift);
            news.seats.push(super::news::SeatChange {
                event: self.event,
                section: self.plan.section,
                seat: *seat,
                reservation: id,
                kind,
            });
        }
        let freed = if to == SeatState::Free { seats.iter().map(|seat| seat.0).min() } else { None };
        match freed {
            Some(seat) => self.first_free = self.first_free.min(seat),
            None if self.plan.kind == SectionKind::Standing => {
                while self.first_free < self.plan.capacity && !self.is_free(self.first_free) {
                    self.first_free += 1;
                }
            }
            None => {}
        }
        self.version += 1;
        news.changed(Partition::Seats { event: self.event, section: self.plan.section }, self.version);
    }
}

impl Claim {
    fn state(&self) -> SeatState {
        match self.answer {
            Given::Sold => SeatState::Sold,
            _ if self.block => SeatState::Blocked,
            _ => SeatState::Held,
        }
    }
}

/// The forbidden steps: Free → Sold, and from one owner to another without being free.
fn may_become(from: SeatState, to: SeatState) -> bool {
    match from {
        SeatState::Free => matches!(to, SeatState::Held | SeatState::Blocked),
        SeatState::Held => matches!(to, SeatState::Sold | SeatState::Free),
        SeatState::Sold | SeatState::Blocked => to == SeatState::Free,
    }
}

fn bits(state: SeatState) -> u8 {
    match state {
        SeatState::Free => 0,
        SeatState::Held => 1,
        SeatState::Sold => 2,
        SeatState::Blocked => 3,
    }
}

fn count_of(stock: &mut Stock, state: SeatState) -> &mut u32 {
    match state {
        SeatState::Free => &mut stock.free,
        SeatState::Held => &mut stock.held,
        SeatState::Sold => &mut stock.sold,
        SeatState::Blocked => &mut stock.blocked,
    }
}

fn check(plan: &SectionPlan, price: &PriceRule) -> Result<(), String> {
    let seats: usize = plan.rows.iter().map(|row| row.seats.len()).sum();
    let size_is_true = match plan.kind {
        SectionKind::Seated => seats == plan.capacity as usize,
        SectionKind::Standing => seats == 0,
    };
    if !size_is_true || plan.capacity == 0 || plan.capacity as usize > limits::SECTION_SEATS {
        return Err(format!("section {} has {seats} seats and says {}", plan.name, plan.capacity));
    }
    if price.base.0 < 0 {
        return Err(format!("section {} costs less than nothing", plan.name));
    }
    Ok(())
}
