//! openraft's own suite against our log and state machine, what a restart must bring back, and the settings that the
//! probes showed to matter.

use super::LogStore;
use crate::config::NodeConfig;
use crate::disk::memory::MemoryDisk;
use crate::snapshot::SnapshotStore;
use crate::state_machine::StateMachine;
use crate::types::{Batch, LogEntry, TypeConfig, Vote};
use crate::wal::{GroupRecord, Wal};
use domain::ids::{EventId, GroupId, NodeId, Partition, SectionId};
use domain::inventory::command::{Command, Manage};
use domain::inventory::{Entry, Request};
use domain::time::{Stamp, WallMs};
use openraft::RaftLogReader;
use openraft::StorageError;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::testing::log_id;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const G: GroupId = GroupId(1);

async fn open_wal(disk: &MemoryDisk) -> (Wal, BTreeMap<GroupId, GroupRecord>) {
    Wal::open(Arc::new(disk.clone()), PathBuf::from("/node/log"), NodeId(1), 1 << 20).await.unwrap()
}

async fn open_log(disk: &MemoryDisk) -> LogStore {
    let (wal, mut groups) = open_wal(disk).await;
    LogStore::open(G, wal, groups.remove(&G).unwrap_or_default()).unwrap()
}

async fn open_machine(disk: &MemoryDisk) -> StateMachine {
    let snapshots = SnapshotStore::open(Arc::new(disk.clone()), PathBuf::from("/node/snapshots"), G).await.unwrap();
    StateMachine::open(G, snapshots, Vec::new()).await.unwrap()
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine> for Builder {
    async fn build(&self) -> Result<((), LogStore, StateMachine), StorageError<TypeConfig>> {
        let disk = MemoryDisk::default();
        Ok(((), open_log(&disk).await, open_machine(&disk).await))
    }
}

#[tokio::test]
async fn openrafts_suite_passes() {
    Suite::test_all(Builder).await.unwrap();
}

fn entry(index: u64) -> LogEntry {
    let partition = Partition::Seats { event: EventId(7), section: SectionId(3) };
    let request = Request { partition, command: Command::Manage(Manage::AckFeed { upto: 9 }) };
    let stamp = Stamp { elapsed_ms: 12, wall: WallMs(1_000) };
    let batch = Batch(Arc::new(Entry { stamp, requests: vec![request] }));
    LogEntry::new(log_id::<TypeConfig>(2, 1, index), openraft::EntryPayload::Normal(batch))
}

#[tokio::test]
async fn a_power_cut_takes_nothing_that_openraft_was_told_is_durable() {
    let disk = MemoryDisk::default();
    let mut log = open_log(&disk).await;
    let vote = Vote::new(2, 1);
    log.save_vote(&vote).await.unwrap();
    log.blocking_append((0..5).map(entry)).await.unwrap();
    log.truncate_after(Some(log_id::<TypeConfig>(2, 1, 3))).await.unwrap();
    log.purge(log_id::<TypeConfig>(2, 1, 1)).await.unwrap();
    disk.cut_power(&mut |_| 0);
    let mut log = open_log(&disk).await;
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    let state = log.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id::<TypeConfig>(2, 1, 1)));
    assert_eq!(state.last_log_id, Some(log_id::<TypeConfig>(2, 1, 3)));
    assert_eq!(log.try_get_log_entries(..).await.unwrap(), vec![entry(2), entry(3)]);
}

#[tokio::test]
async fn groups_of_one_log_do_not_touch_each_other_and_come_back_in_order() {
    let disk = MemoryDisk::default();
    let (wal, mut groups) = open_wal(&disk).await;
    let other = GroupId(2);
    let mut stores =
        [G, other].map(|id| LogStore::open(id, wal.clone(), groups.remove(&id).unwrap_or_default()).unwrap());
    for index in 0..6 {
        for store in &mut stores {
            store.blocking_append([entry(index)]).await.unwrap();
        }
    }
    let [first, second] = &mut stores;
    first.save_vote(&Vote::new(9, 1)).await.unwrap();
    first.truncate_after(Some(log_id::<TypeConfig>(2, 1, 2))).await.unwrap();
    first.blocking_append([entry(3)]).await.unwrap();
    second.purge(log_id::<TypeConfig>(2, 1, 1)).await.unwrap();
    disk.cut_power(&mut |_| 0);
    let (wal, mut groups) = open_wal(&disk).await;
    let mut first = LogStore::open(G, wal.clone(), groups.remove(&G).unwrap()).unwrap();
    let mut second = LogStore::open(other, wal, groups.remove(&other).unwrap()).unwrap();
    assert_eq!(first.try_get_log_entries(..).await.unwrap(), (0..4).map(entry).collect::<Vec<_>>());
    assert_eq!(second.try_get_log_entries(..).await.unwrap(), (2..6).map(entry).collect::<Vec<_>>());
    assert_eq!(first.read_vote().await.unwrap(), Some(Vote::new(9, 1)));
    assert_eq!(second.read_vote().await.unwrap(), None);
    assert_eq!(first.get_log_state().await.unwrap().last_purged_log_id, None);
}

#[test]
fn the_bytes_of_an_entry_are_pinned() {
    let bytes = postcard::to_stdvec(&entry(5)).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "020105010ce80701010703020109");
    assert_eq!(postcard::from_bytes::<LogEntry>(&bytes).unwrap(), entry(5));
}

#[test]
fn a_restarted_leader_must_be_elected_again_and_purges_are_ours() {
    let config = NodeConfig { peers: [(NodeId(1), String::new())].into(), ..NodeConfig::default() };
    let settings = crate::node::raft_config(&config).unwrap();
    assert_eq!(settings.enable_leader_restore, Some(false), "a leader that lost its tail would reuse log ids");
    assert_eq!(settings.enable_pre_vote, Some(true));
    assert_eq!(settings.snapshot_policy, openraft::SnapshotPolicy::Never);
    assert_eq!(settings.max_in_snapshot_log_to_keep, u64::MAX, "openraft must not purge by itself");
}
