//! Money on its way back.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::refunds::{RefundOrder, RefundOutcome};
use domain::ids::{RefundId, SeatIndex, SeatRef, SectionId};
use domain::money::Minor;
use domain::order::payment::{PaymentState, PaymentStatus};
use domain::order::refund::{RefundReason, RefundReport, RefundState};
use domain::order::webhook::ProviderFact;

fn report<L: Ledger>(order: &Order<'_, L>, refund: Option<RefundId>, report: RefundReport) -> ProviderFact {
    ProviderFact::Refund {
        reference: order.reference(),
        refund_reference: format!("re_{}", order.payment),
        refund,
        report,
        amount: order.amount(),
        currency: order.currency,
    }
}

fn in_all<L: Ledger>(order: &Order<'_, L>, total: i64) -> ProviderFact {
    ProviderFact::RefundedInAll { reference: order.reference(), total: Minor(total), currency: order.currency }
}

pub(super) async fn reports_in_any_order_converge<L: Ledger>(ledger: &L) {
    // The worker's own answer, refund.updated and charge.refunded, in every order.
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (number, steps) in (301..).zip(orders) {
        let order = Order::new(ledger, number);
        order.capture().await;
        ledger.settle_refund(order.payment, RefundReason::TooLate, NOW).await.expect("settle");
        assert_eq!(order.view().await.status(), PaymentStatus::RefundPending);
        let due = ledger.refunds_due(NOW, 1_000).await.expect("read");
        let task = due.into_iter().find(|task| task.payment == order.payment).expect("a refund is owed");
        assert_eq!((task.amount, task.state, task.sequence), (order.amount(), RefundState::Required, 1));
        for step in steps {
            match step {
                0 => {
                    let reference = format!("re_{}", order.payment);
                    ledger.refund_reported(task.refund, &reference, RefundReport::Pending, NOW).await.expect("report");
                }
                1 => order.record("refund.updated", report(&order, Some(task.refund), RefundReport::Succeeded)).await,
                _ => order.record("charge.refunded", in_all(&order, order.amount().0)).await,
            }
        }
        assert_eq!(order.view().await.status(), PaymentStatus::Refunded, "after {steps:?}");
        let due = ledger.refunds_due(later(3_600_000), 1_000).await.expect("read");
        assert!(due.iter().all(|due| due.payment != order.payment), "nothing is left to send after {steps:?}");
        let balance = ledger.balances(Some(order.reservation.event)).await.expect("read").remove(0);
        assert!(balance.is_conserved(), "{balance:?}");
        assert_eq!(order.incident_kinds(&order.payment.to_string()).await, Vec::<String>::new());
    }
}

pub(super) async fn a_part_given_back_elsewhere_is_a_task_for_an_operator<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 311);
    order.book().await;
    order.record("charge.refunded", in_all(&order, 625)).await;
    assert_eq!(ledger.live_seats(order.reservation.event).await.expect("read").len(), 2, "nothing is cancelled");
    assert_eq!(order.view().await.state, PaymentState::Succeeded);
    assert_eq!(order.incident_kinds(&order.payment.to_string()).await, ["refunded_at_provider"]);
    // The same refund, reported by itself.
    order.record("refund.updated", report(&order, None, RefundReport::Succeeded)).await;
    assert_eq!(order.incident_kinds(&format!("re_{}", order.payment)).await, ["foreign_refund"]);
}

pub(super) async fn everything_given_back_elsewhere_frees_the_seats<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 312);
    order.book().await;
    order.record("charge.refunded", in_all(&order, order.amount().0)).await;
    assert_eq!(order.view().await.status(), PaymentStatus::Refunded);
    assert_eq!(ledger.live_seats(order.reservation.event).await.expect("read"), []);
    let due = ledger.returns_due(1_000).await.expect("read");
    let task = due.into_iter().find(|task| task.reservation == order.reservation).expect("seats go back on sale");
    assert_eq!(task.seats.len(), 2);
}

pub(super) async fn seats_are_refunded_once<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 313);
    assert_eq!(order.refund("r", None, NOW).await, RefundOutcome::NotBooked);
    order.book().await;
    let first = [SeatRef { section: SectionId(0), seat: SeatIndex(0) }];
    let foreign = SeatRef { section: SectionId(9), seat: SeatIndex(9) };
    assert_eq!(order.refund("n", Some(&[]), NOW).await, RefundOutcome::NothingLeft, "no refund of nothing");
    let refused = order.refund("r", Some(&[first[0], foreign]), NOW).await;
    assert_eq!(refused, RefundOutcome::NotAllLive(vec![foreign]), "all of them or none");
    let requested = order.refund("r", Some(&first), NOW).await;
    let RefundOutcome::Requested(id) = requested else { panic!("{requested:?}") };
    for _ in 0..2 {
        assert_eq!(order.refund("r", Some(&first), later(1)).await, requested, "a repetition has its answer");
        assert_eq!(order.refund("r", None, NOW).await, RefundOutcome::KeyReused);
        assert_eq!(order.refund("other", Some(&first), NOW).await, RefundOutcome::NothingLeft, "one seat, one refund");
    }
    let other = RefundOrder { operator: "other".parse().expect("a user"), ..order.refund_order("r", None, NOW) };
    let other = RefundOrder { seats: Some(first.to_vec()), ..other };
    let nothing = ledger.request_refund(&other).await.expect("request");
    assert_eq!(nothing, RefundOutcome::NothingLeft, "a key is its operator's");
    assert_eq!(order.view().await.state, PaymentState::Succeeded, "one of two seats is still sold");
    let owed = ledger.refunds_of(order.payment).await.expect("read");
    assert_eq!(owed.iter().map(|refund| refund.amount).collect::<Vec<_>>(), [Minor(1_250)]);
    let due = ledger.returns_due(1_000).await.expect("read");
    let task = due.into_iter().find(|task| task.refund == id).expect("the seat goes back on sale");
    assert_eq!(task.seats, first);
    ledger.mark_returned(task.refund).await.expect("mark");
    order.refund("rest", None, NOW).await;
    assert_eq!(order.view().await.status(), PaymentStatus::RefundPending);
    for refund in ledger.refunds_of(order.payment).await.expect("read") {
        let reference = format!("re_{}", refund.id);
        ledger.refund_reported(refund.id, &reference, RefundReport::Succeeded, NOW).await.expect("report");
    }
    assert_eq!(order.view().await.status(), PaymentStatus::Refunded);
}
