//! Who owned a seat, and since when: every change of ownership that this node has applied, for `encore admin history`. What
//! is applied is noted and never waited for; notes are bounded, and where the index cannot keep up it later enters what it
//! finds, as after a snapshot that skipped entries. It may be lost and begun anew: nothing rests on it.

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
use std::collections::BTreeSet;
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

/// What the index is told.
enum Note {
    /// An entry changed these seats.
    Applied { group: GroupId, index: u64, at: WallMs, seats: Vec<SeatChange> },
    /// After this entry these seats had these owners.
    Found { group: GroupId, index: u64, owned: Vec<SeatChange> },
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
    /// Groups of which a note found no room.
    missed: Arc<Mutex<BTreeSet<GroupId>>>,
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

    /// Every change of one seat, oldest first. Reads the disk.
    pub fn seat(&self, event: EventId, section: SectionId, seat: SeatIndex) -> io::Result<Vec<Ownership>> {
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
    fn note(&self, group: GroupId, note: Note) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.notes.try_send(note) {
            self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
        }
    }

    /// Whether notes of this group were missed and there is room again.
    fn catches_up(&self, group: GroupId) -> bool {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        self.notes.capacity() >= WAITING / 2 && missed.remove(&group)
    }
}

impl Observer for History {
    fn applied(&self, applied: &AppliedEntry<'_>) {
        let (group, index) = (applied.group, applied.log_id.index());
        if self.catches_up(group) {
            self.note(group, Note::Found { group, index, owned: owners(applied.machine) });
        } else if !applied.seats.is_empty() {
            let (at, seats) = (applied.entry.stamp.wall, applied.seats.to_vec());
            self.note(group, Note::Applied { group, index, at, seats });
        }
    }

    fn installed(&self, group: GroupId, last: Option<LogId>, machine: &Group) {
        let Some(index) = last.map(|log_id| log_id.index()) else { return };
        self.note(group, Note::Found { group, index, owned: owners(machine) });
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
