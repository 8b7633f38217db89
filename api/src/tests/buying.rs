//! Holding seats: what is granted, what is refused and in which words, and what a repetition is answered.

use super::fakes::{EVENT, Shop};
use super::{ask, get, hold, hold_with, id_of, seat};
use serde_json::json;

#[tokio::test]
async fn a_hold_says_everything_that_checkout_needs() {
    let shop = Shop::open();
    let pass = shop.admit("alice");
    let body = json!({
        "event_id": 1, "seats": [seat("2", "3")], "places": [{"section": "Floor", "count": 2}], "promotion": "EARLY"
    });
    let answer = hold_with(&shop, "alice", "k", &pass, &body).await;
    let id = id_of(&answer);
    let record = answer.json();
    assert_eq!(record["status"], "held");
    assert_eq!(
        record["seats"][0],
        json!({"section": "A", "row": "2", "seat": "3", "price_cents": 4500, "full_price_cents": 5000})
    );
    assert_eq!(record["seats"].as_array().map(Vec::len), Some(3));
    assert_eq!((&record["total_cents"], &record["currency"]), (&json!(13_500), &json!("EUR")));
    assert!(record["remaining_ms"].as_u64().is_some_and(|ms| (1..=60_000).contains(&ms)), "{record}");
    assert_eq!(record["expires_at"], record["payment_deadline"]);
    assert_eq!(record["links"]["payment"], format!("/api/v1/reservations/{id}/payment"));
    let read = ask(&shop, "GET", &format!("/api/v1/reservations/{id}"), "alice", &[], "").await.json();
    assert_eq!((&read["seats"], &read["total_cents"]), (&record["seats"], &record["total_cents"]));
}

#[tokio::test]
async fn a_refusal_names_the_seats_and_suggests_others() {
    let shop = Shop::open();
    id_of(&hold(&shop, "alice", "k", &[seat("1", "4"), seat("1", "5")]).await);
    let answer = hold(&shop, "bob", "k", &[seat("1", "5"), seat("1", "6")]).await;
    assert_eq!(answer.problem(), (409, "SEAT_UNAVAILABLE".to_owned()));
    let body = answer.json();
    assert_eq!(body["unavailable_seats"], json!([seat("1", "5")]));
    assert_eq!(body["final"], true);
    let suggested = body["suggestion"]["seats"].as_array().expect("a suggestion").clone();
    assert_eq!(suggested.len(), 2);
    // Nothing of the refused cart is kept, and what is suggested can be had.
    id_of(&hold(&shop, "carol", "k", &suggested).await);
    let map = get(&shop, "/api/v1/events/1/seats?section=A").await.json();
    assert_eq!(map["counts"]["held"], 4);
}

#[tokio::test]
async fn a_repeated_request_is_one_hold_and_another_body_under_its_key_is_refused() {
    let shop = Shop::open();
    let pass = shop.admit("alice");
    let body = json!({"event_id": 1, "seats": [seat("1", "1"), seat("1", "2")]});
    let first = hold_with(&shop, "alice", "k", &pass, &body).await;
    let turned = json!({"seats": [seat("1", "2"), seat("1", "1")], "event_id": 1});
    let again = hold_with(&shop, "alice", "k", &pass, &turned).await;
    assert_eq!(id_of(&first), id_of(&again));
    assert_eq!(first.json()["seats"], again.json()["seats"]);
    let other = json!({"event_id": 1, "seats": [seat("1", "3")]});
    let refused = hold_with(&shop, "alice", "k", &pass, &other).await;
    assert_eq!(refused.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    // The key is the fan's own.
    id_of(&hold(&shop, "bob", "k", &[seat("2", "1")]).await);
}

#[tokio::test]
async fn a_second_checkout_is_refused_with_the_first() {
    let shop = Shop::open();
    let first = id_of(&hold(&shop, "alice", "one", &[seat("1", "1")]).await);
    let answer = hold(&shop, "alice", "two", &[seat("1", "2")]).await;
    assert_eq!(answer.problem(), (409, "CHECKOUT_ALREADY_OPEN".to_owned()));
    assert_eq!(answer.json()["reservation"]["reservation_id"], first);
}

#[tokio::test]
async fn a_pass_holds_once() {
    let shop = Shop::open();
    let pass = shop.admit("alice");
    let one = |seat_label: &str| json!({"event_id": 1, "seats": [seat("1", seat_label)]});
    let first = id_of(&hold_with(&shop, "alice", "one", &pass, &one("1")).await);
    let path = format!("/api/v1/reservations/{first}");
    let given_back = ask(&shop, "DELETE", &path, "alice", &[("idempotency-key", "d")], "").await;
    assert_eq!(given_back.json()["status"], "cancelled");
    // Even if the waiting room still believed that the fan is inside.
    let claims = "pass-0".parse().expect("a pass id");
    shop.readmit("alice", claims);
    let second = hold_with(&shop, "alice", "two", &pass, &one("2")).await;
    assert_eq!(second.problem(), (403, "QUEUE_TOKEN_USED".to_owned()));
}

#[tokio::test]
async fn giving_back_twice_changes_nothing_and_frees_the_seats_once() {
    let shop = Shop::open();
    let path = format!("/api/v1/reservations/{}", id_of(&hold(&shop, "alice", "k", &[seat("1", "1")]).await));
    for _ in 0..2 {
        let answer = ask(&shop, "DELETE", &path, "alice", &[("idempotency-key", "d")], "").await;
        assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (200, &json!("cancelled")));
    }
    id_of(&hold(&shop, "bob", "k", &[seat("1", "1")]).await);
}

#[tokio::test]
async fn a_hold_that_ran_out_says_so() {
    let shop = Shop::open();
    let pass = shop.admit("alice");
    let body = json!({"event_id": 1, "seats": [seat("1", "1")], "hold_duration_seconds": 5});
    let id = id_of(&hold_with(&shop, "alice", "k", &pass, &body).await);
    shop.store.pass(6_000);
    let read = ask(&shop, "GET", &format!("/api/v1/reservations/{id}"), "alice", &[], "").await.json();
    assert_eq!((&read["status"], &read["remaining_ms"]), (&json!("expired"), &json!(0)));
    let again = hold_with(&shop, "alice", "k", &pass, &body).await;
    assert_eq!(again.problem(), (410, "HOLD_EXPIRED".to_owned()));
    let pay = json!({"payment_method": "card", "amount_cents": 5000, "currency": "EUR"}).to_string();
    let path = format!("/api/v1/reservations/{id}/payment");
    let late = ask(&shop, "POST", &path, "alice", &[("idempotency-key", "p")], &pay).await;
    assert_eq!(late.problem(), (410, "HOLD_EXPIRED".to_owned()));
    assert!(late.json()["expired_at"].as_str().is_some_and(|at| at.ends_with('Z')));
}

#[tokio::test]
async fn limits_count_what_a_fan_has_already() {
    let shop = Shop::open();
    let places = |count: u32| json!({"event_id": 1, "places": [{"section": "Floor", "count": count}]});
    let pass = shop.admit("alice");
    id_of(&hold_with(&shop, "alice", "k", &pass, &places(3)).await);
    let pass = shop.admit("bob");
    let answer = hold_with(&shop, "bob", "k", &pass, &places(3)).await;
    assert_eq!(answer.problem(), (409, "SEAT_UNAVAILABLE".to_owned()));
    assert_eq!(answer.json()["unavailable_places"], json!([{"section": "Floor", "left": 2}]));
}

#[tokio::test]
async fn a_promotion_is_used_up_and_comes_back() {
    let shop = Shop::open();
    let with_code = |label: &str| json!({"event_id": 1, "seats": [seat("1", label)], "promotion": "EARLY"});
    let pass = shop.admit("alice");
    let first = id_of(&hold_with(&shop, "alice", "k", &pass, &with_code("1")).await);
    let pass = shop.admit("bob");
    let answer = hold_with(&shop, "bob", "k", &pass, &with_code("2")).await;
    assert_eq!(answer.problem(), (409, "PROMOTION_EXHAUSTED".to_owned()));
    let path = format!("/api/v1/reservations/{first}");
    assert_eq!(ask(&shop, "DELETE", &path, "alice", &[("idempotency-key", "d")], "").await.status, 200);
    let pass = shop.admit("carol");
    id_of(&hold_with(&shop, "carol", "k", &pass, &with_code("3")).await);
}

#[tokio::test]
async fn the_best_seats_are_held_or_others_are_named() {
    let shop = Shop::open();
    let best = async |user: &str, key: &str, body: serde_json::Value| {
        let pass = shop.admit(user);
        let extra = [("idempotency-key", key), ("x-queue-token", pass.as_str())];
        ask(&shop, "POST", "/api/v1/events/1/best-available", user, &extra, &body.to_string()).await
    };
    let answer = best("alice", "k", json!({"count": 2, "preferences": {"contiguous": true}})).await;
    id_of(&answer);
    assert_eq!(answer.json()["together"], true);
    assert_eq!(answer.json()["seats"][0]["row"], "1");
    let refused =
        best("bob", "k", json!({"count": 6, "preferences": {"contiguous": true, "max_price_cents": 10}})).await;
    assert_eq!(refused.problem(), (404, "NO_MATCHING_SEATS".to_owned()));
    assert_eq!(refused.json()["alternatives"][0]["section"], "A");
    for (body, code) in [
        (json!({"count": 0}), "INVALID_CART"),
        (json!({"count": 7}), "INVALID_CART"),
        (json!({"count": 1, "preferences": {"tier": "Gold"}}), "INVALID_FIELD"),
        (json!({"count": 1, "preferences": {"accessible": 2}}), "INVALID_FIELD"),
        (json!({"count": 1, "preference": {}}), "INVALID_FIELD"),
        (json!({"count": 300}), "INVALID_CART"),
    ] {
        assert_eq!(best("carol", "c", body.clone()).await.problem(), (422, code.to_owned()), "{body}");
    }
    let floor = best("dave", "k", json!({"count": 2, "preferences": {"section": "Floor"}})).await;
    id_of(&floor);
    assert_eq!(floor.json()["seats"][0]["section"], "Floor");
}

#[tokio::test]
async fn a_store_that_is_away_is_a_retryable_error() {
    let shop = Shop::open();
    assert_eq!(get(&shop, "/api/v1/events/1").await.status, 200);
    let pass = shop.admit("alice");
    let body = json!({"event_id": 1, "seats": [seat("1", "1")]});
    *shop.store.down.lock().expect("a lock") = true;
    assert_eq!(hold_with(&shop, "alice", "k", &pass, &body).await.problem(), (503, "STORE_UNAVAILABLE".to_owned()));
    *shop.store.down.lock().expect("a lock") = false;
    // The same request is granted once the store is asked again.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while hold_with(&shop, "alice", "k", &pass, &body).await.status != 201 {
        assert!(std::time::Instant::now() < deadline, "the hold was never granted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_was_answered_is_answered_again_when_pass_and_lease_have_ended_and_nothing_new_is_granted() {
    let shop = Shop::open();
    let (free, taken) = (seat("1", "1"), seat("1", "2"));
    id_of(&hold(&shop, "bob", "k", std::slice::from_ref(&taken)).await);
    let body = json!({"event_id": 1, "seats": [free.clone()]});
    let pass = shop.admit("alice");
    let first = id_of(&hold_with(&shop, "alice", "k", &pass, &body).await);
    let lost = json!({"event_id": 1, "seats": [taken]});
    let refused = hold_with(&shop, "carol", "r", &shop.admit("carol"), &lost).await;
    assert_eq!(refused.problem(), (409, "SEAT_UNAVAILABLE".to_owned()));

    // A pass that is too old, one of another fan; and a waiting room that remembers nobody.
    shop.leases.forget();
    let old = |user: &str| shop.pass(user.parse().expect("a user"), "pass-1".parse().expect("an id"), EVENT, 900);
    for pass in [pass.as_str(), &old("alice"), &old("bob")] {
        let again = hold_with(&shop, "alice", "k", pass, &body).await;
        assert_eq!(id_of(&again), first, "with the pass {pass:?}");
        let other = hold_with(&shop, "alice", "k", pass, &json!({"event_id": 1, "seats": [seat("1", "3")]})).await;
        assert_eq!(other.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
        let again = hold_with(&shop, "carol", "r", pass, &lost).await;
        assert_eq!((again.problem(), again.json()), (refused.problem(), refused.json()));
        // A key that is not known, and a known key of another fan, open nothing.
        for (user, key) in [("alice", "new"), ("dave", "k")] {
            let new = hold_with(&shop, user, key, pass, &json!({"event_id": 1, "seats": [seat("1", "4")]})).await;
            assert_eq!(new.problem(), (403, "QUEUE_TOKEN_INVALID".to_owned()));
        }
    }
    // Whoever shows nothing genuine costs the store nothing.
    for pass in ["", "x.y.z"] {
        let turned_away = hold_with(&shop, "alice", "k", pass, &body).await;
        assert_eq!(turned_away.problem(), (403, "QUEUE_TOKEN_INVALID".to_owned()));
    }
    // As it stands now: Redis does not matter to that, and the end of the hold does.
    *shop.leases.down.lock().expect("a lock") = true;
    assert_eq!(id_of(&hold_with(&shop, "alice", "k", &pass, &body).await), first);
    let new = hold_with(&shop, "dave", "k", &shop.admit("dave"), &lost).await;
    assert_eq!(new.problem(), (503, "WAITING_ROOM_UNAVAILABLE".to_owned()));
    shop.store.pass(61_000);
    assert_eq!(hold_with(&shop, "alice", "k", &pass, &body).await.problem(), (410, "HOLD_EXPIRED".to_owned()));
    let map = get(&shop, "/api/v1/events/1/seats?section=A").await.json();
    assert_eq!(map["counts"]["held"], 0, "nothing was granted besides");
}

#[tokio::test]
async fn the_best_seats_that_were_held_are_answered_again_when_the_lease_has_ended() {
    let shop = Shop::open();
    let best = async |key: &str, pass: &str, count: u32| {
        let extra = [("idempotency-key", key), ("x-queue-token", pass)];
        let body = json!({"count": count}).to_string();
        ask(&shop, "POST", "/api/v1/events/1/best-available", "alice", &extra, &body).await
    };
    let pass = shop.admit("alice");
    let first = id_of(&best("k", &pass, 2).await);
    shop.leases.forget();
    assert_eq!(id_of(&best("k", &pass, 2).await), first);
    assert_eq!(best("k", &pass, 3).await.problem(), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    assert_eq!(best("new", &pass, 2).await.problem(), (403, "QUEUE_TOKEN_INVALID".to_owned()));
}
