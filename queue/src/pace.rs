//! How fast fans are let in, as a pure rule: the shop's own slowness turns the batch down, its ease turns it up, trouble
//! at the payment provider stops it for a while, and the operator's dial wins over all of it.

use crate::inventory::Load;
use crate::store::Dial;
use domain::time::WallMs;
use serde::{Deserialize, Serialize};

/// How often the pace is looked at.
pub const EVERY_MS: u64 = 10_000;
/// Holds slower than this turn the batch down.
pub const SLOW_MS: f64 = 400.0;
/// Holds faster than this turn it up.
pub const FAST_MS: f64 = 200.0;
/// More provider errors than this stop admission.
pub const PROVIDER_ERRORS: f64 = 0.05;
/// For this long.
pub const PAUSE_MS: u64 = 30_000;
/// Adaptation never exceeds the configured batch by more than this factor.
const CEILING: f64 = 4.0;

/// The adapted pace. Whoever is admitter keeps it in Redis for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// How many a tick; kept with its fraction, or small batches could never grow by a tenth.
    pub batch: f64,
    /// When it was last looked at.
    pub decided_at: WallMs,
    /// Nobody is let in before this.
    pub paused_until: WallMs,
}

impl Pace {
    /// Start with the configured batch.
    pub fn start(batch: u32, now: WallMs) -> Self {
        Self { batch: f64::from(batch), decided_at: now, paused_until: WallMs(0) }
    }

    /// Whether it is time for [`Pace::next`]. A clock that went back is a reason too.
    pub fn is_due(&self, now: WallMs) -> bool {
        now.0 >= self.decided_at.0.saturating_add(EVERY_MS) || now < self.decided_at
    }

    /// The pace after `load` was seen.
    pub fn next(self, load: Load, configured: u32, now: WallMs) -> Self {
        let factor = match load.hold_p99_ms {
            Some(p99) if p99 > SLOW_MS => 0.8,
            Some(p99) if p99 < FAST_MS => 1.1,
            _ => 1.0,
        };
        let ceiling = f64::from(configured.max(1)) * CEILING;
        let trouble = load.provider_error_ratio.is_some_and(|ratio| ratio > PROVIDER_ERRORS);
        Self {
            batch: (self.batch * factor).clamp(1.0, ceiling),
            decided_at: now,
            paused_until: if trouble { WallMs(now.0.saturating_add(PAUSE_MS)) } else { self.paused_until },
        }
    }

    /// How many may be let in now.
    pub fn allowed(&self, dial: &Dial, now: WallMs) -> u32 {
        let paused = dial.paused.unwrap_or(now < self.paused_until);
        if paused { 0 } else { dial.batch.unwrap_or(self.batch as u32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000_000);

    fn slow() -> Load {
        Load { hold_p99_ms: Some(401.0), provider_error_ratio: None }
    }

    fn fast() -> Load {
        Load { hold_p99_ms: Some(199.0), provider_error_ratio: Some(0.05) }
    }

    #[test]
    fn slow_holds_turn_the_batch_down_and_fast_ones_up() {
        let pace = Pace::start(50, NOW);
        assert_eq!(pace.next(slow(), 50, NOW).allowed(&Dial::default(), NOW), 40);
        assert_eq!(pace.next(fast(), 50, NOW).allowed(&Dial::default(), NOW), 55);
        let between = Load { hold_p99_ms: Some(300.0), provider_error_ratio: None };
        assert_eq!(pace.next(between, 50, NOW).allowed(&Dial::default(), NOW), 50);
        assert_eq!(pace.next(Load::default(), 50, NOW).allowed(&Dial::default(), NOW), 50);
    }

    #[test]
    fn the_batch_stays_between_one_and_the_ceiling_and_a_small_one_can_grow() {
        let (mut down, mut up) = (Pace::start(50, NOW), Pace::start(2, NOW));
        for _ in 0..100 {
            down = down.next(slow(), 50, NOW);
            up = up.next(fast(), 2, NOW);
        }
        assert_eq!(down.allowed(&Dial::default(), NOW), 1);
        assert_eq!(up.allowed(&Dial::default(), NOW), 8);
    }

    #[test]
    fn provider_trouble_pauses_for_thirty_seconds() {
        let trouble = Load { hold_p99_ms: None, provider_error_ratio: Some(0.051) };
        let pace = Pace::start(50, NOW).next(trouble, 50, NOW);
        assert_eq!(pace.allowed(&Dial::default(), NOW), 0);
        assert_eq!(pace.allowed(&Dial::default(), WallMs(NOW.0 + PAUSE_MS - 1)), 0);
        assert_eq!(pace.allowed(&Dial::default(), WallMs(NOW.0 + PAUSE_MS)), 50);
    }

    #[test]
    fn the_dial_wins() {
        let trouble = Load { hold_p99_ms: Some(900.0), provider_error_ratio: Some(1.0) };
        let pace = Pace::start(50, NOW).next(trouble, 50, NOW);
        let go_on = Dial { batch: Some(70), paused: Some(false), capacity: None };
        assert_eq!(pace.allowed(&go_on, NOW), 70);
        let stop = Dial { paused: Some(true), ..Dial::default() };
        assert_eq!(Pace::start(50, NOW).allowed(&stop, NOW), 0);
    }

    #[test]
    fn it_is_looked_at_every_ten_seconds() {
        let pace = Pace::start(50, NOW);
        assert!(!pace.is_due(WallMs(NOW.0 + EVERY_MS - 1)));
        assert!(pace.is_due(WallMs(NOW.0 + EVERY_MS)));
        assert!(pace.is_due(WallMs(NOW.0 - 1)));
    }
}
