//! What a node keeps, and what keeping costs: memory a seat, holds while snapshots are made, a crowd ten times too large, and
//! a restart behind a long log.

use super::KeepArguments;
use super::servers::Servers;
use anyhow::{Context, Result, ensure};
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Tally, Verdict, Workload, drive};
use domain::ids::{GroupId, NodeId, Partition};
use domain::inventory::command::{Command, Manage};
use indicatif::{ProgressBar, ProgressStyle};
use raft_store::client::{Client, GroupStatus, NodeAnswer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const SALE: u32 = 1;
/// Of the sale that is asked for while snapshots are made, and of that of the crowd.
const SMALL_SALE: u32 = 2;
const CROWD_SALE: u32 = 3;
const SECTIONS: u16 = 500;
const HOLD_TTL_MS: u32 = 3_600_000;
/// Fans who hold seats while the log grows.
const FANS: usize = 16;
/// Fans who are no overload.
const MANY_FANS: usize = 256;
/// Proposals that may wait in one group, ten times; each of these fans comes back as soon as it may.
const TOO_MANY_FANS: usize = 40_960;
/// A client refuses by itself once so many of its own wait: the nodes are to refuse, so there are several.
const CLIENTS: usize = 8;
/// How long each crowd asks.
const ASKING: Duration = Duration::from_secs(5);
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(120);

/// Measures all of it, one after the other on the same nodes.
pub async fn run(arguments: &KeepArguments, servers: &mut Servers, report: &mut Report) -> Result<()> {
    let groups: Vec<GroupId> = (1..=arguments.groups).map(GroupId).collect();
    let seats = (arguments.seats / u32::from(SECTIONS)).next_multiple_of(2);
    let hall = Hall { sections: SECTIONS, seats };
    let store = Store::new(servers.client(), Layout::Apart(groups.clone()), HOLD_TTL_MS);
    memory_a_seat(servers, &store, hall, report).await?;
    overload(servers, report).await?;
    let partitions = store
        .sections(SALE, hall)
        .into_iter()
        .filter_map(|(event, sections)| Some(Partition::Seats { event, section: *sections.first()? }));
    long_log(arguments, servers, partitions.collect(), report).await?;
    restart(servers, report).await
}

/// Puts the hall on sale and looks at the nodes, then holds one seat in twenty and looks again.
async fn memory_a_seat(servers: &Servers, store: &Store, hall: Hall, report: &mut Report) -> Result<()> {
    let seats = f64::from(hall.seats) * f64::from(hall.sections);
    eprintln!("{seats} seats in {} partitions go on sale", hall.sections);
    let before = servers.resident();
    let mut grown = |servers: &Servers, name: &str| {
        let bytes =
            servers.resident().into_iter().zip(&before).map(|(now, then)| now.saturating_sub(*then) as f64 / seats);
        report.figures.push(Figure::new(name, "bytes/seat", &bytes.collect::<Vec<_>>(), None));
    };
    store.open(SALE, hall).await?;
    caught_up(&servers.client()).await?;
    grown(servers, &format!("{seats} seats in {} partitions, resident on a node", hall.sections));
    let few = Hall { seats: hall.seats / 20 / 2 * 2, ..hall };
    let load = Load { clients: MANY_FANS, time: Duration::from_secs(600) };
    let contender = Arc::new(Store::new(servers.client(), store.layout().clone(), HOLD_TTL_MS));
    let held = drive(contender, SALE, few, Workload::Cold, 0, load).await;
    ensure!(held.failures == 0, "not all could be held: {:?}", held.first_failure);
    caught_up(&servers.client()).await?;
    let share = held.count(Verdict::Granted) as f64 * 200.0 / seats;
    grown(servers, &format!("the same with {share:.0} in 100 held, their log and records"));
    Ok(())
}

/// A crowd that the nodes can serve, one ten times too large, and the first one again.
async fn overload(servers: &Servers, report: &mut Report) -> Result<()> {
    eprintln!("{TOO_MANY_FANS} fans ask at once");
    let hall = Hall { sections: 100, seats: 2_000 };
    let clients: Vec<Arc<dyn Contender>> = (0..CLIENTS)
        .map(|_| {
            let store = Store::new(servers.client(), Layout::Apart(vec![GroupId(1)]), HOLD_TTL_MS);
            Arc::new(store) as Arc<dyn Contender>
        })
        .collect();
    clients[0].open(CROWD_SALE, hall).await?;
    // Every client has its part of the hall and of the fans.
    let part = Hall { seats: hall.seats, sections: hall.sections };
    let crowd = async |turn: u64, fans: usize| {
        let load = Load { clients: fans / CLIENTS, time: ASKING };
        let tallies = (0u64..).zip(&clients).map(|(number, client)| {
            let first = (turn * CLIENTS as u64 + number) * 1_000_000;
            drive(client.clone(), CROWD_SALE, part, Workload::Cold, first, load)
        });
        together(futures::future::join_all(tallies).await)
    };
    let before = servers.resident();
    let calm = crowd(0, MANY_FANS).await;
    let flood = crowd(1, TOO_MANY_FANS).await;
    let during = servers.resident();
    let after = crowd(2, MANY_FANS).await;
    ensure!(flood.count(Verdict::Overloaded) > 0, "nobody was told that too many ask");
    let rate =
        |tally: &Tally| [(tally.count(Verdict::Granted) + tally.count(Verdict::Refused)) as f64 / ASKING.as_secs_f64()];
    let mut add = |name: &str, unit: &str, value: f64| report.figures.push(Figure::new(name, unit, &[value], None));
    add(&format!("answers to {MANY_FANS} fans"), "1/s", rate(&calm)[0]);
    add(&format!("answers to {TOO_MANY_FANS} fans at once"), "1/s", rate(&flood)[0]);
    add("those told to come back", "1/s", flood.count(Verdict::Overloaded) as f64 / ASKING.as_secs_f64());
    add("those told to come back: median", "ms", flood.quantile_ms(Verdict::Overloaded, 0.5));
    add("those told to come back: p99", "ms", flood.quantile_ms(Verdict::Overloaded, 0.99));
    let grown = before.iter().zip(&during).map(|(then, now)| now.saturating_sub(*then)).max().unwrap_or(0);
    add("memory that a node took meanwhile", "MiB", (grown >> 20) as f64);
    add(&format!("answers to {MANY_FANS} fans right after it"), "1/s", rate(&after)[0]);
    for tally in [&calm, &flood, &after] {
        if let Some(failure) = &tally.first_failure {
            report.remarks.push(format!("overload: {} attempts had no answer; one: {failure}", tally.failures));
        }
    }
    Ok(())
}

fn together(tallies: Vec<Tally>) -> Tally {
    let mut all = Tally::default();
    for tally in tallies {
        all.answers.extend(tally.answers);
        all.failures += tally.failures;
        all.first_failure = all.first_failure.or(tally.first_failure);
        all.elapsed = all.elapsed.max(tally.elapsed);
    }
    all
}

/// Entries without effect, one after the other in every group, while a few fans hold seats.
async fn long_log(
    arguments: &KeepArguments,
    servers: &Servers,
    partitions: Vec<Partition>,
    report: &mut Report,
) -> Result<()> {
    eprintln!("the log grows to {} entries", arguments.entries);
    let client = servers.client();
    let small = Arc::new(Store::new(client.clone(), Layout::Apart(vec![GroupId(1)]), HOLD_TTL_MS));
    let hall = Hall { sections: 100, seats: 2_000 };
    small.open(SMALL_SALE, hall).await?;
    let before = first_node(&client).await?;
    let full = CancellationToken::new();
    let writers: Vec<_> =
        partitions.into_iter().map(|at| tokio::spawn(write(client.clone(), at, full.clone()))).collect();
    let bar = ProgressBar::new(arguments.entries);
    bar.set_style(ProgressStyle::with_template("{pos}/{len} {bar:30} {eta}").expect("a template that never changes"));
    let mut tally = Tally::default();
    let mut first = 0;
    let begun = Instant::now();
    loop {
        let node = first_node(&client).await?;
        bar.set_position(sum(&node, |group| group.last_log));
        if bar.position() >= arguments.entries {
            break;
        }
        let load = Load { clients: FANS, time: Duration::from_secs(10) };
        let more = drive(small.clone(), SMALL_SALE, hall, Workload::Cold, first, load).await;
        first += (more.answers.len() + more.failures) as u64 + FANS as u64;
        // Once the hall is full they are refused, which is an answer of another kind.
        if tally.count(Verdict::Granted) == 0 {
            tally = more;
        }
    }
    let took = begun.elapsed();
    bar.finish_and_clear();
    full.cancel();
    futures::future::join_all(writers).await;
    caught_up(&client).await?;
    let after = first_node(&client).await?;
    let written = sum(&after, |group| group.last_log) - sum(&before, |group| group.last_log);
    let snapshots = after.iter().filter(|(id, group)| before.get(id).is_none_or(|then| then.snapshot < group.snapshot));
    report.remarks.push(format!(
        "{written} entries in {:.0} s; {} of {} groups were snapshotted meanwhile",
        took.as_secs_f64(),
        snapshots.count(),
        after.len()
    ));
    let mut add = |name: &str, value: f64| report.figures.push(Figure::new(name, "ms", &[value], None));
    add("holds of 16 fans while the log grows and is snapshotted: median", tally.quantile_ms(Verdict::Granted, 0.5));
    add("the same: p99.9", tally.quantile_ms(Verdict::Granted, 0.999));
    add("the same: longest time without a hold", tally.longest_silence_ms(Verdict::Granted));
    Ok(())
}

/// An acknowledgement of nothing is an entry like others.
async fn write(client: Client, at: Partition, full: CancellationToken) {
    while !full.is_cancelled() {
        let command = Command::Manage(Manage::AckFeed { upto: 0 });
        if client.submit(at.clone(), command).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Kills a node and starts it again.
async fn restart(servers: &mut Servers, report: &mut Report) -> Result<()> {
    eprintln!("a node is killed and starts again");
    let client = servers.client();
    let before = first_node(&client).await?;
    servers.kill_node(NodeId(1)).await?;
    let begun = Instant::now();
    servers.start_node(NodeId(1)).await?;
    let ready = begun.elapsed();
    let after = first_node(&client).await?;
    let replayed = before.iter().map(|(id, then)| {
        // What was applied and is in no snapshot had to be applied again.
        let snapshot = after.get(id).and_then(|group| group.snapshot).min(then.applied).or(then.snapshot);
        then.applied.unwrap_or(0).saturating_sub(snapshot.unwrap_or(0))
    });
    let behind = sum(&before, |group| group.applied);
    let mut add = |name: &str, unit: &str, value: f64| report.figures.push(Figure::new(name, unit, &[value], None));
    add(&format!("restart behind {behind} entries: ready after"), "s", ready.as_secs_f64());
    add("the same: entries that were applied again", "entries", replayed.sum::<u64>() as f64);
    Ok(())
}

/// The groups of node 1 as it sees them.
async fn first_node(client: &Client) -> Result<BTreeMap<GroupId, GroupStatus>> {
    let status = client.status().await;
    let first = status.nodes.into_values().find_map(|answer| match answer {
        NodeAnswer::Up(node) if node.node == NodeId(1) => Some(node.groups),
        _ => None,
    });
    let groups = first.context("node 1 does not answer")?;
    Ok(groups.into_iter().map(|group| (group.group, group)).collect())
}

fn sum(groups: &BTreeMap<GroupId, GroupStatus>, of: fn(&GroupStatus) -> Option<u64>) -> u64 {
    groups.values().filter_map(of).sum()
}

/// Until every replica has applied what its log has.
async fn caught_up(client: &Client) -> Result<()> {
    let begun = Instant::now();
    loop {
        let status = client.status().await;
        // The groups tick, so that the last entry moves while we look.
        let behind =
            status.replicas().filter(|(_, group)| group.applied.unwrap_or(0) + 3 < group.last_log.unwrap_or(0));
        if behind.count() == 0 {
            return Ok(());
        }
        ensure!(begun.elapsed() < CAUGHT_UP_WITHIN, "a replica does not catch up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
