//! One append-only log a node, shared by all its groups: what is waiting from any of them goes to disk in one write and
//! one sync (group commit). Votes, entries, truncations and purges are ordered as they were submitted; nothing is
//! reported done before it is durable; a failed write ends the process.

mod record;
mod recovery;
mod segment;
mod writer;

pub use record::{Kind, Record};
pub use recovery::{GroupRecord, WalError};

use crate::disk::Disk;
use crate::runtime::spawn;
use domain::ids::{GroupId, NodeId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Runs once the records are durable.
pub type Done = Box<dyn FnOnce() + Send>;

/// How much the log has written; read by the metrics.
#[derive(Debug, Default)]
pub struct WalCounters {
    /// Syncs, each of one batch.
    pub syncs: AtomicU64,
    /// Records in them.
    pub records: AtomicU64,
    /// Bytes in them.
    pub bytes: AtomicU64,
    /// Segments on disk.
    pub segments: AtomicU64,
}

/// What is to be written together.
struct Submission {
    records: Vec<Record>,
    /// `None` lets the records wait for the next batch that somebody waits for.
    done: Option<Done>,
}

/// The open log. Clones share it.
#[derive(Clone)]
pub struct Wal {
    queue: mpsc::UnboundedSender<Submission>,
    counters: Arc<WalCounters>,
}

impl Wal {
    /// Reads the log in `folder`, cuts a torn tail, and starts the writer on a new segment.
    pub async fn open(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        node: NodeId,
        segment_bytes: u64,
    ) -> Result<(Self, BTreeMap<GroupId, GroupRecord>), WalError> {
        let recovered = recovery::recover(disk.as_ref(), &folder, node).await?;
        let counters = Arc::new(WalCounters::default());
        let (queue, submissions) = mpsc::unbounded_channel();
        let writer = writer::Writer::start(disk, folder, node, segment_bytes, &recovered, counters.clone()).await?;
        spawn(writer.run(submissions));
        Ok((Self { queue, counters }, recovered.groups))
    }

    /// Queues records that are written together, in the order of submission; `done` runs once they are durable.
    pub fn submit(&self, records: Vec<Record>, done: Done) {
        self.send(Submission { records, done: Some(done) });
    }

    /// Queues records that nobody waits for: they ride on the next write.
    pub fn submit_lazily(&self, records: Vec<Record>) {
        self.send(Submission { records, done: None });
    }

    /// Writes records and waits until they are durable.
    pub async fn write(&self, records: Vec<Record>) -> std::io::Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.submit(
            records,
            Box::new(move || {
                let _ = sender.send(());
            }),
        );
        receiver.await.map_err(|_| std::io::Error::other("the log has been closed"))
    }

    /// What has been written since the start.
    pub fn counters(&self) -> &WalCounters {
        &self.counters
    }

    /// Average records a sync, in hundredths; how well group commit works.
    pub fn records_per_sync(&self) -> f64 {
        let syncs = self.counters.syncs.load(Ordering::Relaxed).max(1);
        self.counters.records.load(Ordering::Relaxed) as f64 / syncs as f64
    }

    fn send(&self, submission: Submission) {
        // The writer ends only with the process, or when every handle is gone.
        let _ = self.queue.send(submission);
    }
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod tests;
