//! Captured money: recorded once, settled once.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::payments::{FIRST_ASK_MS, LOST_FOR_MS, WebhookOutcome};
use crate::settlement::SettleOutcome;
use domain::money::{Currency, Minor};
use domain::order::booking_id;
use domain::order::payment::PaymentState;
use domain::order::refund::RefundReason;
use domain::order::webhook::{ProviderEvent, ProviderFact};

pub(super) async fn an_event_is_recorded_once<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 201);
    order.open().await;
    let event = order.captured(order.amount(), order.currency);
    assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::Recorded);
    // At once, after an hour, after three days.
    for wait in [0, 3_600_000, 3 * 86_400_000] {
        assert_eq!(ledger.record_event(&event, later(wait)).await.expect("record"), WebhookOutcome::Duplicate);
    }
    let other = ProviderEvent { fingerprint: "other".into(), ..event.clone() };
    assert_eq!(ledger.record_event(&other, NOW).await.expect("record"), WebhookOutcome::ConflictingDuplicate);
    assert_eq!(order.incident_kinds(&event.id).await, ["conflicting_webhook"]);
    let captured = ledger.captured(1_000).await.expect("read");
    assert_eq!(captured.iter().filter(|captured| captured.payment == order.payment).count(), 1);
    let other = order.event("customer.created", ProviderFact::Other);
    assert_eq!(ledger.record_event(&other, NOW).await.expect("record"), WebhookOutcome::Recorded);
    assert_eq!(ledger.record_event(&other, NOW).await.expect("record"), WebhookOutcome::Duplicate);
}

pub(super) async fn an_unknown_reference_is_told_to_come_again<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 202);
    order.begin().await;
    let event = order.captured(order.amount(), order.currency);
    for _ in 0..2 {
        assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::UnknownReference);
    }
    let open = |at| async move { ledger.incidents(at).await.expect("read") };
    let about = |incidents: Vec<crate::notices::Incident>| {
        incidents.iter().filter(|incident| incident.subject == order.reference()).count()
    };
    assert_eq!(about(open(later(14 * 60_000)).await), 0, "nobody need look yet");
    assert_eq!(about(open(later(15 * 60_000)).await), 1, "somebody must look");
    ledger.attach_reference(order.payment, &order.reference(), None, NOW).await.expect("attach");
    assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::Recorded);
    assert_eq!(order.view().await.state, PaymentState::Captured);
    assert_eq!(about(open(later(15 * 60_000)).await), 0, "it has explained itself");
}

pub(super) async fn a_payment_given_up_and_charged_is_refunded<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 209);
    order.begin().await;
    ledger.give_up(order.payment, "provider_unavailable", NOW).await.expect("fail");
    let event = order.captured(order.amount(), order.currency);
    assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::Recorded);
    assert_eq!(order.view().await.state, PaymentState::Captured);
    ledger.settle_refund(order.payment, RefundReason::TooLate, NOW).await.expect("settle");
    let due = ledger.refunds_due(NOW, 1_000).await.expect("read");
    assert!(due.iter().any(|task| task.payment == order.payment && task.reference == order.reference()));
}

pub(super) async fn a_lost_payment_is_asked_about_for_a_day<L: Ledger>(ledger: &L) {
    for (number, charged) in [(210, true), (211, false)] {
        let order = Order::new(ledger, number);
        order.begin().await;
        let event = if charged {
            order.captured(order.amount(), order.currency)
        } else {
            let (reference, payment) = (order.reference(), Some(order.payment));
            order.event("declined", ProviderFact::Declined { reference, reason: "canceled".into(), payment })
        };
        // Its webhook overtakes everything else, and is told to come again.
        let early = ledger.record_event(&event, NOW).await.expect("record");
        assert_eq!(early, WebhookOutcome::UnknownReference);
        ledger.give_up(order.payment, "provider_unavailable", NOW).await.expect("give up");
        assert_eq!(order.view().await.state, PaymentState::Failed);
        let lost = |at| async move {
            let found = ledger.lost_payments(at, 1_000).await.expect("read");
            found.iter().any(|lost| lost.payment == order.payment && lost.since == NOW)
        };
        let asked = [lost(NOW).await, lost(later(FIRST_ASK_MS)).await, lost(later(LOST_FOR_MS)).await];
        assert_eq!(asked, [false, true, false], "asked after a while, and not for ever");
        ledger.ask_again(order.payment, later(90_000)).await.expect("ask");
        assert_eq!([lost(later(89_999)).await, lost(later(90_000)).await], [false, true]);
        let about = async || order.incident_kinds(&order.payment.to_string()).await;
        assert_eq!((ledger.end_lost(later(LOST_FOR_MS - 1), 1_000).await.expect("end"), about().await), (0, vec![]));
        assert_eq!(ledger.end_lost(later(LOST_FOR_MS), 1_000).await.expect("end"), 1);
        assert_eq!(about().await, ["payment_lost"], "nobody asks any more, and somebody is told");
        assert_eq!(order.view().await.state, PaymentState::Failed);
        assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::Recorded);
        assert!(!lost(later(90_000)).await, "its fate is known");
        let state = if charged { PaymentState::Captured } else { PaymentState::Failed };
        assert_eq!(order.view().await.state, state);
        assert_eq!(order.incident_kinds(&order.reference()).await, Vec::<String>::new(), "it has explained itself");
        assert_eq!(about().await, Vec::<String>::new(), "a late word counts nevertheless");
    }
    let refused = Order::new(ledger, 212);
    refused.begin().await;
    ledger.fail_payment(refused.payment, "invalid_card", NOW).await.expect("fail");
    let lost = ledger.lost_payments(later(FIRST_ASK_MS), 1_000).await.expect("read");
    assert!(lost.iter().all(|lost| lost.payment != refused.payment), "a refusal is proof that nothing was charged");
}

pub(super) async fn another_amount_never_sells<L: Ledger>(ledger: &L) {
    let wrong = [(Minor(2_400), Currency::EUR), (Minor(2_500), Currency::JPY)];
    for (number, (amount, currency)) in (203..).zip(wrong) {
        let order = Order::new(ledger, number);
        order.open().await;
        let event = order.captured(amount, currency);
        assert_eq!(ledger.record_event(&event, NOW).await.expect("record"), WebhookOutcome::Mismatch);
        assert_eq!(order.view().await.state, PaymentState::RefundRequired);
        let settled = ledger.settle_paid(order.payment, &order.seats, NOW).await.expect("settle");
        assert_eq!(settled, SettleOutcome::Refunding, "it must never sell");
        assert_eq!(order.incident_kinds(&order.payment.to_string()).await, ["capture_mismatch"]);
        let owed = ledger.refunds_of(order.payment).await.expect("read");
        let owed: Vec<_> = owed.iter().map(|refund| (refund.amount, refund.currency)).collect();
        assert_eq!(owed, [(amount, currency)], "what was captured goes back");
        let due = ledger.releases_due(1_000).await.expect("read");
        assert!(due.iter().any(|task| task.payment == order.payment), "the seats are freed");
    }
    // The same, when the intent says that it is for another payment.
    let order = Order::new(ledger, 205);
    order.open().await;
    let fact = ProviderFact::Captured {
        reference: order.reference(),
        amount: order.amount(),
        currency: order.currency,
        payment: Some(domain::ids::PaymentId(1)),
    };
    let outcome = ledger.record_event(&order.event("captured", fact), NOW).await.expect("record");
    assert_eq!(outcome, WebhookOutcome::Mismatch);
}

pub(super) async fn the_first_outcome_wins<L: Ledger>(ledger: &L) {
    let paid = Order::new(ledger, 206);
    assert_eq!(ledger.settle_paid(paid.payment, &paid.seats, NOW).await.expect("settle"), SettleOutcome::NotCaptured);
    paid.capture().await;
    assert!(!ledger.is_settled(paid.payment).await.expect("read"));
    let booked = SettleOutcome::Booked(booking_id(paid.payment));
    for _ in 0..2 {
        assert_eq!(ledger.settle_paid(paid.payment, &paid.seats, NOW).await.expect("settle"), booked);
        let late = ledger.settle_refund(paid.payment, RefundReason::TooLate, NOW).await.expect("settle");
        assert_eq!(late, booked);
    }
    assert!(ledger.is_settled(paid.payment).await.expect("read"));
    let live = ledger.live_seats(paid.reservation.event).await.expect("read");
    assert_eq!(live.iter().map(|live| live.seat.seat.0).collect::<Vec<_>>(), [0, 1]);
    let sales = ledger.sales(paid.reservation.event).await.expect("read");
    let sale = sales.iter().find(|sale| sale.reservation == paid.reservation).expect("it was sold");
    assert_eq!((sale.payment, sale.seats.len(), sale.returned.len()), (paid.payment, 2, 0));

    let late = Order::new(ledger, 207);
    late.capture().await;
    for _ in 0..2 {
        let refunding = ledger.settle_refund(late.payment, RefundReason::TooLate, NOW).await.expect("settle");
        assert_eq!(refunding, SettleOutcome::Refunding);
        let paid = ledger.settle_paid(late.payment, &late.seats, NOW).await.expect("settle");
        assert_eq!(paid, SettleOutcome::Refunding);
    }
    assert_eq!(ledger.refunds_of(late.payment).await.expect("read").len(), 1);
    assert_eq!(ledger.live_seats(late.reservation.event).await.expect("read"), []);
}

pub(super) async fn the_second_guard_refuses_a_seat_sold_twice<L: Ledger>(ledger: &L) {
    let first = Order::new(ledger, 208);
    first.book().await;
    let second = Order::twin(ledger, 208, 2);
    second.capture().await;
    for _ in 0..2 {
        let settled = ledger.settle_paid(second.payment, &second.seats, NOW).await.expect("settle");
        assert_eq!(settled, SettleOutcome::Refunding);
    }
    assert_eq!(second.incident_kinds(&second.payment.to_string()).await, ["seat_sold_twice"]);
    let live = ledger.live_seats(first.reservation.event).await.expect("read");
    assert!(live.iter().all(|live| live.reservation == first.reservation));
    assert_eq!(ledger.booking(booking_id(second.payment)).await.expect("read"), None, "no half booking stays");
}
