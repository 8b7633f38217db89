//! Processes that stand still for longer than a hold lasts: all nodes at once, or the leader alone.

use super::crash::leader;
use anyhow::{Context, Result, ensure};
use encore_tests::{Answer, Event, Fan, Part, Sale, eventually};
use std::time::{Duration, Instant};

const NODES: [Part; 3] = [Part::Node(1), Part::Node(2), Part::Node(3)];
const HOLD_S: u32 = 30;
const HOLD: Duration = Duration::from_secs(HOLD_S as u64);
/// What one entry may add to a hold's clock, however long its leader stood still.
const CLAMP: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

async fn sale() -> Result<Sale> {
    Sale::of(Event::new().section("Block 1", 2, 10).hold_ttl_s(HOLD_S)).start().await
}

async fn record(fan: &Fan, id: &str) -> Result<Answer> {
    eventually("the store answers", PATIENCE, || async { fan.reservation(id).await?.expect(200) }).await
}

/// Until the hold has run out.
async fn runs_out(fan: &Fan, id: &str) -> Result<()> {
    eventually("the hold runs out", PATIENCE, || async {
        let record = fan.reservation(id).await?.expect(200)?;
        ensure!(record.text("status") == "expired", "{}", record.body);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_stand_still_for_longer_than_a_hold() -> Result<()> {
    let mut sale = sale().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let (pass, other) = (sale.pass(&alice).await?, sale.pass(&bob).await?);
    let asked = Instant::now();
    let held = alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?;
    let left = bob.hold(1, &sale.row("Block 1", "1", 3..=4), &other, "hold").await?.expect(201)?;
    let id = left.text("reservation_id");

    NODES.iter().try_for_each(|node| sale.stack.freeze(*node, true))?;
    let stopped = Instant::now();
    tokio::time::sleep(HOLD + Duration::from_secs(4)).await;
    NODES.iter().try_for_each(|node| sale.stack.freeze(*node, false))?;
    let paused = stopped.elapsed();

    let seen = record(&bob, id).await?;
    let left_ms = seen.body["remaining_ms"].as_u64().context("a hold has a remaining time")?;
    // The pause costs at most what one entry may add; the rest of the time is what passed while the nodes served.
    let least = HOLD.saturating_sub(asked.elapsed().saturating_sub(paused) + CLAMP);
    ensure!(Duration::from_millis(left_ms) >= least, "{left_ms} ms are left, not {least:?}: {}", seen.body);
    ensure!(seen.text("status") == "held" || least.is_zero(), "{}", seen.body);
    assert_eq!(sale.buy(&alice, &held.body, "tok_visa").await?, "succeeded", "what was held can be paid");

    runs_out(&bob, id).await?;
    let lasted = asked.elapsed();
    ensure!(lasted + CLAMP >= HOLD + paused, "it ran out after {lasted:?}, with {paused:?} of pause");
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stood_still_for_longer_than_a_hold_ends_nothing_when_it_goes_on() -> Result<()> {
    let mut sale = sale().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let (pass, other) = (sale.pass(&alice).await?, sale.pass(&bob).await?);
    let asked = Instant::now();
    let first = alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?;
    let victim = leader(&sale).await?;
    sale.stack.freeze(victim, true)?;

    // The others go on, with the time that is left: from when the new leader began, not from when the old one stopped.
    let seen = record(&alice, first.text("reservation_id")).await?;
    let left_ms = seen.body["remaining_ms"].as_u64().context("a hold has a remaining time")?;
    let least = HOLD.saturating_sub(asked.elapsed());
    ensure!(Duration::from_millis(left_ms) >= least, "{left_ms} ms are left, not {least:?}: {}", seen.body);
    runs_out(&alice, first.text("reservation_id")).await?;
    ensure!(asked.elapsed() >= HOLD, "it ran out after {:?}", asked.elapsed());

    // The same seats are another's when the old leader wakes, with a stamp of half a minute in its hands.
    let taken = eventually("the seats are free", PATIENCE, || async {
        bob.hold(1, &sale.row("Block 1", "1", 1..=2), &other, "hold").await?.expect(201)
    })
    .await?;
    sale.stack.freeze(victim, false)?;
    sale.stack.wait_ready(&NODES).await?;
    let seen = record(&bob, taken.text("reservation_id")).await?;
    assert_eq!(seen.text("status"), "held", "{}", seen.body);
    assert_eq!(sale.buy(&bob, &taken.body, "tok_visa").await?, "succeeded");
    sale.audit().await
}
