//! What a lost leader costs: the longest time without an acknowledged hold while its process is killed under load.

use super::StoreArguments;
use super::servers::Servers;
use super::settled::settled;
use anyhow::{Context, Result, ensure};
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Verdict, Workload, drive};
use domain::ids::GroupId;
use std::sync::Arc;
use std::time::Duration;

/// The number of the first of these sales.
const SALES: u32 = 2_000_000;
/// Enough to see the first hold after the silence, not so many that they starve the election of processor time.
const FANS: usize = 16;
const BEFORE: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_secs(10);

/// Kills the leader of the first group as often as there are runs.
pub async fn run(arguments: &StoreArguments, servers: &mut Servers, report: &mut Report) -> Result<()> {
    let group = GroupId(1);
    let hall = Hall { sections: 32, seats: 5_000 };
    let client = servers.client();
    let store = Arc::new(Store::new(client.clone(), Layout::Apart(vec![group]), 600_000));
    let mut silences = Vec::new();
    for run in 0..u32::from(arguments.runs) {
        eprintln!("fail-over {} of {}", run + 1, arguments.runs);
        let sale = SALES + run;
        store.open(sale, hall).await?;
        // A node that is still catching up is none to fail over to: with it the group would lose its majority.
        settled(&client).await?;
        let load = Load { clients: FANS, time: WHOLE };
        let crowd = tokio::spawn(drive(store.clone(), sale, hall, Workload::Cold, 0, load));
        tokio::time::sleep(BEFORE).await;
        let leaders = client.status().await.leaders();
        let leader = *leaders.get(&group).context("the first group has no leader")?;
        servers.kill_node(leader).await?;
        let tally = crowd.await?;
        let granted = tally.answers.iter().filter(|answer| answer.verdict == Verdict::Granted);
        let last = granted.map(|answer| answer.at).max().unwrap_or_default();
        ensure!(last > BEFORE + Duration::from_secs(1), "no hold was acknowledged after the leader was killed");
        silences.push(tally.longest_silence_ms(Verdict::Granted));
        servers.start_node(leader).await?;
    }
    let name = "fail-over: longest time without an acknowledged hold";
    report.figures.push(Figure::new(name, "ms", &silences, None));
    Ok(())
}
