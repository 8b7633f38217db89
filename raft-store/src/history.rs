//! Who owned a seat, and since when: every change of ownership that this node has applied, for `encore admin history`. What
//! is applied is noted and never waited for; notes are bounded, and where the index cannot keep up it later enters what it
//! finds, as after a snapshot that skipped entries. It may be lost and begun anew: nothing rests on it. What was skipped is
//! remembered as a gap, so that nobody takes for all that happened what is only all that is known.

mod index;

use crate::runtime::{run_blocking, spawn};
use crate::state_machine::{AppliedEntry, Observer};
use crate::types::LogId;
use domain::ids::{EventId, GroupId, Partition, ReservationId, SeatIndex, SectionId};
use domain::inventory::query::{Owner, SeatState};
use domain::inventory::{Answer, Group, Query, SeatChange, SeatChangeKind};
use domain::time::WallMs;
use index::Index;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// One change of a seat's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The group that decided it.
    pub group: GroupId,
    /// The entry of its log that decided it.
    pub index: u64,
    /// The leader's wall clock then; `None` if the entry was skipped here: it was so at that entry at the latest.
    pub at: Option<WallMs>,
    /// Whose claim.
    pub reservation: ReservationId,
    /// What happened.
    pub kind: SeatChangeKind,
}

/// What an index has of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The group.
    pub group: GroupId,
    /// The last entry that it has come to.
    pub upto: u64,
    /// Entries that it lacks, ascending: after the first of each pair, up to the second.
    pub gaps: Vec<(u64, u64)>,
}

/// What one index tells of a seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatHistory {
    /// Its changes, oldest first.
    pub changes: Vec<Ownership>,
    /// How complete that is.
    pub coverage: Vec<Coverage>,
}

/// What the index is told.
enum Note {
    /// An entry changed these seats.
    Applied { group: GroupId, index: u64, at: WallMs, seats: Vec<SeatChange> },
    /// After this entry these seats had these owners. Entries before may have been missed, from `after` on at the latest.
    Found { group: GroupId, index: u64, owned: Vec<SeatChange>, after: Option<u64> },
    /// Everything noted before is to be in the index.
    Settled(oneshot::Sender<()>),
}

/// Notes that may wait: entries of some seconds.
const WAITING: usize = 16_384;
/// Notes that are written together: the busier the node, the fewer records.
const BATCH: usize = 1_024;

/// The history of one node's seats. Clones share it.
#[derive(Clone)]
pub struct History {
    index: Index,
    notes: mpsc::Sender<Note>,
    /// Groups of which a note found no room, and the first entry that was missed so.
    missed: Arc<Mutex<BTreeMap<GroupId, u64>>>,
}

impl History {
    /// Opens the index in `folder`, or begins a new one if it cannot be read.
    pub async fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.to_path_buf();
        let index = run_blocking(move || Index::open(&folder)).await?;
        let (notes, received) = mpsc::channel(WAITING);
        spawn(write(index.clone(), received));
        Ok(Self { index, notes, missed: Arc::default() })
    }

    /// Every change of one seat, and how complete that is. Reads the disk.
    pub fn seat(&self, event: EventId, section: SectionId, seat: SeatIndex) -> io::Result<SeatHistory> {
        self.index.seat(event, section, seat)
    }

    /// Returns once everything that was applied before is in the index.
    pub async fn settle(&self) {
        let (sender, settled) = oneshot::channel();
        if self.notes.send(Note::Settled(sender)).await.is_ok() {
            let _ = settled.await;
        }
    }

    /// Notes without waiting; if there is no room, the group is looked at as a whole once there is.
    fn note(&self, group: GroupId, index: u64, note: Note) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.notes.try_send(note) {
            self.missed.lock().unwrap_or_else(PoisonError::into_inner).entry(group).or_insert(index);
        }
    }

    /// The first entry of this group that was missed, if there is room again.
    fn catches_up(&self, group: GroupId) -> Option<u64> {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_room().then(|| missed.remove(&group)).flatten()
    }

    fn has_room(&self) -> bool {
        self.notes.capacity() >= WAITING / 2
    }
}

impl Observer for History {
    fn applied(&self, applied: &AppliedEntry<'_>) {
        let (group, index) = (applied.group, applied.log_id.index());
        if let Some(first) = self.catches_up(group) {
            let after = Some(first.saturating_sub(1));
            self.note(group, index, Note::Found { group, index, owned: owners(applied.machine), after });
        } else if !applied.seats.is_empty() {
            let (at, seats) = (applied.entry.stamp.wall, applied.seats.to_vec());
            self.note(group, index, Note::Applied { group, index, at, seats });
        } else {
            self.passed(group, applied.log_id);
        }
    }

    /// The index has come so far. While it is busy, the next note of the group says so as well.
    fn passed(&self, group: GroupId, log_id: LogId) {
        let (index, at, seats) = (log_id.index(), WallMs(0), Vec::new());
        if self.has_room() {
            let _ = self.notes.try_send(Note::Applied { group, index, at, seats });
        }
    }

    fn installed(&self, group: GroupId, last: Option<LogId>, machine: &Group) {
        let Some(index) = last.map(|log_id| log_id.index()) else { return };
        self.note(group, index, Note::Found { group, index, owned: owners(machine), after: None });
    }
}

/// Every seat that is not free.
fn owners(machine: &Group) -> Vec<SeatChange> {
    let hosted = machine.partitions().into_iter().map(|hosted| hosted.partition);
    hosted.flat_map(|partition| owners_in(machine, &partition)).collect()
}

fn owners_in(machine: &Group, partition: &Partition) -> Vec<SeatChange> {
    let Partition::Seats { event, section } = *partition else { return Vec::new() };
    let Answer::Owners(owners) = machine.query(partition, &Query::Owners, 0) else { return Vec::new() };
    let change = |owner: Owner| {
        let kind = match owner.state {
            SeatState::Free => return None,
            SeatState::Held => SeatChangeKind::Held,
            SeatState::Sold => SeatChangeKind::Sold,
            SeatState::Blocked => SeatChangeKind::Blocked,
        };
        Some(SeatChange { event, section, seat: owner.seat, reservation: owner.reservation, kind })
    };
    owners.into_iter().filter_map(change).collect()
}

async fn write(index: Index, mut notes: mpsc::Receiver<Note>) {
    let mut waiting = Vec::new();
    while notes.recv_many(&mut waiting, BATCH).await > 0 {
        let (index, taken) = (index.clone(), std::mem::take(&mut waiting));
        if let Err(error) = run_blocking(move || index.enter(taken)).await {
            tracing::warn!(%error, "seat history could not be written");
        }
    }
}

#[cfg(test)]
mod tests;
