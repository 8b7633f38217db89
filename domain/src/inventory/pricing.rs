//! What a seat costs at the moment of its claim. Integer basis points, truncated, checked; the quote is then frozen.

use super::command::PriceRule;
use crate::money::Minor;
use crate::time::WallMs;

/// Basis points of the plain price.
pub const PLAIN_BPS: u32 = 10_000;
/// No price rises past this.
pub const MAX_BPS: u32 = 15_000;
/// Added when the event is near.
const NEAR_BPS: u32 = 500;
/// How near that is.
const NEAR_MS: u64 = 7 * 86_400_000;

/// The multiplier at this occupancy and date: `taken` of `capacity` seats are held or sold before the claim.
pub fn multiplier_bps(rule: &PriceRule, taken: u32, capacity: u32, now: WallMs) -> u32 {
    if !rule.dynamic {
        return PLAIN_BPS;
    }
    let (taken, capacity) = (u64::from(taken), u64::from(capacity.max(1)));
    let by_occupancy = if taken * 100 >= capacity * 80 {
        15_000
    } else if taken * 100 >= capacity * 50 {
        12_500
    } else {
        PLAIN_BPS
    };
    let near = rule.event_starts_at.0.saturating_sub(now.0) <= NEAR_MS;
    (by_occupancy + if near { NEAR_BPS } else { 0 }).min(MAX_BPS)
}

/// `(base·multiplier + 5000) / 10000`, or `None` when it does not fit.
pub fn gross(base: Minor, multiplier_bps: u32) -> Option<Minor> {
    let scaled = base.0.checked_mul(i64::from(multiplier_bps))?.checked_add(5_000)?;
    Some(Minor(scaled / 10_000))
}

/// `gross·discount / 10000`, or `None` when it does not fit.
pub fn discount(gross: Minor, discount_bps: u16) -> Option<Minor> {
    Some(Minor(gross.0.checked_mul(i64::from(discount_bps.min(10_000)))? / 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn rule(base: i64, dynamic: bool) -> PriceRule {
        PriceRule { base: Minor(base), dynamic, event_starts_at: WallMs(100 * DAY) }
    }

    fn price(base: i64, taken: u32, capacity: u32, day: u64) -> i64 {
        let rule = rule(base, true);
        gross(rule.base, multiplier_bps(&rule, taken, capacity, WallMs(day * DAY))).unwrap().0
    }

    #[test]
    fn occupancy_moves_the_price_at_its_thresholds() {
        assert_eq!(price(5_000, 0, 100, 0), 5_000);
        assert_eq!(price(5_000, 49, 100, 0), 5_000);
        assert_eq!(price(5_000, 50, 100, 0), 6_250);
        assert_eq!(price(5_000, 79, 100, 0), 6_250);
        assert_eq!(price(5_000, 80, 100, 0), 7_500);
        // Of three seats, two taken are 66 %; one is 33 %.
        assert_eq!(price(1_000, 1, 3, 0), 1_000);
        assert_eq!(price(1_000, 2, 3, 0), 1_250);
    }

    #[test]
    fn the_last_week_adds_five_hundred_points_up_to_the_cap() {
        assert_eq!(price(5_000, 0, 100, 92), 5_000);
        assert_eq!(price(5_000, 0, 100, 93), 5_250);
        assert_eq!(price(5_000, 50, 100, 99), 6_500);
        assert_eq!(price(5_000, 80, 100, 99), 7_500);
        // After the doors opened it is still near.
        assert_eq!(price(5_000, 0, 100, 200), 5_250);
    }

    #[test]
    fn halves_round_up_and_discounts_are_cut() {
        // 333 · 1.05 = 349.65; 10 yen · 1.05 = 10.5.
        assert_eq!(price(333, 0, 100, 99), 350);
        assert_eq!(price(10, 0, 100, 99), 11);
        assert_eq!(price(80, 80, 100, 0), 120);
        assert_eq!(discount(Minor(350), 1_000), Some(Minor(35)));
        assert_eq!(discount(Minor(999), 1_500), Some(Minor(149)));
        assert_eq!(discount(Minor(999), 10_000), Some(Minor(999)));
        assert_eq!(discount(Minor(999), 60_000), Some(Minor(999)));
    }

    #[test]
    fn a_fixed_price_stays_and_an_overflow_is_seen() {
        assert_eq!(multiplier_bps(&rule(5_000, false), 99, 100, WallMs(99 * DAY)), PLAIN_BPS);
        assert_eq!(gross(Minor(i64::MAX), PLAIN_BPS), None);
        assert_eq!(discount(Minor(i64::MAX), 2), None);
    }
}
