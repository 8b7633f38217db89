//! One copy of a partition and the rules of moving it. Every move message carries meta's attempt number, and every copy, a
//! dropped one too, remembers the highest that it applied, so that a message of an old attempt changes nothing.
//! Frozen, installed and dropped copies answer nothing final and drive nothing.

use super::outcome::Outcome;
use crate::ids::{Attempt, Epoch};
use crate::time::Ticks;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How far this copy of a partition is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Serves.
    Active,
    /// Exported; waits for meta's decision.
    Frozen,
    /// Taken in; waits for meta's decision.
    Installed,
    /// Moved away, or never here.
    Dropped,
}

/// A partition's machine, as far as moving is concerned.
pub(super) trait Machine: Serialize + DeserializeOwned {
    /// Stops its clock; the group's shows `clock`.
    fn stop(&mut self, clock: Ticks);
    /// Starts its clock where it stopped; the group's shows `clock`.
    fn start(&mut self, clock: Ticks);
}

/// A copy: machine, stage, epoch and the highest attempt that it applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copy<M> {
    pub(super) stage: Stage,
    pub(super) epoch: Epoch,
    pub(super) at: Attempt,
    /// `None` once dropped.
    machine: Option<M>,
}

impl<M: Machine> Copy<M> {
    /// The first copy of a new partition.
    pub(super) fn new(machine: M) -> Self {
        Self { stage: Stage::Active, epoch: Epoch(1), at: Attempt(0), machine: Some(machine) }
    }

    /// A place for a copy to be installed in.
    pub(super) fn absent() -> Self {
        Self { stage: Stage::Dropped, epoch: Epoch(0), at: Attempt(0), machine: None }
    }

    /// The machine, if it serves here.
    pub(super) fn active(&self) -> Option<&M> {
        self.machine.as_ref().filter(|_| self.stage == Stage::Active)
    }

    /// The machine, if it serves here.
    pub(super) fn active_mut(&mut self) -> Option<&mut M> {
        self.machine.as_mut().filter(|_| self.stage == Stage::Active)
    }

    /// The machine for reads that are never final: also while it is frozen.
    pub(super) fn readable(&self) -> Option<&M> {
        self.machine.as_ref().filter(|_| matches!(self.stage, Stage::Active | Stage::Frozen))
    }

    /// The machine wherever it stands; for checks.
    pub(super) fn any(&self) -> Option<&M> {
        self.machine.as_ref()
    }

    /// Export and stop: active or frozen, under an older attempt.
    pub(super) fn freeze(&mut self, attempt: Attempt, clock: Ticks) -> Outcome {
        let Some(machine) = &mut self.machine else { return Outcome::Moved { epoch: self.epoch } };
        match self.stage {
            Stage::Active if self.at < attempt => {
                machine.stop(clock);
                (self.stage, self.at) = (Stage::Frozen, attempt);
            }
            Stage::Frozen if self.at <= attempt => self.at = attempt,
            Stage::Active | Stage::Frozen => return self.late(attempt),
            Stage::Installed | Stage::Dropped => return Outcome::Moved { epoch: self.epoch },
        }
        Outcome::Exported(postcard::to_stdvec(machine).expect("a machine is plain data"))
    }

    /// Meta aborted: serve on. An active copy remembers the attempt, so that its Freeze comes too late.
    pub(super) fn unfreeze(&mut self, attempt: Attempt, clock: Ticks) -> Outcome {
        match (self.stage, &mut self.machine) {
            (Stage::Frozen, Some(machine)) if self.at == attempt => {
                machine.start(clock);
                self.stage = Stage::Active;
            }
            (Stage::Active, _) => self.at = self.at.max(attempt),
            _ => return self.late(attempt),
        }
        Outcome::Done
    }

    /// Take an exported machine in, not yet active.
    pub(super) fn install(
        &mut self,
        attempt: Attempt,
        epoch: Epoch,
        exported: &[u8],
        fits: impl FnOnce(&M) -> bool,
    ) -> Outcome {
        if self.at == attempt && matches!(self.stage, Stage::Installed | Stage::Active) {
            return Outcome::Done;
        }
        if self.stage == Stage::Active || self.at >= attempt {
            return self.late(attempt);
        }
        match postcard::from_bytes::<M>(exported) {
            Ok(machine) if fits(&machine) => {
                (self.stage, self.epoch, self.at) = (Stage::Installed, epoch, attempt);
                self.machine = Some(machine);
                Outcome::Done
            }
            Ok(_) => Outcome::Invalid("the export is of another partition".into()),
            Err(error) => Outcome::Invalid(format!("the export does not read: {error}")),
        }
    }

    /// Meta committed: serve from where the source stopped.
    pub(super) fn activate(&mut self, attempt: Attempt, clock: Ticks) -> Outcome {
        match (self.stage, &mut self.machine) {
            (Stage::Installed, Some(machine)) if self.at == attempt => {
                machine.start(clock);
                self.stage = Stage::Active;
                Outcome::Done
            }
            (Stage::Active, _) if self.at == attempt => Outcome::Done,
            _ => self.late(attempt),
        }
    }

    /// Meta committed: forget all but the attempt.
    pub(super) fn discard(&mut self, attempt: Attempt) -> Outcome {
        match self.stage {
            Stage::Frozen if self.at == attempt => {
                self.stage = Stage::Dropped;
                self.machine = None;
                // Where it went it has the next epoch; a client that still asks here learns so.
                self.epoch = Epoch(self.epoch.0 + 1);
                Outcome::Done
            }
            Stage::Dropped if self.at == attempt => Outcome::Done,
            _ => self.late(attempt),
        }
    }

    fn late(&self, attempt: Attempt) -> Outcome {
        Outcome::Invalid(format!("attempt {attempt} does not fit a copy that is {:?} at {}", self.stage, self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Number(u32);

    impl Machine for Number {
        fn stop(&mut self, _: Ticks) {}
        fn start(&mut self, _: Ticks) {}
    }

    const CLOCK: Ticks = Ticks(7);

    fn exported(outcome: Outcome) -> Vec<u8> {
        match outcome {
            Outcome::Exported(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn is_refused(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Invalid(_) | Outcome::Moved { .. })
    }

    #[test]
    fn a_move_is_idempotent_at_each_step() {
        let (mut source, mut target) = (Copy::new(Number(42)), Copy::<Number>::absent());
        let bytes = exported(source.freeze(Attempt(1), CLOCK));
        assert_eq!(exported(source.freeze(Attempt(1), CLOCK)), bytes);
        assert_eq!(source.active(), None);
        for _ in 0..2 {
            assert_eq!(target.install(Attempt(1), Epoch(2), &bytes, |_| true), Outcome::Done);
            assert_eq!(target.active(), None);
        }
        for _ in 0..2 {
            assert_eq!(target.activate(Attempt(1), CLOCK), Outcome::Done);
            assert_eq!(target.install(Attempt(1), Epoch(2), &bytes, |_| true), Outcome::Done);
            assert_eq!(source.discard(Attempt(1)), Outcome::Done);
        }
        assert_eq!((target.active(), target.epoch), (Some(&Number(42)), Epoch(2)));
        assert_eq!((source.any(), source.epoch), (None, Epoch(2)));
    }

    #[test]
    fn messages_of_an_old_attempt_change_nothing() {
        let (mut source, mut target) = (Copy::new(Number(42)), Copy::<Number>::absent());
        let bytes = exported(source.freeze(Attempt(1), CLOCK));
        // Meta aborts 1 and starts 2.
        assert_eq!(source.unfreeze(Attempt(1), CLOCK), Outcome::Done);
        assert!(is_refused(&source.freeze(Attempt(1), CLOCK)), "a late Freeze would stop it for good");
        exported(source.freeze(Attempt(2), CLOCK));
        assert!(is_refused(&source.discard(Attempt(1))));
        assert!(is_refused(&source.unfreeze(Attempt(1), CLOCK)));
        assert_eq!(target.install(Attempt(2), Epoch(2), &bytes, |_| true), Outcome::Done);
        assert!(is_refused(&target.activate(Attempt(1), CLOCK)));
        assert!(is_refused(&target.install(Attempt(1), Epoch(2), &bytes, |_| true)));
        assert_eq!(target.activate(Attempt(2), CLOCK), Outcome::Done);
        // It moves back under 3; the late Drop of 2 finds an active copy.
        source.discard(Attempt(2));
        let back = exported(target.freeze(Attempt(3), CLOCK));
        assert_eq!(source.install(Attempt(3), Epoch(3), &back, |_| true), Outcome::Done);
        assert_eq!(source.activate(Attempt(3), CLOCK), Outcome::Done);
        assert!(is_refused(&source.discard(Attempt(2))));
        assert_eq!(source.active(), Some(&Number(42)));
    }

    #[test]
    fn an_abort_that_overtakes_its_freeze_keeps_the_copy_serving() {
        let mut source = Copy::new(Number(1));
        assert_eq!(source.unfreeze(Attempt(1), CLOCK), Outcome::Done);
        assert!(is_refused(&source.freeze(Attempt(1), CLOCK)));
        assert_eq!(source.active(), Some(&Number(1)));
    }

    #[test]
    fn a_foreign_or_broken_export_is_not_taken_in() {
        let mut target = Copy::<Number>::absent();
        assert!(is_refused(&target.install(Attempt(1), Epoch(2), &[5], |_| false)));
        assert!(is_refused(&target.install(Attempt(1), Epoch(2), &[], |_| true)));
        assert_eq!(target.stage, Stage::Dropped);
    }
}
