//! An event's partitions made anew, from what outlived the store: a backup of its groups, and the ledger's sales.
//!
//! The groups of a backup are not one cut, so participants are not believed: seats and uses are taken from the records of
//! their judges, and what a record holds that another has sold is dropped. The ledger's word stands above the backup's:
//! a sale that the backup does not know is a sale, a seat that the ledger gave back is free. Without a backup sold seats
//! come back from the ledger alone, and holds do not. Reservation ids of before are never minted again: the incarnation is
//! raised; feeds go on at positions that no consumer has seen. Pure: the same sources give the same bytes.

use super::checkouts::Checkouts;
use super::command::{CheckoutRules, PriceRule};
use super::copy::{Copy, Machine, Stage};
use super::group::Group;
use super::promotion::Promotion;
use super::query::SeatState;
use super::record::{EventRecord, QuotedSeat, SectionPlan};
use super::seats::Seats;
use super::shared::Shared;
use crate::ids::{Bucket, Partition, PaymentId, PromotionCode, ReservationId, SeatRef, UserId};
use crate::money::Currency;
use crate::time::{Ticks, WallMs};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A paid reservation as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sale {
    /// The reservation.
    pub reservation: ReservationId,
    /// Whose.
    pub user: UserId,
    /// What paid for it.
    pub payment: PaymentId,
    /// Of its prices.
    pub currency: Currency,
    /// Every seat that was bought.
    pub seats: Vec<QuotedSeat>,
    /// Those that were given back.
    pub returned: BTreeSet<SeatRef>,
    /// When it was booked.
    pub at: WallMs,
}

/// What an event is rebuilt from.
pub struct Sources<'a> {
    /// The catalogue's record.
    pub event: &'a EventRecord,
    /// Its sections.
    pub plans: &'a [SectionPlan],
    /// Its promotions: code, basis points, cap.
    pub promotions: &'a [(PromotionCode, u16, u32)],
    /// The groups of a backup; empty without one.
    pub groups: &'a [Group],
    /// The ledger's sales of this event.
    pub sales: &'a [Sale],
    /// Of the reservations that begin from now on: one that no earlier recovery was given either.
    pub incarnation: u16,
    /// The wall clock.
    pub now: WallMs,
}

/// A rebuilt event.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Each partition's state, in the order in which they are to be brought in: buckets last, because a hold can only
    /// begin once everything that it may touch is there.
    pub partitions: Vec<(Partition, Vec<u8>)>,
    /// Seats sold.
    pub sold: u64,
    /// Seats held, offered or blocked.
    pub held: u64,
    /// What the sources said differently, for people.
    pub notes: Vec<String>,
}

/// A reservation's claim on a seat: price, state.
pub(super) type Claims = BTreeMap<ReservationId, Vec<(QuotedSeat, SeatState)>>;

/// Makes every partition of the event.
pub fn rebuild(sources: &Sources<'_>) -> Result<Rebuilt, String> {
    let event = sources.event.id;
    let mut rebuilt = Rebuilt::default();
    let mut judges = judges(sources)?;
    let mut owners: BTreeMap<SeatRef, ReservationId> = BTreeMap::new();
    for sale in sources.sales {
        let id = sale.reservation;
        let judge = judges.get_mut(&id.bucket).filter(|_| id.event == event);
        let judge = judge.ok_or_else(|| format!("the ledger's {id} belongs to no bucket of event {event}"))?;
        if let Some(note) = judge.adopt(sale) {
            rebuilt.notes.push(note);
        }
    }
    // Sold seats first, whoever's; then what is held, where it can still be had.
    for judge in judges.values() {
        for (id, seat) in judge.sold() {
            if let Some(other) = owners.insert(seat, id) {
                return Err(format!("seat {}/{} is sold to {other} and to {id}", seat.section, seat.seat));
            }
        }
    }
    rebuilt.sold = owners.len() as u64;
    for judge in judges.values_mut() {
        rebuilt.notes.extend(judge.keep_holds(&mut owners, sources.now));
        judge.settle_anew();
    }
    rebuilt.held = owners.len() as u64 - rebuilt.sold;
    seats(sources, &judges, &mut rebuilt)?;
    promotions(sources, &judges, &mut rebuilt)?;
    for (bucket, judge) in judges {
        let partition = Partition::Checkouts { event, bucket };
        rebuilt.partitions.push((partition, postcard::to_stdvec(&judge).map_err(|error| error.to_string())?));
    }
    Ok(rebuilt)
}

/// The highest incarnation that these know of.
pub fn highest_incarnation(groups: &[Group], sales: &[Sale]) -> Option<u16> {
    let judges = groups.iter().flat_map(|group| group.checkouts.values().filter_map(|copy| copy.any()));
    let backed_up = judges.map(|judge| judge.rules().incarnation);
    backed_up.chain(sales.iter().map(|sale| sale.reservation.incarnation)).max()
}

/// The buckets as the backup has them, or empty, each with the new incarnation.
fn judges(sources: &Sources<'_>) -> Result<BTreeMap<Bucket, Checkouts>, String> {
    let event = sources.event;
    let copies: Vec<(&Copy<Checkouts>, Bucket, Ticks)> = sources
        .groups
        .iter()
        .flat_map(|group| group.checkouts.iter().map(|(key, copy)| (key, &**copy, group.clock)))
        .filter(|((of, _), ..)| *of == event.id)
        .map(|((_, bucket), copy, clock)| (copy, *bucket, clock))
        .collect();
    if let Some(used) = highest_incarnation(sources.groups, sources.sales).filter(|used| *used >= sources.incarnation) {
        return Err(format!("incarnation {} would mint ids again: {used} was used", sources.incarnation));
    }
    let rules = CheckoutRules { incarnation: sources.incarnation, ..CheckoutRules::of(event) };
    let mut judges = BTreeMap::new();
    for bucket in (0..event.buckets).map(Bucket).chain([Bucket::BOX_OFFICE]) {
        let best = copies.iter().filter(|(_, of, _)| *of == bucket).max_by_key(|(copy, ..)| rank(copy));
        let mut judge = match best.and_then(|(copy, _, clock)| Some((copy.any()?.clone(), *clock))) {
            Some((mut judge, clock)) => {
                judge.stop(clock);
                judge.begin_anew(rules);
                judge
            }
            // It was on its way from one group to another, or a group is not in the backup: its holds would be lost unsaid.
            None if !copies.is_empty() => return Err(format!("bucket {bucket} is in no group of the backup")),
            None => {
                let mut judge = Checkouts::new(event.id, bucket, rules)?;
                judge.stop(Ticks(0));
                judge
            }
        };
        judge.feed = std::mem::take(&mut judge.feed).resumed(sources.now.0);
        judges.insert(bucket, judge);
    }
    Ok(judges)
}

/// Which of several copies of a partition counts.
fn rank<M: Machine>(copy: &Copy<M>) -> (bool, bool, crate::ids::Attempt) {
    (copy.any().is_some(), copy.stage == Stage::Active, copy.at)
}

fn seats(sources: &Sources<'_>, judges: &BTreeMap<Bucket, Checkouts>, rebuilt: &mut Rebuilt) -> Result<(), String> {
    let event = sources.event;
    for plan in sources.plans {
        let mut claims = Claims::new();
        for judge in judges.values() {
            judge.claims_of(plan.section, &mut claims);
        }
        let base = event.tiers.get(usize::from(plan.tier)).ok_or("a section has a tier that does not exist")?.base;
        let price = PriceRule { base, dynamic: event.dynamic_pricing, event_starts_at: event.starts_at };
        let before = best(sources.groups, |group| group.seats.get(&(event.id, plan.section)));
        let feed = before.map(|before| before.feed.clone()).unwrap_or_default().resumed(sources.now.0);
        // Versions never fall for a client that goes on: they rise by one a change, the clock by a thousand a second.
        let version = before.map_or(0, Seats::version).max(sources.now.0) + 1;
        let seats = Seats::rebuilt(event.id, plan.clone(), price, version, feed, &claims)?;
        let partition = Partition::Seats { event: event.id, section: plan.section };
        rebuilt.partitions.push((partition, postcard::to_stdvec(&seats).map_err(|error| error.to_string())?));
    }
    Ok(())
}

fn promotions(
    sources: &Sources<'_>,
    judges: &BTreeMap<Bucket, Checkouts>,
    rebuilt: &mut Rebuilt,
) -> Result<(), String> {
    let event = sources.event.id;
    for (code, discount_bps, cap) in sources.promotions {
        let mut promotion = Promotion::new(event, code.clone(), *discount_bps, *cap)?;
        for (id, user, sold) in judges.values().flat_map(|judge| judge.uses_of(code)) {
            promotion.take(id, user);
            if sold {
                promotion.sell(id).map_err(|alarm| alarm.to_string())?;
            }
        }
        let before = best(sources.groups, |group| group.promotions.get(&(event, code.clone())));
        promotion.feed = before.map(|before| before.feed.clone()).unwrap_or_default().resumed(sources.now.0);
        let partition = Partition::Promotion { event, code: code.clone() };
        rebuilt.partitions.push((partition, postcard::to_stdvec(&promotion).map_err(|error| error.to_string())?));
    }
    Ok(())
}

fn best<'a, M: Machine + 'a>(
    groups: &'a [Group],
    find: impl Fn(&'a Group) -> Option<&'a Shared<Copy<M>>>,
) -> Option<&'a M> {
    let copies = groups.iter().filter_map(find).map(|copy| &**copy);
    copies.max_by_key(|copy| rank(copy))?.any()
}

#[cfg(test)]
mod tests;
