//! Every captured payment ends in tickets or in a full refund, whatever provider, fans and crashes do.

use crate::support::provider::LosesRefundAnswers;
use crate::support::{self, DEADLINE, Shop, now};
use domain::inventory::Status;
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use domain::order::refund::{RefundReport, RefundState};
use domain::order::webhook::sign;
use domain::time::WallMs;
use fulfillment::refunds;
use ledger::refunds::RefundOutcome;
use ledger::{Notices, Payments, Refunds, Settlement};
use serde_json::json;

/// The webhook alone makes the ticket, whether it comes once, eight times at once, or out of order.
#[tokio::test(flavor = "multi_thread")]
async fn a_paid_order_has_one_set_of_tickets_and_one_mail() {
    let shop = Shop::open(Currency::EUR).await;
    for (user, token) in [("ann", "tok_visa"), ("bob", "tok_duplicate"), ("cid", "tok_out_of_order")] {
        let (held, payment) = shop.order(user, 2, Some(token)).await;
        shop.until(payment, PaymentStatus::Succeeded).await;
        shop.delivered().await;
        shop.pass(now()).await;
        assert_eq!(shop.tickets(user).await.len(), 2, "{token}");
        assert_eq!(shop.mail_to(user), ["Your tickets for Night of the Tests"], "{token}");
        assert_eq!(shop.store.reservation(held.id).status, Status::Paid);
        assert_eq!(shop.status(payment).await, PaymentStatus::Succeeded);
    }
    // A browser that confirms by itself, and then never comes back.
    let (_, payment) = shop.order("dan", 1, None).await;
    shop.pass(now()).await;
    let view = shop.buy.payment(payment).await.unwrap().unwrap();
    let (reference, secret) = (view.reference.unwrap(), view.client_secret.unwrap());
    let confirm = format!("{}/v1/payment_intents/{reference}/confirm", shop.provider_url);
    let forged = [("client_secret", "pi_x_secret_y"), ("payment_method", "tok_visa")];
    assert_eq!(shop.http.post(&confirm).form(&forged).send().await.unwrap().status(), 401);
    let form = [("client_secret", secret.as_str()), ("payment_method", "tok_visa")];
    assert!(shop.http.post(&confirm).form(&form).send().await.unwrap().status().is_success());
    shop.until(payment, PaymentStatus::Succeeded).await;
    assert_eq!(shop.tickets("dan").await.len(), 1);
    shop.assert_money_is_conserved().await;
    assert_eq!(shop.incidents().await, Vec::<String>::new());
}

/// Paid a second too late, delivered eight times, and the first handling dies after the refund call.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_after_the_deadline_is_refunded_once() {
    let shop = Shop::open(Currency::EUR).await;
    shop.post("/simulator/switches", json!({"trouble": "processing"})).await;
    let (held, payment) = shop.order("ann", 2, Some("tok_visa")).await;
    shop.pass(now()).await;
    shop.store.pass(support::store::HOLD_MS + 1_000);
    assert_eq!(shop.store.reservation(held.id).status, Status::Expired);
    shop.post("/simulator/switches", json!({"trouble": "duplicate"})).await;
    let reference = shop.intent(payment).await["id"].as_str().unwrap().to_owned();
    shop.post(&format!("/simulator/payment_intents/{reference}/finish"), json!({"succeed": true})).await;
    shop.delivered().await;
    fulfillment::settlement::settle(&shop.store, &shop.relay, now()).await.unwrap();
    // The provider has given the money back and said so; the worker dies before it writes that down. Twice.
    shop.post("/simulator/switches", json!({"hold_events": true, "trouble": "duplicate"})).await;
    for _ in 0..2 {
        let (ledger, provider) = (shop.relay.clone(), LosesRefundAnswers::new(shop.provider.clone()));
        let dying = provider.clone();
        let worker = tokio::spawn(async move { refunds::send(&ledger, &dying, now()).await });
        tokio::time::timeout(DEADLINE, provider.answered()).await.expect("the refund reaches the provider");
        worker.abort();
        assert!(worker.await.is_err_and(|end| end.is_cancelled()), "it died in the middle");
        assert_eq!(shop.refund_count().await, 1, "at the provider");
        let owed = shop.relay.refunds_of(payment).await.unwrap();
        assert_eq!(
            owed.iter().map(|refund| refund.state).collect::<Vec<_>>(),
            [RefundState::Required],
            "in the ledger"
        );
    }
    shop.post("/simulator/switches", json!({"trouble": "duplicate"})).await;
    shop.until(payment, PaymentStatus::Refunded).await;
    shop.delivered().await;
    shop.pass(WallMs(now().0 + 3_600_000)).await;
    assert_eq!(shop.refund_count().await, 1);
    let owed = shop.relay.refunds_of(payment).await.unwrap();
    assert_eq!(owed.iter().map(|refund| refund.state).collect::<Vec<_>>(), [RefundState::Succeeded]);
    assert_eq!(shop.tickets("ann").await, []);
    assert_eq!(shop.owned_by(held.id), 0, "the seat is not revived");
    let subjects =
        ["Your refund for Night of the Tests is on its way", "Your seats for Night of the Tests are no longer held"];
    assert_eq!(shop.mail_to("ann"), subjects[..1], "told by mail where an address is known");
    let told = shop.owner.notices_of(&"ann".parse().unwrap()).await.unwrap();
    assert_eq!(told.len(), subjects.len(), "{told:?}");
    shop.assert_money_is_conserved().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processing_is_neither_outcome_before_its_time() {
    let shop = Shop::open(Currency::EUR).await;
    for (user, succeed) in [("ann", true), ("bob", false)] {
        let (held, payment) = shop.order(user, 1, Some("tok_processing")).await;
        shop.pass(now()).await;
        shop.delivered().await;
        // Asked again and again, also by our own query.
        for hours in 0..3 {
            shop.pass(WallMs(now().0 + hours * 3_600_000)).await;
        }
        assert_eq!(shop.status(payment).await, PaymentStatus::Processing);
        assert_eq!(shop.store.reservation(held.id).status, Status::Held);
        let reference = shop.intent(payment).await["id"].as_str().unwrap().to_owned();
        shop.post(&format!("/simulator/payment_intents/{reference}/finish"), json!({"succeed": succeed})).await;
        let ends = if succeed { PaymentStatus::Succeeded } else { PaymentStatus::Failed };
        shop.until(payment, ends).await;
        assert_eq!(shop.tickets(user).await.len(), usize::from(succeed));
    }
    shop.assert_money_is_conserved().await;
}

/// Charged, but the answer is lost; charged, but the webhook is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_on_the_way_is_asked_for() {
    let shop = Shop::open(Currency::EUR).await;
    let (_, lost_answer) = shop.order("ann", 1, Some("tok_timeout_after_charge")).await;
    shop.until(lost_answer, PaymentStatus::Succeeded).await;
    assert_eq!(shop.intent(lost_answer).await["received"], 1_250, "charged once");
    let (_, lost_webhook) = shop.order("bob", 1, Some("tok_never")).await;
    shop.pass(now()).await;
    assert_eq!(shop.status(lost_webhook).await, PaymentStatus::Processing);
    shop.until_at(lost_webhook, PaymentStatus::Succeeded, 31_000).await;
    // What the first two still had to hear is not counted below.
    shop.delivered().await;
    // Delivered, but before the reference was saved: told to come again, and it does.
    let (_, overtaken) = shop.order("cid", 1, Some("tok_visa")).await;
    let task = shop.relay.to_initialize(now(), 10).await.unwrap().remove(0);
    let request = fulfillment::provider::IntentRequest {
        payment: task.payment,
        amount: task.amount,
        currency: task.currency,
        method: task.method,
        token: task.token,
    };
    use fulfillment::provider::Provider;
    shop.provider.create_intent(&request).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(shop.books().await["undelivered_events"], 1, "it was refused and is kept");
    shop.until(overtaken, PaymentStatus::Succeeded).await;
    shop.assert_money_is_conserved().await;
    assert_eq!(shop.incidents().await, Vec::<String>::new());
}

/// A key at work and a key that is not accepted are troubles of ours: the payment waits for the provider's own word.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_refusal_of_the_payment_is_a_refusal() {
    use axum::http::StatusCode;
    use fulfillment::provider::stripe::{Stripe, StripeConfig};
    use fulfillment::provider::{Provider, ProviderError};
    let answers = [
        (StatusCode::CONFLICT, ProviderError::TimedOut),
        (StatusCode::UNAUTHORIZED, ProviderError::Failed(401)),
        (StatusCode::FORBIDDEN, ProviderError::Failed(403)),
    ];
    for (status, expected) in answers {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let body = json!({"error": {"type": "invalid_request_error"}}).to_string();
        let router = axum::Router::new().fallback(move || async move { (status, body) });
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let provider = Stripe::new(StripeConfig { base_url, ..StripeConfig::default() }).unwrap();
        assert_eq!(provider.intent("pi_1").await, Err(expected));
        server.abort();
    }
}

/// Charged, but the answer is lost, the next attempts fail, no webhook comes, and nobody can be asked before it is given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_given_up_in_the_dark_is_found_and_refunded() {
    let shop = Shop::open(Currency::EUR).await;
    let (held, payment) = shop.order("ann", 2, Some("tok_never")).await;
    let task = shop.relay.to_initialize(now(), 10).await.unwrap().remove(0);
    let request = fulfillment::provider::IntentRequest {
        payment: task.payment,
        amount: task.amount,
        currency: task.currency,
        method: task.method,
        token: task.token,
    };
    use fulfillment::provider::Provider;
    let _lost = shop.provider.create_intent(&request).await.unwrap();
    shop.post("/simulator/switches", json!({"down": true})).await;
    shop.until_at(payment, PaymentStatus::Failed, 10_000).await;
    assert_eq!(shop.owned_by(held.id), 0, "the seats are not kept waiting");
    // Asked while it is still down, too.
    shop.pass(WallMs(now().0 + 60_000)).await;
    shop.post("/simulator/switches", json!({})).await;
    shop.until_at(payment, PaymentStatus::Refunded, 3_600_000).await;
    assert_eq!((shop.refund_count().await, shop.tickets("ann").await.len()), (1, 0));
    shop.assert_money_is_conserved().await;
    assert_eq!(shop.incidents().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn declined_and_unavailable_cards_free_the_seats() {
    let shop = Shop::open(Currency::EUR).await;
    for (user, token) in [("ann", "tok_declined"), ("bob", "tok_unavailable")] {
        let (held, payment) = shop.order(user, 2, Some(token)).await;
        // Far enough ahead for each of the three tries.
        shop.until_at(payment, PaymentStatus::Failed, 60_000).await;
        shop.pass(now()).await;
        assert_eq!(shop.owned_by(held.id), 0, "{token}");
        assert_eq!(shop.store.reservation(held.id).status, Status::Cancelled, "{token}");
        assert_eq!(shop.mail_to(user), ["Your payment for Night of the Tests did not go through"], "{token}");
    }
    shop.assert_money_is_conserved().await;
}

/// A forged success moves nothing; a capture of another amount is refunded and never sells.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_providers_true_word_counts() {
    let shop = Shop::open(Currency::EUR).await;
    let (held, forged) = shop.order("ann", 1, Some("tok_forged")).await;
    shop.pass(now()).await;
    shop.delivered().await;
    shop.pass(now()).await;
    assert_eq!(shop.status(forged).await, PaymentStatus::Processing);
    assert_eq!(shop.tickets("ann").await, []);
    assert_eq!(shop.relay.captured(10).await.unwrap(), []);
    // Old, unsigned and signed by nobody: refused, and nothing is stored.
    let body = json!({"id": "evt_x", "type": "t", "created": 1, "data": {"object": {}}}).to_string();
    let old = sign(b"whsec_test", now().0 / 1000 - 301, body.as_bytes());
    for signature in [old.as_str(), "", "t=1,v1=00"] {
        let request = shop.http.post(&shop.webhook_url).header("Stripe-Signature", signature).body(body.clone());
        assert_eq!(request.send().await.unwrap().status(), 400, "{signature:?}");
    }
    // Nobody confirms it; once the hold has ended, nobody can any more.
    shop.store.pass(support::store::HOLD_MS + 1_000);
    assert_eq!(shop.owned_by(held.id), 0);
    shop.until_at(forged, PaymentStatus::Failed, 31_000).await;
    assert_eq!(shop.intent(forged).await["status"], "canceled");

    let (held, wrong) = shop.order("bob", 2, Some("tok_wrong_amount")).await;
    shop.until(wrong, PaymentStatus::Refunded).await;
    shop.pass(now()).await;
    assert_eq!(shop.owned_by(held.id), 0);
    assert_eq!(shop.tickets("bob").await, []);
    assert_eq!(shop.intent(wrong).await["refunded"], 2_400, "what was captured, not what was asked for");
    assert_eq!(shop.incidents().await, ["capture_mismatch"]);
    shop.assert_money_is_conserved().await;
}

/// Four tickets on one payment, one seat's worth given back in the provider's own console.
#[tokio::test(flavor = "multi_thread")]
async fn a_partial_refund_at_the_provider_never_cancels_the_rest() {
    let shop = Shop::open(Currency::EUR).await;
    let (held, payment) = shop.order("ann", 4, Some("tok_visa")).await;
    shop.until(payment, PaymentStatus::Succeeded).await;
    let reference = shop.intent(payment).await["id"].as_str().unwrap().to_owned();
    let form = [("payment_intent", reference.as_str()), ("amount", "1250")];
    let url = format!("{}/v1/refunds", shop.provider_url);
    shop.http.post(url).bearer_auth("sk_test_encore").form(&form).send().await.unwrap();
    shop.delivered().await;
    shop.pass(now()).await;
    assert_eq!(shop.owned_by(held.id), 4);
    assert_eq!(shop.status(payment).await, PaymentStatus::Succeeded);
    let mut incidents = shop.incidents().await;
    incidents.sort();
    assert_eq!(incidents, ["foreign_refund", "refunded_at_provider"], "a task for an operator");
}

/// Yen have no minor unit: 80 is 80, and the webhook's amount is compared in the same unit.
#[tokio::test(flavor = "multi_thread")]
async fn yen_are_charged_and_given_back_as_yen() {
    let shop = Shop::open(Currency::JPY).await;
    let (held, payment) = shop.order("ann", 1, Some("tok_visa")).await;
    assert_eq!(held.total.0, 1_250);
    shop.until(payment, PaymentStatus::Succeeded).await;
    let intent = shop.intent(payment).await;
    assert_eq!((&intent["amount"], &intent["currency"]), (&json!(1_250), &json!("jpy")));
    shop.refund(held.id, "r").await;
    shop.until(payment, PaymentStatus::Refunded).await;
    shop.pass(now()).await;
    assert_eq!(shop.owned_by(held.id), 0);
    shop.assert_money_is_conserved().await;
}

/// A cancelled event: each order refunded once, though every request is made twice and the provider fails half-way.
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_refund_is_resumable_and_refunds_each_order_once() {
    let shop = Shop::open(Currency::EUR).await;
    let mut orders = Vec::new();
    for number in 0..5 {
        let token = if number == 4 { "tok_refund_pending" } else { "tok_visa" };
        let (held, payment) = shop.order(&format!("fan{number}"), 2, Some(token)).await;
        shop.until(payment, PaymentStatus::Succeeded).await;
        orders.push((held.id, payment));
    }
    for (reservation, _) in &orders[..3] {
        shop.refund(*reservation, "first").await;
    }
    shop.until(orders[0].1, PaymentStatus::Refunded).await;
    shop.post("/simulator/switches", json!({"down": true})).await;
    for (number, (reservation, _)) in orders.iter().enumerate() {
        let outcome = shop.refund(*reservation, "second").await;
        assert_eq!(outcome == RefundOutcome::NothingLeft, number < 3, "{outcome:?}");
    }
    shop.pass(now()).await;
    shop.post("/simulator/switches", json!({})).await;
    shop.until_at(orders[3].1, PaymentStatus::Refunded, 60_000).await;
    assert_eq!(shop.status(orders[4].1).await, PaymentStatus::RefundPending, "pending is not refunded");
    shop.pass(now()).await;
    let owed = shop.relay.refunds_of(orders[4].1).await.unwrap().remove(0);
    shop.relay.refund_reported(owed.id, "re_lost", RefundReport::Pending, now()).await.unwrap();
    let books = shop.books().await;
    let pending = books["refunds"].as_array().unwrap().iter().find(|refund| refund["status"] == "pending").unwrap();
    let path = format!("/simulator/refunds/{}/finish", pending["id"].as_str().unwrap());
    shop.post(&path, json!({"succeed": true})).await;
    shop.until(orders[4].1, PaymentStatus::Refunded).await;
    assert_eq!(shop.refund_count().await, orders.len());
    assert_eq!(shop.store.owners(), []);
    shop.assert_money_is_conserved().await;
}

/// The provider's idempotency is the real one's: same key and same request, same answer; another request, refused.
#[tokio::test(flavor = "multi_thread")]
async fn the_simulator_keeps_keys_like_the_real_one() {
    let shop = Shop::open(Currency::EUR).await;
    let url = format!("{}/v1/payment_intents", shop.provider_url);
    let create = |amount: &'static str| {
        let request = shop.http.post(&url).bearer_auth("sk_test_encore").header("Idempotency-Key", "k1");
        request.form(&[("amount", amount), ("currency", "eur")]).send()
    };
    let first: serde_json::Value = create("100").await.unwrap().json().await.unwrap();
    let again: serde_json::Value = create("100").await.unwrap().json().await.unwrap();
    assert_eq!(first, again);
    let other = create("200").await.unwrap();
    assert_eq!(other.status(), 400);
    let body: serde_json::Value = other.json().await.unwrap();
    assert_eq!(body["error"]["type"], "idempotency_error");
    let nobody = shop.http.post(&url).form(&[("amount", "1"), ("currency", "eur")]).send().await.unwrap();
    assert_eq!(nobody.status(), 401);
}
