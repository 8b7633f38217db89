//! An event that is called off, and a provider that is away.

use crate::support::{Shop, now, store};
use domain::ids::{EventId, UserId};
use domain::inventory::Status;
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use domain::time::WallMs;
use fulfillment::cancellation;
use fulfillment::initialize::open;
use fulfillment::provider::stripe::{Stripe, StripeConfig};
use ledger::tickets::TicketState;
use ledger::{Cancellations, Payments, Refunds};
use serde_json::json;

const EVENT: EventId = EventId(1);

/// Each order is refunded once, holds end, and what is captured later goes back too, though workers die half-way, the
/// provider fails and the cancellation is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_event_gives_everything_back_once() {
    let shop = Shop::open(Currency::EUR).await;
    let mut orders = Vec::new();
    for number in 0..5 {
        let (_, payment) = shop.order(&format!("fan{number}"), 2, Some("tok_visa")).await;
        shop.until(payment, PaymentStatus::Succeeded).await;
        orders.push(payment);
    }
    let held = shop.store.hold(&"holder".parse().unwrap(), 1);
    let (paying, late) = shop.order("late", 1, Some("tok_processing")).await;
    shop.pass(now()).await;
    shop.delivered().await;

    let olga: UserId = "olga".parse().unwrap();
    shop.store.call_off(EVENT);
    shop.owner.cancel_event(EVENT, &olga, now()).await.unwrap();
    for _ in 0..3 {
        let (store, ledger) = (shop.store.clone(), shop.relay.clone());
        let worker = tokio::spawn(async move { cancellation::carry_out(&store, &ledger, now()).await });
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        worker.abort();
        let _died_or_done = worker.await;
        shop.owner.cancel_event(EVENT, &olga, now()).await.unwrap();
    }
    shop.post("/simulator/switches", json!({"down": true})).await;
    shop.pass(now()).await;
    shop.post("/simulator/switches", json!({})).await;
    for (number, payment) in orders.iter().enumerate() {
        shop.until_at(*payment, PaymentStatus::Refunded, 60_000).await;
        let owed = shop.relay.refunds_of(*payment).await.unwrap();
        assert_eq!(owed.iter().map(|refund| refund.reason.as_str()).collect::<Vec<_>>(), ["event_cancelled"]);
        let tickets = shop.tickets(&format!("fan{number}")).await;
        assert!(tickets.iter().all(|ticket| ticket.state == TicketState::Revoked), "{tickets:?}");
        let mail = shop.mail_to(&format!("fan{number}"));
        assert!(mail.iter().any(|subject| subject.contains("refund")), "{mail:?}");
    }
    for id in [held.id, paying.id] {
        assert_eq!(shop.store.reservation(id).status, Status::Cancelled);
    }
    assert_eq!(shop.store.owners(), [], "nobody has a seat");

    // The bank says yes after all: nothing is sold, and it goes back for the same reason.
    let reference = shop.intent(late).await["id"].as_str().unwrap().to_owned();
    shop.post(&format!("/simulator/payment_intents/{reference}/finish"), json!({"succeed": true})).await;
    shop.until(late, PaymentStatus::Refunded).await;
    let owed = shop.relay.refunds_of(late).await.unwrap();
    assert_eq!(owed.iter().map(|refund| refund.reason.as_str()).collect::<Vec<_>>(), ["event_cancelled"]);
    assert_eq!(shop.refund_count().await, orders.len() + 1);

    let progress = shop.owner.cancellation(EVENT).await.unwrap();
    assert!(progress.cancellation.is_some_and(|cancellation| cancellation.holds_ended));
    let tally = (progress.sold.orders, progress.refunding.orders, progress.refunded.orders, progress.failed.orders);
    assert_eq!(tally, (0, 0, orders.len() as u64 + 1, 0));
    shop.assert_money_is_conserved().await;
    assert_eq!(shop.incidents().await, Vec::<String>::new());
}

/// Whoever calls an event off tells the store first, and may die before the ledger hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_only_the_store_knows_as_cancelled_is_paid_back() {
    let shop = Shop::open(Currency::EUR).await;
    let (_, payment) = shop.order("ann", 2, Some("tok_visa")).await;
    shop.until(payment, PaymentStatus::Succeeded).await;
    shop.store.call_off(EVENT);
    shop.until(payment, PaymentStatus::Refunded).await;
    let progress = shop.owner.cancellation(EVENT).await.unwrap();
    assert_eq!(progress.cancellation.map(|told| told.by.to_string()), Some("encore-fulfillment".to_owned()));
    shop.assert_money_is_conserved().await;
}

/// While the provider is not reached nothing is lost: the payment waits as long as its hold lives, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_reached_costs_nobody_the_seats() {
    let shop = Shop::open(Currency::EUR).await;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let away = Stripe::new(StripeConfig { base_url, ..StripeConfig::default() }).unwrap();
    let (held, payment) = shop.order("ann", 2, Some("tok_visa")).await;
    let begun = now();
    let try_at = async |after_ms: u64| {
        let at = WallMs(begun.0 + after_ms);
        let due = shop.relay.to_initialize(at, 10).await.unwrap();
        let tried = due.len();
        for task in due {
            let _not_reached = open(&shop.store, &shop.relay, &away, task, at).await;
        }
        tried
    };
    let mut tries = 0;
    for second in 0..45 {
        tries += try_at(second * 1_000 + 500).await;
    }
    assert!((5..20).contains(&tries), "the pauses grow, and do not end: {tries} tries");
    assert_eq!(shop.status(payment).await, PaymentStatus::Processing);
    assert_eq!(shop.store.reservation(held.id).status, Status::Held);
    // It is back.
    shop.until_at(payment, PaymentStatus::Succeeded, 60_000).await;
    assert_eq!(shop.tickets("ann").await.len(), 2);

    // It never comes back: the hold ends, and the payment with it, at once. Whether an attempt had reached it before a worker
    // died nobody can know, so it is asked about later.
    let (held, payment) = shop.order("bob", 1, Some("tok_visa")).await;
    try_at(120_000).await;
    assert_eq!(shop.status(payment).await, PaymentStatus::Processing);
    shop.store.pass(store::HOLD_MS + 1_000);
    try_at(200_000).await;
    assert_eq!(shop.status(payment).await, PaymentStatus::Failed);
    assert_eq!(shop.owned_by(held.id), 0);
    let lost = shop.relay.lost_payments(WallMs(now().0 + 3_600_000), 10).await.unwrap();
    assert_eq!(lost.iter().map(|lost| lost.payment).collect::<Vec<_>>(), [payment]);
    shop.assert_money_is_conserved().await;
}

/// Fulfilment that was away for longer than the hold charges nobody for what has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_hold_has_ended_is_not_sent() {
    let shop = Shop::open(Currency::EUR).await;
    let (held, payment) = shop.order("ann", 2, Some("tok_visa")).await;
    shop.store.pass(store::HOLD_MS + 1_000);
    shop.until_at(payment, PaymentStatus::Failed, u64::from(store::HOLD_MS) + 2_000).await;
    assert_eq!(shop.owned_by(held.id), 0);
    assert_eq!(shop.refund_count().await, 0, "nothing was charged, so nothing goes back");
    shop.assert_money_is_conserved().await;
}

/// An answer of failure counts: after three of them, spread over ten seconds, the seats are free again.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_is_given_ten_seconds() {
    let shop = Shop::open(Currency::EUR).await;
    shop.post("/simulator/switches", json!({"down": true})).await;
    let (_, payment) = shop.order("ann", 1, Some("tok_visa")).await;
    let begun = now();
    for after_ms in (0..10_000).step_by(500) {
        shop.money(WallMs(begun.0 + after_ms)).await;
        assert_eq!(shop.status(payment).await, PaymentStatus::Processing, "after {after_ms} ms");
    }
    shop.money(WallMs(begun.0 + 11_500)).await;
    assert_eq!(shop.status(payment).await, PaymentStatus::Failed);
}
