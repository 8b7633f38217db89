//! What must hold after every entry, whatever was asked, lost, repeated or reordered: within one partition ([`Sound`]) and
//! between a reservation's record and what the participants of all groups own ([`across`]). For tests, simulation and
//! audits.

use super::checkouts::{Checkouts, Judged};
use super::copy::{Copy, Machine, Stage};
use super::group::Group;
use super::locals::Participant;
use super::promotion::Promotion;
use super::query::SeatState;
use super::record::Status;
use super::seats::Seats;
use super::shared::Shared;
use crate::ids::{Bucket, EventId, PromotionCode, ReservationId, SeatRef, SectionId};
use std::collections::{BTreeMap, BTreeSet};

/// A machine that can say whether it contradicts itself.
pub(super) trait Sound {
    /// What is wrong, for people.
    fn sound(&self) -> Result<(), String>;
}

/// Checks every partition of every group, and the claims of participants against the records of their judges. Give all
/// groups of a store, as one replica of each has them after the same moment.
pub fn across(groups: &[&Group]) -> Result<(), String> {
    groups.iter().try_for_each(|group| group.sound())?;
    let checkouts: BTreeMap<(EventId, Bucket), &Checkouts> = single(groups.iter().flat_map(|g| &g.checkouts))?;
    let store = Store {
        seats: single(groups.iter().flat_map(|group| &group.seats))?,
        promotions: single(groups.iter().flat_map(|group| &group.promotions))?,
        records: checkouts.values().flat_map(|judge| judge.judged()).collect(),
        checkouts: checkouts.keys().copied().collect(),
    };
    store.claims_have_records()?;
    store.records_have_claims()
}

/// The one copy of each partition that counts.
struct Store<'a> {
    seats: BTreeMap<(EventId, SectionId), &'a Seats>,
    promotions: BTreeMap<(EventId, PromotionCode), &'a Promotion>,
    records: BTreeMap<ReservationId, Judged<'a>>,
    checkouts: BTreeSet<(EventId, Bucket)>,
}

/// At most one copy of a partition is active; while none is, the frozen and the installed one say the same.
fn single<'a, K: Ord + Clone + std::fmt::Debug + 'a, M: Machine>(
    copies: impl Iterator<Item = (&'a K, &'a Shared<Copy<M>>)>,
) -> Result<BTreeMap<K, &'a M>, String> {
    let mut best: BTreeMap<K, &Copy<M>> = BTreeMap::new();
    for (key, copy) in copies.map(|(key, copy)| (key, &**copy)).filter(|(_, copy)| copy.any().is_some()) {
        let rank = |copy: &Copy<M>| (copy.stage == Stage::Active, copy.at);
        match best.get(key) {
            Some(other) if other.stage == Stage::Active && copy.stage == Stage::Active => {
                return Err(format!("{key:?} is active in two groups"));
            }
            Some(other) if rank(other) >= rank(copy) => {}
            _ => _ = best.insert(key.clone(), copy),
        }
    }
    Ok(best.into_iter().filter_map(|(key, copy)| Some((key, copy.any()?))).collect())
}

impl Store<'_> {
    /// The record of an owner, if its judge is at hand.
    fn record(&self, id: &ReservationId) -> Result<Option<&Judged<'_>>, String> {
        match self.records.get(id) {
            None if self.checkouts.contains(&(id.event, id.bucket)) => {
                Err(format!("{id} owns something and has no record"))
            }
            record => Ok(record),
        }
    }

    /// Nothing is owned without a record that says why.
    fn claims_have_records(&self) -> Result<(), String> {
        for ((event, section), seats) in &self.seats {
            let who = Participant::Seats(*section);
            for owner in seats.owners() {
                let seat = SeatRef { section: *section, seat: owner.seat };
                let Some(record) = self.record(&owner.reservation)? else { continue };
                if !record.may_own(&who, &seat, owner.state) {
                    let (id, seat) = (owner.reservation, owner.seat);
                    return Err(format!(
                        "{id} is {:?}, its seat {event}/{section}/{seat} {:?}",
                        record.status, owner.state
                    ));
                }
            }
        }
        for ((_, code), promotion) in &self.promotions {
            let who = Participant::Promotion(code.clone());
            for id in promotion.uses() {
                let Some(record) = self.record(&id)? else { continue };
                if !record.is_open_or_paid() && record.parts.get(&who) != Some(&false) {
                    return Err(format!("{id} is {:?} and still uses {code}", record.status));
                }
            }
        }
        Ok(())
    }

    /// A hold has all its seats and its use; a sale too, as far as nothing was returned.
    fn records_have_claims(&self) -> Result<(), String> {
        let owners: BTreeMap<(EventId, SeatRef), (ReservationId, SeatState)> = self
            .seats
            .iter()
            .flat_map(|((event, section), seats)| {
                seats.owners().into_iter().map(|owner| {
                    let seat = SeatRef { section: *section, seat: owner.seat };
                    ((*event, seat), (owner.reservation, owner.state))
                })
            })
            .collect();
        for (id, record) in &self.records {
            if !matches!(record.status, Status::Held | Status::Offered | Status::Paid) {
                continue;
            }
            let gone: BTreeSet<SeatRef> = &record.returned | &record.returning;
            for seat in record.seats.difference(&gone) {
                let here = self.seats.contains_key(&(id.event, seat.section));
                let owner = owners.get(&(id.event, *seat));
                let sold = record.status == Status::Paid
                    && (record.collected || record.parts.get(&Participant::Seats(seat.section)) == Some(&true));
                let owned = owner.is_some_and(|(owner, state)| owner == id && (!sold || *state == SeatState::Sold));
                if here && !owned {
                    return Err(format!("{id} is {:?}, but its seat {seat:?} is {owner:?}", record.status));
                }
            }
            for who in record.parts.keys() {
                let Participant::Promotion(code) = who else { continue };
                let promotion = self.promotions.get(&(id.event, code.clone()));
                if promotion.is_some_and(|promotion| !promotion.uses().contains(id)) {
                    return Err(format!("{id} is {:?} without its use of {code}", record.status));
                }
            }
        }
        Ok(())
    }
}

impl Judged<'_> {
    fn is_open_or_paid(&self) -> bool {
        !self.status.is_terminal() || self.status == Status::Paid
    }

    /// Whether a seat may be in this state for this record.
    fn may_own(&self, who: &Participant, seat: &SeatRef, state: SeatState) -> bool {
        let unacknowledged = self.parts.get(who) == Some(&false);
        match (self.status, state) {
            (Status::Preparing, SeatState::Held | SeatState::Blocked) => self.parts.contains_key(who),
            (Status::Held | Status::Offered, SeatState::Held | SeatState::Blocked) => self.seats.contains(seat),
            (Status::Paid, SeatState::Held) => self.seats.contains(seat) && unacknowledged,
            (Status::Paid, SeatState::Sold) => self.seats.contains(seat) && !self.returned.contains(seat),
            // Ended unpaid: its Release is still owed.
            (_, SeatState::Held | SeatState::Blocked) => unacknowledged,
            _ => false,
        }
    }
}
