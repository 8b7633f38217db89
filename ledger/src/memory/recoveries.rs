//! Recoveries, in memory.

use super::Memory;
use crate::Result;
use crate::recoveries::{Recoveries, Recovery, RecoveryOutcome, next};

impl Recoveries for Memory {
    async fn begin_recovery(&self, recovery: &Recovery) -> Result<RecoveryOutcome> {
        let mut state = self.state();
        let last = state.recoveries.last_key_value().map(|(incarnation, source)| (*incarnation, *source));
        if recovery.resumes {
            return Ok(match last {
                Some((given, source)) if source == recovery.source => RecoveryOutcome::Incarnation(given),
                Some(_) => RecoveryOutcome::OtherSource,
                None => RecoveryOutcome::NothingToResume,
            });
        }
        let Some(next) = next(last.map(|(given, _)| given), recovery.above) else {
            return Ok(RecoveryOutcome::UsedUp);
        };
        state.recoveries.insert(next, recovery.source);
        Ok(RecoveryOutcome::Incarnation(next))
    }
}
