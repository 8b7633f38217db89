//! Evidence made up to break one rule each: an audit that would not see a fault is worse than none.

use super::*;
use domain::ids::{BookingId, Bucket, EventId, PaymentId, SeatIndex, SectionId, TicketId};
use domain::inventory::query::Owner;
use domain::inventory::record::{EventStatus, QueueMode, QuotedSeat, SectionKind, SectionSummary, Tier};
use domain::inventory::{EventRecord, ReservationView};
use domain::money::Currency;
use domain::time::{Ticks, WallMs};
use ledger::audit::LiveSeat;
use ledger::payments::SeatLine;
use ledger::tickets::Ticket;

const PAYMENT: PaymentId = PaymentId(9);
const SEAT: SeatRef = SeatRef { section: SectionId(0), seat: SeatIndex(3) };

fn id(sequence: u64) -> ReservationId {
    ReservationId { event: EventId(1), bucket: Bucket(0), incarnation: 0, sequence }
}

fn reservation(sequence: u64, status: Status) -> ReservationView {
    ReservationView {
        id: id(sequence),
        user: "alice".parse().expect("a user"),
        status,
        seats: vec![QuotedSeat { seat: SEAT, gross: Minor(2_000), discount: Minor(0) }],
        total: Minor(2_000),
        currency: Currency::EUR,
        promotion: None,
        deadline: Ticks(0),
        remaining_ms: 0,
        payment: (status == Status::Paid).then_some(PAYMENT),
        together: true,
        created_at: WallMs(0),
        ended_at: None,
        note: None,
    }
}

fn ticket(number: u128) -> Ticket {
    let seat = SeatLine { seat: SEAT, section: "A".into(), row: "1".into(), label: "4".into(), price: Minor(2_000) };
    Ticket {
        id: TicketId(number),
        booking: BookingId(1),
        reservation: id(1),
        event: EventId(1),
        user: "alice".parse().expect("a user"),
        seat,
        currency: Currency::EUR,
        sealed_secret: Vec::new(),
        secret_version: 1,
        state: TicketState::Valid,
        issued_at: WallMs(0),
        revoked_at: None,
    }
}

/// One seat, sold, paid and ticketed; nothing else.
fn sold() -> Evidence {
    let record = EventRecord {
        id: EventId(1),
        version: 1,
        title: "Rehearsal".into(),
        venue: "Mill".into(),
        starts_at: WallMs(0),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 60_000,
        user_limit: 1,
        buckets: 1,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 10,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "A".into(), base: Minor(2_000) }],
        sections: vec![SectionSummary {
            id: SectionId(0),
            name: "A".into(),
            kind: SectionKind::Seated,
            tier: 0,
            capacity: 10,
        }],
    };
    let owner = Owner { seat: SEAT.seat, reservation: id(1), state: SeatState::Sold };
    let event = EventEvidence {
        record,
        owners: BTreeMap::from([(SectionId(0), vec![owner])]),
        reservations: BTreeMap::from([(id(1), reservation(1, Status::Paid))]),
        promotions: BTreeMap::new(),
        live_seats: vec![LiveSeat { seat: SEAT, reservation: id(1), booking: BookingId(1) }],
        balances: vec![Balance {
            payment: PAYMENT,
            reservation: id(1),
            state: PaymentState::Succeeded,
            currency: Currency::EUR,
            captured: Minor(2_000),
            booked: Minor(2_000),
            ticketed: Minor(2_000),
            refunded: Minor(0),
            refunding: Minor(0),
            created_at: WallMs(0),
        }],
        tickets: vec![ticket(1)],
    };
    let books = ProviderPayment {
        id: "pi_1".into(),
        payment: Some(PAYMENT.to_string()),
        captured: Minor(2_000),
        refunded: Minor(0),
    };
    Evidence {
        events: vec![event],
        provider: Some(vec![books]),
        entries: Some(vec![TicketId(1)]),
        acknowledged: vec![id(1)],
    }
}

#[test]
fn a_sound_sale_passes_with_every_rule_checked() {
    let report = check(&sold());
    assert!(report.is_clean(), "{report}");
    for rule in Rule::ALL {
        assert!(report.verdicts[&rule].checked > 0, "{rule:?} was not checked");
    }
    assert_eq!((report.numbers.sold, report.numbers.paid, report.numbers.tickets), (1, 1, 1));
}

/// Change the sound sale and expect exactly this rule to be among those that are broken.
#[track_caller]
fn broken(rule: Rule, change: impl FnOnce(&mut Evidence)) {
    let mut evidence = sold();
    change(&mut evidence);
    let report = check(&evidence);
    assert!(
        report.verdicts.get(&rule).is_some_and(|verdict| !verdict.broken.is_empty()),
        "{rule:?} stands in\n{report}"
    );
    assert!(report.faults() > 0);
}

#[test]
fn a_seat_with_two_owners_is_seen() {
    broken(Rule::OneOwner, |e| {
        e.events[0].live_seats.push(LiveSeat { seat: SEAT, reservation: id(2), booking: BookingId(2) });
    });
    broken(Rule::OneOwner, |e| e.events[0].live_seats[0].reservation = id(2));
    broken(Rule::OneOwner, |e| e.events[0].owners.clear());
    broken(Rule::OneOwner, |e| {
        let again = e.events[0].owners[&SectionId(0)][0];
        e.events[0].owners.entry(SectionId(0)).or_default().push(again);
    });
}

#[test]
fn a_seat_sold_and_not_booked_is_pending_and_a_fault_if_it_stays() {
    let mut evidence = sold();
    evidence.events[0].live_seats.clear();
    let report = check(&evidence);
    assert_eq!(report.verdicts[&Rule::OneOwner].pending.len(), 1);
    assert!(!report.is_clean());
}

#[test]
fn half_a_cart_is_seen() {
    broken(Rule::WholeCarts, |e| {
        e.events[0].reservations.insert(id(1), reservation(1, Status::Held));
        e.events[0].owners.clear();
    });
    broken(Rule::WholeCarts, |e| drop(e.events[0].reservations.insert(id(1), reservation(1, Status::Expired))));
    broken(Rule::WholeCarts, |e| e.events[0].reservations.clear());
    broken(Rule::WholeCarts, |e| {
        e.events[0].promotions.insert("CODE".parse().expect("a code"), (5, vec![id(1)]));
    });
}

#[test]
fn money_that_the_provider_does_not_know_is_seen() {
    broken(Rule::ProvidersWord, |e| e.provider = Some(Vec::new()));
    broken(Rule::ProvidersWord, |e| {
        e.events[0].balances[0].refunded = Minor(500);
    });
}

#[test]
fn two_ends_are_seen() {
    broken(Rule::OneEnd, |e| drop(e.events[0].reservations.insert(id(1), reservation(1, Status::Cancelled))));
    broken(Rule::OneEnd, |e| {
        let mut second = e.events[0].balances[0].clone();
        second.payment = PaymentId(10);
        e.events[0].balances.push(second);
    });
    broken(Rule::OneEnd, |e| e.events[0].balances.clear());
}

#[test]
fn another_price_than_the_quote_is_seen() {
    broken(Rule::QuotedPrice, |e| e.events[0].balances[0].captured = Minor(2_001));
    broken(Rule::QuotedPrice, |e| e.events[0].balances[0].currency = Currency::JPY);
}

#[test]
fn what_was_done_twice_is_seen() {
    broken(Rule::OnceOnly, |e| e.events[0].tickets.push(ticket(2)));
    broken(Rule::OnceOnly, |e| e.entries = Some(vec![TicketId(1), TicketId(1)]));
    broken(Rule::OnceOnly, |e| e.entries = Some(vec![TicketId(7)]));
}

#[test]
fn a_lost_acknowledgement_is_seen() {
    broken(Rule::Acknowledged, |e| e.acknowledged.push(id(99)));
}

#[test]
fn money_without_tickets_or_refund_is_seen() {
    broken(Rule::TicketsOrRefund, |e| {
        let balance = &mut e.events[0].balances[0];
        (balance.booked, balance.ticketed) = (Minor(0), Minor(0));
    });
    let mut evidence = sold();
    evidence.events[0].balances[0].ticketed = Minor(0);
    assert_eq!(check(&evidence).verdicts[&Rule::TicketsOrRefund].pending.len(), 1, "tickets are still to be issued");
}

#[test]
fn more_than_the_limit_is_seen() {
    broken(Rule::Limits, |e| {
        let owner = Owner { seat: SeatIndex(4), reservation: id(1), state: SeatState::Sold };
        e.events[0].owners.entry(SectionId(0)).or_default().push(owner);
    });
    broken(Rule::Limits, |e| {
        e.events[0].promotions.insert("CODE".parse().expect("a code"), (0, vec![id(1)]));
    });
}
