//! Redis and PostgreSQL lost in mid-sale: what may wait waits with a word, what need not goes on, and nobody is sold twice.

use anyhow::{Result, ensure};
use encore_tests::{Event, Part, Sale, eventually};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_redis_key_is_deleted_in_mid_sale() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 4, 10)).start().await?;
    let before = sale.fans_with_passes("early", 10).await?;
    let mut holds = Vec::new();
    for (number, (fan, pass)) in before.iter().enumerate() {
        let seats = sale.row("Block 1", "1", number as u32 + 1..=number as u32 + 1);
        holds.push(fan.hold(1, &seats, pass, "hold").await?.expect(201)?.body);
    }
    sale.stack.redis()?.flush_all().await?;

    // A pass whose lease is gone is worth nothing, and its owner may join again.
    let (late, pass) = (sale.fan("late"), before[0].1.clone());
    let refused = late.hold(1, &sale.row("Block 1", "2", 1..=1), &pass, "hold").await?;
    assert_eq!((refused.status, refused.error()), (403, "QUEUE_TOKEN_INVALID"), "{}", refused.body);

    let after = sale.fans_with_passes("late", 10).await?;
    for (number, (fan, pass)) in after.iter().enumerate() {
        let number = number as u32;
        let taken = fan.hold(1, &sale.row("Block 1", "1", number + 1..=number + 1), pass, "taken").await?;
        assert_eq!((taken.status, taken.error()), (409, "SEAT_UNAVAILABLE"), "sold twice: {}", taken.body);
        fan.hold(1, &sale.row("Block 1", "2", number + 1..=number + 1), pass, "hold").await?.expect(201)?;
    }
    let outcome = sale.buy(&before[0].0, &holds[0], "tok_visa").await?;
    assert_eq!(outcome, "succeeded", "who held before can still pay");
    sale.shows("Block 1", (20, 19, 1, 0)).await?;
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_stopped() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 4, 10)).start().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let (pass, unused) = (sale.pass(&alice).await?, sale.pass(&bob).await?);
    let held = alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?;

    sale.stack.stop_part(Part::Redis).await?;
    let join = sale.fan("carol").join(1).await?;
    assert_eq!(join.status, 503, "{}", join.body);
    assert!(join.retry_after.is_some() && !join.error().is_empty(), "{}", join.body);
    let hold = bob.hold(1, &sale.row("Block 1", "2", 1..=2), &unused, "hold").await?;
    assert_eq!(hold.status, 503, "nobody got in, never everybody: {}", hold.body);
    assert!(hold.retry_after.is_some(), "{}", hold.body);
    sale.shows("Block 1", (38, 2, 0, 0)).await?;
    assert_eq!(sale.buy(&alice, &held.body, "tok_visa").await?, "succeeded", "paying goes on");

    sale.stack.restart(Part::Redis).await?;
    eventually("the waiting room is back", Duration::from_secs(20), || async {
        sale.fan("carol").join(1).await?.expect(200).map(|_| ())
    })
    .await?;
    // Bob's pass survived on disk; if it did not, he would have to join again. The buy plane finds its own way back.
    let pass = sale.pass(&bob).await?;
    eventually("bob can hold", Duration::from_secs(20), || async {
        bob.hold(1, &sale.row("Block 1", "2", 1..=2), &pass, "hold-again").await?.expect(201).map(|_| ())
    })
    .await?;
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_is_stopped() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 4, 10)).start().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let pass = sale.pass(&alice).await?;
    let held = alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?;
    let paying = alice.pay(&held.body, "tok_late_2000", "pay").await?.expect(202)?;

    sale.stack.stop_part(Part::Postgres).await?;
    let pass = sale.pass(&bob).await?;
    let other = bob.hold(1, &sale.row("Block 1", "2", 1..=2), &pass, "hold").await?.expect(201)?;
    sale.shows("Block 1", (36, 4, 0, 0)).await?;
    let refused = bob.pay(&other.body, "tok_visa", "pay").await?;
    assert_eq!((refused.status, refused.error()), (503, "LEDGER_UNAVAILABLE"), "{}", refused.body);
    assert!(refused.retry_after.is_some());
    // The provider has charged Alice meanwhile, and found nobody to tell.
    tokio::time::sleep(Duration::from_secs(3)).await;

    sale.stack.restart(Part::Postgres).await?;
    assert_eq!(alice.settled(paying.text("payment_id"), Duration::from_secs(60)).await?, "succeeded");
    eventually("bob can pay", Duration::from_secs(20), || async {
        bob.pay(&other.body, "tok_visa", "pay").await?.expect(202).map(|_| ())
    })
    .await?;
    eventually("everybody has tickets", Duration::from_secs(60), || async {
        let have = (alice.tickets().await?.len(), bob.tickets().await?.len());
        ensure!(have == (2, 2), "{have:?}");
        Ok(())
    })
    .await?;
    sale.audit().await
}
