//! The claims of a waiting-room pass and the rules that need no key: who may use it, where, and until when.
//!
//! A pass lets one user open one checkout of one event within five minutes. Its signature is checked by whoever holds
//! the public key; that it has not been used is decided by the `checkouts` partition, which consumes its id.

use crate::ids::{EventId, PassId, UserId};
use crate::time::WallMs;
use serde::{Deserialize, Serialize};

/// The `typ` of a pass: a fan's token is never taken for one, nor the reverse.
pub const TYP: &str = "pass+jwt";
/// A pass may not be valid for longer than this.
pub const MAX_TTL_SECONDS: u64 = 300;
/// How far the clocks of issuer and verifier may differ before an honest pass looks too long.
pub const CLOCK_SKEW_SECONDS: u64 = 30;

/// What a pass says, as signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassClaims {
    /// Who issued it.
    pub iss: String,
    /// For whom it is meant.
    pub aud: String,
    /// The fan.
    pub sub: UserId,
    /// The event whose seats it opens.
    pub event: EventId,
    /// Its id, consumed by the first successful hold.
    pub jti: PassId,
    /// When it was issued, in seconds since the Unix epoch.
    pub iat: u64,
    /// The first second at which it is no longer valid.
    pub exp: u64,
}

/// Why a correctly signed pass is not good for this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassRefused {
    /// Its time is over.
    #[error("the pass has expired")]
    Expired,
    /// It claims to be valid for longer than any pass may be.
    #[error("the pass is valid for longer than a pass may be")]
    TooLong,
    /// It is for another event.
    #[error("the pass is for another event")]
    OtherEvent,
    /// It is another fan's.
    #[error("the pass belongs to somebody else")]
    OtherUser,
}

impl PassClaims {
    /// Whether `user` may open a checkout of `event` with this pass at `now`.
    pub fn check(&self, event: EventId, user: &UserId, now: WallMs) -> Result<(), PassRefused> {
        self.check_time(now)?;
        if self.event != event {
            return Err(PassRefused::OtherEvent);
        }
        if self.sub != *user {
            return Err(PassRefused::OtherUser);
        }
        Ok(())
    }

    /// Whether it is valid at `now`, and not for longer than a pass may be.
    pub fn check_time(&self, now: WallMs) -> Result<(), PassRefused> {
        let now = now.0 / 1_000;
        if self.exp <= now {
            return Err(PassRefused::Expired);
        }
        let too_long = |from: u64, allowed: u64| self.exp.saturating_sub(from) > allowed;
        if too_long(self.iat, MAX_TTL_SECONDS) || too_long(now, MAX_TTL_SECONDS + CLOCK_SKEW_SECONDS) {
            return Err(PassRefused::TooLong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallMs = WallMs(1_000_000_500);

    fn pass() -> PassClaims {
        PassClaims {
            iss: "queue".into(),
            aud: "buy".into(),
            sub: "alice".parse().unwrap(),
            event: EventId(1),
            jti: "p-1".parse().unwrap(),
            iat: 1_000_000,
            exp: 1_000_300,
        }
    }

    fn check(change: impl FnOnce(&mut PassClaims)) -> Result<(), PassRefused> {
        let mut pass = pass();
        change(&mut pass);
        pass.check(EventId(1), &"alice".parse().unwrap(), NOW)
    }

    #[test]
    fn a_pass_opens_its_own_event_for_its_own_fan_in_its_own_time() {
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|p| p.exp = 1_000_001), Ok(()));
        assert_eq!(check(|p| p.exp = 1_000_000), Err(PassRefused::Expired));
        assert_eq!(check(|p| p.event = EventId(2)), Err(PassRefused::OtherEvent));
        assert_eq!(check(|p| p.sub = "bob".parse().unwrap()), Err(PassRefused::OtherUser));
    }

    #[test]
    fn no_pass_is_longer_than_five_minutes() {
        assert_eq!(check(|p| p.exp = 1_000_301), Err(PassRefused::TooLong));
        assert_eq!(check(|p| p.exp = u64::MAX), Err(PassRefused::TooLong));
        // A late `iat` does not make a far `exp` acceptable.
        assert_eq!(check(|p| (p.iat, p.exp) = (1_001_000, 1_001_200)), Err(PassRefused::TooLong));
        // A queue whose clock is a little ahead still issues usable passes.
        assert_eq!(check(|p| (p.iat, p.exp) = (1_000_020, 1_000_320)), Ok(()));
    }
}
