//! Reading the log at start. What a power cut can leave behind is cut off; anything else is damage, and a node with a
//! damaged log refuses to start: it may have forgotten a vote or an acknowledged entry, and would break both promises.

use super::record::{self, Kind, Record};
use super::segment;
use crate::disk::Disk;
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    /// The disk failed.
    #[error("the log's disk failed: {0}")]
    Disk(#[from] io::Error),
    /// Durable bytes are not what was written.
    #[error(
        "the log is damaged: file {}, offset {offset}: {what}. This node may have forgotten what it promised and must not \
         go on under its id. Keep the folder for inspection; start a node with an empty data folder, with `node.id` set to a \
         number that was never used and `node.join = true`, then run `encore admin group replace-node` with this node's id \
         and NEW-ID@HOST:PORT",
        file.display()
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// The log belongs to another node.
    #[error("{} belongs to node {found}, not to node {expected}", file.display())]
    Foreign {
        /// Which file.
        file: PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Who asked.
        expected: NodeId,
    },
}

/// What the log knows of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRecord {
    /// Entries that are neither truncated nor purged, encoded.
    pub entries: BTreeMap<u64, Bytes>,
    /// The last vote.
    pub vote: Option<Record>,
    /// The last known commit.
    pub committed: Option<Record>,
    /// The last purge.
    pub purge: Option<Record>,
}

impl GroupRecord {
    /// Takes the next record of the log in.
    pub fn replay(&mut self, record: Record) {
        match record.kind {
            Kind::Mark => {}
            Kind::Entry => {
                if self.purge.as_ref().is_none_or(|purge| purge.index < record.index) {
                    self.entries.insert(record.index, record.payload);
                }
            }
            Kind::Vote => self.vote = Some(record),
            Kind::Committed => self.committed = Some(record),
            Kind::Truncate => drop(self.entries.split_off(&record.index)),
            Kind::Purge => {
                self.entries = self.entries.split_off(&record.index.saturating_add(1));
                self.purge = Some(record);
            }
        }
    }

    /// The index after which entries are missing, if any are.
    fn hole(&self) -> Option<u64> {
        let first = self.purge.as_ref().map(|purge| purge.index + 1).or(self.entries.keys().next().copied())?;
        let missing = self.entries.keys().zip(first..).find(|(index, expected)| *index != expected);
        missing.map(|(_, expected)| expected)
    }
}

/// A segment that is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Its number.
    pub segment: u64,
    /// The highest entry of each group in it: it may go when all of them are purged.
    pub highest: BTreeMap<GroupId, u64>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Recovered {
    /// By group.
    pub groups: BTreeMap<GroupId, GroupRecord>,
    /// Oldest first.
    pub segments: Vec<Closed>,
    /// The last batch.
    pub batch: u64,
}

/// Reads all segments.
pub async fn recover(disk: &dyn Disk, folder: &Path, node: NodeId) -> Result<Recovered, WalError> {
    disk.create_folder(folder.to_path_buf()).await?;
    // A killed process may have left names and bytes that only the kernel knows of. What is read here is built upon, so it
    // must be as durable as everything else before anything is promised on it.
    disk.sync_folder(folder.to_path_buf()).await?;
    let names = disk.list(folder.to_path_buf()).await?;
    let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    let mut recovered = Recovered::default();
    for (at, number) in numbers.iter().enumerate() {
        let file = segment::path(folder, *number);
        if at > 0 && *number != numbers[at - 1] + 1 {
            let what = format!("segments {} to {} are missing before it", numbers[at - 1] + 1, number - 1);
            return Err(WalError::Damaged { file, offset: 0, what });
        }
        let last = at + 1 == numbers.len();
        read_segment(disk, file, *number, node, last, &mut recovered).await?;
    }
    for (group, record) in &recovered.groups {
        if let Some(index) = record.hole() {
            let what = format!("entry {index} of group {group} is missing");
            return Err(WalError::Damaged { file: folder.to_path_buf(), offset: 0, what });
        }
    }
    Ok(recovered)
}

async fn read_segment(
    disk: &dyn Disk,
    file: PathBuf,
    number: u64,
    node: NodeId,
    last: bool,
    recovered: &mut Recovered,
) -> Result<(), WalError> {
    if last {
        disk.sync(file.clone()).await?;
    }
    let bytes = disk.read(file.clone()).await?;
    let damaged = |offset: usize, what: &str| WalError::Damaged {
        file: file.clone(),
        offset: offset as u64,
        what: what.to_owned(),
    };
    match segment::decode_header(&bytes) {
        Some((found, segment)) if found == node && segment == number => {}
        Some((found, _)) if found != node => return Err(WalError::Foreign { file, found, expected: node }),
        Some(_) => return Err(damaged(0, "its header names another segment")),
        // The power went while the segment was being begun: nothing in it was ever reported.
        None if last && !record::later_mark(&bytes, 0, recovered.batch) => {
            disk.remove(file.clone()).await?;
            if let Some(folder) = file.parent() {
                disk.sync_folder(folder.to_path_buf()).await?;
            }
            return Ok(());
        }
        None => return Err(damaged(0, "its header is not sound")),
    }
    let mut closed = Closed { segment: number, ..Closed::default() };
    let mut offset = segment::HEADER;
    while offset < bytes.len() {
        let Some((record, next)) = Record::decode(&bytes, offset) else {
            if !last || record::later_mark(&bytes, offset, recovered.batch) {
                return Err(damaged(offset, "a record in the middle is not sound"));
            }
            tracing::warn!(file = %file.display(), offset, lost = bytes.len() - offset, "cutting a torn tail off the log");
            disk.cut(file.clone(), offset as u64).await?;
            disk.sync(file.clone()).await?;
            break;
        };
        if record.kind == Kind::Mark {
            if record.index != recovered.batch + 1 && recovered.batch != 0 {
                return Err(damaged(offset, "a batch is missing before it"));
            }
            recovered.batch = record.index;
        } else {
            if record.kind == Kind::Entry {
                let highest = closed.highest.entry(record.group).or_default();
                *highest = record.index.max(*highest);
            }
            recovered.groups.entry(record.group).or_default().replay(record);
        }
        offset = next;
    }
    recovered.segments.push(closed);
    Ok(())
}
