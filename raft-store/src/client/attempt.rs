//! One call's attempts: how long is left, what has failed, whether it may have been written, how long to pause.

use super::ClientError;
use crate::runtime;
use domain::ids::Partition;
use std::time::Duration;

/// First pause between two attempts; doubled up to [`LONGEST_PAUSE_MS`].
const FIRST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 160;
/// Redirects that are followed without a pause; more than this and two nodes name each other.
const FREE_REDIRECTS: u32 = 3;
/// Between two looks at a reservation that is being prepared.
const PREPARING_PAUSE_MS: u64 = 10;

/// Book-keeping of one call.
pub(super) struct Attempts {
    began: runtime::Instant,
    limit: Duration,
    pause_ms: u64,
    redirects: u32,
    follow: bool,
    maybe_written: bool,
    moved: Option<Partition>,
    failed_last: Option<String>,
    reason: String,
    jitter: u64,
}

impl Attempts {
    /// A call that may take this long. `salt` spreads the pauses of calls that failed together.
    pub(super) fn new(limit: Duration, salt: u64) -> Self {
        Self {
            began: runtime::now(),
            limit,
            pause_ms: FIRST_PAUSE_MS,
            redirects: 0,
            follow: false,
            maybe_written: false,
            moved: None,
            failed_last: None,
            reason: "no node is known".into(),
            jitter: salt.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Time left.
    pub(super) fn left(&self) -> Duration {
        self.limit.saturating_sub(Duration::from_millis(runtime::millis_since(self.began)))
    }

    /// Whether the last failed attempt was at this address.
    pub(super) fn failed_last(&self, address: &str) -> bool {
        self.failed_last.as_deref() == Some(address)
    }

    /// It was not sent.
    pub(super) fn unreachable(&mut self, address: &str, reason: &str) {
        self.failed_last = Some(address.to_owned());
        self.reason = reason.to_owned();
    }

    /// The node says that it did not do it.
    pub(super) fn refused(&mut self, address: &str, reason: &str) {
        self.unreachable(address, &format!("{address}: {reason}"));
    }

    /// It may have been written.
    pub(super) fn unknown(&mut self, address: &str, reason: &str) {
        self.maybe_written = true;
        self.unreachable(address, reason);
    }

    /// The partition lives elsewhere.
    pub(super) fn moved(&mut self, partition: &Partition) {
        self.moved = Some(partition.clone());
    }

    /// Another node was named: no pause is needed, unless this goes on.
    pub(super) fn redirected(&mut self) {
        self.redirects += 1;
        self.follow = self.redirects <= FREE_REDIRECTS;
        self.failed_last = None;
    }

    /// Waits before the next attempt; `false` when there is no time for one.
    pub(super) async fn pause(&mut self) -> bool {
        if std::mem::take(&mut self.follow) {
            return !self.left().is_zero();
        }
        // Between half and all of the pause.
        self.jitter = self.jitter.rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pause = self.pause_ms / 2 + self.jitter % (self.pause_ms / 2 + 1);
        self.pause_ms = (self.pause_ms * 2).min(LONGEST_PAUSE_MS);
        self.pause_for(pause).await
    }

    /// Waits before looking again at a reservation that is being prepared.
    pub(super) async fn pause_briefly(&mut self) -> bool {
        self.pause_for(PREPARING_PAUSE_MS).await
    }

    async fn pause_for(&self, ms: u64) -> bool {
        if self.left() <= Duration::from_millis(ms) {
            return false;
        }
        runtime::sleep(Duration::from_millis(ms)).await;
        true
    }

    /// What the call of a command came to without an outcome.
    pub(super) fn failure(&self) -> ClientError {
        self.failure_if_written().unwrap_or_else(|| self.failure_of_question())
    }

    /// The unknown outcome, if anything may have been written.
    pub(super) fn failure_if_written(&self) -> Option<ClientError> {
        self.maybe_written.then_some(ClientError::Timeout)
    }

    /// What a call that writes nothing came to.
    pub(super) fn failure_of_question(&self) -> ClientError {
        match &self.moved {
            Some(partition) => ClientError::Moved { partition: partition.clone() },
            None => ClientError::Unavailable(self.reason.clone()),
        }
    }
}
