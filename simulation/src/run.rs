//! One run: publish, rage, mend, settle, judge. The last word is one of passed, failed, or unknown when a fault never fired.

use crate::checkers::Witness;
use crate::cluster::{Cluster, GROUPS, Shape};
use crate::faults::{self, Faults};
use crate::trace::{Trace, now_us};
use crate::workload::{self, EVENT, Memory, SECTIONS};
use domain::ids::{GroupId, NodeId, ReservationId, SeatRef};
use domain::inventory::Status;
use domain::inventory::query::SeatState;
use madsim::rand::{Rng, thread_rng};
use raft_store::config::KnownBugs;
use raft_store::runtime::reset_clocks;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROUNDS: u64 = 16;
const FANS: u64 = 12;

/// What was asked for on the command line.
#[derive(Clone, Debug)]
struct Options {
    seed: u64,
    trace: Option<String>,
    twice: bool,
    known_bugs: KnownBugs,
}

const USAGE: &str = "simulation [--seed N] [--trace FILE] [--twice] [--known-bug leader-restore]";

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { seed: 1, trace: None, twice: false, known_bugs: KnownBugs::default() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
            match argument.as_str() {
                "--seed" => options.seed = value()?.parse().map_err(|_| "a seed is a number".to_owned())?,
                "--trace" => options.trace = Some(value()?),
                "--twice" => options.twice = true,
                "--known-bug" => match value()?.as_str() {
                    "leader-restore" => options.known_bugs.leader_restore = true,
                    other => return Err(format!("there is no known bug {other:?}")),
                },
                other => return Err(format!("{other:?} is not understood. Usage: {USAGE}")),
            }
        }
        Ok(options)
    }
}

/// How a run ended.
struct Report {
    trace: String,
    broken: Vec<String>,
    missing: Vec<&'static str>,
    summary: String,
}

/// The binary.
#[allow(clippy::print_stdout, clippy::print_stderr)]
pub fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    let report = simulate(&options);
    if let Some(file) = &options.trace
        && let Err(error) = std::fs::write(file, &report.trace)
    {
        eprintln!("the trace cannot be written to {file}: {error}");
        return ExitCode::FAILURE;
    }
    println!("seed {}: {}", options.seed, report.summary);
    if options.twice && simulate(&options).trace != report.trace {
        println!("seed {}: FAILED: the second run in this process differs from the first", options.seed);
        return ExitCode::FAILURE;
    }
    if !report.broken.is_empty() {
        for broken in report.broken.iter().take(10) {
            println!("  broken: {broken}");
        }
        println!("seed {}: FAILED. Replay: cargo xtask sim --seed {}", options.seed, options.seed);
        return ExitCode::FAILURE;
    }
    if !report.missing.is_empty() {
        println!("seed {}: UNKNOWN: these never happened: {}", options.seed, report.missing.join(", "));
        return ExitCode::from(3);
    }
    println!("seed {}: passed", options.seed);
    ExitCode::SUCCESS
}

/// Runs one seed on a thread of its own, as the simulator wants it.
fn simulate(options: &Options) -> Report {
    let options = options.clone();
    let run = std::thread::spawn(move || {
        let mut runtime = madsim::runtime::Runtime::with_seed_and_config(options.seed, madsim::Config::default());
        runtime.set_time_limit(Duration::from_secs(1_200));
        runtime.block_on(story(options.known_bugs))
    });
    run.join().unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "something panicked".to_owned());
        Report { trace: what.clone(), broken: vec![what], missing: Vec::new(), summary: "panicked".to_owned() }
    })
}

async fn story(known_bugs: KnownBugs) -> Report {
    reset_clocks();
    let trace = Trace::default();
    let shape = Shape {
        snapshot_every: [20, 100, 1_000][thread_rng().gen_range(0..3)],
        segment_bytes: [4_000, 100_000][thread_rng().gen_range(0..2)],
        sync_us: [1_000, 8_000, 40_000][thread_rng().gen_range(0..3)],
        spread: thread_rng().gen_bool(0.5),
        known_bugs,
    };
    trace.note(format_args!("{shape:?}"));
    let witness = Witness::new(trace.clone(), !shape.spread);
    let cluster = Cluster::start(shape, &witness, &trace);
    let memory = Memory::default();
    let stop = Arc::new(AtomicBool::new(false));
    let operator = cluster.client(NodeId(99));
    let mut faults = Faults::default();
    if publish(&operator, shape.spread, &trace).await {
        let crowd = workload::crowd(&cluster, FANS, &memory, &witness, &trace, &stop);
        faults = faults::rage(&cluster, &trace, ROUNDS).await;
        settle(&cluster, &operator, &memory, &trace, &stop).await;
        witness.check_whole();
        drop(crowd);
    }
    let fired = cluster.net.fired();
    let mut missing = faults.missing();
    let counted = [
        (fired.lost, "loss"),
        (fired.repeated, "repetition"),
        (fired.broken, "broken stream"),
        (cluster.lost_bytes(), "lost bytes"),
        (memory.acknowledged().0, "hold"),
        (memory.acknowledged().1, "sale"),
    ];
    missing.extend(counted.into_iter().filter(|(count, _)| *count == 0).map(|(_, name)| name));
    let summary = format!(
        "{} entries, {}, {fired:?}, {} bytes lost, {:.1} s simulated",
        witness.entries(),
        memory.summary(),
        cluster.lost_bytes(),
        now_us() as f64 / 1e6
    );
    trace.note(&summary);
    Report { trace: trace.text(), broken: trace.verdict(), missing, summary }
}

async fn publish(operator: &raft_store::client::Client, spread: bool, trace: &Trace) -> bool {
    let groups: Vec<_> = if spread { (1..=GROUPS).map(GroupId).collect() } else { Vec::new() };
    for _ in 0..60 {
        let published = operator
            .publish(workload::event(), SECTIONS.map(workload::plan).to_vec(), Vec::new(), groups.clone())
            .await;
        match published {
            Ok(()) => return true,
            Err(error) => trace.note(format_args!("not published yet: {error}")),
        }
        madsim::time::sleep(Duration::from_millis(500)).await;
    }
    trace.broken("the event could not be published in fair weather");
    false
}

/// After the storm: fans finish, everything runs out or is delivered, replicas agree, and every promise is looked up.
async fn settle(
    cluster: &Cluster,
    operator: &raft_store::client::Client,
    memory: &Memory,
    trace: &Trace,
    stop: &AtomicBool,
) {
    // In fair weather sales go on: that is part of the promise.
    let before = memory.acknowledged().0;
    if !within(30, || memory.acknowledged().0 > before + 3).await {
        trace.broken("no hold is granted although all is mended");
    }
    stop.store(true, Ordering::Relaxed);
    madsim::time::sleep(Duration::from_secs(30)).await;
    for group in (0..=GROUPS).map(GroupId) {
        let equal = || cluster.states(group).is_some_and(|states| states.windows(2).all(|pair| pair[0] == pair[1]));
        if !within(60, equal).await {
            trace.broken(format_args!("replicas of group {group} do not come to agree: {:?}", cluster.states(group)));
        }
    }
    judge(operator, memory, trace).await;
}

async fn within(seconds: u64, mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..seconds * 20 {
        if holds() {
            return true;
        }
        madsim::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// Who owns what in the end.
async fn owners(
    operator: &raft_store::client::Client,
    memory: &Memory,
    trace: &Trace,
) -> Option<BTreeMap<SeatRef, ReservationId>> {
    let mut owned = BTreeMap::new();
    for section in SECTIONS {
        for owner in workload::insist(memory, || operator.owners(EVENT, section)).await? {
            let seat = SeatRef { section, seat: owner.seat };
            if owner.state != SeatState::Sold {
                trace.broken(format_args!("{seat:?} is still {:?}, long after every deadline", owner.state));
            }
            if owned.insert(seat, owner.reservation).is_some() {
                trace.broken(format_args!("{seat:?} has two owners"));
            }
        }
    }
    Some(owned)
}

async fn judge(operator: &raft_store::client::Client, memory: &Memory, trace: &Trace) {
    let Some(records) = workload::insist(memory, || operator.records(EVENT)).await else {
        return trace.broken("the store does not answer although all is mended");
    };
    let records: BTreeMap<_, _> = records.into_iter().map(|record| (record.id, record)).collect();
    let Some(owned) = owners(operator, memory, trace).await else {
        return trace.broken("the store does not answer although all is mended");
    };
    let promises = memory.promises.lock().expect("no holder of this lock panics").clone();
    for (id, promise) in &promises {
        let Some(record) = records.get(id) else {
            trace.broken(format_args!("hold {id} was acknowledged and is lost"));
            continue;
        };
        if promise.paid != (record.status == Status::Paid) || !record.status.is_terminal() {
            trace.broken(format_args!("hold {id}: paid {} by its answer, now {:?}", promise.paid, record.status));
        }
        let mine: BTreeSet<_> = promise.view.seats.iter().map(|quoted| quoted.seat).collect();
        let still: BTreeSet<_> = owned.iter().filter(|(_, owner)| *owner == id).map(|(seat, _)| *seat).collect();
        let expected = if promise.paid && !promise.refunded { mine } else { BTreeSet::new() };
        if still != expected {
            trace.broken(format_args!("hold {id} should own {expected:?} and owns {still:?}"));
        }
    }
    for (seat, owner) in owned {
        if !promises.contains_key(&owner) {
            trace.broken(format_args!("{seat:?} belongs to {owner}, which nobody was promised"));
        }
    }
}
