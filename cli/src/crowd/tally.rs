//! What the crowd went through, counted by the fans themselves.

use crate::fan::{Answer, Fan};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many surprises are kept word for word.
const SURPRISES: usize = 20;

/// Counters of one storm.
#[derive(Default)]
pub struct Tally {
    joined: AtomicU64,
    admitted: AtomicU64,
    held: AtomicU64,
    seats: AtomicU64,
    collided: AtomicU64,
    sold_out: AtomicU64,
    sent_back: AtomicU64,
    told_to_wait: AtomicU64,
    gave_up: AtomicU64,
    abandoned: AtomicU64,
    cancelled: AtomicU64,
    declined: AtomicU64,
    bought: AtomicU64,
    too_late: AtomicU64,
    refunded: AtomicU64,
    details: Mutex<Details>,
}

#[derive(Default)]
struct Details {
    surprises: Vec<String>,
    more_surprises: u64,
    acknowledged: BTreeSet<String>,
    buyers: Vec<Fan>,
    /// When each hold was answered, and how long that took.
    holds: Vec<(Instant, Duration)>,
}

macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        $(pub(super) fn $name(&self) {
            self.$name.fetch_add(1, Relaxed);
        })*
    };
}

impl Tally {
    counters!(
        joined,
        admitted,
        collided,
        sold_out,
        sent_back,
        told_to_wait,
        gave_up,
        abandoned,
        cancelled,
        declined,
        too_late,
        refunded,
    );

    fn details(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn held(&self, answer: &Answer) {
        self.held.fetch_add(1, Relaxed);
        self.seats.fetch_add(answer.body["seats"].as_array().map_or(0, |seats| seats.len() as u64), Relaxed);
        self.acknowledge(answer);
    }

    pub(super) fn acknowledge(&self, answer: &Answer) {
        self.details().acknowledged.insert(answer.text("reservation_id").to_owned());
    }

    pub(super) fn hold_took(&self, time: Duration) {
        self.details().holds.push((Instant::now(), time));
    }

    pub(super) fn bought(&self, fan: &Fan) {
        self.bought.fetch_add(1, Relaxed);
        self.details().buyers.push(fan.clone());
    }

    pub(super) fn surprise(&self, text: String) {
        let mut details = self.details();
        if details.surprises.len() < SURPRISES {
            details.surprises.push(text);
        } else {
            details.more_surprises += 1;
        }
    }

    /// Answers that no fan should have got.
    pub fn surprises(&self) -> Vec<String> {
        let details = self.details();
        let mut all = details.surprises.clone();
        if details.more_surprises > 0 {
            all.push(format!("… and {} more surprises", details.more_surprises));
        }
        all
    }

    /// Every reservation that some fan was told is held.
    pub fn acknowledged(&self) -> Vec<String> {
        self.details().acknowledged.iter().cloned().collect()
    }

    /// Those who were told that they have bought.
    pub fn buyers(&self) -> Vec<Fan> {
        self.details().buyers.clone()
    }

    /// One line for the progress display.
    pub fn line(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        format!(
            "{} inside so far, {} holds, {} collisions, {} bought",
            of(&self.admitted),
            of(&self.held),
            of(&self.collided),
            of(&self.bought)
        )
    }
}

/// Answered holds a second: over the whole storm, and in its busiest second.
fn rates(holds: &[(Instant, Duration)]) -> Option<(f64, usize)> {
    let first = holds.iter().map(|(at, took)| *at - *took).min()?;
    let last = holds.iter().map(|(at, _)| *at).max()?;
    let mut seconds = std::collections::BTreeMap::<u64, usize>::new();
    for (at, _) in holds {
        *seconds.entry((*at - first).as_secs()).or_default() += 1;
    }
    let busiest = seconds.values().copied().max().unwrap_or(0);
    Some((holds.len() as f64 / (last - first).as_secs_f64().max(0.001), busiest))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let details = self.details();
        writeln!(
            f,
            "waiting   {} joined, {} were let in, {} found it sold out",
            of(&self.joined),
            of(&self.admitted),
            of(&self.sold_out)
        )?;
        writeln!(
            f,
            "holds     {} granted ({} seats), {} refused because others were faster, {} sent back in line, {} told to wait, {} gave up",
            of(&self.held),
            of(&self.seats),
            of(&self.collided),
            of(&self.sent_back),
            of(&self.told_to_wait),
            of(&self.gave_up)
        )?;
        writeln!(f, "leaving   {} wandered off, {} gave their seats back", of(&self.abandoned), of(&self.cancelled))?;
        writeln!(
            f,
            "paying    {} bought, {} declined, {} came too late, {} got their money back",
            of(&self.bought),
            of(&self.declined),
            of(&self.too_late),
            of(&self.refunded)
        )?;
        if let Some((mean, busiest)) = rates(&details.holds) {
            let mut times: Vec<Duration> = details.holds.iter().map(|(_, took)| *took).collect();
            times.sort_unstable();
            let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_millis();
            writeln!(
                f,
                "speed     {mean:.0} holds answered a second, {busiest} in the busiest; median {} ms, 99 % within {} ms",
                at(0.5),
                at(0.99)
            )?;
        }
        Ok(())
    }
}
