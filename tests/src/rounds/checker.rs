//! The judge at the end, pure: what fans were told against what the store says. Every acknowledged hold and sale is there
//! with its seats, no seat has two owners, and sections, promotions and feeds agree with the records.

#[cfg(test)]
mod tests;

use super::history::{History, Receipt, Told};
use domain::ids::{EventId, PromotionCode, ReservationId, SeatRef};
use domain::inventory::query::SeatState;
use domain::inventory::{ReservationView, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a feed told of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Held.
    Held,
    /// Paid.
    Paid,
    /// Cancelled.
    Cancelled,
    /// Ran out.
    Expired,
    /// Some of its seats went back on sale.
    Released,
}

/// What the store says.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// When it had been read, in milliseconds of the run.
    pub now_ms: u64,
    /// Every record of every event.
    pub records: BTreeMap<ReservationId, ReservationView>,
    /// Who owns each seat that is not free, as its section says.
    pub owners: BTreeMap<(EventId, SeatRef), (ReservationId, SeatState)>,
    /// Who uses each promotion, and how many may.
    pub uses: BTreeMap<(EventId, PromotionCode), (u32, BTreeSet<ReservationId>)>,
    /// What the feeds told, in order.
    pub said: BTreeMap<ReservationId, Vec<Said>>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A fan was told something about a reservation that has no record.
    Lost(ReservationId, Told),
    /// The record says something else than its fan was told.
    Broken(ReservationId, Told, Status),
    /// A hold ran out before its time.
    Early(ReservationId),
    /// The record has other seats, another price or another code than its fan was shown.
    Changed(ReservationId),
    /// A live reservation that nobody was told of.
    Stranger(ReservationId, Status),
    /// A reservation that is still being prepared, long after everybody has gone home.
    Unfinished(ReservationId),
    /// Two live reservations have the same seat.
    TwoOwners(EventId, SeatRef, [ReservationId; 2]),
    /// The section says something else about a seat than the records.
    Disagreed {
        /// The event.
        event: EventId,
        /// Its seat.
        seat: SeatRef,
        /// What the section says.
        section: Option<(ReservationId, SeatState)>,
        /// What the records say.
        records: Option<(ReservationId, SeatState)>,
    },
    /// A promotion's uses are not its reservations, or are too many.
    Promotion(EventId, PromotionCode, String),
    /// The feed did not tell what happened.
    Untold(ReservationId, Status, Vec<Said>),
    /// The feed told of a reservation that has no record.
    Rumour(ReservationId, Vec<Said>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(id, told) => write!(f, "{id} was acknowledged as {told:?} and is gone"),
            Self::Broken(id, told, status) => write!(f, "{id} was acknowledged as {told:?} and is {status:?}"),
            Self::Early(id) => write!(f, "{id} ran out before its time"),
            Self::Changed(id) => write!(f, "{id} has other seats, price or code than were acknowledged"),
            Self::Stranger(id, status) => write!(f, "{id} is {status:?} and nobody was told"),
            Self::Unfinished(id) => write!(f, "{id} is still being prepared"),
            Self::TwoOwners(event, seat, [one, other]) => {
                write!(f, "seat {event}/{}/{} belongs to {one} and to {other}", seat.section, seat.seat)
            }
            Self::Disagreed { event, seat, section, records } => {
                let SeatRef { section: at, seat } = seat;
                write!(f, "seat {event}/{at}/{seat}: the section says {section:?}, the records {records:?}")
            }
            Self::Promotion(event, code, why) => write!(f, "promotion {event}/{code}: {why}"),
            Self::Untold(id, status, said) => write!(f, "{id} is {status:?}, and the feed told {said:?}"),
            Self::Rumour(id, said) => write!(f, "{id} has no record, and the feed told {said:?}"),
        }
    }
}

impl Receipt {
    /// What a record, seen at this moment, breaks of what was told.
    pub fn broken_by(&self, view: &ReservationView, now_ms: u64) -> Option<Fault> {
        let same_seats = view.seats.iter().map(|quoted| &quoted.seat).eq(&self.seats);
        if !same_seats || (view.total, &view.promotion) != (self.total, &self.promotion) {
            return Some(Fault::Changed(self.id));
        }
        match (self.told, view.status) {
            (Told::Held, Status::Held)
            | (Told::Cancelled, Status::Cancelled)
            | (Told::Held | Told::Expired, Status::Expired)
                if view.status != Status::Expired || now_ms >= self.ends_after_ms =>
            {
                None
            }
            (Told::Paid(payment), Status::Paid) if view.payment == Some(payment) => None,
            (Told::Held | Told::Expired, Status::Expired) => Some(Fault::Early(self.id)),
            (told, status) => Some(Fault::Broken(self.id, told, status)),
        }
    }
}

/// Everything that is wrong.
pub fn check(history: &History, world: &World) -> Vec<Fault> {
    let mut faults = promises(history, world);
    let claims = claims(history, world, &mut faults);
    sections(&claims, world, &mut faults);
    promotions(world, &mut faults);
    feeds(history, world, &mut faults);
    faults
}

/// Every receipt has its record, and every live record its receipt.
fn promises(history: &History, world: &World) -> Vec<Fault> {
    let mut faults: Vec<Fault> = history
        .values()
        .filter_map(|receipt| match world.records.get(&receipt.id) {
            None => Some(Fault::Lost(receipt.id, receipt.told)),
            Some(view) => receipt.broken_by(view, world.now_ms),
        })
        .collect();
    for (id, view) in world.records.iter().filter(|(id, _)| !history.contains_key(id)) {
        match view.status {
            Status::Aborted => {}
            Status::Preparing => faults.push(Fault::Unfinished(*id)),
            status => faults.push(Fault::Stranger(*id, status)),
        }
    }
    faults
}

type Claims = BTreeMap<(EventId, SeatRef), (ReservationId, SeatState)>;

/// Who owns what by the records.
fn claims(history: &History, world: &World, faults: &mut Vec<Fault>) -> Claims {
    let mut claims = Claims::new();
    for (id, view) in &world.records {
        let state = match view.status {
            Status::Held | Status::Offered => SeatState::Held,
            Status::Paid => SeatState::Sold,
            _ => continue,
        };
        let returned = history.get(id).map(|receipt| &receipt.returned);
        let kept = view.seats.iter().map(|quoted| quoted.seat);
        for seat in kept.filter(|seat| returned.is_none_or(|returned| !returned.contains(seat))) {
            if let Some((other, _)) = claims.insert((id.event, seat), (*id, state)) {
                faults.push(Fault::TwoOwners(id.event, seat, [other, *id]));
            }
        }
    }
    claims
}

/// The sections say the same as the records.
fn sections(claims: &Claims, world: &World, faults: &mut Vec<Fault>) {
    let seats: BTreeSet<&(EventId, SeatRef)> = claims.keys().chain(world.owners.keys()).collect();
    for at in seats {
        let (section, records) = (world.owners.get(at).copied(), claims.get(at).copied());
        if section != records {
            faults.push(Fault::Disagreed { event: at.0, seat: at.1, section, records });
        }
    }
}

/// A promotion is used by those that hold or bought with it, and not more often than it may be.
fn promotions(world: &World, faults: &mut Vec<Fault>) {
    for ((event, code), (cap, uses)) in &world.uses {
        let using = |(id, view): (&ReservationId, &ReservationView)| {
            let counts = matches!(view.status, Status::Held | Status::Offered | Status::Paid);
            (counts && id.event == *event && view.promotion.as_ref() == Some(code)).then_some(*id)
        };
        let expected: BTreeSet<ReservationId> = world.records.iter().filter_map(using).collect();
        let mut wrong = |why: String| faults.push(Fault::Promotion(*event, code.clone(), why));
        if uses.len() > *cap as usize {
            wrong(format!("{} uses of {cap}", uses.len()));
        }
        if *uses != expected {
            let difference: Vec<String> = uses.symmetric_difference(&expected).map(ToString::to_string).collect();
            wrong(format!("uses and reservations differ in {}", difference.join(", ")));
        }
    }
}

/// The feeds told everything once and in order, and nothing else.
fn feeds(history: &History, world: &World, faults: &mut Vec<Fault>) {
    let rumours = world.said.iter().filter(|(id, _)| !world.records.contains_key(id));
    faults.extend(rumours.map(|(id, said)| Fault::Rumour(*id, said.clone())));
    for (id, view) in &world.records {
        let first: &[Said] = match view.status {
            Status::Held => &[Said::Held],
            Status::Paid => &[Said::Held, Said::Paid],
            Status::Cancelled => &[Said::Held, Said::Cancelled],
            Status::Expired => &[Said::Held, Said::Expired],
            Status::Preparing | Status::Aborted => &[],
            Status::Offered => continue,
        };
        let refunds = history.get(id).map_or(0, |receipt| receipt.refunds);
        let expected = [first, &vec![Said::Released; refunds]].concat();
        let said = world.said.get(id).cloned().unwrap_or_default();
        // A hold that has run out is told when it is swept.
        let not_swept = view.status == Status::Expired && said == [Said::Held];
        if said != expected && !not_swept {
            faults.push(Fault::Untold(*id, view.status, said));
        }
    }
}
