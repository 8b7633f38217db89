//! What moving costs while seats sell: how long each partition of an event is frozen on its way to another group and back.

use super::KeepArguments;
use super::servers::Servers;
use anyhow::{Result, ensure};
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Verdict, Workload, drive};
use domain::ids::GroupId;
use raft_store::client::{Client, NodeAnswer};
use raft_store::mover::{MoveNote, MoveResult};
use std::sync::Arc;

/// The number of this sale; the other parts of the bench use smaller ones.
const SALE: u32 = 1_000;
const FANS: usize = 64;
const HOLD_TTL_MS: u32 = 3_600_000;

/// Moves one partition of an event after the other while its seats sell; no fan may notice.
pub async fn run(arguments: &KeepArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    eprintln!("partitions move while {FANS} fans hold seats");
    let client = servers.client();
    let (home, away) = (GroupId(1), GroupId(2));
    let store = Arc::new(Store::new(client.clone(), Layout::Apart(vec![home]), HOLD_TTL_MS));
    let hall = Hall { sections: 50, seats: 3_600 };
    store.open(SALE, hall).await?;
    let event = store.first_event(SALE);
    // Moving ends with the crowd, or when all partitions are back.
    let load = Load { clients: FANS, time: arguments.time() * 4 };
    let crowd = tokio::spawn(drive(store, SALE, hall, Workload::Cold, 0, load));
    let partitions = client.partitions(event).await?;
    for to in [away, home] {
        for partition in &partitions {
            if !crowd.is_finished() {
                client.move_partition(partition, to, &mut |text| eprintln!("{text}")).await?;
            }
        }
    }
    let tally = crowd.await?;
    ensure!(tally.failures == 0, "fans noticed the moves: {:?}", tally.first_failure);
    let notes = notes(&client).await.into_iter().filter(|note| note.partition.event() == Some(event));
    let frozen: Vec<f64> = notes.filter_map(|note| frozen_ms(&note)).collect();
    ensure!(!frozen.is_empty(), "nothing moved");
    let name = format!("a partition is frozen while it moves, {} moves", frozen.len());
    report.figures.push(Figure::new(&name, "ms", &frozen, None));
    let slowest = frozen.iter().copied().fold(0.0, f64::max);
    report.figures.push(Figure::new("the same: longest", "ms", &[slowest], None));
    let rate = tally.rate(Verdict::Granted);
    report.figures.push(Figure::new("the same: holds meanwhile, none of which failed", "1/s", &[rate], None));
    Ok(())
}

fn frozen_ms(note: &MoveNote) -> Option<f64> {
    match note.result {
        MoveResult::Moved { frozen_ms } => Some(frozen_ms as f64),
        MoveResult::GivenUp(_) => None,
    }
}

/// The moves that the nodes have driven lately.
async fn notes(client: &Client) -> Vec<MoveNote> {
    let nodes = client.status().await.nodes.into_values();
    let up = nodes.filter_map(|answer| match answer {
        NodeAnswer::Up(node) => Some(node.moves),
        NodeAnswer::Down(_) => None,
    });
    up.flatten().collect()
}
