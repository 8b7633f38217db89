//! What was acknowledged survives: the leader killed in mid-storm, and all three nodes killed at once.

use anyhow::{Context, Result, ensure};
use encore_tests::{Answer, Event, Fan, Part, Sale, eventually};
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The hold of one seat, asked again with the same key until it is answered for good, as a browser would.
async fn hold_until_answered(fan: &Fan, pass: &str, seat: usize) -> Result<(Answer, Instant)> {
    let seats = [("Block 1".to_owned(), (seat / 20 + 1).to_string(), (seat % 20 + 1).to_string())];
    let begun = Instant::now();
    loop {
        match fan.hold(1, &seats, pass, &format!("key-{seat}")).await {
            Ok(answer) if answer.status != 503 && answer.status != 504 => return Ok((answer, Instant::now())),
            other => {
                ensure!(begun.elapsed() < Duration::from_secs(60), "{} was never answered: {other:?}", fan.name);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn all_are_there(holders: &[(Fan, String)]) -> Result<()> {
    for (fan, id) in holders {
        let record = fan.reservation(id).await?.expect(200)?;
        assert_eq!(record.text("status"), "held", "{}: {}", fan.name, record.body);
    }
    Ok(())
}

/// The node that leads the data group.
async fn leader(sale: &Sale) -> Result<Part> {
    let store = sale.sources()?.store;
    eventually("the data group has a leader", Duration::from_secs(20), || async {
        let leaders = store.status().await.leaders();
        let leader = leaders.iter().find(|(group, _)| group.0 == 1).context("group 1 has no leader")?;
        Ok(Part::Node(u8::try_from(leader.1.0)?))
    })
    .await
}

/// Forty fans' holds are under way when `strike` hits; every 201 must be there afterwards, and holds go on.
async fn storm(sale: &mut Sale, first: usize, victims: &[Part]) -> Result<Vec<(Fan, String)>> {
    let fans = sale.fans_with_passes(&format!("fan{first}"), 40).await?;
    let answered = Arc::new(AtomicUsize::new(0));
    let storming: Vec<_> = fans
        .into_iter()
        .enumerate()
        .map(|(number, (fan, pass))| {
            let answered = answered.clone();
            tokio::spawn(async move {
                // Not all in one entry: the blow must find some acknowledged, some on their way, some not yet asked.
                tokio::time::sleep(Duration::from_millis(number as u64 * 25)).await;
                let held = hold_until_answered(&fan, &pass, first + number).await?;
                answered.fetch_add(1, Ordering::Relaxed);
                anyhow::Ok((fan, held))
            })
        })
        .collect();
    eventually("some holds are answered", Duration::from_secs(30), || async {
        ensure!(answered.load(Ordering::Relaxed) >= 10, "{} answers", answered.load(Ordering::Relaxed));
        Ok(())
    })
    .await?;
    for part in victims {
        sale.stack.kill(*part).await?;
    }
    let struck = Instant::now();
    if victims.len() > 1 {
        for part in victims {
            sale.stack.start_part(*part)?;
        }
    }
    let mut holders = Vec::new();
    let mut first_after = None::<Duration>;
    for fan in join_all(storming).await {
        let (fan, (answer, at)) = fan??;
        assert_eq!(answer.status, 201, "{}: {}", fan.name, answer.body);
        if let Some(after) = at.checked_duration_since(struck).filter(|after| *after > Duration::from_millis(50)) {
            first_after = Some(first_after.map_or(after, |least| least.min(after)));
        }
        holders.push((fan, answer.text("reservation_id").to_owned()));
    }
    let resumed = first_after.context("the blow came too late: nothing was left to hold")?;
    if victims.len() == 1 {
        assert!(resumed < Duration::from_secs(3), "holds went on only after {resumed:?}");
    }
    Ok(holders)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed_in_a_storm() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 10, 20).hold_ttl_s(600)).start().await?;
    let victim = leader(&sale).await?;
    let holders = storm(&mut sale, 0, &[victim]).await?;
    all_are_there(&holders).await?;

    sale.stack.restart(victim).await?;
    let store = sale.sources()?.store;
    eventually("the killed node has caught up", Duration::from_secs(30), || async {
        let status = store.status().await;
        let applied: Vec<_> = status.replicas().filter(|(_, group)| group.group.0 == 1).collect();
        ensure!(applied.len() == 3, "{} of 3 replicas answer", applied.len());
        let most = applied.iter().filter_map(|(_, group)| group.applied).max().unwrap_or(0);
        // The group ticks every second, so that the last entry moves while we look.
        for (node, group) in applied {
            ensure!(group.applied.unwrap_or(0) + 3 >= most, "node {node} is at {:?} of {most}", group.applied);
        }
        Ok(())
    })
    .await?;
    all_are_there(&holders).await?;
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_are_killed_in_a_storm() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 10, 20).hold_ttl_s(600)).start().await?;
    let nodes = [Part::Node(1), Part::Node(2), Part::Node(3)];
    let holders = storm(&mut sale, 0, &nodes).await?;
    sale.stack.wait_ready(&nodes).await?;
    all_are_there(&holders).await?;
    sale.audit().await
}
