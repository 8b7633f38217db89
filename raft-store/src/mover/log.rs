//! What became of the moves that this node drove: for the operator, and for the measure of how long partitions are frozen.

use domain::ids::{Attempt, GroupId, Partition};
use domain::inventory::query::Move;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Notes that are kept; the oldest go first.
const KEPT: usize = 256;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveResult {
    /// The target serves.
    Moved {
        /// From the moment before Freeze until Activate was acknowledged.
        frozen_ms: u64,
    },
    /// It was aborted; why.
    GivenUp(String),
}

/// One attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveNote {
    /// Which partition.
    pub partition: Partition,
    /// Which attempt.
    pub attempt: Attempt,
    /// The source.
    pub from: GroupId,
    /// The target.
    pub to: GroupId,
    /// How it ended.
    pub result: MoveResult,
}

/// The steps of a move that the mover does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveStep {
    /// The source has exported and stopped.
    Freeze,
    /// The target has taken it in.
    Install,
    /// Meta has committed.
    Commit,
    /// The target serves.
    Activate,
    /// The source has forgotten.
    Drop,
}

/// The last moves that this node drove. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MoveLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    notes: Mutex<VecDeque<MoveNote>>,
    halt: Mutex<Option<MoveStep>>,
    halted: AtomicU64,
}

impl MoveLog {
    /// Goes no further than this step, as a mover that died after it; for crash tests.
    pub fn halt_after(&self, step: Option<MoveStep>) {
        *self.0.halt.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// How often it has gone no further.
    pub fn halted(&self) -> u64 {
        self.0.halted.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on_after(&self, step: MoveStep) -> bool {
        let halts = *self.0.halt.lock().unwrap_or_else(PoisonError::into_inner) == Some(step);
        if halts {
            self.0.halted.fetch_add(1, Ordering::Relaxed);
        }
        !halts
    }

    pub(super) fn note(&self, open: &Move, result: MoveResult) {
        let Move { partition, attempt, from, to, .. } = open.clone();
        let mut notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= KEPT {
            notes.pop_front();
        }
        notes.push_back(MoveNote { partition, attempt, from, to, result });
    }

    /// The last attempts that ended, oldest first.
    pub fn notes(&self) -> Vec<MoveNote> {
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The median of how long partitions were frozen; `None` if nothing has moved.
pub fn median_frozen_ms<'a>(notes: impl IntoIterator<Item = &'a MoveNote>) -> Option<u64> {
    let frozen = notes.into_iter().filter_map(|note| match note.result {
        MoveResult::Moved { frozen_ms } => Some(frozen_ms),
        MoveResult::GivenUp(_) => None,
    });
    let mut frozen: Vec<u64> = frozen.collect();
    frozen.sort_unstable();
    frozen.get(frozen.len() / 2).copied()
}
