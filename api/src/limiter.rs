//! How often one user may change something: a token bucket a user, in bounded memory.
//!
//! It protects the shop from a script, never the seats: limits on seats are the store's.

use domain::ids::UserId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Users remembered at a time.
const MAX_USERS: usize = 200_000;
const MINUTE_MS: u64 = 60_000;

/// Buckets of all users that asked lately.
#[derive(Debug)]
pub struct Limiter {
    per_minute: u64,
    start: Instant,
    buckets: Mutex<HashMap<UserId, Bucket>>,
}

/// What is left, in thousandths of a request, as of a moment.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left_milli: u64,
    at_ms: u64,
}

impl Limiter {
    /// So many at once, and again so many within a minute; zero for no limit.
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute), start: Instant::now(), buckets: Mutex::default() }
    }

    /// Whether `user` may ask now; if not, in how many seconds.
    pub fn take(&self, user: &UserId) -> Result<(), u64> {
        self.take_at(user, self.start.elapsed().as_millis().try_into().unwrap_or(u64::MAX))
    }

    fn take_at(&self, user: &UserId, now_ms: u64) -> Result<(), u64> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let full = self.per_minute * 1_000;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let left_at = |bucket: &Bucket| {
            let gained = now_ms.saturating_sub(bucket.at_ms).min(MINUTE_MS) * self.per_minute * 1_000 / MINUTE_MS;
            (bucket.left_milli + gained).min(full)
        };
        if buckets.len() >= MAX_USERS {
            // A full bucket says nothing that a new one would not say.
            buckets.retain(|_, bucket| left_at(bucket) < full);
        }
        let left = buckets.get(user).map_or(full, left_at);
        if left < 1_000 {
            return Err(((1_000 - left) * 60).div_ceil(self.per_minute * 1_000).max(1));
        }
        if buckets.len() < MAX_USERS || buckets.contains_key(user) {
            buckets.insert(user.clone(), Bucket { left_milli: left - 1_000, at_ms: now_ms });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_then_a_steady_rate() {
        let limiter = Limiter::new(60);
        let alice: UserId = "alice".parse().unwrap();
        let bob: UserId = "bob".parse().unwrap();
        assert!((0..60).all(|_| limiter.take_at(&alice, 0).is_ok()));
        assert_eq!(limiter.take_at(&alice, 0), Err(1));
        assert_eq!(limiter.take_at(&bob, 0), Ok(()));
        assert_eq!(limiter.take_at(&alice, 1_000), Ok(()));
        assert_eq!(limiter.take_at(&alice, 1_000), Err(1));
        assert!((0..60).all(|_| limiter.take_at(&alice, 600_000).is_ok()));
        assert!(limiter.take_at(&alice, 600_000).is_err());
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let limiter = Limiter::new(2);
        let alice: UserId = "alice".parse().unwrap();
        assert!((0..2).all(|_| limiter.take_at(&alice, 0).is_ok()));
        assert_eq!(limiter.take_at(&alice, 0), Err(30));
    }
}
