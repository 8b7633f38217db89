//! Resizing the store by an operator's commands while fans storm it: nobody notices, and the audit is clean.

use anyhow::{Context, Result, ensure};
use encore_tests::{Answer, Event, Fan, Sale, eventually};
use futures::future::join_all;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One seat in each of two sections, asked for with the same key until it is answered for good, as a browser would.
async fn hold_until_answered(fan: &Fan, pass: &str, seat: usize) -> Result<Answer> {
    let label = |section: &str| (section.to_owned(), (seat / 10 + 1).to_string(), (seat % 10 + 1).to_string());
    let seats = [label("Block 1"), label(if seat.is_multiple_of(2) { "Block 2" } else { "Block 3" })];
    let begun = Instant::now();
    loop {
        match fan.hold(1, &seats, pass, &format!("key-{seat}")).await {
            Ok(answer) if !matches!(answer.status, 429 | 503 | 504) => return Ok(answer),
            other => {
                ensure!(begun.elapsed() < Duration::from_secs(90), "{} was never answered: {other:?}", fan.name);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn status(sale: &Sale) -> Result<Value> {
    let said = sale.stack.encore(&["admin", "status", "--json"]).await?;
    serde_json::from_str(&said).with_context(|| format!("status is no JSON: {said}"))
}

/// The groups that have a partition of this kind: `seats` or `checkouts`.
fn groups_of(kind: &str, status: &Value) -> Vec<u64> {
    let partitions = status["partitions"].as_array().cloned().unwrap_or_default();
    let of_kind = partitions.iter().filter(|line| line["partition"].to_string().to_lowercase().contains(kind));
    let mut groups: Vec<u64> = of_kind.filter_map(|line| line["group"].as_u64()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_spread_and_gathered_in_a_storm() -> Result<()> {
    const FANS: usize = 80;
    let event = Event::new().section("Block 1", 8, 10).section("Block 2", 8, 10).section("Block 3", 8, 10);
    let sale = Sale::of(event.hold_ttl_s(600)).start().await?;
    // Nothing happens in a dry run, and a plan that cannot be is refused with the reason.
    let plan = sale.stack.encore(&["admin", "group", "create", "--dry-run"]).await?;
    assert!(plan.contains("form group 2") && plan.contains("dry run"), "{plan}");
    let refused = sale.stack.encore(&["admin", "spread", "1", "--groups", "2"]).await.unwrap_err().to_string();
    assert!(refused.contains("there are 1 groups for events, not 2"), "{refused}");
    println!("{}", sale.stack.encore(&["admin", "group", "create"]).await?);

    let fans = sale.fans_with_passes("fan", FANS).await?;
    let answered = Arc::new(AtomicUsize::new(0));
    let storming: Vec<_> = fans
        .into_iter()
        .enumerate()
        .map(|(number, (fan, pass))| {
            let answered = answered.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number as u64 * 60)).await;
                let answer = hold_until_answered(&fan, &pass, number).await?;
                answered.fetch_add(1, Ordering::Relaxed);
                anyhow::Ok((fan, answer))
            })
        })
        .collect();
    eventually("some holds are answered", Duration::from_secs(60), || async {
        ensure!(answered.load(Ordering::Relaxed) >= 5, "{} answers", answered.load(Ordering::Relaxed));
        Ok(())
    })
    .await?;
    println!("{}", sale.stack.encore(&["admin", "spread", "1", "--groups", "2"]).await?);
    let spread = status(&sale).await?;
    assert_eq!(groups_of("seats", &spread), [1, 2]);
    assert_eq!(groups_of("checkouts", &spread), [1, 2], "whose holds begin there moves, too");
    println!("{}", sale.stack.encore(&["admin", "spread", "1", "--groups", "1"]).await?);
    let gathered = status(&sale).await?;
    assert_eq!((groups_of("seats", &gathered), groups_of("checkouts", &gathered)), (vec![1], vec![1]));
    println!("{}", sale.stack.encore(&["admin", "move", "seats/1/1", "--to", "2"]).await?);
    println!("{}", sale.stack.encore(&["admin", "rebalance"]).await?);

    for fan in join_all(storming).await {
        let (fan, answer) = fan??;
        assert_eq!(answer.status, 201, "{}: {}", fan.name, answer.body);
        let record = fan.reservation(answer.text("reservation_id")).await?.expect(200)?;
        assert_eq!(record.text("status"), "held", "{}: {}", fan.name, record.body);
    }
    println!("{}", sale.stack.encore(&["admin", "status"]).await?);
    let status = status(&sale).await?;
    assert_eq!(status["open_moves"].as_array().map(Vec::len), Some(0), "{status}");
    println!("frozen for {} ms at the median", status["median_frozen_ms"]);
    sale.shows("Block 1", (0, FANS as u64, 0, 0)).await?;
    sale.audit().await
}
