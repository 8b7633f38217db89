//! The index on disk, in sled: nothing rests on sled's durability. A record is what one batch of entries did to one block of
//! neighbouring seats, so that a busy node writes few of them; a seat's changes are found by reading its block's. Applying
//! entries again may cut the batches elsewhere, so that a change may stand in two records: it is told once.

use super::{Coverage, Note, Ownership, SeatHistory};
use domain::ids::{EventId, GroupId, SeatIndex, SectionId};
use domain::inventory::SeatChange;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// Neighbouring seats whose changes are kept together.
const BLOCK: u32 = 256;
/// sled's cache: what is written is seldom read.
const CACHE_BYTES: u64 = 16 << 20;

/// A file of this name in the folder says that the index was found to be damaged: the next start begins it anew.
const DAMAGED: &str = "damaged";

/// One change as it is recorded: where it stands among its entry's changes, and whose seat it is.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Recorded {
    seat: SeatIndex,
    place: u32,
    ownership: Ownership,
}

/// A block of neighbouring seats.
type Block = (EventId, SectionId, u32);
/// What is to be recorded of each block, one record for each group.
type Batch = BTreeMap<(Block, GroupId), Vec<Recorded>>;

/// The index. Clones share it.
#[derive(Clone)]
pub(super) struct Index {
    changes: sled::Tree,
    /// The last entry of each group that it has come to.
    complete: sled::Tree,
    /// Group and last entry of each gap, and the entry before the gap.
    gaps: sled::Tree,
    marker: PathBuf,
}

impl Index {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        match Self::open_as_it_is(folder) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(%error, "the seat history cannot be read and is begun anew");
                std::fs::remove_dir_all(folder)?;
                Self::open_as_it_is(folder)
            }
            opened => opened,
        }
    }

    /// Damage has the kind `InvalidData`, whatever sled makes of it: it panics over some of it.
    fn open_as_it_is(folder: &Path) -> io::Result<Self> {
        let marker = folder.join(DAMAGED);
        if marker.exists() {
            return Err(damaged("it was found to be"));
        }
        let open = || -> sled::Result<_> {
            let db = sled::Config::new().path(folder).cache_capacity(CACHE_BYTES).open()?;
            let (changes, gaps) = (db.open_tree("changes of blocks")?, db.open_tree("gaps")?);
            Ok(Self { changes, gaps, complete: db.open_tree("changes are complete")?, marker })
        };
        match std::panic::catch_unwind(open) {
            Ok(Ok(index)) => Ok(index),
            Ok(Err(sled::Error::Io(error))) => Err(match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => damaged(error),
                _ => error,
            }),
            Ok(Err(error)) => Err(damaged(error)),
            Err(_) => Err(damaged("sled panicked")),
        }
    }

    /// Notes damage that is found later, for the next start.
    fn marked<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            // sled's own word for it is the second.
            && matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            && !self.marker.exists()
        {
            tracing::error!(%error, "the seat history is damaged; it is begun anew when the node starts again");
            let _ = std::fs::write(&self.marker, b"");
        }
        done
    }

    /// Every change of one seat, oldest entry first.
    pub(super) fn seat(&self, event: EventId, section: SectionId, seat: SeatIndex) -> io::Result<SeatHistory> {
        let mut changes = BTreeMap::new();
        let read = self.read(block_of(event, section, seat), |recorded| {
            if recorded.seat == seat {
                let Recorded { place, ownership, .. } = recorded;
                changes.insert((ownership.index, ownership.group, place), ownership);
            }
        });
        let coverage = self.marked(read.and_then(|()| self.coverage()))?;
        Ok(SeatHistory { changes: changes.into_values().collect(), coverage })
    }

    /// How complete it is.
    fn coverage(&self) -> io::Result<Vec<Coverage>> {
        self.complete
            .iter()
            .map(|item| {
                let (key, upto) = item?;
                let group = GroupId(u32::from_be_bytes(key.as_ref().try_into().map_err(damaged)?));
                let gaps = self.gaps.scan_prefix(group.0.to_be_bytes()).map(|item| {
                    let (key, after) = item?;
                    Ok((number(&after)?, number(key.get(4..).unwrap_or_default())?))
                });
                Ok(Coverage { group, upto: number(&upto)?, gaps: gaps.collect::<io::Result<_>>()? })
            })
            .collect()
    }

    /// Writes notes in their order; whoever waits for them is told afterwards.
    pub(super) fn enter(&self, notes: Vec<Note>) -> io::Result<()> {
        let mut settled = Vec::new();
        let entered = self.enter_all(notes, &mut settled);
        for sender in settled {
            let _ = sender.send(());
        }
        self.marked(entered)
    }

    fn enter_all(&self, notes: Vec<Note>, settled: &mut Vec<oneshot::Sender<()>>) -> io::Result<()> {
        let mut batch = Batch::new();
        let mut upto: BTreeMap<GroupId, u64> = BTreeMap::new();
        for note in notes {
            let (group, index, at, seats) = match note {
                Note::Settled(sender) => {
                    settled.push(sender);
                    continue;
                }
                Note::Applied { group, index, at, seats } => (group, index, Some(at), seats),
                Note::Found { group, index, owned, after } => {
                    let known = upto.get(&group).copied().max(self.complete_upto(group)?).unwrap_or(0);
                    let after = after.unwrap_or(known).min(known);
                    if after >= index {
                        continue;
                    }
                    self.gaps.insert(gap_key(group, index), &after.to_be_bytes())?;
                    // The comparison reads what was noted so far.
                    self.record(std::mem::take(&mut batch))?;
                    (group, index, None, self.unknown(owned)?)
                }
            };
            for (place, change) in (0..).zip(seats) {
                let block = block_of(change.event, change.section, change.seat);
                let ownership = Ownership { group, index, at, reservation: change.reservation, kind: change.kind };
                batch.entry((block, group)).or_default().push(Recorded { seat: change.seat, place, ownership });
            }
            let newest = upto.entry(group).or_default();
            *newest = index.max(*newest);
        }
        self.record(batch)?;
        for (group, index) in upto {
            if self.complete_upto(group)?.is_none_or(|known| known < index) {
                self.complete.insert(group.0.to_be_bytes(), &index.to_be_bytes())?;
            }
        }
        Ok(())
    }

    fn record(&self, batch: Batch) -> io::Result<()> {
        let mut records = sled::Batch::default();
        for ((block, group), recorded) in batch {
            let (Some(first), Some(last)) = (recorded.first(), recorded.last()) else { continue };
            let mut key = block_key(block);
            key.extend(group.0.to_be_bytes());
            // With its last entry, so that a shorter batch never takes the place of a longer one.
            key.extend(first.ownership.index.to_be_bytes());
            key.extend(last.ownership.index.to_be_bytes());
            records.insert(key, postcard::to_stdvec(&recorded).map_err(io::Error::other)?);
        }
        Ok(self.changes.apply_batch(records)?)
    }

    fn read(&self, block: Block, mut each: impl FnMut(Recorded)) -> io::Result<()> {
        for record in self.changes.scan_prefix(block_key(block)) {
            let recorded: Vec<Recorded> = postcard::from_bytes(&record?.1).map_err(damaged)?;
            recorded.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    fn complete_upto(&self, group: GroupId) -> io::Result<Option<u64>> {
        self.complete.get(group.0.to_be_bytes())?.map(|bytes| number(&bytes)).transpose()
    }

    /// Those that no record tells of as the seat's last change.
    fn unknown(&self, owned: Vec<SeatChange>) -> io::Result<Vec<SeatChange>> {
        let blocks: BTreeSet<Block> =
            owned.iter().map(|change| block_of(change.event, change.section, change.seat)).collect();
        let mut last = BTreeMap::new();
        for block @ (event, section, _) in blocks {
            self.read(block, |Recorded { seat, place, ownership }| {
                let newest = last.entry((event, section, seat)).or_insert((place, ownership));
                if (newest.1.index, newest.1.group, newest.0) <= (ownership.index, ownership.group, place) {
                    *newest = (place, ownership);
                }
            })?;
        }
        let is_known = |change: &SeatChange| {
            let last = last.get(&(change.event, change.section, change.seat));
            last.is_some_and(|(_, last)| (last.reservation, last.kind) == (change.reservation, change.kind))
        };
        Ok(owned.into_iter().filter(|change| !is_known(change)).collect())
    }
}

fn damaged(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the seat history is damaged: {error}"))
}

fn number(bytes: &[u8]) -> io::Result<u64> {
    bytes.try_into().map(u64::from_be_bytes).map_err(damaged)
}

fn gap_key(group: GroupId, upto: u64) -> Vec<u8> {
    [&group.0.to_be_bytes()[..], &upto.to_be_bytes()].concat()
}

fn block_of(event: EventId, section: SectionId, seat: SeatIndex) -> Block {
    (event, section, seat.0 / BLOCK)
}

fn block_key((event, section, block): Block) -> Vec<u8> {
    [&event.0.to_be_bytes()[..], &section.0.to_be_bytes(), &block.to_be_bytes()].concat()
}
