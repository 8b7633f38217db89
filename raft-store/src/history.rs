//! Who owned a seat, and since when: an index of every change of ownership that this node has applied, in sled. It may be
//! lost and is rebuilt from log and snapshot, so nothing rests on sled's durability. It knows up to which entry of each
//! group it is complete; what a snapshot skipped is entered as the snapshot found it.

use crate::runtime::{run_blocking, spawn};
use crate::state_machine::{AppliedEntry, Observer};
use crate::types::LogId;
use domain::ids::{EventId, GroupId, Partition, ReservationId, SeatIndex, SectionId};
use domain::inventory::query::SeatState;
use domain::inventory::{Answer, Group, Query, SeatChange, SeatChangeKind};
use domain::time::WallMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// One change of a seat's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The group that decided it.
    pub group: GroupId,
    /// The entry of its log that decided it.
    pub index: u64,
    /// The leader's wall clock then; `None` if a snapshot skipped the entry: it was so at that entry at the latest.
    pub at: Option<WallMs>,
    /// Whose claim.
    pub reservation: ReservationId,
    /// What happened.
    pub kind: SeatChangeKind,
}

enum Note {
    Applied { group: GroupId, index: u64, at: WallMs, seats: Vec<SeatChange> },
    Found { group: GroupId, index: u64, owned: Vec<SeatChange> },
    Settled(oneshot::Sender<()>),
}

/// The index. Clones share it.
#[derive(Clone)]
pub struct History {
    tree: sled::Tree,
    notes: mpsc::UnboundedSender<Note>,
}

/// Notes that are written together.
const BATCH: usize = 1_024;
const COMPLETE: &[u8] = b"complete";

impl History {
    /// Opens the index in `folder`, or begins a new one if it cannot be read: it can be rebuilt.
    pub async fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.to_path_buf();
        let (tree, complete) = run_blocking(move || {
            let open = || -> sled::Result<_> {
                let db = sled::Config::new().path(&folder).cache_capacity(16 << 20).open()?;
                Ok((db.open_tree("ownership")?, db.open_tree(COMPLETE)?))
            };
            match open() {
                Err(error @ (sled::Error::Corruption { .. } | sled::Error::Unsupported(_))) => {
                    tracing::warn!(%error, "the seat history cannot be read and is begun anew");
                    std::fs::remove_dir_all(&folder)?;
                    Ok(open()?)
                }
                opened => Ok(opened?),
            }
        })
        .await?;
        let (notes, received) = mpsc::unbounded_channel();
        spawn(write(tree.clone(), complete, received));
        Ok(Self { tree, notes })
    }

    /// Every change of one seat, oldest first.
    pub fn seat(&self, event: EventId, section: SectionId, seat: SeatIndex) -> io::Result<Vec<Ownership>> {
        let found = self.tree.scan_prefix(seat_key(event, section, seat));
        found
            .map(|item| {
                postcard::from_bytes(&item?.1).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            })
            .collect()
    }

    /// Returns once everything that was applied before is in the index.
    pub async fn settle(&self) {
        let (sender, settled) = oneshot::channel();
        if self.notes.send(Note::Settled(sender)).is_ok() {
            let _ = settled.await;
        }
    }
}

impl Observer for History {
    fn applied(&self, applied: &AppliedEntry<'_>) {
        if applied.seats.is_empty() {
            return;
        }
        let note = Note::Applied {
            group: applied.group,
            index: applied.log_id.index(),
            at: applied.entry.stamp.wall,
            seats: applied.seats.to_vec(),
        };
        let _ = self.notes.send(note);
    }

    fn installed(&self, group: GroupId, last: Option<LogId>, machine: &Group) {
        let Some(index) = last.map(|log_id| log_id.index()) else { return };
        let hosted = machine.partitions().into_iter().map(|hosted| hosted.partition);
        let owned = hosted.flat_map(|partition| owned(machine, &partition)).collect();
        let _ = self.notes.send(Note::Found { group, index, owned });
    }
}

fn owned(machine: &Group, partition: &Partition) -> Vec<SeatChange> {
    let Partition::Seats { event, section } = *partition else { return Vec::new() };
    let Answer::Owners(owners) = machine.query(partition, &Query::Owners, 0) else { return Vec::new() };
    let change = |owner: domain::inventory::query::Owner| {
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

/// Event, section, seat: what a seat's changes have in common.
fn seat_key(event: EventId, section: SectionId, seat: SeatIndex) -> Vec<u8> {
    [&event.0.to_be_bytes()[..], &section.0.to_be_bytes(), &seat.0.to_be_bytes()].concat()
}

/// Group, entry and place in the entry: applying an entry again writes the same key again.
fn change_key(change: &SeatChange, group: GroupId, index: u64, place: usize) -> Vec<u8> {
    let mut key = seat_key(change.event, change.section, change.seat);
    key.extend(index.to_be_bytes());
    key.extend(group.0.to_be_bytes());
    key.extend(u32::try_from(place).unwrap_or(u32::MAX).to_be_bytes());
    key
}

async fn write(tree: sled::Tree, complete: sled::Tree, mut notes: mpsc::UnboundedReceiver<Note>) {
    let mut waiting = Vec::new();
    while notes.recv_many(&mut waiting, BATCH).await > 0 {
        let taken = std::mem::take(&mut waiting);
        let (tree, complete) = (tree.clone(), complete.clone());
        let written = run_blocking(move || enter(&tree, &complete, taken)).await;
        if let Err(error) = written {
            tracing::warn!(%error, "seat history could not be written");
        }
    }
}

fn enter(tree: &sled::Tree, complete: &sled::Tree, notes: Vec<Note>) -> io::Result<()> {
    let mut batch = sled::Batch::default();
    let mut upto: BTreeMap<GroupId, u64> = BTreeMap::new();
    let mut settled = Vec::new();
    for note in notes {
        let (group, index, at, seats) = match note {
            Note::Settled(sender) => {
                settled.push(sender);
                continue;
            }
            Note::Applied { group, index, at, seats } => (group, index, Some(at), seats),
            Note::Found { group, index, owned } => {
                let known = match upto.get(&group) {
                    Some(known) => Some(*known),
                    None => read_complete(complete, group)?,
                };
                if known.is_some_and(|known| known >= index) {
                    continue;
                }
                // What is in the batch so far must be seen by the comparison.
                tree.apply_batch(std::mem::take(&mut batch))?;
                (group, index, None, unknown_to(tree, owned)?)
            }
        };
        for (place, change) in seats.iter().enumerate() {
            let entry = Ownership { group, index, at, reservation: change.reservation, kind: change.kind };
            let value = postcard::to_stdvec(&entry).map_err(io::Error::other)?;
            batch.insert(change_key(change, group, index, place), value);
        }
        let newest = upto.entry(group).or_default();
        *newest = index.max(*newest);
    }
    tree.apply_batch(batch)?;
    for (group, index) in upto {
        if read_complete(complete, group)?.is_none_or(|known| known < index) {
            complete.insert(group.0.to_be_bytes(), &index.to_be_bytes())?;
        }
    }
    for sender in settled {
        let _ = sender.send(());
    }
    Ok(())
}

fn read_complete(complete: &sled::Tree, group: GroupId) -> io::Result<Option<u64>> {
    let found = complete.get(group.0.to_be_bytes())?;
    Ok(found.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))))
}

/// Those that differ from the last change in the index.
fn unknown_to(tree: &sled::Tree, owned: Vec<SeatChange>) -> io::Result<Vec<SeatChange>> {
    let mut unknown = Vec::new();
    for change in owned {
        let last = tree.scan_prefix(seat_key(change.event, change.section, change.seat)).next_back().transpose()?;
        let last = last.and_then(|(_, value)| postcard::from_bytes::<Ownership>(&value).ok());
        if last.is_none_or(|last| (last.reservation, last.kind) != (change.reservation, change.kind)) {
            unknown.push(change);
        }
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(seat: u32, sequence: u64, kind: SeatChangeKind) -> SeatChange {
        let (event, section) = (EventId(1), SectionId(2));
        let reservation = ReservationId { event, bucket: domain::ids::Bucket(0), incarnation: 0, sequence };
        SeatChange { event, section, seat: SeatIndex(seat), reservation, kind }
    }

    fn applied(index: u64, seats: Vec<SeatChange>) -> Note {
        Note::Applied { group: GroupId(1), index, at: WallMs(index * 10), seats }
    }

    #[tokio::test]
    async fn a_seats_changes_come_in_order_once_and_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        {
            let history = History::open(folder.path()).await.unwrap();
            let sold = vec![change(5, 7, SeatChangeKind::Sold)];
            for note in [
                applied(1, vec![change(5, 7, SeatChangeKind::Held), change(6, 7, SeatChangeKind::Held)]),
                applied(300, sold.clone()),
                applied(300, sold),
            ] {
                assert!(history.notes.send(note).is_ok());
            }
            history.settle().await;
            let kinds: Vec<_> = history
                .seat(EventId(1), SectionId(2), SeatIndex(5))
                .unwrap()
                .iter()
                .map(|o| (o.index, o.kind))
                .collect();
            assert_eq!(kinds, [(1, SeatChangeKind::Held), (300, SeatChangeKind::Sold)]);
        }
        // sled's lock is free once the writing task has seen that every handle is gone.
        let mut again = History::open(folder.path()).await;
        for _ in 0..100 {
            if again.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            again = History::open(folder.path()).await;
        }
        assert_eq!(again.unwrap().seat(EventId(1), SectionId(2), SeatIndex(5)).unwrap().len(), 2);
    }

    #[tokio::test]
    async fn what_a_snapshot_skipped_is_entered_as_found() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).await.unwrap();
        let found = |index, owned| Note::Found { group: GroupId(1), index, owned };
        for note in [
            applied(1, vec![change(5, 7, SeatChangeKind::Held)]),
            found(50, vec![change(5, 7, SeatChangeKind::Held), change(6, 8, SeatChangeKind::Sold)]),
            // Older than what is known: says nothing new.
            found(40, vec![change(6, 3, SeatChangeKind::Held)]),
        ] {
            assert!(history.notes.send(note).is_ok());
        }
        history.settle().await;
        assert_eq!(history.seat(EventId(1), SectionId(2), SeatIndex(5)).unwrap().len(), 1);
        let six = history.seat(EventId(1), SectionId(2), SeatIndex(6)).unwrap();
        assert_eq!(six.iter().map(|o| (o.index, o.at, o.kind)).collect::<Vec<_>>(), [(50, None, SeatChangeKind::Sold)]);
    }
}
