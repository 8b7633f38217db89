//! Lets a crowd loose on a contender for a while and counts.

use crate::contender::{Contender, Failure, Verdict};
use crate::workload::{Attempt, Hall, Workload};
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long a fan stays away who was told that too many ask: what the store's answer says.
const COMES_BACK: Duration = Duration::from_millis(250);

/// How much of a crowd.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Fans that ask at the same time, each again as soon as it is answered.
    pub clients: usize,
    /// For how long they begin new attempts.
    pub time: Duration,
}

/// One answered attempt.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When it was answered, since the beginning.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// How.
    pub verdict: Verdict,
}

/// What was counted in one run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Every answer.
    pub answers: Vec<Answered>,
    /// Attempts without one, and the first reason.
    pub failures: usize,
    /// Why the first failed.
    pub first_failure: Option<Failure>,
    /// From the beginning to the last answer.
    pub elapsed: Duration,
}

impl Tally {
    /// Answers of this kind.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.answers.iter().filter(|answer| answer.verdict == verdict).count()
    }

    /// Answers of this kind a second.
    pub fn rate(&self, verdict: Verdict) -> f64 {
        self.count(verdict) as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The time within which this share of these answers came, in milliseconds.
    pub fn quantile_ms(&self, verdict: Verdict, share: f64) -> f64 {
        let mut times: Vec<Duration> =
            self.answers.iter().filter(|answer| answer.verdict == verdict).map(|answer| answer.took).collect();
        times.sort_unstable();
        // The nearest rank: the first of all that this share is not above.
        let rank = ((times.len() as f64 * share).ceil() as usize).max(1);
        times.get(rank - 1).map_or(f64::NAN, |took| took.as_secs_f64() * 1_000.0)
    }

    /// The longest time without an answer of this kind, in milliseconds: what a fail-over cost.
    pub fn longest_silence_ms(&self, verdict: Verdict) -> f64 {
        let mut times: Vec<Duration> =
            self.answers.iter().filter(|answer| answer.verdict == verdict).map(|answer| answer.at).collect();
        times.sort_unstable();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        longest.as_secs_f64() * 1_000.0
    }
}

/// Runs the workload against a sale that was opened, beginning with the attempt `first`, until the time is over or the
/// hall has no more for such a crowd.
pub async fn drive(
    contender: Arc<dyn Contender>,
    sale: u32,
    hall: Hall,
    workload: Workload,
    first: u64,
    load: Load,
) -> Tally {
    let over = CancellationToken::new();
    let _when_the_time_is_over = {
        let over = over.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(load.time).await;
            over.cancel();
        }))
    };
    drive_until(contender, sale, hall, workload, first, load.clients, over).await
}

/// The same, until somebody says that it is over.
pub async fn drive_until(
    contender: Arc<dyn Contender>,
    sale: u32,
    hall: Hall,
    workload: Workload,
    first: u64,
    clients: usize,
    over: CancellationToken,
) -> Tally {
    let next = Arc::new(AtomicU64::new(first));
    let begun = Instant::now();
    let crowd = (0..clients).map(|_| {
        let (contender, next, over) = (contender.clone(), next.clone(), over.clone());
        tokio::spawn(async move {
            let mut tally = Tally::default();
            while !over.is_cancelled() {
                // Numbers start at `first` so that nobody comes twice; what they want starts at the beginning.
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(mut attempt) = workload.attempt(hall, number - first) else { break };
                attempt.number = number;
                // Whoever is told to come back does, with the same wish under the same key.
                while ask(contender.as_ref(), sale, attempt, begun, &mut tally).await == Some(Verdict::Overloaded)
                    && !over.is_cancelled()
                {
                    tokio::time::sleep(COMES_BACK).await;
                }
            }
            tally
        })
    });
    let mut all = Tally::default();
    for one in join_all(crowd).await {
        // A fan's task ends only by returning.
        let one = one.expect("a fan does not panic");
        all.answers.extend(one.answers);
        all.failures += one.failures;
        all.first_failure = all.first_failure.or(one.first_failure);
    }
    all.elapsed = all.answers.iter().map(|answer| answer.at).max().unwrap_or_default();
    all
}

async fn ask(
    contender: &dyn Contender,
    sale: u32,
    attempt: Attempt,
    begun: Instant,
    tally: &mut Tally,
) -> Option<Verdict> {
    let asked = Instant::now();
    match contender.hold(sale, attempt).await {
        Ok(verdict) => {
            tally.answers.push(Answered { at: begun.elapsed(), took: asked.elapsed(), verdict });
            Some(verdict)
        }
        Err(failure) => {
            tally.failures += 1;
            tally.first_failure.get_or_insert(failure);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(at_ms: u64, took_ms: u64, verdict: Verdict) -> Answered {
        Answered { at: Duration::from_millis(at_ms), took: Duration::from_millis(took_ms), verdict }
    }

    #[test]
    fn quantiles_and_silence_are_those_of_the_answers_asked_for() {
        let mut answers: Vec<Answered> = (1..=100).map(|n| answered(n * 10, n, Verdict::Granted)).collect();
        answers.push(answered(5_000, 900, Verdict::Refused));
        answers.push(answered(1_700, 1, Verdict::Granted));
        let tally = Tally { answers, elapsed: Duration::from_secs(2), ..Tally::default() };
        assert_eq!(tally.count(Verdict::Granted), 101);
        assert_eq!(tally.rate(Verdict::Granted), 50.5);
        assert_eq!(tally.quantile_ms(Verdict::Granted, 0.99), 99.0);
        assert_eq!(tally.quantile_ms(Verdict::Granted, 1.0), 100.0);
        assert_eq!(tally.quantile_ms(Verdict::Refused, 0.5), 900.0);
        assert!(tally.quantile_ms(Verdict::Overloaded, 0.5).is_nan());
        assert_eq!(tally.longest_silence_ms(Verdict::Granted), 700.0);
    }
}
