//! The cells: every contender under every crowd, the runs interleaved so that a slow minute of the machine hits all.

use super::servers::{CONNECTIONS, Servers};
use super::{StoreArguments, cpu};
use anyhow::{Context, Result, ensure};
use bench::contenders::etcd::Etcd;
use bench::contenders::postgres::Postgres;
use bench::contenders::redis::Redis;
use bench::contenders::store::{Layout, Store};
use bench::{Contender, Figure, Hall, Load, Report, Tally, Verdict, Workload, drive};
use domain::ids::GroupId;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Over how many groups the sections lie whose carts cross.
pub const SPREAD: u32 = 4;
/// Sections of a hall; a multiple of every usual number of groups.
const SECTIONS: u16 = 32;
/// A hold outlives every run.
const HOLD_TTL_MS: u32 = 3_600_000;

/// A contender and where it runs.
struct Entrant {
    contender: Arc<dyn Contender>,
    processes: Vec<u32>,
    ours: bool,
    /// What it is asked to do.
    workloads: Vec<Workload>,
}

/// Which cell: the crowd, how many, and whose turn.
type Cell = (usize, u32, usize);

/// What the runs of one cell came to.
#[derive(Default)]
struct Runs {
    rate: Vec<f64>,
    per_cpu_second: Vec<f64>,
    p99_ms: Vec<f64>,
}

const CROWDS: [(Workload, &str); 4] = [
    (Workload::Cold, "holds, cold"),
    (Workload::Hot, "holds, hot"),
    (Workload::Gone, "refusals"),
    (Workload::Across, "holds, two sections"),
];

/// Runs all cells and adds their figures.
pub async fn run(arguments: &StoreArguments, servers: &Servers, report: &mut Report) -> Result<()> {
    let entrants = entrants(arguments, servers).await?;
    let hall = Hall { sections: SECTIONS, seats: (arguments.seats / u32::from(SECTIONS)).next_multiple_of(2) };
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{pos}/{len} {bar:30} {msg}").expect("a template that never changes"));
    let per_run: usize = entrants.iter().map(|entrant| entrant.workloads.len()).sum();
    bar.set_length((per_run * arguments.fans.len() * usize::from(arguments.runs)) as u64);
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut cells: BTreeMap<Cell, Runs> = BTreeMap::new();
    let mut failures: BTreeMap<String, (usize, String)> = BTreeMap::new();
    // Numbers of sales are never used twice, so that no run meets the seats of another.
    let mut sale = 1;
    for _ in 0..arguments.runs {
        for (crowd, (workload, what)) in CROWDS.iter().enumerate() {
            for fans in &arguments.fans {
                for (turn, entrant) in entrants.iter().enumerate() {
                    if !entrant.workloads.contains(workload) {
                        continue;
                    }
                    bar.set_message(format!("{what}, {fans} fans: {}", entrant.contender.name()));
                    let load = Load { clients: *fans as usize, time: arguments.time() };
                    let (tally, cpu_seconds) = one_run(entrant, sale, hall, *workload, load).await?;
                    sale += 1;
                    if let Some(failure) = &tally.first_failure {
                        let entry = failures.entry(entrant.contender.name()).or_default();
                        entry.0 += tally.failures;
                        entry.1 = failure.to_string();
                    }
                    cells.entry((crowd, *fans, turn)).or_default().add(*workload, &tally, cpu_seconds);
                    bar.inc(1);
                }
            }
        }
    }
    bar.finish_and_clear();
    report.figures.extend(figures(&entrants, &cells));
    report.remarks.extend(
        failures.into_iter().map(|(name, (count, first))| format!("{name}: {count} attempts failed; one: {first}")),
    );
    report.remarks.push(format!(
        "PostgreSQL through {CONNECTIONS} connections; every contender keeps the answer under the request's key"
    ));
    Ok(())
}

async fn entrants(arguments: &StoreArguments, servers: &Servers) -> Result<Vec<Entrant>> {
    let store = |layout, workloads| Entrant {
        contender: Arc::new(Store::new(servers.client(), layout, HOLD_TTL_MS)),
        processes: servers.node_ids(),
        ours: true,
        workloads,
    };
    let mut entrants: Vec<Entrant> = Vec::new();
    for (turn, groups) in arguments.groups.iter().enumerate() {
        let workloads = match turn {
            0 => vec![Workload::Cold, Workload::Hot, Workload::Gone],
            _ => vec![Workload::Cold, Workload::Hot],
        };
        entrants.push(store(Layout::Apart((1..=*groups).map(GroupId).collect()), workloads));
    }
    entrants.push(store(Layout::Spread((1..=SPREAD).map(GroupId).collect()), vec![Workload::Across]));
    let all = || CROWDS.iter().map(|(workload, _)| *workload).collect();
    if let Some(peer) = &servers.postgres {
        let contender = Arc::new(Postgres::connect(first(&peer.urls)?, CONNECTIONS).await?);
        entrants.push(Entrant { contender, processes: peer.ids(), ours: false, workloads: all() });
    }
    if let Some(peer) = &servers.redis {
        let contender = Arc::new(Redis::connect(first(&peer.urls)?, "always").await?);
        entrants.push(Entrant { contender, processes: peer.ids(), ours: false, workloads: all() });
    }
    if let Some(peer) = &servers.etcd {
        let contender = Arc::new(Etcd::connect(&peer.urls).await?);
        entrants.push(Entrant { contender, processes: peer.ids(), ours: false, workloads: all() });
    }
    Ok(entrants)
}

fn first(urls: &[String]) -> Result<&str> {
    urls.first().map(String::as_str).context("a peer that runs has an address")
}

async fn one_run(entrant: &Entrant, sale: u32, hall: Hall, workload: Workload, load: Load) -> Result<(Tally, f64)> {
    let contender = &entrant.contender;
    contender.open(sale, hall).await?;
    let mut first = 0;
    if workload == Workload::Gone {
        // The best seats go first; whoever comes then is late.
        let best = Hall { seats: 2 * u32::try_from(hall.best_pairs().div_ceil(u64::from(hall.sections)))?, ..hall };
        let all = Load { time: Duration::from_secs(600), ..load };
        let sold = drive(contender.clone(), sale, best, Workload::Cold, 0, all).await;
        ensure!(sold.failures == 0, "{}: the best seats could not be held first", contender.name());
        first = best.pairs();
    }
    let before = cpu::seconds(&entrant.processes);
    let tally = drive(contender.clone(), sale, hall, workload, first, load).await;
    Ok((tally, cpu::seconds(&entrant.processes) - before))
}

/// What a crowd is measured by.
fn counted(workload: Workload) -> Verdict {
    if workload == Workload::Gone { Verdict::Refused } else { Verdict::Granted }
}

impl Runs {
    fn add(&mut self, workload: Workload, tally: &Tally, cpu_seconds: f64) {
        let verdict = counted(workload);
        self.rate.push(tally.rate(verdict));
        // An answer was work, granted or refused; to be told to come back is none.
        let answered = tally.count(Verdict::Granted) + tally.count(Verdict::Refused);
        self.per_cpu_second.push(answered as f64 / cpu_seconds.max(0.01));
        self.p99_ms.push(tally.quantile_ms(verdict, 0.99));
    }
}

/// Each of ours beside each peer in the same cell.
fn figures(entrants: &[Entrant], cells: &BTreeMap<Cell, Runs>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for ((crowd, fans, turn), runs) in cells.iter().filter(|((.., turn), _)| entrants[*turn].ours) {
        let what = CROWDS[*crowd].1;
        let name = |measure: &str| format!("{what}, {fans} fans, {}{measure}", entrants[*turn].contender.name());
        let peers: Vec<(String, &Runs)> = cells
            .iter()
            .filter(|((c, f, t), _)| c == crowd && f == fans && !entrants[*t].ours)
            .map(|((.., t), runs)| (entrants[*t].contender.name(), runs))
            .collect();
        let mut add = |measure: &str, unit: &str, of: fn(&Runs) -> &[f64]| {
            match peers.is_empty() {
                true => figures.push(Figure::new(&name(measure), unit, of(runs), None)),
                false => figures.extend(
                    peers
                        .iter()
                        .map(|(peer, their)| Figure::new(&name(measure), unit, of(runs), Some((peer, of(their))))),
                ),
            };
        };
        add("", "1/s", |runs| &runs.rate);
        add(": p99", "ms", |runs| &runs.p99_ms);
        add(": answers per server CPU", "1/CPU-s", |runs| &runs.per_cpu_second);
    }
    figures
}
