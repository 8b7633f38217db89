//! Until money is captured.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::payments::{AttachOutcome, BeginOutcome, BeginPayment};
use domain::ids::PaymentId;
use domain::order::payment::{PaymentState, PaymentStatus};
use domain::order::webhook::ProviderFact;

pub(super) async fn a_repeated_request_is_one_payment<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 101);
    let asked = async |fingerprint| {
        let BeginPayment { user, key, .. } = order.request();
        ledger.begun(&user, &key, fingerprint).await.expect("read")
    };
    assert_eq!(asked("content").await, None);
    order.begin().await;
    assert_eq!(asked("content").await, Some(BeginOutcome::Repeated(order.view().await)));
    assert_eq!(asked("other").await, Some(BeginOutcome::KeyReused));
    let again = BeginPayment { payment: PaymentId(1), ..order.request() };
    let repeated = ledger.begin_payment(&again).await.expect("begin");
    assert_eq!(repeated, BeginOutcome::Repeated(order.view().await));
    let other = BeginPayment { fingerprint: "other".into(), ..order.request() };
    assert_eq!(ledger.begin_payment(&other).await.expect("begin"), BeginOutcome::KeyReused);
    let waiting = ledger.to_initialize(NOW, 1_000).await.expect("read");
    assert_eq!(waiting.iter().filter(|task| task.reservation == order.reservation).count(), 1);
    ledger.delay_initialize(order.payment, later(500), false).await.expect("delay");
    let waiting = ledger.to_initialize(NOW, 1_000).await.expect("read");
    assert!(waiting.iter().all(|task| task.payment != order.payment), "it was asked to wait");
    let tries = async || {
        let due = ledger.to_initialize(later(500), 1_000).await.expect("read");
        due.iter().find(|task| task.payment == order.payment).map(|task| task.tries)
    };
    assert_eq!(tries().await, Some(0), "nothing was sent");
    ledger.delay_initialize(order.payment, later(500), true).await.expect("delay");
    assert_eq!(tries().await, Some(1));
}

pub(super) async fn a_reservation_has_one_open_payment<L: Ledger>(ledger: &L) {
    let order = Order { retry_declined: true, ..Order::new(ledger, 102) };
    order.open().await;
    let second = BeginPayment { payment: PaymentId(2), key: "second".parse().expect("a key"), ..order.request() };
    let refused = ledger.begin_payment(&second).await.expect("begin");
    assert_eq!(refused, BeginOutcome::AlreadyOpen(order.view().await));
    order.record("declined", order.declined("insufficient_funds")).await;
    let begun = ledger.begin_payment(&second).await.expect("begin");
    assert!(matches!(begun, BeginOutcome::Begun(_)), "after a decline another card may be tried: {begun:?}");
    let latest = ledger.payment_of(order.reservation).await.expect("read").expect("a payment");
    assert_eq!(latest.id, PaymentId(2));
}

pub(super) async fn nothing_begins_beside_a_release<L: Ledger>(ledger: &L) {
    for (number, retry_declined) in [(108, false), (109, true)] {
        let order = Order { retry_declined, ..Order::new(ledger, number) };
        order.open().await;
        if retry_declined {
            ledger.give_up(order.payment, "provider_unavailable", NOW).await.expect("fail");
        } else {
            order.record("declined", order.declined("insufficient_funds")).await;
        }
        let due = ledger.releases_due(1_000).await.expect("read");
        assert!(due.iter().any(|task| task.payment == order.payment), "its seats are to be freed");
        let id = PaymentId(u128::from(number));
        let second = BeginPayment { payment: id, key: "second".parse().expect("a key"), ..order.request() };
        let begun = ledger.begin_payment(&second).await.expect("begin");
        assert_eq!(begun, BeginOutcome::Released, "the release would cancel what is being paid");
        assert_eq!(ledger.payment(id).await.expect("read"), None);
        let first = ledger.begin_payment(&order.request()).await.expect("begin");
        assert_eq!(first, BeginOutcome::Repeated(order.view().await), "a repetition has its answer");
        ledger.mark_released(order.payment).await.expect("mark");
        let begun = ledger.begin_payment(&second).await.expect("begin");
        assert_eq!(begun, BeginOutcome::Released, "who read the hold before its release is too late");
    }
}

pub(super) async fn a_reference_is_saved_once<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 103);
    order.open().await;
    let view = order.view().await;
    assert_eq!((view.state, view.client_secret.as_deref()), (PaymentState::Pending, Some("secret")));
    let reference = order.reference();
    let again = ledger.attach_reference(order.payment, &reference, Some("secret"), NOW).await;
    assert_eq!(again.expect("attach"), AttachOutcome::Known);
    let other = ledger.attach_reference(order.payment, "pi_other", None, NOW).await;
    assert_eq!(other.expect("attach"), AttachOutcome::Conflict);
    let thief = Order::twin(ledger, 103, 2);
    thief.begin().await;
    let stolen = ledger.attach_reference(thief.payment, &reference, None, NOW).await;
    assert_eq!(stolen.expect("attach"), AttachOutcome::Conflict);
    assert_eq!(thief.view().await.reference, None);
    // A reference saved after the capture never takes the capture back.
    let late = Order::new(ledger, 104);
    late.capture().await;
    let again = ledger.attach_reference(late.payment, &late.reference(), None, NOW).await;
    assert_eq!(again.expect("attach"), AttachOutcome::Known);
    assert_eq!(late.view().await.state, PaymentState::Captured);
}

pub(super) async fn a_declined_payment_frees_the_seats_unless_another_card_may_be_tried<L: Ledger>(ledger: &L) {
    for (number, retry) in [(105, false), (106, true)] {
        let order = Order { retry_declined: retry, ..Order::new(ledger, number) };
        order.open().await;
        order.record("declined", order.declined("insufficient_funds")).await;
        let view = order.view().await;
        assert_eq!((view.status(), view.failure.as_deref()), (PaymentStatus::Failed, Some("insufficient_funds")));
        let due = ledger.releases_due(1_000).await.expect("read");
        assert_eq!(due.iter().any(|task| task.payment == order.payment), !retry);
        ledger.mark_released(order.payment).await.expect("mark");
        let due = ledger.releases_due(1_000).await.expect("read");
        assert!(due.iter().all(|task| task.payment != order.payment));
    }
}

pub(super) async fn processing_is_neither_outcome<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 107);
    order.open().await;
    order.record("processing", ProviderFact::Processing { reference: order.reference() }).await;
    assert_eq!(order.view().await.status(), PaymentStatus::Processing);
    let open = ledger.open_payments(1_000).await.expect("read");
    let open = open.into_iter().find(|open| open.payment == order.payment).expect("it is still open");
    assert!(open.ask_at > NOW);
    ledger.ask_again(order.payment, later(90_000)).await.expect("ask");
    order.record("captured", order.captured(order.amount(), order.currency).fact).await;
    assert_eq!(order.view().await.state, PaymentState::Captured);
}
