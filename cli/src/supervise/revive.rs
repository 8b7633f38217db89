//! Parts that ended by themselves are started again, as a service manager would: a replicated store is there to be tried. One
//! that falls again and again is given up with its last words.

use super::{Part, Stack};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often one part is started again within [`WITHIN`] before it is given up.
const TIMES: usize = 3;
const WITHIN: Duration = Duration::from_secs(60);
/// What its last backends need to notice that their PostgreSQL is gone; nothing for the first start of anything else.
const PAUSE: Duration = Duration::from_secs(1);

/// Remembers who fell when.
#[derive(Default)]
pub struct Reviver {
    falls: BTreeMap<Part, Vec<Instant>>,
    due: BTreeMap<Part, Instant>,
}

impl Reviver {
    /// Start what has ended by itself. An error says which part is not worth another try, and its last words.
    pub fn look_after(&mut self, stack: &mut Stack, now: Instant, say: &dyn Fn(&str)) -> Result<()> {
        for (part, status) in stack.fallen() {
            if self.due.contains_key(&part) {
                continue;
            }
            let Some(due) = self.fell(part, now) else {
                let words = stack.last_words(part);
                bail!("{part} ended ({status}), {} times within a minute. Its last words:\n{words}", TIMES + 1);
            };
            say(&format!("{part} ended ({status}) and is started again."));
            self.due.insert(part, due);
        }
        let due: Vec<Part> = self.due.iter().filter(|(_, due)| **due <= now).map(|(part, _)| *part).collect();
        for part in due {
            self.due.remove(&part);
            stack.revive(part)?;
        }
        Ok(())
    }

    /// When it may be started again; `None` when it has fallen too often.
    fn fell(&mut self, part: Part, now: Instant) -> Option<Instant> {
        let falls = self.falls.entry(part).or_default();
        falls.retain(|at| now.duration_since(*at) < WITHIN);
        falls.push(now);
        let waits = falls.len() - usize::from(part != Part::Postgres);
        (falls.len() <= TIMES).then(|| now + PAUSE * u32::try_from(waits).unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_falls_again_and_again_is_given_up_and_one_that_falls_now_and_then_is_not() {
        let (mut reviver, begun) = (Reviver::default(), Instant::now());
        let after = |seconds: u64| begun + Duration::from_secs(seconds);
        for second in 0..3 {
            assert!(reviver.fell(Part::Node(1), after(second)).is_some());
        }
        assert!(reviver.fell(Part::Node(2), after(3)).is_some(), "another part is another count");
        assert_eq!(reviver.fell(Part::Node(1), after(4)), None);
        for hour in 1..20 {
            assert!(reviver.fell(Part::Node(3), after(hour * 3_600)).is_some());
        }
    }

    #[test]
    fn the_first_time_it_is_started_at_once() {
        let (mut reviver, now) = (Reviver::default(), Instant::now());
        assert_eq!(reviver.fell(Part::Node(1), now), Some(now));
        assert!(reviver.fell(Part::Postgres, now).is_some_and(|due| due > now));
    }
}
