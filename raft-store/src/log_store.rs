//! One group's part of the node's log, as openraft wants it: reads come from memory (what is not purged is bounded by the
//! snapshots), writes go to the shared log. The vote is durable before `save_vote` returns; an append reports only after
//! its sync; the commit point rides along with the next write.

use crate::types::{LogEntry, LogId, TypeConfig, Vote};
use crate::wal::{GroupRecord, Kind, Record, Wal};
use bytes::Bytes;
use domain::ids::GroupId;
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard};

/// One replication message carries no more than about this many bytes of entries.
const READ_BYTES: usize = 1 << 20;

/// An entry and how many bytes it takes.
struct Stored {
    entry: LogEntry,
    bytes: usize,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<u64, Stored>,
    /// Of all entries, encoded.
    bytes: usize,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
}

impl State {
    fn insert(&mut self, index: u64, stored: Stored) {
        self.bytes += stored.bytes;
        if let Some(replaced) = self.entries.insert(index, stored) {
            self.bytes -= replaced.bytes;
        }
    }

    /// Keeps the entries before this index, and gives the others back.
    fn split_off(&mut self, index: u64) -> BTreeMap<u64, Stored> {
        let rest = self.entries.split_off(&index);
        self.bytes -= rest.values().map(|stored| stored.bytes).sum::<usize>();
        rest
    }
}

/// The log of one group. Clones share it.
#[derive(Clone)]
pub struct LogStore {
    group: GroupId,
    wal: Wal,
    state: Arc<Mutex<State>>,
}

impl LogStore {
    /// Takes over what the log knew of the group.
    pub fn open(group: GroupId, wal: Wal, record: GroupRecord) -> io::Result<Self> {
        let mut state = State {
            vote: record.vote.map(|record| decode(&record.payload)).transpose()?,
            committed: record.committed.map(|record| decode(&record.payload)).transpose()?,
            purged: record.purge.map(|record| decode(&record.payload)).transpose()?,
            ..State::default()
        };
        for (index, bytes) in record.entries {
            state.insert(index, Stored { entry: decode(&bytes)?, bytes: bytes.len() });
        }
        Ok(Self { group, wal, state: Arc::new(Mutex::new(state)) })
    }

    /// Bytes of entries kept in memory: what is not purged.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// The last entry that is or was here; `None` if a newer vote than this one may have led to its being cut off.
    pub fn last_under(&self, vote: &Vote) -> Option<u64> {
        // Both at once: a newer leader's vote is written before the log is cut for it.
        let state = self.state();
        let last = state.entries.keys().next_back().copied().max(state.purged.map(|log_id| log_id.index()));
        let newer = state.vote.is_some_and(|own| own.partial_cmp(vote) == Some(Ordering::Greater));
        (!newer).then(|| last.unwrap_or(0))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    fn record(&self, kind: Kind, term: u64, index: u64, payload: Bytes) -> Record {
        Record { group: self.group, kind, term, index, payload }
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<LogEntry>, io::Error> {
        Ok(self.state().entries.range(range).map(|(_, stored)| stored.entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.state().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<LogEntry>, io::Error> {
        let mut before = 0;
        let state = self.state();
        let fits = state.entries.range(start..end).take_while(|(_, stored)| {
            let room = before == 0 || before + stored.bytes <= READ_BYTES;
            before += stored.bytes;
            room
        });
        Ok(fits.map(|(_, stored)| stored.entry.clone()).collect())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.state();
        let last = state.entries.values().next_back().map(|stored| stored.entry.log_id());
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: last.or(state.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.wal.write(vec![self.record(Kind::Vote, vote.leader_id().term, 0, encode(vote)?)]).await?;
        self.state().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.state().committed = committed;
        if let Some(log_id) = committed {
            self.wal.submit_lazily(vec![self.record(Kind::Committed, 0, log_id.index(), encode(&log_id)?)]);
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.state().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        {
            let mut state = self.state();
            for entry in entries {
                let (log_id, bytes) = (entry.log_id(), encode(&entry)?);
                let stored = Stored { entry, bytes: bytes.len() };
                records.push(self.record(Kind::Entry, log_id.leader_id.term, log_id.index(), bytes));
                // Readable at once, durable later, reported after that.
                state.insert(log_id.index(), stored);
            }
        }
        self.wal.submit(records, Box::new(move || callback.io_completed(Ok(()))));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |log_id| log_id.index() + 1);
        drop(self.state().split_off(from));
        self.wal.write(vec![self.record(Kind::Truncate, 0, from, Bytes::new())]).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        {
            let mut state = self.state();
            let kept = state.split_off(upto.index() + 1);
            state.bytes = kept.values().map(|stored| stored.bytes).sum();
            state.entries = kept;
            state.purged = Some(upto);
        }
        self.wal.write(vec![self.record(Kind::Purge, 0, upto.index(), encode(&upto)?)]).await
    }
}

fn encode<T: Serialize>(value: &T) -> io::Result<Bytes> {
    Ok(crate::wire::encode(value))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    crate::wire::decode("log record", bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests;
