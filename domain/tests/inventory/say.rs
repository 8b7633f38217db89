//! Outcomes and states as a script shows them: one line each, short names.

use crate::world::World;
use domain::ids::{Bucket, Partition, ReservationId, SeatRef, SectionId};
use domain::inventory::command::{Checkout, Command, Done, Participate, Request, Take, Vote};
use domain::inventory::query::{Owner, SeatState};
use domain::inventory::record::{QuotedSeat, SectionKind};
use domain::inventory::{Fact, FeedEntry, Outcome, Refusal, ReservationView, Status};
use std::fmt::Write;

/// `r7`, with the bucket after an `@` unless it is 0, and the incarnation after a `.` unless it is 0.
pub fn id(id: &ReservationId) -> String {
    let mut text = format!("r{}", id.sequence);
    match id.bucket {
        Bucket(0) => {}
        Bucket::BOX_OFFICE => text.push_str("@box"),
        bucket => write!(text, "@{bucket}").unwrap(),
    }
    if id.incarnation != 0 {
        write!(text, ".{}", id.incarnation).unwrap();
    }
    text
}

/// `A-3`, with the section in front unless it is 1; a standing place by its number.
pub fn seat(world: &World, seat: &SeatRef) -> String {
    let plan = &world.plans[&seat.section];
    let labels = plan.labels(seat.seat);
    let name = match (plan.kind, labels) {
        (SectionKind::Standing, Some((_, number))) => number,
        (SectionKind::Seated, Some((row, number))) => format!("{row}-{number}"),
        (_, None) => format!("#{}", seat.seat),
    };
    if seat.section == SectionId(1) { name } else { format!("{}/{name}", seat.section) }
}

pub fn seats(world: &World, seats: impl IntoIterator<Item = SeatRef>) -> String {
    seats.into_iter().map(|s| seat(world, &s)).collect::<Vec<_>>().join(" ")
}

fn quoted(world: &World, quoted: &[QuotedSeat]) -> String {
    let each = quoted.iter().map(|q| {
        let off = if q.discount.0 == 0 { String::new() } else { format!("-{}", q.discount.0) };
        format!("{}={}{off}", seat(world, &q.seat), q.gross.0)
    });
    each.collect::<Vec<_>>().join(" ")
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Preparing => "preparing",
        Status::Offered => "offered",
        Status::Held => "held",
        Status::Paid => "paid",
        Status::Expired => "expired",
        Status::Cancelled => "cancelled",
        Status::Aborted => "aborted",
    }
}

pub fn view(world: &World, view: &ReservationView) -> String {
    let mut text = format!("{} {}", id(&view.id), status(view.status));
    if !view.seats.is_empty() {
        write!(text, " {} total {}", quoted(world, &view.seats), view.total.display(view.currency)).unwrap();
    }
    if view.together {
        text.push_str(" together");
    }
    if let Some(payment) = view.payment {
        write!(text, " by p{}", payment.0).unwrap();
    }
    if let Some(note) = &view.note {
        write!(text, " ({note})").unwrap();
    }
    match view.remaining_ms {
        0 => {}
        ms if ms > 1_000_000_000_000 => text.push_str(", no end"),
        ms => write!(text, ", {ms} ms left").unwrap(),
    }
    text
}

pub fn refusal(world: &World, refusal: &Refusal) -> String {
    match refusal {
        Refusal::SeatsTaken(taken) => format!("taken: {}", seats(world, taken.iter().copied())),
        Refusal::CheckoutOpen(open) => format!("a checkout is open: {}", id(open)),
        Refusal::NoSuchSeat(missing) => format!("no such seat: {}", seat(world, missing)),
        Refusal::NoMatchingSeats { alternatives } => {
            let each = alternatives
                .iter()
                .map(|a| format!("section {} has {}, {} together", a.section, a.free, a.largest_together));
            format!("no matching seats; {}", each.collect::<Vec<_>>().join("; "))
        }
        other => format!("{other:?}"),
    }
}

pub fn vote(world: &World, vote: &Vote) -> String {
    match vote {
        Vote::Yes { seats, discount_bps: 0, .. } => format!("yes {}", quoted(world, seats)),
        Vote::Yes { discount_bps, .. } => format!("yes, {discount_bps} off"),
        Vote::No(why) => format!("no, {}", refusal(world, why)),
    }
}

pub fn outcome(world: &World, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Reservation(v) => view(world, v),
        Outcome::Refused(why) => format!("refused, {}", refusal(world, why)),
        Outcome::Advised(why) => format!("advised, {}", refusal(world, why)),
        Outcome::MustRefund(why) => format!("must refund, {why:?}"),
        Outcome::Voted(v) => vote(world, v),
        Outcome::Stale { floor } => format!("stale, ask after {}", floor.0),
        Outcome::Moved { epoch } => format!("moved, epoch {epoch}"),
        Outcome::Exported(_) => "exported".into(),
        Outcome::MoveBegun { attempt, from, epoch } => format!("attempt {attempt} from group {from}, epoch {epoch}"),
        Outcome::Invalid(text) => format!("invalid: {text}"),
        Outcome::Done => "done".into(),
        Outcome::AnotherLife => "another life".into(),
        other @ (Outcome::Preparing | Outcome::Unknown | Outcome::Overloaded) => format!("{other:?}").to_lowercase(),
    }
}

pub fn message(world: &World, request: &Request) -> String {
    let here = |section: &SectionId, indices: &[domain::ids::SeatIndex]| {
        seats(world, indices.iter().map(|index| SeatRef { section: *section, seat: *index }))
    };
    let section = match &request.partition {
        Partition::Seats { section, .. } => *section,
        _ => SectionId(0),
    };
    let text = match &request.command {
        Command::Participate(Participate::Prepare { reservation, take, .. }) => {
            let what = match take {
                Take::Seats(indices) => here(&section, indices),
                Take::Places(count) => format!("{count} places"),
                Take::Best(wish) => format!("best {}", wish.count),
                Take::Use => "use".into(),
            };
            format!("prepare {} {what}", id(reservation))
        }
        Command::Participate(Participate::Release { reservation }) => format!("release {}", id(reservation)),
        Command::Participate(Participate::Sell { reservation }) => format!("sell {}", id(reservation)),
        Command::Participate(Participate::Return { reservation, seats }) => {
            format!("return {} {}", id(reservation), here(&section, seats))
        }
        Command::Participate(Participate::Watermark { bucket, incarnation, below }) => {
            format!("watermark of {bucket}: {incarnation}.{below}")
        }
        Command::Checkout(Checkout::Vote { reservation, vote: v, .. }) => {
            format!("vote {} {}", id(reservation), vote(world, v))
        }
        Command::Checkout(Checkout::Ack { reservation, done, .. }) => match done {
            Done::Released => format!("ack {} released", id(reservation)),
            Done::Sold => format!("ack {} sold", id(reservation)),
            Done::Returned(_) => format!("ack {} returned", id(reservation)),
        },
        other => format!("{other:?}"),
    };
    format!("to {}: {text}", request.partition)
}

pub fn fact(world: &World, entry: &FeedEntry) -> String {
    let text = match &entry.fact {
        Fact::Held(v) => format!("held: {}", view(world, v)),
        Fact::Offered(v) => format!("offered: {}", view(world, v)),
        Fact::Expired(v) => format!("expired: {}", view(world, v)),
        Fact::Cancelled(v) => format!("cancelled: {}", view(world, v)),
        Fact::Paid(v) => format!("paid: {}", view(world, v)),
        Fact::Released { reservation, refund, seats: back } => {
            format!("released by f{}: {} {}", refund.0, id(reservation), seats(world, back.iter().copied()))
        }
        Fact::SoldOut { section } => format!("sold out: section {section}"),
    };
    format!("{} {text}", entry.position)
}

pub fn owner(world: &World, section: SectionId, owner: &Owner) -> String {
    let state = match owner.state {
        SeatState::Free => "free",
        SeatState::Held => "held",
        SeatState::Sold => "sold",
        SeatState::Blocked => "blocked",
    };
    format!("{} {state} {}", seat(world, &SeatRef { section, seat: owner.seat }), id(&owner.reservation))
}
