//! Time as values. Nothing here reads a clock: the leader stamps, the machines add.

use serde::{Deserialize, Serialize};

/// Milliseconds of a partition's own service time T (design: it measures service, not wall time). Only differences mean
/// anything, and only within one `checkouts` partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The moment `ms` later.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `now` until this moment; zero when it has passed.
    pub fn remaining_ms(self, now: Ticks) -> u64 {
        self.0.saturating_sub(now.0)
    }
}

/// Milliseconds since the Unix epoch by somebody's wall clock: for people, sale start, price dates and the floor of
/// `Begin`. Never compared to decide when a hold ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WallMs(pub u64);

/// What the leader wrote on an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Monotonic time since the leader's previous entry (or since it applied the first entry of its term).
    pub elapsed_ms: u32,
    /// The leader's wall clock.
    pub wall: WallMs,
}
