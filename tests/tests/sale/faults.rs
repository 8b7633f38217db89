//! Faults that real ticket shops had with stock, limits, promotions and the line, over the real parts.

use anyhow::{Result, ensure};
use encore_tests::{Answer, Event, Fan, Sale, eventually, hold_body};
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::time::Duration;

fn places(count: u32) -> Value {
    json!({"event_id": 1, "places": [{"section": "Floor", "count": count}]})
}

/// Everybody asks for the same at once; how many were granted, and every answer.
async fn at_once(fans: &[(Fan, String)], body: &Value) -> Result<(usize, Vec<Answer>)> {
    let asked = fans.iter().map(|(fan, pass)| fan.hold_body(body, pass, "at-once"));
    let answers = try_join_all(asked).await?;
    for answer in &answers {
        assert!(matches!(answer.status, 201 | 409), "{}: {}", answer.status, answer.body);
    }
    Ok((answers.iter().filter(|answer| answer.status == 201).count(), answers))
}

/// One seat, two buyers; the second is refused at the hold, not at the till.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_falls_at_the_hold() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 1)).start().await?;
    let fans = sale.fans_with_passes("fan", 2).await?;
    let (granted, answers) = at_once(&fans, &hold_body(1, &sale.row("Block 1", "1", 1..=1))).await?;
    assert_eq!(granted, 1);
    let (winner, held) = fans.iter().zip(&answers).find(|(_, answer)| answer.status == 201).expect("one was granted");
    assert_eq!(sale.buy(&winner.0, &held.body, "tok_visa").await?, "succeeded");
    sale.shows("Block 1", (0, 0, 1, 0)).await?;
    sale.audit().await
}

/// Standing places have no numbers and no voucher, and are counted all the same; orders are whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standing_places_never_fall_below_zero() -> Result<()> {
    let sale = Sale::of(Event::new().standing("Floor", 3)).start().await?;
    let pairs = sale.fans_with_passes("pair", 2).await?;
    let (granted, _) = at_once(&pairs, &places(2)).await?;
    assert_eq!(granted, 1, "two orders of two on three places: one whole order");
    let singles = sale.fans_with_passes("single", 5).await?;
    let (granted, _) = at_once(&singles, &places(1)).await?;
    assert_eq!(granted, 1, "one place was left");
    sale.shows("Floor", (0, 3, 0, 0)).await?;
    sale.audit().await
}

/// The limit counts the cart's sum, what is held, and what was bought before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_count_everything_a_fan_has() -> Result<()> {
    let event = Event::new().section("Block 1", 2, 10).standing("Floor", 20).user_limit(4);
    let sale = Sale::of(event).start().await?;
    let alice = sale.fan("alice");
    let pass = sale.pass(&alice).await?;
    let mut mixed = hold_body(1, &sale.row("Block 1", "1", 1..=3));
    mixed["places"] = json!([{"section": "Floor", "count": 2}]);
    let over = alice.hold_body(&mixed, &pass, "over").await?;
    assert_eq!((over.status, over.error()), (409, "TICKET_LIMIT"), "five of four: {}", over.body);

    let held = alice.hold(1, &sale.row("Block 1", "1", 1..=3), &pass, "three").await?.expect(201)?;
    // A second checkout beside an open one is refused and shows the open one.
    let second = alice.hold(1, &sale.row("Block 1", "2", 1..=1), &pass, "beside").await?;
    assert!(
        matches!(second.error(), "CHECKOUT_ALREADY_OPEN" | "QUEUE_TOKEN_USED" | "QUEUE_TOKEN_INVALID"),
        "{}",
        second.body
    );
    assert_eq!(sale.buy(&alice, &held.body, "tok_visa").await?, "succeeded");

    let pass = sale.pass(&alice).await?;
    let over = alice.hold(1, &sale.row("Block 1", "2", 1..=2), &pass, "two-more").await?;
    assert_eq!((over.status, over.error()), (409, "TICKET_LIMIT"), "three bought and two more: {}", over.body);
    alice.hold(1, &sale.row("Block 1", "2", 1..=1), &pass, "one-more").await?.expect(201)?;
    sale.audit().await
}

/// A cancelled hold gives back exactly what it had, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_gives_back_once() -> Result<()> {
    let sale = Sale::of(Event::new().standing("Floor", 4)).start().await?;
    let fans = sale.fans_with_passes("fan", 2).await?;
    let mut held = Vec::new();
    for (fan, pass) in &fans {
        held.push(fan.hold_body(&places(2), pass, "hold").await?.expect(201)?);
    }
    let (alice, id) = (&fans[0].0, held[0].text("reservation_id"));
    let twin = alice.clone().through(1);
    let (one, two) = tokio::try_join!(alice.cancel(id, "one"), twin.cancel(id, "two"))?;
    for answer in [&one, &two, &alice.cancel(id, "three").await?] {
        assert!(matches!(answer.status, 200 | 204 | 409), "{}: {}", answer.status, answer.body);
    }
    assert_eq!(alice.reservation(id).await?.expect(200)?.text("status"), "cancelled");
    sale.shows("Floor", (2, 2, 0, 0)).await?;
    sale.audit().await
}

/// A code with three uses and five orders at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_used_as_often_as_it_may() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 5, 2).promotion("SPRING", 2_500, 3)).start().await?;
    let fans = sale.fans_with_passes("fan", 5).await?;
    let answers = try_join_all(fans.iter().enumerate().map(|(number, (fan, pass))| {
        let mut body = hold_body(1, &sale.row("Block 1", &(number + 1).to_string(), 1..=2));
        body["promotion"] = json!("SPRING");
        async move { fan.hold_body(&body, pass, "hold").await }
    }))
    .await?;
    let granted: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(granted.len(), 3, "{answers:?}");
    for answer in granted {
        assert_eq!(answer.body["total_cents"], 3_000, "a quarter off two seats of 20.00: {}", answer.body);
    }
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((answer.status, answer.error()), (409, "PROMOTION_EXHAUSTED"), "{}", answer.body);
    }
    // Who got no discount got no seats either.
    sale.shows("Block 1", (4, 6, 0, 0)).await?;
    sale.audit().await
}

/// A code is given back by expiry and by cancelling, and never after payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_use_code_comes_back_unless_it_was_paid_with() -> Result<()> {
    let event = Event::new().section("Block 1", 5, 2).promotion("ONCE", 1_000, 1).hold_ttl_s(4);
    let sale = Sale::of(event).start().await?;
    let with_code = |row: &str| {
        let mut body = hold_body(1, &sale.row("Block 1", row, 1..=1));
        body["promotion"] = json!("ONCE");
        body
    };
    let fans = sale.fans_with_passes("fan", 4).await?;
    let (alice, bob, carol, dave) = (&fans[0], &fans[1], &fans[2], &fans[3]);
    let held = alice.0.hold_body(&with_code("1"), &alice.1, "hold").await?.expect(201)?;
    let refused = bob.0.hold_body(&with_code("2"), &bob.1, "hold").await?;
    assert_eq!((refused.status, refused.error()), (409, "PROMOTION_EXHAUSTED"), "{}", refused.body);
    alice.0.cancel(held.text("reservation_id"), "cancel").await?;

    bob.0.hold_body(&with_code("2"), &bob.1, "again").await?.expect(201)?;
    let held = eventually("bob's hold runs out and the code is free", Duration::from_secs(20), || async {
        carol
            .0
            .hold_body(&with_code("3"), &carol.1, &format!("hold-{}", encore_tests::webhook::now_s()))
            .await?
            .expect(201)
    })
    .await?;
    assert_eq!(sale.buy(&carol.0, &held.body, "tok_visa").await?, "succeeded");
    let refused = dave.0.hold_body(&with_code("4"), &dave.1, "hold").await?;
    assert_eq!((refused.status, refused.error()), (409, "PROMOTION_EXHAUSTED"), "paid with: {}", refused.body);
    sale.audit().await
}

/// Whoever comes back, from another device or after having been logged out, has the place that he had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_identity_keeps_its_place() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 5, 10).capacity(1)).start().await?;
    let inside = sale.fan("inside");
    sale.pass(&inside).await?;
    let alice = sale.fan("alice");
    let first = alice.join(1).await?.expect(200)?;
    let mut others = Vec::new();
    for number in 0..5 {
        others.push(sale.fan(&format!("later-{number}")).join(1).await?.expect(200)?);
    }
    // A fresh login is another token for the same identity.
    let again = sale.fan("alice").join(1).await?.expect(200)?;
    assert_eq!(again.body["position"], first.body["position"], "{} / {}", first.body, again.body);
    assert!(
        again.body["position"].as_u64() < others[0].body["position"].as_u64(),
        "{} / {}",
        again.body,
        others[0].body
    );
    eventually("alice is still ahead of those who came later", Duration::from_secs(10), || async {
        let place = alice.queue_status(1, again.text("session"), 0).await?.expect(200)?;
        ensure!(place.body["ahead"].as_u64() == first.body["ahead"].as_u64(), "{}", place.body);
        Ok(())
    })
    .await
}
