//! Waits until the nodes have nothing left to do, so that one measurement does not pay for the one before.

use anyhow::{Result, ensure};
use domain::ids::GroupId;
use raft_store::client::{Client, ClusterStatus, NodeAnswer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(120);
/// The groups tick, so that the last entry moves while we look.
const TICKS: u64 = 3;

/// Until every node answers and every replica has applied what the furthest one of its group has.
pub async fn settled(client: &Client) -> Result<()> {
    let begun = Instant::now();
    while !is_settled(&client.status().await) {
        ensure!(begun.elapsed() < WITHIN, "a replica does not catch up within {} s", WITHIN.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn is_settled(status: &ClusterStatus) -> bool {
    let mut furthest = BTreeMap::<GroupId, u64>::new();
    for (_, group) in status.replicas() {
        let last = group.last_log.max(group.applied).unwrap_or(0);
        furthest.entry(group.group).and_modify(|known| *known = last.max(*known)).or_insert(last);
    }
    let is_there = |group: GroupId, applied: Option<u64>| {
        furthest.get(&group).is_none_or(|furthest| applied.unwrap_or(0) + TICKS >= *furthest)
    };
    status.nodes.values().all(|answer| matches!(answer, NodeAnswer::Up(_)))
        && status.replicas().all(|(_, group)| is_there(group.group, group.applied))
}
