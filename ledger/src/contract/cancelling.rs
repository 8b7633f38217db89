//! Events that are called off.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::cancellations::Tally;
use crate::refunds::{RefundOrder, RefundOutcome};
use domain::ids::{SeatIndex, SeatRef, SectionId, UserId};
use domain::money::Minor;
use domain::order::payment::PaymentStatus;
use domain::order::refund::{RefundReason, RefundReport};

fn tally(orders: u64, amount: i64) -> Tally {
    Tally { orders, amount: Minor(amount) }
}

/// The seats of the second and third order of an event, which nobody else has.
fn another<L: Ledger>(ledger: &L, sequence: u64) -> Order<'_, L> {
    let mut order = Order::twin(ledger, 341, sequence);
    for quoted in &mut order.seats {
        quoted.seat = SeatRef { section: SectionId(sequence as u16), ..quoted.seat };
    }
    order
}

pub(super) async fn a_cancelled_event_owes_each_order_one_refund<L: Ledger>(ledger: &L) {
    let (ann, bob, late) = (another(ledger, 1), another(ledger, 2), another(ledger, 3));
    let event = ann.reservation.event;
    ann.book().await;
    bob.book().await;
    late.capture().await;
    let seat = SeatRef { section: SectionId(1), seat: SeatIndex(0) };
    ann.refund("before", Some(&[seat]), NOW).await;
    let before = ledger.cancellation(event).await.expect("read");
    assert_eq!((before.cancellation, before.sold), (None, tally(2, 1_250 + 2_500)));
    let due = async || {
        let mut due = ledger.cancelled_orders(1_000).await.expect("read");
        due.retain(|order| order.reservation.event == event);
        due
    };
    assert_eq!(due().await, [], "nothing is cancelled yet");

    let (first, second): (UserId, UserId) = ("olga".parse().expect("a user"), "oleg".parse().expect("a user"));
    ledger.cancel_event(event, &first, NOW).await.expect("cancel");
    ledger.cancel_event(event, &second, later(1)).await.expect("cancel again");
    let recorded = ledger.cancellation(event).await.expect("read").cancellation.expect("it is recorded");
    assert_eq!((&recorded.by, recorded.at, recorded.holds_ended), (&first, NOW, false), "the first word stands");
    assert!(ledger.with_holds().await.expect("read").contains(&recorded));
    ledger.holds_ended(event).await.expect("mark");
    assert!(ledger.with_holds().await.expect("read").iter().all(|open| open.event != event));

    // Carried out one at a time, each twice, as by a worker that dies in between.
    let give_back = async |order: &Order<'_, L>| {
        let wish = RefundOrder {
            reason: RefundReason::EventCancelled,
            operator: first.clone(),
            ..order.refund_order("cancelled", None, NOW)
        };
        let wish = RefundOrder { key: format!("cancelled-{}", order.payment).parse().expect("a key"), ..wish };
        let outcome = ledger.request_refund(&wish).await.expect("request");
        assert!(matches!(outcome, RefundOutcome::Requested(_)), "{outcome:?}");
        assert_eq!(ledger.request_refund(&wish).await.expect("request"), outcome);
    };
    assert_eq!(due().await.iter().map(|order| order.reservation).collect::<Vec<_>>().len(), 2);
    give_back(&ann).await;
    assert_eq!(due().await.iter().map(|order| order.reservation).collect::<Vec<_>>(), [bob.reservation]);
    give_back(&bob).await;
    assert_eq!(due().await, []);
    // What was being settled meanwhile becomes an order, and is owed its refund like the others.
    ledger.settle_paid(late.payment, &late.seats, NOW).await.expect("settle");
    assert_eq!(due().await.iter().map(|order| &order.by).collect::<Vec<_>>(), [&first]);
    give_back(&late).await;

    let progress = ledger.cancellation(event).await.expect("read");
    assert_eq!((progress.sold, progress.refunding), (tally(0, 0), tally(3, 1_250 + 2_500 + 2_500)));
    for order in [&ann, &bob, &late] {
        for refund in ledger.refunds_of(order.payment).await.expect("read") {
            let reference = format!("re_{}", refund.id);
            ledger.refund_reported(refund.id, &reference, RefundReport::Succeeded, NOW).await.expect("report");
        }
        assert_eq!(order.view().await.status(), PaymentStatus::Refunded);
    }
    let progress = ledger.cancellation(event).await.expect("read");
    assert_eq!((progress.refunding, progress.refunded), (tally(0, 0), tally(3, 1_250 + 2_500 + 2_500)));

    // Money that comes after all of it goes back, and the fan is told why.
    let after = another(ledger, 4);
    after.capture().await;
    ledger.settle_refund(after.payment, RefundReason::TooLate, NOW).await.expect("settle");
    let owed = ledger.refunds_of(after.payment).await.expect("read");
    assert_eq!(owed.iter().map(|refund| refund.reason.as_str()).collect::<Vec<_>>(), ["event_cancelled"]);
}
