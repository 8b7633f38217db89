//! What a node keeps, and what keeping costs: memory a seat, a crowd ten times too large, holds while snapshots are made and
//! while partitions move, and a restart behind a long log.

use super::servers::{Servers, Size};
use super::settled::settled;
use super::{KeepArguments, Part, moving, until_stopped};
use anyhow::{Context, Result, ensure};
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Tally, Verdict, Workload, drive, drive_until};
use domain::ids::{EventId, GroupId, NodeId, Partition, SectionId};
use domain::inventory::command::{Command, Manage};
use indicatif::{ProgressBar, ProgressStyle};
use raft_store::client::{Client, GroupStatus, NodeAnswer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const SALE: u32 = 1;
/// Of the sale that is asked for while snapshots are made, and the first of those of the crowds.
const SMALL_SALE: u32 = 2;
const CROWD_SALES: u32 = 3;
const SECTIONS: u16 = 500;
const HOLD_TTL_MS: u32 = 3_600_000;
/// Fans who hold seats while snapshots are made.
const FANS: usize = 16;
/// Fans who are no overload.
const MANY_FANS: usize = 256;
const CLIENTS: usize = 8;

/// Measures what is asked for, one part after the other; those on three nodes share them, so that each finds what the ones
/// before it left.
pub async fn run(arguments: &KeepArguments, stop: &CancellationToken, report: &mut Report) -> Result<()> {
    let (alone, shared): (Vec<Part>, Vec<Part>) = Part::ALL
        .into_iter()
        .filter(|part| arguments.parts.is_empty() || arguments.parts.contains(part))
        .partition(|part| *part == Part::Restart);
    if !shared.is_empty() {
        let servers = Servers::start_store(&arguments.dir, arguments.size()).await?;
        let ran = until_stopped(stop, parts(&shared, arguments, &servers, report)).await;
        servers.stop().await;
        ran?;
    }
    if alone.is_empty() { Ok(()) } else { long_log(arguments, stop, report).await }
}

async fn parts(parts: &[Part], arguments: &KeepArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    for part in parts {
        match part {
            Part::Memory => memory_a_seat(arguments, servers, report).await?,
            Part::Overload => overload(arguments, servers, report).await?,
            Part::Snapshots => during_snapshots(arguments, servers, report).await?,
            Part::Moves => moving::run(arguments, servers, report).await?,
            Part::Restart => {}
        }
    }
    Ok(())
}

impl KeepArguments {
    fn hall(&self) -> Hall {
        Hall { sections: SECTIONS, seats: (self.seats / u32::from(SECTIONS)).next_multiple_of(2) }
    }

    fn layout(&self) -> Layout {
        Layout::Apart((1..=self.groups).map(GroupId).collect())
    }

    /// How long each crowd asks.
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn size(&self) -> Size {
        Size { nodes: 3, groups: self.groups, snapshot_every: self.snapshot_every }
    }
}

/// Puts the hall on sale and looks at the nodes, then holds one seat in twenty and looks again.
async fn memory_a_seat(arguments: &KeepArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    let hall = arguments.hall();
    let store = Arc::new(Store::new(servers.client(), arguments.layout(), HOLD_TTL_MS));
    let seats = f64::from(hall.seats) * f64::from(hall.sections);
    eprintln!("{seats} seats in {} partitions go on sale", hall.sections);
    let before = servers.resident()?;
    let mut grown = |servers: &Servers, name: &str| {
        let resident = servers.resident()?;
        let bytes = resident.into_iter().zip(&before).map(|(now, then)| now.saturating_sub(*then) as f64 / seats);
        report.figures.push(Figure::new(name, "bytes/seat", &bytes.collect::<Vec<_>>(), None));
        anyhow::Ok(())
    };
    store.open(SALE, hall).await?;
    settled(&servers.client()).await?;
    grown(servers, &format!("{seats} seats in {} partitions, resident on a node", hall.sections))?;
    let few = Hall { seats: (hall.seats / 20 / 2 * 2).max(2), ..hall };
    let load = Load { clients: MANY_FANS, time: Duration::from_secs(600) };
    let held = drive(store, SALE, few, Workload::Cold, 0, load).await;
    ensure!(held.failures == 0, "not all could be held: {:?}", held.first_failure);
    settled(&servers.client()).await?;
    let share = held.count(Verdict::Granted) as f64 * 200.0 / seats;
    grown(servers, &format!("the same with {share:.0} in 100 held, their log and records"))
}

/// A crowd that the nodes can serve, one far too large, and the first one again.
async fn overload(arguments: &KeepArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    let (asking, too_many) = (arguments.time(), arguments.crowd as usize);
    eprintln!("{too_many} fans ask at once");
    // A client refuses by itself once too many of its own wait; here the nodes are to refuse, so there are several.
    let clients: Vec<Arc<Store>> = (0..CLIENTS)
        .map(|_| Arc::new(Store::new(servers.client(), Layout::Apart(vec![GroupId(1)]), HOLD_TTL_MS)))
        .collect();
    let calm = crowd(&clients, 0, MANY_FANS, asking).await?;
    let before = servers.resident()?;
    let flood = crowd(&clients, 1, too_many, asking).await?;
    let during = servers.resident()?;
    let after = crowd(&clients, 2, MANY_FANS, asking).await?;
    ensure!(flood.count(Verdict::Overloaded) > 0, "nobody was told that too many ask");
    let mut add = |name: &str, unit: &str, value: f64| report.figures.push(Figure::new(name, unit, &[value], None));
    add(&format!("holds of {MANY_FANS} fans"), "1/s", calm.rate(Verdict::Granted));
    add(&format!("holds of {too_many} fans at once"), "1/s", flood.rate(Verdict::Granted));
    add("those told to come back", "1/s", flood.rate(Verdict::Overloaded));
    add("those told to come back: median", "ms", flood.quantile_ms(Verdict::Overloaded, 0.5));
    add("those told to come back: p99", "ms", flood.quantile_ms(Verdict::Overloaded, 0.99));
    let grown = before.iter().zip(&during).map(|(then, now)| now.saturating_sub(*then)).max().unwrap_or(0);
    add("memory that a node took meanwhile", "MiB", (grown >> 20) as f64);
    add(&format!("holds of {MANY_FANS} fans right after it"), "1/s", after.rate(Verdict::Granted));
    for tally in [&calm, &flood, &after] {
        if let Some(failure) = &tally.first_failure {
            report.remarks.push(format!("overload: {} attempts had no answer; one: {failure}", tally.failures));
        }
    }
    Ok(())
}

/// Every client has its own part of the fans, and a hall of their own for each turn.
async fn crowd(clients: &[Arc<Store>], turn: u32, fans: usize, asking: Duration) -> Result<Tally> {
    let hall = Hall { sections: 20, seats: 3_000 };
    let sales = (CROWD_SALES + turn * CLIENTS as u32..).zip(clients);
    for (sale, client) in sales.clone() {
        client.open(sale, hall).await?;
    }
    let load = Load { clients: fans / CLIENTS, time: asking };
    let asking = sales.map(|(sale, client)| drive(client.clone(), sale, hall, Workload::Cold, 0, load));
    Ok(together(futures::future::join_all(asking).await))
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

/// Holds while the leader and its followers make one snapshot after the other: for the time asked for, and on until there
/// was one.
async fn during_snapshots(arguments: &KeepArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    eprintln!("{FANS} fans hold seats while snapshots are made");
    let client = servers.client();
    let store = Arc::new(Store::new(client.clone(), Layout::Apart(vec![GroupId(1)]), HOLD_TTL_MS));
    let hall = Hall { sections: 25, seats: (arguments.seats / 125).next_multiple_of(2).max(800) };
    store.open(SMALL_SALE, hall).await?;
    let over = CancellationToken::new();
    let _also_if_interrupted = over.clone().drop_guard();
    let fans = tokio::spawn(drive_until(store, SMALL_SALE, hall, Workload::Cold, 0, FANS, over.clone()));
    let made = count_snapshots(&client, arguments.time() * 2, || fans.is_finished()).await;
    over.cancel();
    let tally = fans.await?;
    ensure!(made > 0, "no snapshot was made meanwhile");
    let mut add = |name: &str, value: f64| report.figures.push(Figure::new(name, "ms", &[value], None));
    add(
        &format!("holds of {FANS} fans while {made} snapshots were made: median"),
        tally.quantile_ms(Verdict::Granted, 0.5),
    );
    add("the same: p99.9", tally.quantile_ms(Verdict::Granted, 0.999));
    add("the same: longest time without a hold", tally.longest_silence_ms(Verdict::Granted));
    Ok(())
}

/// Counts the snapshots that group 1 makes on one node: for this time, on until there is one, and no longer than anybody
/// waits for it.
async fn count_snapshots(client: &Client, time: Duration, given_up: impl Fn() -> bool) -> usize {
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    loop {
        // A node may be too busy to say.
        let snapshot = first_node(client).await.ok().and_then(|groups| groups.get(&GroupId(1))?.snapshot);
        seen.extend(snapshot);
        // The first one was there already.
        let made = seen.len().saturating_sub(1);
        if given_up() || (made > 0 && begun.elapsed() >= time) {
            return made;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A store of one node gets a long log and is killed: how long until it serves again, and what it had to apply for it.
async fn long_log(arguments: &KeepArguments, stop: &CancellationToken, report: &mut Report) -> Result<()> {
    let mut servers = Servers::start_store(&arguments.dir, Size { nodes: 1, ..arguments.size() }).await?;
    let restarted = until_stopped(stop, restart(arguments, &mut servers, report)).await;
    servers.stop().await;
    restarted
}

async fn restart(arguments: &KeepArguments, servers: &mut Servers, report: &mut Report) -> Result<()> {
    let client = servers.client();
    let store = Store::new(client.clone(), arguments.layout(), HOLD_TTL_MS);
    let hall = arguments.hall();
    store.open(SALE, hall).await?;
    let (took, written) = write_entries(&client, &store, hall, arguments.entries).await?;
    report.remarks.push(format!("one node wrote {written} entries in {:.0} s, each of its own", took.as_secs_f64()));

    eprintln!("the node is killed and starts again");
    let before = first_node(&client).await?;
    servers.kill_node(NodeId(1)).await?;
    let begun = Instant::now();
    servers.start_node(NodeId(1)).await?;
    let ready = begun.elapsed();
    let after = first_node(&client).await?;
    let replayed = before.iter().map(|(id, then)| {
        // What was applied and is in no snapshot had to be applied again.
        let snapshot = after.get(id).and_then(|group| group.snapshot).min(then.applied);
        then.applied.unwrap_or(0).saturating_sub(snapshot.unwrap_or(0))
    });
    let behind = sum(&before, |group| group.applied);
    let mut add = |name: &str, unit: &str, value: f64| report.figures.push(Figure::new(name, unit, &[value], None));
    add(&format!("restart behind {behind} entries: ready after"), "s", ready.as_secs_f64());
    add("the same: entries that were applied again", "entries", replayed.sum::<u64>() as f64);
    Ok(())
}

/// Entries without effect, one after the other in every group.
async fn write_entries(client: &Client, store: &Store, hall: Hall, entries: u64) -> Result<(Duration, u64)> {
    eprintln!("the log grows to {entries} entries");
    let full = CancellationToken::new();
    let _also_if_it_fails = full.clone().drop_guard();
    let begun = Instant::now();
    let first = |(event, sections): (EventId, Vec<SectionId>)| {
        sections.first().map(|section| Partition::Seats { event, section: *section })
    };
    let partitions = store.sections(SALE, hall).into_iter().filter_map(first);
    let writers: Vec<_> = partitions.map(|at| tokio::spawn(write(client.clone(), at, full.clone()))).collect();
    let bar = ProgressBar::new(entries);
    bar.set_style(ProgressStyle::with_template("{pos}/{len} {bar:30} {eta}").expect("a template that never changes"));
    loop {
        let written = sum(&first_node(client).await?, |group| group.last_log);
        bar.set_position(written);
        if written >= entries {
            bar.finish_and_clear();
            full.cancel();
            futures::future::join_all(writers).await;
            return Ok((begun.elapsed(), written));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
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
