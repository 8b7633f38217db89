//! Many holds that run out at one instant: how long until their seats sell again.

use super::StoreArguments;
use super::servers::Servers;
use anyhow::{Result, ensure};
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Verdict, Workload, drive};
use domain::ids::{EventId, GroupId};
use raft_store::client::Client;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of this sale; far above those of the side-by-side runs.
const SALE: u32 = 1_000_000;
/// Fans who take the seats before they run out.
const FANS: usize = 1_024;
/// How long taking them all may need: so long, and so long for each. Then all run out.
const HOLDING: Duration = Duration::from_secs(10);
const HOLDING_ONE: Duration = Duration::from_millis(2);
const SECTIONS: u16 = 20;

/// Holds that many pairs of seats with one common end, waits for it, and counts the time until all are free.
pub async fn run(arguments: &StoreArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    eprintln!("{} holds run out at one instant", arguments.expiring);
    let client = servers.client();
    let hall = Hall { sections: SECTIONS, seats: 2 * arguments.expiring.div_ceil(u32::from(SECTIONS)) };
    let holding = HOLDING + HOLDING_ONE * arguments.expiring;
    let end = Instant::now() + holding;
    let store = Arc::new(Store::new(client.clone(), Layout::Apart(vec![GroupId(1)]), 600_000).ending_at(end));
    store.open(SALE, hall).await?;
    let held = drive(store.clone(), SALE, hall, Workload::Cold, 0, Load { clients: FANS, time: holding }).await;
    let event = store.first_event(SALE);
    ensure!(
        held.count(Verdict::Granted) as u64 == hall.pairs(),
        "not all could be held in time: {:?}",
        held.first_failure
    );
    // Stock is read from any replica, which may be behind by moments.
    while u64::from(stock_held(&client, event).await?) < hall.pairs() * 2 {
        ensure!(Instant::now() < end, "holding took longer than the holds live: take fewer with --expiring");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep_until(end.into()).await;
    while stock_held(&client, event).await? > 0 {
        ensure!(end.elapsed() < Duration::from_secs(600), "expired holds were not freed within ten minutes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let name = format!("{} holds expire at once: until the last seat sells again", hall.pairs());
    report.figures.push(Figure::new(&name, "s", &[end.elapsed().as_secs_f64()], None));
    Ok(())
}

async fn stock_held(client: &Client, event: EventId) -> Result<u32> {
    Ok(client.stock(event).await?.held)
}
