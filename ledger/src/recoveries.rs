//! Bringing a lost store back, as far as the ledger must remember it: which incarnations were given, and from what the last
//! recovery was made, so that one that was interrupted goes on from the same.

use crate::Result;
use domain::time::WallMs;
use std::future::Future;

/// A recovery that begins, or goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// A digest of everything that it is made from.
    pub source: [u8; 32],
    /// The highest incarnation that its sources know of.
    pub above: u16,
    /// Whether it goes on with the last one, which was interrupted.
    pub resumes: bool,
    /// When.
    pub now: WallMs,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// Reservations have this incarnation from now on.
    Incarnation(u16),
    /// The one that was interrupted was made from something else.
    OtherSource,
    /// None was interrupted.
    NothingToResume,
    /// There is no number left.
    UsedUp,
}

/// Recoveries of the store.
pub trait Recoveries {
    /// Begin a recovery under a number that was never given, or go on with the last one under its own.
    fn begin_recovery(&self, recovery: &Recovery) -> impl Future<Output = Result<RecoveryOutcome>> + Send;
}

/// The next number after the last one given and those that the sources know of.
pub(crate) fn next(last: Option<u16>, above: u16) -> Option<u16> {
    last.map_or(above, |last| last.max(above)).checked_add(1)
}
