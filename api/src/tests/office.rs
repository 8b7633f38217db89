//! The operators' listener: blocks, status, promotions, and nobody else.

use super::fakes::Shop;
use super::{ask, get, hold, id_of, office, seat, send};
use axum::body::Body;
use axum::http::{Request, header};
use serde_json::json;

#[tokio::test]
async fn only_operators_get_in() {
    let shop = Shop::open();
    let with = |token: Option<String>| {
        let request = Request::get("/admin/events");
        let request = match token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        request.body(Body::empty()).expect("a request")
    };
    assert_eq!(send(&shop.admin, with(None)).await.problem().0, 401);
    assert_eq!(send(&shop.admin, with(Some(shop.token("alice")))).await.problem(), (403, "FORBIDDEN".to_owned()));
    assert_eq!(send(&shop.admin, with(Some(shop.operator()))).await.status, 200);
    // Nothing of it is on the public planes.
    assert_eq!(get(&shop, "/admin/events").await.problem().0, 404);
}

#[tokio::test]
async fn a_block_keeps_a_seat_until_it_is_released() {
    let shop = Shop::open();
    let body = json!({"seats": [seat("1", "1"), seat("1", "2")], "reason": "cameras"});
    let made = office(&shop, "POST", "/admin/events/1/blocks", "b", &body).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let blocks = made.json()["blocks"].as_array().expect("blocks").clone();
    assert_eq!(blocks.len(), 2);
    let again = office(&shop, "POST", "/admin/events/1/blocks", "b", &body).await;
    assert_eq!(again.json(), made.json());
    let refused = hold(&shop, "alice", "k", &[seat("1", "1")]).await;
    assert_eq!(refused.problem(), (409, "SEAT_UNAVAILABLE".to_owned()));
    let map = get(&shop, "/api/v1/events/1/seats?section=A").await.json();
    assert_eq!(map["counts"]["blocked"], 2);
    let path = format!("/admin/blocks/{}", blocks[0]["block_id"].as_str().expect("an id"));
    for _ in 0..2 {
        assert_eq!(office(&shop, "DELETE", &path, "r", &json!({})).await.json()["status"], "cancelled");
    }
    id_of(&hold(&shop, "alice", "k2", &[seat("1", "1")]).await);
}

#[tokio::test]
async fn a_block_is_all_or_nothing_and_touches_no_fan() {
    let shop = Shop::open();
    let held = id_of(&hold(&shop, "alice", "k", &[seat("1", "2")]).await);
    let body = json!({"seats": [seat("1", "1"), seat("1", "2")]});
    let refused = office(&shop, "POST", "/admin/events/1/blocks", "b", &body).await;
    assert_eq!(refused.problem(), (409, "SEAT_UNAVAILABLE".to_owned()));
    let map = get(&shop, "/api/v1/events/1/seats?section=A").await.json();
    assert_eq!(map["counts"], json!({"free": 19, "held": 1, "sold": 0, "blocked": 0}));
    // A fan's hold is no block, even for an operator.
    let answer = office(&shop, "DELETE", &format!("/admin/blocks/{held}"), "r", &json!({})).await;
    assert_eq!(answer.problem().0, 404);
}

#[tokio::test]
async fn a_closed_event_grants_nothing_until_it_is_opened() {
    let shop = Shop::with(crate::Config { catalogue_refresh_ms: 0, ..crate::Config::default() });
    let set = async |status: &str, key: &str| {
        office(&shop, "POST", "/admin/events/1/status", key, &json!({"status": status})).await.status.as_u16()
    };
    assert_eq!(set("closed", "a").await, 204);
    assert_eq!(get(&shop, "/api/v1/events/1").await.json()["status"], "closed");
    let refused = hold(&shop, "alice", "k", &[seat("1", "1")]).await;
    assert_eq!(refused.problem(), (409, "SALE_CLOSED".to_owned()));
    assert_eq!(set("open", "b").await, 204);
    id_of(&hold(&shop, "alice", "k2", &[seat("1", "1")]).await);
    assert_eq!(set("vanished", "c").await, 422);
}

#[tokio::test]
async fn a_cancelled_event_stays_cancelled_and_says_how_far_it_is() {
    let shop = Shop::with(crate::Config { catalogue_refresh_ms: 0, ..crate::Config::default() });
    let set = async |status: &str, key: &str| {
        office(&shop, "POST", "/admin/events/1/status", key, &json!({"status": status})).await
    };
    let none = json!({"orders": 0, "amount_cents": 0});
    for key in ["a", "b"] {
        let answer = set("cancelled", key).await;
        assert_eq!(answer.status, 202, "{}", answer.json());
        let progress = json!({
            "event_id": 1, "currency": "EUR", "holds_ended": false, "to_refund": none, "refunding": none,
            "refunded": none, "failed": none,
        });
        assert_eq!(answer.json(), progress);
    }
    assert_eq!(get(&shop, "/api/v1/events/1").await.json()["status"], "cancelled");
    for status in ["open", "closed"] {
        assert_eq!(set(status, status).await.problem(), (409, "EVENT_CANCELLED".to_owned()));
    }
    assert_eq!(get(&shop, "/api/v1/events/1").await.json()["status"], "cancelled");
}

#[tokio::test]
async fn operators_see_promotions_and_the_cluster_and_refund_only_what_was_booked() {
    let shop = Shop::open();
    let pass = shop.admit("alice");
    let body = json!({"event_id": 1, "seats": [seat("1", "1")], "promotion": " early"}).to_string();
    let extra = [("idempotency-key", "k"), ("x-queue-token", pass.as_str())];
    let id = id_of(&ask(&shop, "POST", "/api/v1/reservations", "alice", &extra, &body).await);
    let uses = office(&shop, "GET", "/admin/events/1/promotions/Early", "-", &json!({})).await.json();
    assert_eq!(uses, json!({"code": "EARLY", "uses": 1, "reservations": [id]}));
    let unknown = office(&shop, "GET", "/admin/events/1/promotions/NONE", "-", &json!({})).await;
    assert_eq!(unknown.problem().0, 404);
    let cluster = office(&shop, "GET", "/admin/cluster", "-", &json!({})).await.json();
    assert_eq!(cluster["events"][0]["buckets"], 2);
    let refund = office(&shop, "POST", &format!("/admin/orders/{id}/refund"), "r", &json!({"seats": "all"})).await;
    assert_eq!(refund.problem(), (404, "RESERVATION_NOT_FOUND".to_owned()));
}
