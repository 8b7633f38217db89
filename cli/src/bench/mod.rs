//! `encore bench`: the same work against Encore and what a user would pick instead, side by side in one run. The contenders
//! and the counting are in the crate `bench`; here their servers are started privately, and the cells are put together.

mod cpu;
mod expiry;
mod fail_over;
mod keep;
mod memory;
mod moving;
mod servers;
mod settled;
mod side_by_side;

use crate::config::shutdown;
use crate::draft::Draft;
use anyhow::{Result, bail, ensure};
use bench::Report;
use clap::{Subcommand, ValueEnum};
use servers::Servers;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Arguments of `encore bench`.
#[derive(clap::Args, Debug)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Holds of two seats: Encore's store beside PostgreSQL row locks, a Redis script and etcd
    Store(StoreArguments),
    /// What a node keeps, and what keeping costs: memory a seat, a crowd ten times too large, holds while snapshots are made
    /// and while partitions move, a restart behind a long log
    Keep(KeepArguments),
}

/// A part of `encore bench keep`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Bytes a seat
    Memory,
    /// A crowd ten times too large
    Overload,
    /// Holds while snapshots are made
    Snapshots,
    /// Holds while partitions move
    Moves,
    /// A restart behind a long log
    Restart,
}

impl Part {
    const ALL: [Self; 5] = [Self::Memory, Self::Overload, Self::Snapshots, Self::Moves, Self::Restart];
}

/// Arguments of `encore bench keep`.
#[derive(clap::Args, Debug)]
pub struct KeepArguments {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<Part>,
    /// Seats on sale, in 500 sections
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    seats: u32,
    /// Entries behind the node that restarts; ten million take a quarter of an hour and more
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    entries: u64,
    /// Groups of the store
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=64))]
    groups: u32,
    /// Fans who are too many: ten times what may wait in one group
    #[arg(long, default_value_t = 40_960, value_parser = clap::value_parser!(u32).range(8_192..=100_000))]
    crowd: u32,
    /// How long each crowd asks
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Entries after which a group is snapshotted: fewer than nodes do by themselves, so that there are many
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    snapshot_every: u64,
    /// Where the nodes keep their data while it runs; a real disk, or syncing costs nothing
    #[arg(long, default_value = "/var/tmp", value_name = "FOLDER")]
    dir: PathBuf,
    /// Write the figures as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Arguments of `encore bench store`.
#[derive(clap::Args, Debug)]
pub struct StoreArguments {
    /// Runs of each cell, interleaved; an odd number has a middle one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// Length of one run
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Fans who ask at the same time; several numbers are several cells
    #[arg(long, value_delimiter = ',', default_values_t = [256, 1_024], value_parser = clap::value_parser!(u32).range(1..=20_000))]
    fans: Vec<u32>,
    /// Groups of the store that share the work; several numbers are several contenders
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16], value_parser = clap::value_parser!(u32).range(1..=64))]
    groups: Vec<u32>,
    /// Seats of the hall of one run
    #[arg(long, default_value_t = 160_000, value_parser = clap::value_parser!(u32).range(2_000..=200_000))]
    seats: u32,
    /// Holds that are to run out at one instant; 0 leaves this part out
    #[arg(long, default_value_t = 70_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    expiring: u32,
    /// Leave the fail-over part out
    #[arg(long)]
    no_fail_over: bool,
    /// Where the servers keep their data while it runs; a real disk, or syncing costs nothing
    #[arg(long, default_value = "/var/tmp", value_name = "FOLDER")]
    dir: PathBuf,
    /// Write the figures as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Run, and print what came of it.
pub async fn run(arguments: BenchArguments) -> Result<ExitCode> {
    let json = match &arguments.what {
        What::Store(store) => &store.json,
        What::Keep(keep) => &keep.json,
    };
    // Better said now than after an hour.
    let draft = json.as_deref().map(Draft::of).transpose()?;
    let stop = shutdown::token(false);
    let mut report = Report::default();
    report.remarks.extend(machine());
    let ran = match &arguments.what {
        What::Store(store) => run_store(store, &stop, &mut report).await,
        What::Keep(keep) => keep::run(keep, &stop, &mut report).await,
    };
    // What was measured before something failed is worth having.
    print!("{}", report.table());
    if let Some(draft) = draft {
        draft.replace((serde_json::to_string_pretty(&report.figures)? + "\n").as_bytes())?;
    }
    ran.map(|()| ExitCode::SUCCESS)
}

/// Work that ends early when somebody interrupts it, so that the servers can be stopped and their data deleted.
async fn until_stopped(stop: &CancellationToken, work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::select! {
        biased;
        () = stop.cancelled() => bail!("interrupted"),
        done = work => done,
    }
}

async fn run_store(store: &StoreArguments, stop: &CancellationToken, report: &mut Report) -> Result<()> {
    ensure!(!store.fans.is_empty() && !store.groups.is_empty(), "at least one number of fans and of groups is needed");
    let groups = store.groups.iter().copied().max().unwrap_or(1).max(side_by_side::SPREAD);
    let mut servers = Servers::start(&store.dir, groups, &mut report.remarks).await?;
    report.remarks.push(format!("{}, all on this machine and syncing to the same disk", servers.names().join(", ")));
    let ran = until_stopped(stop, measure(store, &mut servers, report)).await;
    servers.stop().await;
    ran
}

async fn measure(store: &StoreArguments, servers: &mut Servers, report: &mut Report) -> Result<()> {
    side_by_side::run(store, servers, report).await?;
    if store.expiring > 0 {
        expiry::run(store, servers, report).await?;
    }
    if !store.no_fail_over {
        fail_over::run(store, servers, report).await?;
    }
    Ok(())
}

impl StoreArguments {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// On what it ran; a figure without it means nothing.
fn machine() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let profile = if cfg!(debug_assertions) { ", a debug build: build with --release to compare" } else { "" };
    vec![format!("{cores} cores, load before {load}{profile}; the load generator shares them with the servers")]
}
