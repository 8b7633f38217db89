//! `encore demo --crowd N`: fans storm the hall as real ones would, over the public doors only, and an audit says what
//! came of it.

mod behaviour;
pub mod door;
mod seats;
mod tally;

pub use tally::Tally;

use crate::audit::{Report, Sources, audit};
use crate::demo::doors;
use crate::demo::events::HALL;
use crate::fan::Fan;
use crate::supervise::{Part, Stack};
use anyhow::{Context, Result};
use behaviour::Plan;
use domain::ids::ReservationId;
use indicatif::{ProgressBar, ProgressStyle};
use ledger::Postgres;
use ledger::postgres::Config as LedgerConfig;
use raft_store::client::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How the hall is published for a storm: holds that run out while one watches, and a door wide enough for collisions.
pub const PUBLISH: [&str; 4] = ["--hold-ttl-s", "10", "--queue-capacity", "300"];
/// When the fans who are still there go home.
const LONGEST: Duration = Duration::from_secs(240);
/// How long what is under way may take to come to rest, before the audit calls it broken.
const REST: Duration = Duration::from_secs(90);
/// Fans arrive over this time, most of them early.
const ARRIVAL: Duration = Duration::from_secs(8);

/// What a stack is set to for a crowd.
pub fn overrides(crowd: bool) -> Vec<(Part, String)> {
    if crowd { vec![(Part::Queue, "queue.batch=150".to_owned())] } else { Vec::new() }
}

/// Let the fans loose, wait for rest, audit, and say how it went.
pub async fn storm(stack: &Stack, fans: u32) -> Result<ExitCode> {
    let tally = Arc::new(Tally::default());
    let seed: u64 = rand::rng().random();
    println!("{fans} fans storm the hall (seed of their moods: {seed}). Ctrl-C stops everything.");
    let begun = Instant::now();
    let bar = progress(fans);
    release(stack, fans, seed, &tally, &bar).await?;
    bar.finish_and_clear();
    println!("The storm lasted {:.1} s.\n\n{tally}", begun.elapsed().as_secs_f64());

    let waiting = ProgressBar::new_spinner();
    waiting.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a template that never changes"));
    waiting.set_message("letting the last holds run out and the last payments settle");
    waiting.enable_steady_tick(Duration::from_millis(120));
    let sources = sources(stack, &tally)?;
    let rested = rest(&sources).await;
    let walked_in = door::walk_in(stack, &tally.buyers(), 40).await;
    let report = audit(&sources, REST).await?;
    waiting.finish_and_clear();

    println!("{report}");
    Ok(verdict(&report, &tally, rested, walked_in))
}

/// Says what broke, and that the command failed if anything did.
fn verdict(report: &Report, tally: &Tally, rested: Result<()>, walked_in: Result<u32>) -> ExitCode {
    match faults(report, tally, rested, walked_in) {
        0 => {
            println!("\nEvery rule held.");
            ExitCode::SUCCESS
        }
        faults => {
            println!("\n{faults} faults.");
            ExitCode::FAILURE
        }
    }
}

fn faults(report: &Report, tally: &Tally, rested: Result<()>, walked_in: Result<u32>) -> usize {
    let mut faults = report.faults();
    for failure in tally.surprises() {
        println!("✗ {failure}");
        faults += 1;
    }
    if let Err(error) = rested {
        println!("✗ {error:#}");
        faults += 1;
    }
    match walked_in {
        Ok(fans) => println!("✓ {fans} fans walked in at the gate; each second try was refused"),
        Err(error) => {
            println!("✗ the gate: {error:#}");
            faults += 1;
        }
    }
    faults
}

async fn release(stack: &Stack, fans: u32, seed: u64, tally: &Arc<Tally>, bar: &ProgressBar) -> Result<()> {
    let http = reqwest::Client::builder().pool_max_idle_per_host(256).build()?;
    let doors = doors(stack);
    let hall = Arc::new(seats::Hall::load(&http, &doors.browse, HALL).await.context("the hall's layout")?);
    let mut random = StdRng::seed_from_u64(seed);
    let mut crowd = JoinSet::new();
    for number in 0..fans {
        let name = format!("fan-{seed:x}-{number}");
        let token = stack.secrets().token(&name, false, Duration::from_secs(3_600))?;
        let fan = Fan::new(name, token, http.clone(), doors.clone()).through(number as usize);
        let plan = Plan::draw(&mut random);
        let arrives = ARRIVAL.mul_f64(random.random::<f64>().powi(2));
        let (hall, tally, moods) = (hall.clone(), tally.clone(), StdRng::seed_from_u64(seed ^ u64::from(number)));
        crowd.spawn(async move {
            tokio::time::sleep(arrives).await;
            let lived = Box::pin(behaviour::live(&fan, plan, &hall, &tally, moods)).await;
            if let Err(error) = lived {
                tally.surprise(format!("{}: {error:#}", fan.name));
            }
        });
    }
    let deadline = tokio::time::sleep(LONGEST);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            biased;
            gone = crowd.join_next() => match gone {
                Some(lived) => {
                    if let Err(error) = lived {
                        tally.surprise(format!("a fan's task ended: {error}"));
                    }
                    bar.inc(1);
                }
                None => return Ok(()),
            },
            () = &mut deadline => {
                tally.surprise(format!("{} fans were still there after {} s", crowd.len(), LONGEST.as_secs()));
                crowd.abort_all();
                return Ok(());
            }
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
        bar.set_message(tally.line());
    }
}

/// Until no seat of any event is in a checkout.
async fn rest(sources: &Sources) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut held = 0;
        for event in sources.store.events().await? {
            held += sources.store.stock(event.id).await?.held;
        }
        if held == 0 {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < REST, "{held} seats were still held after {} s", REST.as_secs());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn sources(stack: &Stack, tally: &Tally) -> Result<Sources> {
    let acknowledged = tally.acknowledged().iter().map(|id| id.parse()).collect::<Result<Vec<ReservationId>, _>>()?;
    Ok(Sources { acknowledged, ..sources_of(stack)? })
}

/// What an audit of a stack reads.
pub fn sources_of(stack: &Stack) -> Result<Sources> {
    let url = stack.postgres()?.url();
    Ok(Sources {
        store: Client::connect(stack.store()),
        ledger: Postgres::new(&LedgerConfig { url, max_connections: 2, ..LedgerConfig::default() })?,
        provider_url: Some(stack.url(Part::Provider)),
        gates: vec![stack.url(Part::Gate(1))],
        http: reqwest::Client::new(),
        acknowledged: Vec::new(),
    })
}

fn progress(fans: u32) -> ProgressBar {
    let bar = ProgressBar::new(fans.into());
    let style = ProgressStyle::with_template("{bar:28} {pos}/{len} fans done  {msg}  ({elapsed})");
    bar.set_style(style.expect("a template that never changes"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Rule;
    use anyhow::anyhow;

    fn fails(code: ExitCode) -> bool {
        // An exit code says no more of itself than this.
        format!("{code:?}") == format!("{:?}", ExitCode::FAILURE)
    }

    #[test]
    fn the_command_fails_if_any_rule_was_broken() {
        let (clean, quiet) = (Report::default(), Tally::default());
        assert!(!fails(verdict(&clean, &quiet, Ok(()), Ok(3))));
        for rule in Rule::ALL {
            let mut broken = Report::default();
            broken.check(rule, Some("two owners of one seat".to_owned()));
            assert!(fails(verdict(&broken, &quiet, Ok(()), Ok(3))), "{rule:?}");
            let mut hanging = Report::default();
            hanging.of(rule).pending.push("still on its way".to_owned());
            assert!(fails(verdict(&hanging, &quiet, Ok(()), Ok(3))), "{rule:?}");
        }
        assert!(fails(verdict(&clean, &quiet, Err(anyhow!("seats are still held")), Ok(3))));
        assert!(fails(verdict(&clean, &quiet, Ok(()), Err(anyhow!("let in twice")))));
        quiet.surprise("a 500".to_owned());
        assert!(fails(verdict(&clean, &quiet, Ok(()), Ok(3))));
    }
}
