//! The checks: each rule over what was read, pure, so that every one is tested with evidence made up to break it.

use super::evidence::{EventEvidence, Evidence, ProviderPayment};
use super::report::{Report, Rule};
use domain::ids::{ReservationId, SeatRef, UserId};
use domain::inventory::Status;
use domain::inventory::query::SeatState;
use domain::money::Minor;
use domain::order::payment::PaymentState;
use ledger::audit::Balance;
use ledger::tickets::TicketState;
use std::collections::{BTreeMap, BTreeSet};

/// Check everything.
pub fn check(evidence: &Evidence) -> Report {
    let mut report = Report::default();
    for event in &evidence.events {
        let seats = seats_by_owner(event);
        one_owner(event, &mut report);
        whole_carts(event, &seats, &mut report);
        one_end(event, &mut report);
        quoted_price(event, &mut report);
        tickets_or_refund(event, &mut report);
        one_ticket_a_seat(event, &mut report);
        limits(event, &mut report);
        count(event, &mut report);
    }
    providers_word(evidence, &mut report);
    one_entry_a_ticket(evidence, &mut report);
    acknowledged(evidence, &mut report);
    report
}

fn seats_by_owner(event: &EventEvidence) -> BTreeMap<ReservationId, BTreeSet<SeatRef>> {
    let mut seats: BTreeMap<ReservationId, BTreeSet<SeatRef>> = BTreeMap::new();
    for (section, owners) in &event.owners {
        for owner in owners {
            seats.entry(owner.reservation).or_default().insert(SeatRef { section: *section, seat: owner.seat });
        }
    }
    seats
}

fn place(event: &EventEvidence, seat: SeatRef) -> String {
    let section = event.record.section(seat.section).map_or("?", |section| section.name.as_str());
    format!("{} / {section} / place {}", event.record.title, seat.seat)
}

/// Rule 1. The store's map is a map, so two owners can only show as the store and the ledger disagreeing, or as the
/// ledger having a seat twice.
fn one_owner(event: &EventEvidence, report: &mut Report) {
    let mut sold = BTreeMap::new();
    for (section, owners) in &event.owners {
        let mut seen = BTreeSet::new();
        for owner in owners {
            let seat = SeatRef { section: *section, seat: owner.seat };
            let twice = !seen.insert(owner.seat);
            report.check(Rule::OneOwner, twice.then(|| format!("{} has two owners in the store", place(event, seat))));
            if owner.state == SeatState::Sold {
                sold.insert(seat, owner.reservation);
            }
        }
    }
    let mut booked = BTreeMap::new();
    for live in &event.live_seats {
        let twice = booked.insert(live.seat, live.reservation);
        let fault = twice.map(|other| {
            format!("{} is booked for {} and for {other} in the ledger", place(event, live.seat), live.reservation)
        });
        report.check(Rule::OneOwner, fault);
    }
    for (seat, reservation) in &booked {
        let fault = match sold.get(seat) {
            Some(owner) if owner == reservation => None,
            Some(owner) => {
                Some(format!("{} is sold to {owner} in the store and booked for {reservation}", place(event, *seat)))
            }
            None => Some(format!("{} is booked for {reservation}, but not sold in the store", place(event, *seat))),
        };
        report.check(Rule::OneOwner, fault);
    }
    for (seat, owner) in sold.iter().filter(|(seat, _)| !booked.contains_key(seat)) {
        let pending = format!("{} is sold to {owner} in the store and not booked yet", place(event, *seat));
        report.of(Rule::OneOwner).pending.push(pending);
    }
}

/// Rule 3: what a reservation says it has is what it owns, whole.
fn whole_carts(event: &EventEvidence, seats: &BTreeMap<ReservationId, BTreeSet<SeatRef>>, report: &mut Report) {
    let none = BTreeSet::new();
    let mut booked: BTreeMap<ReservationId, BTreeSet<SeatRef>> = BTreeMap::new();
    for live in &event.live_seats {
        booked.entry(live.reservation).or_default().insert(live.seat);
    }
    for (id, view) in &event.reservations {
        let owned = seats.get(id).unwrap_or(&none);
        let cart: BTreeSet<SeatRef> = view.seats.iter().map(|quoted| quoted.seat).collect();
        let fault = match view.status {
            Status::Held | Status::Offered if *owned != cart => {
                Some(format!("{id} is held with {} seats and owns {}", cart.len(), owned.len()))
            }
            Status::Paid if !owned.is_subset(&cart) => Some(format!("{id} is paid and owns seats that it never held")),
            Status::Paid if booked.get(id).is_some_and(|booked| booked != owned) => {
                Some(format!("{id} is paid: {} of its seats are booked, {} are its own", booked[id].len(), owned.len()))
            }
            Status::Expired | Status::Cancelled | Status::Aborted if !owned.is_empty() => {
                Some(format!("{id} is {:?} and still owns {} seats", view.status, owned.len()))
            }
            _ => None,
        };
        report.check(Rule::WholeCarts, fault);
    }
    for id in seats.keys().filter(|id| !event.reservations.contains_key(id)) {
        report.check(Rule::WholeCarts, Some(format!("seats are owned by {id}, which the store does not know")));
    }
    for (code, (_, uses)) in &event.promotions {
        let wanted: BTreeSet<ReservationId> = event
            .reservations
            .values()
            .filter(|view| view.promotion.as_ref() == Some(code))
            .filter(|view| matches!(view.status, Status::Held | Status::Offered | Status::Paid))
            .map(|view| view.id)
            .collect();
        let used: BTreeSet<ReservationId> = uses.iter().copied().collect();
        let fault = (wanted != used)
            .then(|| format!("{code} is used by {} reservations, and {} have it", used.len(), wanted.len()));
        report.check(Rule::WholeCarts, fault);
    }
}

/// Rule 5: the store's end and the ledger's outcome of each payment say the same.
fn one_end(event: &EventEvidence, report: &mut Report) {
    let mut buyers: BTreeMap<ReservationId, Vec<&Balance>> = BTreeMap::new();
    for balance in &event.balances {
        let view = event.reservations.get(&balance.reservation);
        let paid_by_this =
            view.is_some_and(|view| view.status == Status::Paid && view.payment == Some(balance.payment));
        let bought = balance.state == PaymentState::Succeeded || balance.booked > Minor(0);
        let fault = match view {
            None if bought => {
                Some(format!("{} bought {}, which the store does not know", balance.payment, balance.reservation))
            }
            Some(view) if bought && !paid_by_this => Some(format!(
                "{} bought {}, which the store says is {:?}",
                balance.payment, balance.reservation, view.status
            )),
            _ => None,
        };
        report.check(Rule::OneEnd, fault);
        if paid_by_this && balance.state == PaymentState::Failed {
            report.check(Rule::OneEnd, Some(format!("{} failed, and bought {}", balance.payment, balance.reservation)));
        }
        if bought {
            buyers.entry(balance.reservation).or_default().push(balance);
        }
    }
    for (reservation, payments) in buyers.iter().filter(|(_, payments)| payments.len() > 1) {
        report.check(Rule::OneEnd, Some(format!("{reservation} was bought by {} payments", payments.len())));
    }
    for view in event.reservations.values().filter(|view| view.status == Status::Paid) {
        let known = view.payment.is_some_and(|payment| event.balances.iter().any(|balance| balance.payment == payment));
        let fault = (!known).then(|| format!("{} is paid by a payment that the ledger does not know", view.id));
        report.check(Rule::OneEnd, fault);
    }
}

/// Rule 6.
fn quoted_price(event: &EventEvidence, report: &mut Report) {
    for view in event.reservations.values().filter(|view| view.status == Status::Paid) {
        let quoted = Minor::checked_sum(view.seats.iter().map(|seat| seat.net()));
        let charged = event.balances.iter().find(|balance| Some(balance.payment) == view.payment);
        let fault = match charged {
            Some(balance) if quoted == Some(balance.captured) && balance.currency == view.currency => None,
            Some(balance) => Some(format!(
                "{} was quoted {} and charged {}",
                view.id,
                view.total.display(view.currency),
                balance.captured.display(balance.currency)
            )),
            None => continue,
        };
        report.check(Rule::QuotedPrice, fault);
    }
}

/// Rule 10.
fn tickets_or_refund(event: &EventEvidence, report: &mut Report) {
    for balance in event.balances.iter().filter(|balance| balance.captured > Minor(0)) {
        report.check(Rule::TicketsOrRefund, None);
        if balance.is_conserved() && !balance.is_settling() {
            continue;
        }
        let money = |amount: Minor| amount.display(balance.currency);
        let text = format!(
            "{} ({:?}): {} captured, {} in tickets, {} refunded, {} on its way back",
            balance.payment,
            balance.state,
            money(balance.captured),
            money(balance.ticketed),
            money(balance.refunded),
            money(balance.refunding)
        );
        let verdict = report.of(Rule::TicketsOrRefund);
        if balance.is_settling() { verdict.pending.push(text) } else { verdict.broken.push(text) }
    }
}

/// Rule 7, tickets.
fn one_ticket_a_seat(event: &EventEvidence, report: &mut Report) {
    let mut seen = BTreeMap::new();
    for ticket in event.tickets.iter().filter(|ticket| ticket.state == TicketState::Valid) {
        let other = seen.insert(ticket.seat.seat, ticket.id);
        let fault = other.map(|other| {
            format!("{} has two valid tickets, {} and {other}", place(event, ticket.seat.seat), ticket.id)
        });
        report.check(Rule::OnceOnly, fault);
    }
}

/// Seats a user, uses of a promotion.
fn limits(event: &EventEvidence, report: &mut Report) {
    let mut seats: BTreeMap<&UserId, usize> = BTreeMap::new();
    let blocks = blocks(event);
    let owned = seats_by_owner(event);
    for view in event.reservations.values().filter(|view| !blocks.contains(&view.id)) {
        *seats.entry(&view.user).or_default() += owned.get(&view.id).map_or(0, BTreeSet::len);
    }
    for (user, count) in seats {
        let limit = usize::from(event.record.user_limit);
        let fault =
            (count > limit).then(|| format!("{user} has {count} seats of {}; {limit} are allowed", event.record.title));
        report.check(Rule::Limits, fault);
    }
    for (code, (cap, uses)) in &event.promotions {
        let fault = (uses.len() > *cap as usize).then(|| format!("{code} has {} uses; {cap} are allowed", uses.len()));
        report.check(Rule::Limits, fault);
    }
}

/// Reservations that are blocks of the box office, which has no limits.
fn blocks(event: &EventEvidence) -> BTreeSet<ReservationId> {
    let owners = event.owners.values().flatten();
    owners.filter(|owner| owner.state == SeatState::Blocked).map(|owner| owner.reservation).collect()
}

/// Rule 4: what the ledger says was captured and given back is what the provider's books say.
fn providers_word(evidence: &Evidence, report: &mut Report) {
    let Some(books) = &evidence.provider else {
        report.of(Rule::ProvidersWord).skipped = Some("the provider's books are not open to us".to_owned());
        return;
    };
    let books: BTreeMap<&str, &ProviderPayment> =
        books.iter().filter_map(|entry| Some((entry.payment.as_deref()?, entry))).collect();
    let nothing = ProviderPayment { id: String::new(), payment: None, captured: Minor(0), refunded: Minor(0) };
    for balance in evidence.events.iter().flat_map(|event| &event.balances) {
        let id = balance.payment.to_string();
        let theirs = books.get(id.as_str()).copied().unwrap_or(&nothing);
        report.check(Rule::ProvidersWord, None);
        if (theirs.captured, theirs.refunded) == (balance.captured, balance.refunded) {
            continue;
        }
        let money = |amount: Minor| amount.display(balance.currency);
        let text = format!(
            "{id}: the provider captured {} and refunded {}, the ledger says {} and {}",
            money(theirs.captured),
            money(theirs.refunded),
            money(balance.captured),
            money(balance.refunded)
        );
        let verdict = report.of(Rule::ProvidersWord);
        // The provider knows first; only the ledger knowing more than the provider is a fault at once.
        let ahead = balance.captured > theirs.captured || balance.refunded > theirs.refunded;
        if ahead { verdict.broken.push(text) } else { verdict.pending.push(text) }
    }
}

/// Rule 7, entries.
fn one_entry_a_ticket(evidence: &Evidence, report: &mut Report) {
    let Some(entries) = &evidence.entries else { return };
    let known: BTreeSet<_> = evidence.events.iter().flat_map(|event| &event.tickets).map(|ticket| ticket.id).collect();
    let mut seen = BTreeSet::new();
    for ticket in entries {
        let twice = !seen.insert(*ticket);
        report.check(Rule::OnceOnly, twice.then(|| format!("{ticket} was let in twice")));
        let unknown = !known.contains(ticket);
        report.check(Rule::OnceOnly, unknown.then(|| format!("{ticket} was let in and was never issued")));
    }
    report.numbers.entries = entries.len() as u64;
}

/// Rule 9.
fn acknowledged(evidence: &Evidence, report: &mut Report) {
    if evidence.acknowledged.is_empty() {
        return;
    }
    for id in &evidence.acknowledged {
        let known = evidence.events.iter().any(|event| {
            event.reservations.get(id).is_some_and(|view| !matches!(view.status, Status::Aborted | Status::Preparing))
        });
        report.check(Rule::Acknowledged, (!known).then(|| format!("{id} was acknowledged as held and is lost")));
    }
}

fn count(event: &EventEvidence, report: &mut Report) {
    let n = &mut report.numbers;
    n.capacity += event.record.sections.iter().map(|section| u64::from(section.capacity)).sum::<u64>();
    for owner in event.owners.values().flatten() {
        match owner.state {
            SeatState::Sold => n.sold += 1,
            SeatState::Held => n.held += 1,
            SeatState::Free | SeatState::Blocked => {}
        }
    }
    for view in event.reservations.values() {
        match view.status {
            Status::Paid => n.paid += 1,
            Status::Expired => n.expired += 1,
            Status::Cancelled => n.cancelled += 1,
            _ => {}
        }
    }
    n.refunded += event.balances.iter().filter(|balance| balance.refunded > Minor(0)).count() as u64;
    n.tickets += event.tickets.iter().filter(|ticket| ticket.state == TicketState::Valid).count() as u64;
}

#[cfg(test)]
mod tests;
