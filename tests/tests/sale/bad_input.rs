//! Bad input over HTTP: the stated 4xx with a code and a sentence, never a 500, and nothing changed.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use encore_tests::{Answer, Event, Fan, Part, Sale, hold_body, read};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// A refusal that a person understands.
#[track_caller]
fn refused(what: &str, answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.error()), (status, code), "{what}: {}", answer.body);
    let message = answer.text("message");
    assert!(message.len() > 10 && message.ends_with(['.', '?', '!']), "{what}: {message:?} is no sentence");
}

fn seat(row: &str, seat: u32) -> Value {
    json!({"section": "Block 1", "row": row, "seat": seat.to_string()})
}

/// A body as it stands, with the headers of a hold.
async fn raw_hold(sale: &Sale, fan: &Fan, pass: &str, body: String, kind: &str) -> Result<Answer> {
    let url = format!("{}/api/v1/reservations", sale.stack.url(Part::Buy(1)));
    let request = sale.http.post(url).bearer_auth(&fan.token).header("Idempotency-Key", "raw");
    read(request.header("X-Queue-Token", pass).header("Content-Type", kind).body(body).send().await?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_that_make_no_sense() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 2, 10).standing("Floor", 20))
        .and(Event::new().number(2).section("Block 1", 1, 4))
        .start()
        .await?;
    let alice = sale.fan("alice");
    let pass = sale.pass(&alice).await?;
    let seats = |list: Vec<Value>| json!({"event_id": 1, "seats": list});
    let with = |field: &str, value: Value| {
        let mut body = seats(vec![seat("1", 1)]);
        body[field] = value;
        body
    };
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        ("no seat", seats(vec![]), 422, "INVALID_CART"),
        ("seven seats", seats((1..=7).map(|number| seat("1", number)).collect()), 422, "INVALID_CART"),
        ("the same seat twice", seats(vec![seat("1", 1), seat("1", 1)]), 422, "INVALID_CART"),
        ("an unknown seat", seats(vec![seat("1", 99)]), 422, "UNKNOWN_SEAT"),
        ("an unknown row", seats(vec![seat("Z", 1)]), 422, "UNKNOWN_SEAT"),
        ("an unknown section", seats(vec![json!({"section": "Moon", "row": "1", "seat": "1"})]), 422, "UNKNOWN_SEAT"),
        ("an unknown promotion", with("promotion", json!("NOPE")), 422, "PROMOTION_UNKNOWN"),
    ];
    for (number, (what, body, status, code)) in cases.into_iter().enumerate() {
        let answer = alice.hold_body(&body, &pass, &format!("case-{number}")).await?;
        assert!(answer.status == status, "{what}: {} {}", answer.status, answer.body);
        refused(what, &answer, status, code);
    }
    for (what, body) in [
        ("an unknown field", with("seat_count", json!(1))),
        ("an unknown field in a seat", seats(vec![json!({"section": "Block 1", "row": "1", "seat": "1", "x": 1})])),
        ("a number for a label", seats(vec![json!({"section": "Block 1", "row": 1, "seat": 1})])),
        ("a text for the event", with("event_id", json!("one"))),
        ("a negative event", with("event_id", json!(-1))),
        ("no event", json!({"seats": [seat("1", 1)]})),
        ("a list", json!([])),
        ("a hold of no time", with("hold_duration_seconds", json!(0))),
        ("a hold of a year", with("hold_duration_seconds", json!(31_536_000))),
        ("a code that is no text", with("promotion", json!(7))),
    ] {
        let answer = alice.hold_body(&body, &pass, "shape").await?;
        assert!(matches!(answer.status, 400 | 422), "{what}: {} {}", answer.status, answer.body);
        let code = answer.error().to_owned();
        refused(what, &answer, answer.status, &code);
    }
    let foreign = alice.hold_body(&json!({"event_id": 77, "seats": [seat("1", 1)]}), &pass, "foreign").await?;
    refused("an event that does not exist", &foreign, 404, "EVENT_NOT_FOUND");
    for (what, body, kind, status) in [
        ("broken JSON", "{\"event_id\": 1,".to_owned(), "application/json", 400),
        ("no JSON at all", "seats please".to_owned(), "application/json", 400),
        ("an empty body", String::new(), "application/json", 400),
        ("a form", "event_id=1".to_owned(), "application/x-www-form-urlencoded", 415),
        ("a huge body", format!("{{\"x\": \"{}\"}}", "x".repeat(1_000_000)), "application/json", 413),
    ] {
        let answer = raw_hold(&sale, &alice, &pass, body, kind).await?;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        let code = answer.error().to_owned();
        refused(what, &answer, status, &code);
    }
    // The limit, by count: two hundred places in one line, and in twenty.
    for (what, places) in [
        ("two hundred places", json!([{"section": "Floor", "count": 200}])),
        ("twenty lines", Value::Array((0..20).map(|_| json!({"section": "Floor", "count": 1})).collect())),
        ("no places", json!([{"section": "Floor", "count": 0}])),
        ("places of a seated section", json!([{"section": "Block 1", "count": 1}])),
    ] {
        let answer = alice.hold_body(&json!({"event_id": 1, "places": places}), &pass, "places").await?;
        assert!(matches!(answer.status, 400 | 422), "{what}: {} {}", answer.status, answer.body);
        assert!(!answer.error().is_empty() && !answer.text("message").is_empty(), "{what}: {}", answer.body);
    }
    assert_eq!(sale.counts("Block 1").await?, (20, 0, 0, 0), "nothing changed");
    assert_eq!(sale.counts("Floor").await?, (20, 0, 0, 0), "nothing changed");
    alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "good").await?.expect(201)?;
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_tokens_and_headers_that_do_not_fit() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 2, 10))
        .and(Event::new().number(2).section("Block 1", 1, 4))
        .start()
        .await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let (pass, bobs) = (sale.pass(&alice).await?, sale.pass(&bob).await?);
    let elsewhere = alice.pass(2, Duration::from_secs(30)).await?.context("a pass of the other event")?;
    let body = hold_body(1, &sale.row("Block 1", "1", 1..=2));
    let url = format!("{}/api/v1/reservations", sale.stack.url(Part::Buy(1)));

    let forged_pass = {
        let mut parts: Vec<String> = pass.split('.').map(str::to_owned).collect();
        parts[2] = parts[2].chars().rev().collect();
        parts.join(".")
    };
    let expired_pass = {
        let payload = pass.split('.').nth(1).context("a pass has claims")?;
        let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload)?)?;
        for time in ["iat", "exp"] {
            claims[time] = (claims[time].as_u64().context("a time")? - 600).into();
        }
        sale.stack.secrets().passes()?.sign("pass+jwt", &claims)?
    };
    for (what, pass) in [
        ("an expired pass", expired_pass.as_str()),
        ("nonsense", "nonsense"),
        ("another fan's pass", bobs.as_str()),
        ("a pass of another event", elsewhere.as_str()),
        ("a forged pass", forged_pass.as_str()),
        ("a fan's own token", alice.token.as_str()),
    ] {
        let answer = alice.hold_body(&body, pass, "pass").await?;
        refused(what, &answer, 403, "QUEUE_TOKEN_INVALID");
    }
    let none = alice.call(Method::POST, &url, &[("Idempotency-Key", "k")], Some(&body)).await?;
    refused("no pass", &none, 403, "QUEUE_TOKEN_INVALID");
    let no_key = alice.call(Method::POST, &url, &[("X-Queue-Token", &pass)], Some(&body)).await?;
    assert!(matches!(no_key.status, 400 | 422), "no key: {} {}", no_key.status, no_key.body);
    let long = "k".repeat(500);
    let long_key =
        alice.call(Method::POST, &url, &[("X-Queue-Token", &pass), ("Idempotency-Key", &long)], Some(&body)).await?;
    assert!(matches!(long_key.status, 400 | 422), "a long key: {} {}", long_key.status, long_key.body);

    let expired = sale.stack.secrets().token("alice", false, Duration::ZERO)?;
    let mut forged: Vec<String> = alice.token.split('.').map(str::to_owned).collect();
    forged[2] = forged[2].chars().rev().collect();
    for (what, token) in [
        ("no token", ""),
        ("nonsense", "nonsense"),
        ("expired", &expired),
        ("forged", &forged.join(".")),
        ("a pass", &pass),
    ] {
        let mut nobody = alice.clone();
        token.clone_into(&mut nobody.token);
        refused(what, &nobody.hold_body(&body, &pass, "k").await?, 401, "UNAUTHORIZED");
        refused(what, &nobody.reservation("1-0-0-1").await?, 401, "UNAUTHORIZED");
        let join = nobody.join(1).await?;
        assert_eq!(join.status, 401, "{what}: {}", join.body);
    }

    // Another's reservation is not even there.
    let held = alice.hold_body(&body, &pass, "mine").await?.expect(201)?;
    let id = held.text("reservation_id");
    refused("reading another's", &bob.reservation(id).await?, 404, "RESERVATION_NOT_FOUND");
    refused("cancelling another's", &bob.cancel(id, "c").await?, 404, "RESERVATION_NOT_FOUND");
    refused("paying another's", &bob.pay(&held.body, "tok_visa", "p").await?, 404, "RESERVATION_NOT_FOUND");
    for wrong in ["1-0-0-999999", "nonsense", "99-0-0-1", "1-0-0-01"] {
        refused(wrong, &alice.reservation(wrong).await?, 404, "RESERVATION_NOT_FOUND");
    }
    let mut cheaper = held.body.clone();
    cheaper["total_cents"] = json!(1);
    refused("a smaller amount", &alice.pay(&cheaper, "tok_visa", "cheap").await?, 409, "AMOUNT_MISMATCH");
    cheaper = held.body.clone();
    cheaper["currency"] = json!("JPY");
    let foreign = alice.pay(&cheaper, "tok_visa", "yen").await?;
    assert!(matches!(foreign.status, 409 | 422), "another currency: {} {}", foreign.status, foreign.body);
    // The pass was consumed by the hold.
    alice.cancel(id, "give-back").await?.expect(200)?;
    let again = alice.hold_body(&body, &pass, "again").await?;
    assert!(again.status == 403 && again.error().starts_with("QUEUE_TOKEN_"), "a used pass: {}", again.body);
    assert_eq!(sale.counts("Block 1").await?, (20, 0, 0, 0), "nothing is held");
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_methods_that_do_not_exist() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 2)).start().await?;
    let alice = sale.fan("alice");
    for part in [Part::Buy(1), Part::Webhook, Part::Queue, Part::Gate(1)] {
        let base = sale.stack.url(part);
        let answer = alice.call(Method::GET, &format!("{base}/api/v1/nothing"), &[], None).await?;
        refused(&part.to_string(), &answer, 404, "NOT_FOUND");
    }
    let browse = sale.stack.url(Part::Browse);
    let answer = alice.call(Method::GET, &format!("{browse}/api/v1/nothing"), &[], None).await?;
    refused("browse", &answer, 404, "NOT_FOUND");
    let answer = alice.call(Method::DELETE, &format!("{browse}/api/v1/events"), &[], None).await?;
    refused("DELETE /events", &answer, 405, "METHOD_NOT_ALLOWED");
    for path in ["/api/v1/events/99", "/api/v1/events/99/layout", "/api/v1/events/99/seats", "/api/v1/events/x"] {
        let answer = alice.browse(path).await?;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.text("message").is_empty(), "{path}: {}", answer.body);
    }
    let answer = alice.browse("/api/v1/events/1/seats?section=Moon").await?;
    assert_eq!(answer.status, 404, "{}", answer.body);
    Ok(())
}
