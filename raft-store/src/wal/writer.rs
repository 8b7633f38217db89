//! The one task that writes the log. It gathers what is waiting, writes and syncs it as one batch, reports it done, and
//! removes segments whose entries are all purged.

use super::record::{Kind, Record};
use super::recovery::{Closed, Recovered, WalError};
use super::{Done, Submission, WalCounters, segment};
use crate::disk::Disk;
use crate::runtime::abort;
use bytes::BytesMut;
use domain::ids::{GroupId, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc;

/// A batch takes no more than about this many bytes, so that the first in it does not wait for ever.
const BATCH_BYTES: usize = 4 << 20;

/// The last of each kind that a group must keep, repeated at the head of each segment so that older ones may go.
#[derive(Default)]
struct Heads {
    vote: Option<Record>,
    committed: Option<Record>,
    purge: Option<Record>,
}

impl Heads {
    fn note(&mut self, record: &Record) {
        match record.kind {
            Kind::Vote => self.vote = Some(record.clone()),
            Kind::Committed => self.committed = Some(record.clone()),
            Kind::Purge => self.purge = Some(record.clone()),
            Kind::Mark | Kind::Entry | Kind::Truncate => {}
        }
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.purge.iter().chain(&self.vote).chain(&self.committed)
    }
}

pub struct Writer {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    node: NodeId,
    segment_bytes: u64,
    heads: BTreeMap<GroupId, Heads>,
    closed: VecDeque<Closed>,
    active: Closed,
    active_bytes: u64,
    batch: u64,
    counters: Arc<WalCounters>,
}

impl Writer {
    /// Begins a new segment behind what was recovered.
    pub async fn start(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        node: NodeId,
        segment_bytes: u64,
        recovered: &Recovered,
        counters: Arc<WalCounters>,
    ) -> Result<Self, WalError> {
        let heads = recovered.groups.iter().map(|(group, record)| {
            let heads =
                Heads { vote: record.vote.clone(), committed: record.committed.clone(), purge: record.purge.clone() };
            (*group, heads)
        });
        let mut writer = Self {
            disk,
            folder,
            node,
            segment_bytes,
            heads: heads.collect(),
            closed: recovered.segments.iter().cloned().collect(),
            active: Closed::default(),
            active_bytes: 0,
            batch: recovered.batch,
            counters,
        };
        let next = recovered.segments.last().map_or(1, |closed| closed.segment + 1);
        writer.begin_segment(next).await?;
        writer.remove_purged().await?;
        Ok(writer)
    }

    /// Writes until every handle of the log is gone.
    pub async fn run(mut self, mut submissions: mpsc::UnboundedReceiver<Submission>) {
        let mut records: Vec<Record> = Vec::new();
        let mut waiting: Vec<Done> = Vec::new();
        while let Some(first) = submissions.recv().await {
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(submission) = next {
                bytes += submission.records.iter().map(|record| record.payload.len()).sum::<usize>();
                records.extend(submission.records);
                waiting.extend(submission.done);
                next = if bytes < BATCH_BYTES { submissions.try_recv().ok() } else { None };
            }
            if !waiting.is_empty() {
                self.write(&mut records, &mut waiting).await;
            }
        }
        if !records.is_empty() {
            self.write(&mut records, &mut waiting).await;
        }
    }

    async fn write(&mut self, records: &mut Vec<Record>, waiting: &mut Vec<Done>) {
        if let Err(error) = self.write_batch(records).await {
            // After a failed sync the kernel may have dropped the pages: a retry could report success for lost bytes.
            abort(&format!("writing segment {} of the log failed: {error}", self.active.segment));
        }
        for done in waiting.drain(..) {
            done();
        }
        let purged = records.iter().any(|record| record.kind == Kind::Purge);
        records.clear();
        if purged && let Err(error) = self.remove_purged().await {
            tracing::warn!(%error, "a purged log segment could not be removed; it will be tried again");
        }
    }

    async fn write_batch(&mut self, records: &[Record]) -> io::Result<()> {
        if self.active_bytes >= self.segment_bytes {
            let next = self.active.segment + 1;
            let full = std::mem::take(&mut self.active);
            self.closed.push_back(full);
            self.begin_segment(next).await?;
        }
        let mut buffer = BytesMut::new();
        self.batch += 1;
        Record::mark(self.batch).encode(&mut buffer);
        for record in records {
            record.encode(&mut buffer);
            self.heads.entry(record.group).or_default().note(record);
            if record.kind == Kind::Entry {
                let highest = self.active.highest.entry(record.group).or_default();
                *highest = record.index.max(*highest);
            }
        }
        self.active_bytes += buffer.len() as u64;
        self.counters.syncs.fetch_add(1, Relaxed);
        self.counters.records.fetch_add(records.len() as u64, Relaxed);
        self.counters.bytes.fetch_add(buffer.len() as u64, Relaxed);
        self.disk.append_synced(segment::path(&self.folder, self.active.segment), buffer.freeze()).await
    }

    /// Creates a segment whose first batch repeats the heads of all groups. Nothing else is written before it is durable.
    async fn begin_segment(&mut self, number: u64) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        segment::encode_header(self.node, number, &mut buffer);
        self.batch += 1;
        Record::mark(self.batch).encode(&mut buffer);
        for record in self.heads.values().flat_map(Heads::records) {
            record.encode(&mut buffer);
        }
        self.active = Closed { segment: number, ..Closed::default() };
        self.active_bytes = buffer.len() as u64;
        self.disk.append_synced(segment::path(&self.folder, number), buffer.freeze()).await?;
        self.disk.sync_folder(self.folder.clone()).await?;
        self.counters.segments.store(self.closed.len() as u64 + 1, Relaxed);
        Ok(())
    }

    /// Removes segments from the oldest on, while all their entries are purged: their votes and purges are repeated in
    /// every later segment.
    async fn remove_purged(&mut self) -> io::Result<()> {
        let mut removed = false;
        while let Some(oldest) = self.closed.front() {
            let purged =
                |group: &GroupId| self.heads.get(group).and_then(|heads| heads.purge.as_ref()).map(|r| r.index);
            if !oldest.highest.iter().all(|(group, highest)| purged(group).is_some_and(|index| index >= *highest)) {
                break;
            }
            self.disk.remove(segment::path(&self.folder, oldest.segment)).await?;
            self.closed.pop_front();
            removed = true;
        }
        if removed {
            self.disk.sync_folder(self.folder.clone()).await?;
            self.counters.segments.store(self.closed.len() as u64 + 1, Relaxed);
        }
        Ok(())
    }
}
