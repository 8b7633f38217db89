//! How the rest of the shop copes, for the waiting room's pace: every ten seconds the metrics of the buy plane's and of
//! fulfilment's processes are read, and the difference to the last reading is the load. Nothing is written on a fan's way
//! for it, and neither process needs a credential more than it has.

use anyhow::{Context, Result};
use futures::future::join_all;
use queue::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// How often it is read; as often as the pace is decided.
const EVERY: Duration = Duration::from_secs(10);
/// How long one process may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Fewer holds than these in one reading say nothing about the slowest in a hundred.
const FEWEST_HOLDS: f64 = 20.0;
/// Fewer answers of the provider than these say nothing about one in twenty.
const FEWEST_ANSWERS: f64 = 5.0;

/// Whose metrics are read. Without any, nothing is adapted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The buy plane's processes, such as `http://10.0.0.7:7300`: how long holds take.
    pub buy: Vec<String>,
    /// Fulfilment's processes: how the payment provider answers.
    pub fulfillment: Vec<String>,
}

/// The load as it was last read; `None` before the second reading.
#[derive(Clone, Default)]
pub struct LoadWatch(Arc<Mutex<Option<Load>>>);

impl LoadWatch {
    /// What was last read.
    pub fn latest(&self) -> Option<Load> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read until told to stop.
    pub async fn run(self, settings: LoadSettings, shutdown: CancellationToken) {
        let addresses: Vec<String> = settings.buy.into_iter().chain(settings.fulfillment).collect();
        if addresses.is_empty() {
            return;
        }
        let Ok(http) = reqwest::Client::builder().timeout(PATIENCE).build() else { return };
        let mut readings = Readings::default();
        let mut timer = tokio::time::interval(EVERY);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = timer.tick() => {}
            }
            let load = readings.next(&http, &addresses).await;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = load;
        }
    }
}

/// The last reading of each process.
#[derive(Default)]
struct Readings(BTreeMap<String, Counters>);

impl Readings {
    /// Read all, and say what happened since the last time. Who does not answer is left out, and is compared with nothing
    /// the next time.
    async fn next(&mut self, http: &reqwest::Client, addresses: &[String]) -> Option<Load> {
        let read = join_all(addresses.iter().map(|address| async move { (address, read(http, address).await) })).await;
        let mut since = Counters::default();
        let mut compared = false;
        for (address, counters) in read {
            let before = self.0.remove(address);
            match counters {
                Ok(counters) => {
                    if let Some(before) = before {
                        since.add(&counters.since(&before));
                        compared = true;
                    }
                    self.0.insert(address.clone(), counters);
                }
                Err(error) => tracing::debug!(address, %error, "no metrics: its load is not known"),
            }
        }
        compared.then(|| since.load())
    }
}

async fn read(http: &reqwest::Client, address: &str) -> Result<Counters> {
    let response = http.get(format!("{address}/metrics")).send().await?.error_for_status()?;
    Counters::of(&response.text().await?).context("these are no metrics")
}

/// What is counted, since the process started or since the last reading.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counters {
    /// Decided holds, by the upper bound of their time in microseconds; each counts those below it too.
    holds: BTreeMap<u64, f64>,
    answered: f64,
    failed: f64,
}

impl Counters {
    /// Out of an exposition in the text format. Refusals by advice are left out: they cost the store no entry, and in a
    /// stampede there are so many that they would hide how long the others take.
    fn of(text: &str) -> Option<Self> {
        let mut counters = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, rest) = line.split_once('{').unwrap_or((line, ""));
            let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
            let label = |wanted: &str| {
                labels
                    .split(',')
                    .filter_map(|one| one.split_once('='))
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, value)| value.trim_matches('"').to_owned())
            };
            let number = || value.split(' ').next()?.parse::<f64>().ok();
            if name.ends_with("_hold_duration_seconds_bucket") && label("outcome")? != "advised" {
                let bound = match label("le")?.as_str() {
                    "+Inf" => u64::MAX,
                    seconds => (seconds.parse::<f64>().ok()? * 1_000_000.0).round() as u64,
                };
                *counters.holds.entry(bound).or_default() += number()?;
            } else if name.ends_with("_provider_answers_total") {
                match label("outcome")?.as_str() {
                    "failed" => counters.failed += number()?,
                    _ => counters.answered += number()?,
                }
            }
        }
        Some(counters)
    }

    /// What was counted after `before`. A counter that fell was started anew.
    fn since(&self, before: &Self) -> Self {
        let grown = |now: f64, before: f64| if now >= before { now - before } else { now };
        let old = |bound: &u64| before.holds.get(bound).copied().unwrap_or_default();
        Self {
            holds: self.holds.iter().map(|(bound, count)| (*bound, grown(*count, old(bound)))).collect(),
            answered: grown(self.answered, before.answered),
            failed: grown(self.failed, before.failed),
        }
    }

    fn add(&mut self, other: &Self) {
        for (bound, count) in &other.holds {
            *self.holds.entry(*bound).or_default() += count;
        }
        self.answered += other.answered;
        self.failed += other.failed;
    }

    fn load(&self) -> Load {
        let asked = self.answered + self.failed;
        Load {
            hold_p99_ms: self.p99_ms(),
            provider_error_ratio: (asked >= FEWEST_ANSWERS).then(|| self.failed / asked),
        }
    }

    /// Within its bucket the slowest in a hundred is placed in proportion, as Prometheus does; beyond the last bound, at it.
    fn p99_ms(&self) -> Option<f64> {
        let all = self.holds.get(&u64::MAX).copied().filter(|all| *all >= FEWEST_HOLDS)?;
        let wanted = all * 0.99;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.holds {
            if *bound == u64::MAX {
                break;
            }
            let upper = *bound as f64 / 1_000.0;
            if *count >= wanted {
                let share = if *count > below { (wanted - below) / (count - below) } else { 1.0 };
                return Some(lower + (upper - lower) * share);
            }
            (lower, below) = (upper, *count);
        }
        Some(lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::extract::State;
    use axum::routing::get;

    /// Holds that took so many seconds, and answers of the provider, as a process exposes them.
    fn exposed(holds: &[f64], (answered, failed): (u32, u32)) -> String {
        let mut text = String::from("# TYPE encore_api_hold_duration_seconds histogram\n");
        for outcome in ["held", "refused", "advised"] {
            for bound in [0.1, 0.2, 0.3, 0.4, 0.6] {
                // A storm of refusals by advice, all of them fast.
                let count = match outcome {
                    "held" => holds.iter().filter(|took| **took <= bound).count(),
                    "refused" => 0,
                    _ => 100_000,
                };
                text += &format!(
                    "encore_api_hold_duration_seconds_bucket{{le=\"{bound}\",outcome=\"{outcome}\"}} {count}\n"
                );
            }
            let all = if outcome == "held" { holds.len() } else { 0 };
            text += &format!("encore_api_hold_duration_seconds_bucket{{le=\"+Inf\",outcome=\"{outcome}\"}} {all}\n");
        }
        text += &format!("encore_fulfillment_provider_answers_total{{outcome=\"answered\"}} {answered}\n");
        text += &format!("encore_fulfillment_provider_answers_total{{outcome=\"failed\"}} {failed}\n# EOF\n");
        text
    }

    fn load(before: &str, after: &str) -> Load {
        Counters::of(after).unwrap().since(&Counters::of(before).unwrap()).load()
    }

    #[test]
    fn the_slowest_in_a_hundred_counts_and_what_happened_before_does_not() {
        let fast = vec![0.05; 1_000];
        let nothing = exposed(&[], (0, 0));
        assert!(load(&nothing, &exposed(&fast, (0, 0))).hold_p99_ms.is_some_and(|ms| ms < 200.0));
        let slow = [fast.clone(), vec![0.5; 20]].concat();
        assert!(load(&nothing, &exposed(&slow, (0, 0))).hold_p99_ms.is_some_and(|ms| ms > 400.0));
        // The slow ones are long over.
        let since = [slow.clone(), fast].concat();
        assert!(load(&exposed(&slow, (0, 0)), &exposed(&since, (0, 0))).hold_p99_ms.is_some_and(|ms| ms < 200.0));
        // A process that was started anew counts from nothing.
        assert!(load(&exposed(&since, (9, 9)), &exposed(&slow, (0, 0))).hold_p99_ms.is_some_and(|ms| ms > 400.0));
        // Beyond the last bound it is as slow as can be told.
        assert_eq!(load(&nothing, &exposed(&[9.0; 50], (0, 0))).hold_p99_ms, Some(600.0));
    }

    #[test]
    fn a_handful_says_nothing() {
        let nothing = exposed(&[], (0, 0));
        assert_eq!(load(&nothing, &exposed(&[9.0; 5], (0, 1))), Load::default());
        assert_eq!(load(&nothing, &exposed(&[], (90, 10))).provider_error_ratio, Some(0.1));
    }

    #[tokio::test]
    async fn processes_are_read_and_one_that_is_down_is_left_out() {
        let told = Arc::new(Mutex::new(exposed(&[], (0, 0))));
        let metrics = get(|State(told): State<Arc<Mutex<String>>>| async move { told.lock().unwrap().clone() });
        let router = Router::new().route("/metrics", metrics).with_state(told.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [format!("http://{}", listener.local_addr().unwrap()), "http://127.0.0.1:1".to_owned()];
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let (http, mut readings) = (reqwest::Client::new(), Readings::default());
        assert_eq!(readings.next(&http, &addresses).await, None, "one reading is no difference");
        *told.lock().unwrap() = exposed(&[0.5; 100], (1, 99));
        let load = readings.next(&http, &addresses).await.unwrap();
        assert!(load.hold_p99_ms.is_some_and(|ms| ms > 400.0), "{load:?}");
        assert_eq!(load.provider_error_ratio, Some(0.99));
        server.abort();
        let _aborted = server.await;
        assert_eq!(readings.next(&http, &addresses).await, None);
    }
}
