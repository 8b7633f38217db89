//! Bad input: the stated 4xx with a code and a sentence, never a 500, and nothing changed.

use super::fakes::{EVENT, Shop};
use super::{ask, get, hold, hold_with, id_of, seat, send};
use axum::body::Body;
use axum::http::{Request, header};
use domain::ids::EventId;
use serde_json::json;

async fn free_seats(shop: &Shop) -> u64 {
    let overview = get(shop, "/api/v1/events/1/seats").await.json();
    let sections = overview["sections"].as_array().expect("sections").clone();
    sections.iter().map(|section| section["counts"]["free"].as_u64().expect("a count")).sum()
}

#[tokio::test]
async fn a_body_that_cannot_be_a_cart_is_refused_with_its_reason() {
    let shop = Shop::open();
    let seven: Vec<_> = (1..=7).map(|n| seat("1", &n.to_string())).collect();
    let cases = [
        ("{\"event_id\":1,", 400, "INVALID_JSON"),
        ("nonsense", 400, "INVALID_JSON"),
        ("", 400, "INVALID_JSON"),
        ("[]", 422, "INVALID_FIELD"),
        (r#"{"event_id":1,"seats":[],"extra":true}"#, 422, "INVALID_FIELD"),
        (r#"{"event_id":"1","seats":[]}"#, 422, "INVALID_FIELD"),
        (r#"{"event_id":1,"seats":"A1"}"#, 422, "INVALID_FIELD"),
        (r#"{"event_id":1,"seats":[{"section":"A","row":1,"seat":1}]}"#, 422, "INVALID_FIELD"),
        (r#"{"event_id":1,"seats":[]}"#, 422, "INVALID_CART"),
        (&json!({"event_id": 1, "seats": seven}).to_string(), 422, "INVALID_CART"),
        (&json!({"event_id": 1, "seats": [seat("1", "1"), seat("1", "1")]}).to_string(), 422, "INVALID_CART"),
        (&json!({"event_id": 1, "places": [{"section": "Floor", "count": 200}]}).to_string(), 422, "INVALID_CART"),
        (&json!({"event_id": 1, "places": [{"section": "A", "count": 1}]}).to_string(), 422, "INVALID_CART"),
        (&json!({"event_id": 1, "seats": [seat("1", "99")]}).to_string(), 422, "UNKNOWN_SEAT"),
        (
            &json!({"event_id": 1, "seats": [{"section": "Z", "row": "1", "seat": "1"}]}).to_string(),
            422,
            "UNKNOWN_SEAT",
        ),
        (
            &json!({"event_id": 1, "seats": [seat("1", "1")], "hold_duration_seconds": 0}).to_string(),
            422,
            "INVALID_FIELD",
        ),
        (
            &json!({"event_id": 1, "seats": [seat("1", "1")], "hold_duration_seconds": 3600}).to_string(),
            422,
            "INVALID_FIELD",
        ),
        (&json!({"event_id": 1, "seats": [seat("1", "1")], "promotion": ""}).to_string(), 422, "INVALID_FIELD"),
    ];
    for (number, (body, status, code)) in cases.into_iter().enumerate() {
        let pass = shop.admit("alice");
        let key = format!("key-{number}");
        let extra = [("idempotency-key", key.as_str()), ("x-queue-token", pass.as_str())];
        let answer = ask(&shop, "POST", "/api/v1/reservations", "alice", &extra, body).await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{body}: {}", answer.json());
    }
    assert_eq!(free_seats(&shop).await, 25);
}

#[tokio::test]
async fn a_pass_must_be_there_genuine_fresh_ones_own_and_for_this_event() {
    let shop = Shop::open();
    let body = json!({"event_id": 1, "seats": [seat("1", "1")]});
    let alice = "alice".parse().expect("a user");
    let jti = || "some-pass".parse().expect("a pass id");
    let genuine = shop.admit("alice");
    let mut forged = genuine.clone();
    forged.truncate(genuine.len() - 4);
    forged.push_str("AAAA");
    let passes = [
        ("", "missing"),
        ("garbage", "garbage"),
        (forged.as_str(), "forged"),
        (&shop.token("alice"), "a fan's token"),
        (&shop.pass("alice".parse().expect("a user"), jti(), EVENT, 400), "expired"),
        (&shop.pass("alice".parse().expect("a user"), jti(), EventId(2), 0), "of another event"),
        (&shop.admit("bob"), "another fan's"),
        (&shop.pass(alice, jti(), EVENT, 0), "without a lease"),
    ];
    for (pass, what) in passes {
        let answer = match pass {
            "" => {
                let extra = [("idempotency-key", "k")];
                ask(&shop, "POST", "/api/v1/reservations", "alice", &extra, &body.to_string()).await
            }
            pass => hold_with(&shop, "alice", "k", pass, &body).await,
        };
        assert_eq!(answer.problem(), (403, "QUEUE_TOKEN_INVALID".to_owned()), "{what}");
    }
    let answer = hold_with(&shop, "alice", "k", &genuine, &json!({"event_id": 9, "seats": [seat("1", "1")]})).await;
    assert_eq!(answer.problem(), (404, "EVENT_NOT_FOUND".to_owned()));
    assert_eq!(free_seats(&shop).await, 25);
    // The genuine one still works, once.
    let first = hold_with(&shop, "alice", "k", &genuine, &body).await;
    assert_eq!(first.status, 201, "{}", first.json());
}

#[tokio::test]
async fn nobody_is_let_in_while_the_waiting_room_is_down() {
    let shop = Shop::open();
    *shop.leases.down.lock().expect("a lock") = true;
    let answer = hold(&shop, "alice", "k", &[seat("1", "1")]).await;
    assert_eq!(answer.problem(), (503, "WAITING_ROOM_UNAVAILABLE".to_owned()));
    assert_eq!(free_seats(&shop).await, 25);
}

#[tokio::test]
async fn mutations_need_a_token_and_a_key() {
    let shop = Shop::open();
    let body = json!({"event_id": 1, "seats": [seat("1", "1")]}).to_string();
    let request = |headers: &[(&str, &str)], body: &str| {
        let mut request = Request::post("/api/v1/reservations").header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::from(body.to_owned())).expect("a request")
    };
    for authorization in ["", "Bearer", "Bearer x.y.z", "Basic YTpi"] {
        let headers = [("authorization", authorization), ("idempotency-key", "k")];
        let answer = send(&shop.router, request(&headers, &body)).await;
        assert_eq!(answer.problem(), (401, "UNAUTHORIZED".to_owned()), "{authorization:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    let answer = ask(&shop, "POST", "/api/v1/reservations", "alice", &[], &body).await;
    assert_eq!(answer.problem(), (400, "IDEMPOTENCY_KEY_REQUIRED".to_owned()));
    let long = "k".repeat(129);
    let answer = ask(&shop, "POST", "/api/v1/reservations", "alice", &[("idempotency-key", &long)], &body).await;
    assert_eq!(answer.problem(), (400, "IDEMPOTENCY_KEY_INVALID".to_owned()));
}

#[tokio::test]
async fn a_body_of_the_wrong_kind_or_size_is_refused_in_json() {
    let shop = Shop::open();
    let huge = format!("{{\"event_id\":1,\"seats\":[{}]}}", "0,".repeat(50_000));
    let extra = [("idempotency-key", "k")];
    let answer = ask(&shop, "POST", "/api/v1/reservations", "alice", &extra, &huge).await;
    assert_eq!(answer.problem(), (413, "BODY_TOO_LARGE".to_owned()));
    let request = Request::post("/api/v1/reservations")
        .header(header::AUTHORIZATION, format!("Bearer {}", shop.token("alice")))
        .header("idempotency-key", "k")
        .header(header::CONTENT_TYPE, "text/plain")
        .body(Body::from("{}"))
        .expect("a request");
    assert_eq!(send(&shop.router, request).await.problem(), (415, "UNSUPPORTED_MEDIA_TYPE".to_owned()));
}

#[tokio::test]
async fn what_is_not_there_says_so_in_json() {
    let shop = Shop::open();
    for path in [
        "/api/v1/nothing",
        "/api/v1/events/99",
        "/api/v1/events/abc",
        "/api/v1/events/-1/seats",
        "/api/v1/events/1/seats?section=Z",
        "/api/v1/events/1/layout?version=99",
        "/nothing.html",
        "/api/v1/events/%FF",
    ] {
        assert_eq!(get(&shop, path).await.problem().0, 404, "{path}");
    }
    for path in [
        "/api/v1/reservations/1-0-0-99",
        "/api/v1/reservations/x",
        "/api/v1/payments/x/status",
        "/api/v1/payments/pay_00000000000000000000000000000000/status",
        "/api/v1/tickets/x",
        "/api/v1/reservations/9-0-0-1",
    ] {
        assert_eq!(ask(&shop, "GET", path, "alice", &[], "").await.problem().0, 404, "{path}");
    }
    let answer = ask(&shop, "PUT", "/api/v1/reservations", "alice", &[], "{}").await;
    assert_eq!(answer.problem(), (405, "METHOD_NOT_ALLOWED".to_owned()));
    assert_eq!(get(&shop, "/api/v1/events/1/seats?sectoin=A").await.problem(), (422, "INVALID_QUERY".to_owned()));
}

#[tokio::test]
async fn another_fans_reservation_does_not_exist() {
    let shop = Shop::open();
    let path = format!("/api/v1/reservations/{}", id_of(&hold(&shop, "alice", "k", &[seat("1", "1")]).await));
    assert_eq!(ask(&shop, "GET", &path, "mallory", &[], "").await.problem().0, 404);
    assert_eq!(ask(&shop, "DELETE", &path, "mallory", &[("idempotency-key", "m")], "").await.problem().0, 404);
    let pay = json!({"payment_method": "card", "amount_cents": 5000, "currency": "EUR"}).to_string();
    let answer = ask(&shop, "POST", &format!("{path}/payment"), "mallory", &[("idempotency-key", "m")], &pay).await;
    assert_eq!(answer.problem().0, 404);
    assert_eq!(ask(&shop, "GET", &path, "alice", &[], "").await.json()["status"], "held");
}

#[tokio::test]
async fn a_fan_who_asks_too_often_is_slowed_down() {
    let shop = Shop::with(crate::Config { user_mutations_per_minute: 3, ..crate::Config::default() });
    let mut codes = Vec::new();
    for _ in 0..4 {
        let answer =
            ask(&shop, "POST", "/api/v1/reservations", "alice", &[("idempotency-key", "k")], "{\"event_id\":1}").await;
        codes.push(answer.problem().0);
    }
    assert_eq!(codes, [422, 422, 422, 429]);
}
