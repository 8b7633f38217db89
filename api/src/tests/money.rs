//! Paying and tickets: what is written down, what is refused, and what a provider is told.

use super::fakes::{SECRET, Shop};
use super::{Answer, ask, hold, id_of, office, seat, send};
use crate::wire::wall_now;
use axum::body::Body;
use axum::http::Request;
use domain::ids::{PaymentId, ReservationId, SeatIndex, SeatRef, SectionId};
use domain::inventory::record::QuotedSeat;
use domain::money::Minor;
use domain::order::{booking_id, webhook};
use domain::time::WallMs;
use ledger::{Payments, Refunds, Settlement, Tickets};
use serde_json::{Value, json};

const PLACE: SeatRef = SeatRef { section: SectionId(0), seat: SeatIndex(0) };

async fn pay(shop: &Shop, reservation: &str, key: &str, body: &Value) -> Answer {
    let path = format!("/api/v1/reservations/{reservation}/payment");
    ask(shop, "POST", &path, "alice", &[("idempotency-key", key)], &body.to_string()).await
}

fn price() -> Value {
    json!({"payment_method": "card", "amount_cents": 5000, "currency": "EUR"})
}

async fn deliver(shop: &Shop, body: &str, signature: &str) -> Answer {
    let request = Request::post("/api/v1/webhooks/payments/stripe")
        .header("stripe-signature", signature)
        .body(Body::from(body.to_owned()))
        .expect("a request");
    send(&shop.router, request).await
}

fn signed(body: &str) -> String {
    webhook::sign(SECRET, wall_now().0 / 1_000, body.as_bytes())
}

fn captured(event: &str, reference: &str, amount: i64) -> String {
    json!({
        "id": event, "type": "payment_intent.succeeded", "created": 1_700_000_000,
        "data": {"object": {"id": reference, "amount_received": amount, "currency": "eur"}}
    })
    .to_string()
}

/// A payment of alice's under way, known to the provider as `pi_1`.
async fn under_way(shop: &Shop) -> (String, PaymentId) {
    let reservation = id_of(&hold(shop, "alice", "k", &[seat("1", "1")]).await);
    let answer = pay(shop, &reservation, "p", &price()).await;
    assert_eq!(answer.status, 202, "{}", answer.json());
    let payment: PaymentId = answer.json()["payment_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    shop.ledger.attach_reference(payment, "pi_1", Some("pi_1_secret"), WallMs(1)).await.expect("saved");
    (reservation, payment)
}

#[tokio::test]
async fn paying_is_accepted_and_its_outcome_can_be_asked_for() {
    let shop = Shop::open();
    let (reservation, payment) = under_way(&shop).await;
    let again = pay(&shop, &reservation, "p", &price()).await;
    assert_eq!(again.status, 202);
    let again = again.json();
    assert_eq!((&again["payment_id"], &again["client_secret"]), (&json!(payment.to_string()), &json!("pi_1_secret")));
    let poll = again["poll_url"].as_str().expect("a url").to_owned();
    let status = ask(&shop, "GET", &poll, "alice", &[], "").await.json();
    assert_eq!((&status["status"], &status["amount_cents"]), (&json!("processing"), &json!(5000)));
    assert_eq!(ask(&shop, "GET", &poll, "mallory", &[], "").await.problem().0, 404);
    let second = pay(&shop, &reservation, "p2", &price()).await;
    assert_eq!(second.problem(), (409, "PAYMENT_ALREADY_OPEN".to_owned()));
    let reused =
        pay(&shop, &reservation, "p", &json!({"payment_method": "bank", "amount_cents": 5000, "currency": "EUR"}))
            .await;
    assert_eq!(reused.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
}

#[tokio::test]
async fn a_repeated_payment_has_its_answer_also_after_the_hold_ended() {
    let shop = Shop::open();
    let (reservation, payment) = under_way(&shop).await;
    let path = format!("/api/v1/reservations/{reservation}");
    let cancelled = ask(&shop, "DELETE", &path, "alice", &[("idempotency-key", "c")], "").await;
    assert!(cancelled.status.is_success(), "{}", cancelled.json());
    let again = pay(&shop, &reservation, "p", &price()).await;
    assert_eq!((again.status.as_u16(), &again.json()["payment_id"]), (202, &json!(payment.to_string())));
    let other = json!({"payment_method": "bank", "amount_cents": 5000, "currency": "EUR"});
    assert_eq!(pay(&shop, &reservation, "p", &other).await.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    assert_eq!(pay(&shop, &reservation, "p2", &price()).await.problem(), (410, "RESERVATION_ENDED".to_owned()));
}

#[tokio::test]
async fn after_a_decline_that_releases_the_seats_nothing_more_is_paid() {
    let shop = Shop::open();
    let (reservation, payment) = under_way(&shop).await;
    shop.ledger.give_up(payment, "card_declined", WallMs(2)).await.expect("failed");
    let second = pay(&shop, &reservation, "p2", &price()).await;
    assert_eq!(second.problem(), (410, "RESERVATION_ENDED".to_owned()));
}

#[tokio::test]
async fn an_amount_that_is_not_the_quote_is_refused_with_the_quote() {
    let shop = Shop::open();
    let reservation = id_of(&hold(&shop, "alice", "k", &[seat("1", "1")]).await);
    for (amount, currency) in [(4999, "EUR"), (5000, "USD"), (0, "EUR"), (-5000, "EUR")] {
        let body = json!({"payment_method": "card", "amount_cents": amount, "currency": currency});
        let answer = pay(&shop, &reservation, "p", &body).await;
        assert_eq!(answer.problem(), (409, "AMOUNT_MISMATCH".to_owned()));
        assert_eq!(answer.json()["amount_cents"], 5000);
    }
    for body in [
        json!({"payment_method": "card", "amount_cents": 50.5, "currency": "EUR"}),
        json!({"payment_method": "card", "amount_cents": 5000, "currency": "EURO"}),
        json!({"payment_method": "", "amount_cents": 5000, "currency": "EUR"}),
        json!({"payment_method": "card", "amount_cents": 5000}),
        json!({"payment_method": "card", "amount_cents": 5000, "currency": "EUR", "tip": 1}),
    ] {
        assert_eq!(pay(&shop, &reservation, "p", &body).await.problem().0, 422, "{body}");
    }
    let nothing: ReservationId = reservation.parse().expect("an id");
    assert!(shop.ledger.payment_of(nothing).await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_webhook_is_recorded_once_and_only_if_it_is_the_providers() {
    let shop = Shop::open();
    under_way(&shop).await;
    let body = captured("evt_1", "pi_1", 5000);
    for forged in [
        "",
        "t=1,v1=00",
        &signed("other"),
        &webhook::sign(b"wrong", wall_now().0 / 1_000, body.as_bytes()),
        &webhook::sign(SECRET, wall_now().0 / 1_000 - 301, body.as_bytes()),
    ] {
        assert_eq!(deliver(&shop, &body, forged).await.problem(), (400, "SIGNATURE_INVALID".to_owned()), "{forged}");
    }
    let nul = r#"{"id":"evt\u0000","type":"customer.created","created":1,"data":{"object":{}}}"#;
    for body in ["{}", nul] {
        let refused = deliver(&shop, body, &signed(body)).await;
        assert_eq!(refused.problem(), (400, "EVENT_INVALID".to_owned()), "{}", refused.json());
    }
    let answers = futures::future::join_all((0..8).map(|_| {
        let (shop, body) = (&shop, &body);
        async move { deliver(shop, body, &signed(body)).await }
    }))
    .await;
    let recorded = answers.iter().filter(|answer| answer.json()["result"] == "recorded").count();
    let duplicates = answers.iter().filter(|answer| answer.json()["result"] == "duplicate").count();
    assert_eq!((recorded, duplicates), (1, 7));
    let other = captured("evt_1", "pi_1", 4000);
    assert_eq!(deliver(&shop, &other, &signed(&other)).await.problem(), (409, "EVENT_CONFLICT".to_owned()));
    let unknown = captured("evt_2", "pi_unknown", 5000);
    assert_eq!(deliver(&shop, &unknown, &signed(&unknown)).await.problem(), (503, "PAYMENT_UNKNOWN".to_owned()));
    let huge = " ".repeat(70_000);
    assert_eq!(deliver(&shop, &huge, &signed(&huge)).await.problem(), (413, "BODY_TOO_LARGE".to_owned()));
    let request = Request::post("/api/v1/webhooks/payments/nobody").body(Body::empty()).expect("a request");
    assert_eq!(send(&shop.router, request).await.problem().0, 404);
}

#[tokio::test]
async fn an_operators_refund_says_of_what_and_its_key_makes_it_one() {
    let shop = Shop::open();
    let (reservation, payment) = booked(&shop).await;
    let path = format!("/admin/orders/{reservation}/refund");
    let refund = async |key: &str, body: Value| office(&shop, "POST", &path, key, &body).await;
    for vague in [json!({}), json!({"seats": []}), json!({"seats": "some"}), json!({"seats": null})] {
        let answer = refund("r", vague.clone()).await;
        assert_eq!(answer.problem().0, 422, "{vague}");
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("seats"), "{message}");
    }
    assert!(shop.ledger.refunds_of(payment).await.expect("read").is_empty(), "nothing was refunded by accident");
    let first = refund("r", json!({"seats": [seat("1", "1")]})).await;
    assert_eq!(first.status, 202, "{}", first.json());
    let again = refund("r", json!({"seats": [seat("1", "1")]})).await;
    assert_eq!((again.status.as_u16(), again.json()), (202, first.json()), "the same wish, the same refund");
    assert_eq!(refund("r", json!({"seats": "all"})).await.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    assert_eq!(refund("r2", json!({"seats": "all"})).await.problem(), (409, "NOTHING_TO_REFUND".to_owned()));
    let owed = shop.ledger.refunds_of(payment).await.expect("read");
    assert_eq!(owed.iter().map(|refund| refund.amount).collect::<Vec<_>>(), [Minor(5_000)]);
    let request = Request::post(&path)
        .header("authorization", format!("Bearer {}", shop.operator()))
        .header("content-type", "application/json")
        .body(Body::from(r#"{"seats": "all"}"#))
        .expect("a request");
    assert_eq!(send(&shop.admin, request).await.problem(), (400, "IDEMPOTENCY_KEY_REQUIRED".to_owned()));
}

/// A payment that was captured and settled: alice's first seat of the first row.
async fn booked(shop: &Shop) -> (String, PaymentId) {
    let (reservation, payment) = under_way(shop).await;
    let body = captured("evt_1", "pi_1", 5000);
    assert_eq!(deliver(shop, &body, &signed(&body)).await.status, 200);
    let quote = [QuotedSeat { seat: PLACE, gross: Minor(5_000), discount: Minor(0) }];
    shop.ledger.settle_paid(payment, &quote, WallMs(2)).await.expect("settled");
    (reservation, payment)
}

/// Its ticket.
async fn ticket(shop: &Shop) -> String {
    let (_reservation, payment) = booked(shop).await;
    let (booking, place) = (booking_id(payment), PLACE);
    let id = domain::order::ticket_id(booking, place);
    let sealed = shop.sealer.seal(id, &[9; 32]);
    shop.ledger.issue_tickets(1, booking, &[(place, sealed)], WallMs(3)).await.expect("issued");
    id.to_string()
}

#[tokio::test]
async fn a_ticket_is_its_owners_and_its_secret_is_given_to_a_device_once() {
    let shop = Shop::open();
    let id = ticket(&shop).await;
    let mine = ask(&shop, "GET", "/api/v1/me/tickets", "alice", &[], "").await.json();
    assert_eq!(mine["tickets"][0]["ticket_id"], id);
    assert_eq!((&mine["tickets"][0]["event_title"], &mine["tickets"][0]["row"]), (&json!("An evening"), &json!("1")));
    let none = ask(&shop, "GET", "/api/v1/me/tickets", "mallory", &[], "").await.json();
    assert_eq!(none, json!({"tickets": []}));
    let path = format!("/api/v1/tickets/{id}/wallet");
    let wallet =
        async |user: &str, device: &str| ask(&shop, "GET", &format!("{path}?device={device}"), user, &[], "").await;
    assert_eq!(wallet("mallory", "phone").await.problem().0, 404);
    let given = wallet("alice", "phone").await;
    assert_eq!((given.status.as_u16(), given.header("cache-control")), (200, "no-store"));
    assert_eq!(given.json()["secret"], hex::encode([9; 32]));
    assert_eq!(given.json()["window_seconds"], 15);
    assert_eq!(wallet("alice", "").await.problem().0, 422);
    assert_eq!(ask(&shop, "GET", &path, "alice", &[], "").await.problem().0, 422);
    let removed = ask(&shop, "DELETE", &format!("{path}?device=phone"), "alice", &[("idempotency-key", "d")], "").await;
    assert_eq!(removed.status, 204);
    assert_eq!(wallet("alice", "phone").await.problem(), (410, "DEVICE_REVOKED".to_owned()));
}

#[tokio::test]
async fn what_a_removed_device_kept_is_worth_nothing() {
    let shop = Shop::open();
    let id = ticket(&shop).await;
    let path = format!("/api/v1/tickets/{id}/wallet");
    let wallet = async |device: &str| ask(&shop, "GET", &format!("{path}?device={device}"), "alice", &[], "").await;
    let remove = async |device: &str| {
        let key = [("idempotency-key", "d")];
        ask(&shop, "DELETE", &format!("{path}?device={device}"), "alice", &key, "").await
    };
    let lost = wallet("lost").await.json();
    assert_eq!(wallet("phone").await.json()["secret"], lost["secret"]);
    assert_eq!(remove("nobody").await.problem(), (404, "DEVICE_NOT_FOUND".to_owned()));
    for _ in 0..2 {
        assert_eq!(remove("lost").await.status, 204);
    }
    let listed = ask(&shop, "GET", &format!("/api/v1/tickets/{id}"), "alice", &[], "").await.json();
    let fresh = wallet("phone").await.json();
    assert_ne!(fresh["secret"], lost["secret"]);
    assert_eq!((&listed["secret_version"], &fresh["secret_version"]), (&json!(2), &json!(2)), "removed once");
}
