//! The log's promises against a disk that forgets: the power is cut at every step of every write, many times by chance, and
//! what was reported durable must be there. Damage is told from a torn tail.

use super::{GroupRecord, Kind, Record, Wal, WalError};
use crate::disk::Disk;
use crate::disk::memory::MemoryDisk;
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(super) const NODE: NodeId = NodeId(1);
pub(super) const G: GroupId = GroupId(1);
pub(super) const H: GroupId = GroupId(2);

pub(super) fn folder() -> PathBuf {
    PathBuf::from("/node/log")
}

pub(super) fn record(group: GroupId, kind: Kind, index: u64, size: usize) -> Record {
    Record { group, kind, term: 7, index, payload: Bytes::from(vec![index as u8; size]) }
}

pub(super) fn entry(group: GroupId, index: u64, size: usize) -> Record {
    record(group, Kind::Entry, index, size)
}

pub(super) async fn open(
    disk: &MemoryDisk,
    segment_bytes: u64,
) -> Result<(Wal, BTreeMap<GroupId, GroupRecord>), WalError> {
    Wal::open(Arc::new(disk.clone()), folder(), NODE, segment_bytes).await
}

/// A small generator; the tests name their seeds.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What happens to the log in the crash tests: two groups, entries of all sizes, votes, truncations, purges, and segments
/// so small that they rotate.
fn script(seed: u64) -> Vec<Vec<Record>> {
    let mut chance = Seeded(seed);
    let mut next = BTreeMap::from([(G, 0), (H, 0)]);
    let mut purged: BTreeMap<GroupId, u64> = BTreeMap::new();
    let mut steps = Vec::new();
    for _ in 0..25 {
        let group = if chance.below(3) == 0 { H } else { G };
        let at = next.get_mut(&group).expect("both are there");
        let floor = purged.get(&group).map_or(0, |upto| upto + 1);
        steps.push(match chance.below(10) {
            0 => vec![record(group, Kind::Vote, 0, 9 + chance.below(5) as usize)],
            1 if *at > floor + 2 => {
                *at -= 1 + chance.below(2);
                vec![Record { payload: Bytes::new(), ..record(group, Kind::Truncate, *at, 0) }]
            }
            2 if *at > floor + 3 => {
                let upto = floor + chance.below(*at - floor);
                purged.insert(group, upto);
                vec![record(group, Kind::Purge, upto, 12)]
            }
            _ => {
                let count = 1 + chance.below(3);
                let entries = (0..count).map(|i| entry(group, *at + i, chance.below(900) as usize)).collect();
                *at += count;
                entries
            }
        });
    }
    steps
}

pub(super) fn replayed(steps: &[Vec<Record>]) -> BTreeMap<GroupId, GroupRecord> {
    let mut groups: BTreeMap<GroupId, GroupRecord> = BTreeMap::new();
    for record in steps.iter().flatten() {
        groups.entry(record.group).or_default().replay(record.clone());
    }
    groups
}

/// Every record after which the log may have stopped, from the acknowledged steps on.
pub(super) fn possible(steps: &[Vec<Record>], acknowledged: usize) -> Vec<BTreeMap<GroupId, GroupRecord>> {
    let mut groups = replayed(&steps[..acknowledged]);
    let mut all = vec![groups.clone()];
    for record in steps[acknowledged..].iter().flatten() {
        groups.entry(record.group).or_default().replay(record.clone());
        all.push(groups.clone());
    }
    all
}

#[tokio::test]
async fn a_power_cut_anywhere_loses_nothing_that_was_reported() {
    for seed in 0..6 {
        let steps = script(seed);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let images: Arc<Mutex<Vec<(usize, MemoryDisk)>>> = Arc::default();
        let disk = MemoryDisk::default().probed(Arc::new({
            let (acknowledged, images) = (acknowledged.clone(), images.clone());
            move |disk| images.lock().unwrap().push((acknowledged.load(Ordering::SeqCst) as usize, disk.copy()))
        }));
        let (wal, _) = open(&disk, 2_000).await.unwrap();
        for step in &steps {
            wal.write(step.clone()).await.unwrap();
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 50, "the power was cut at only {} places", images.len());
        for (place, (acknowledged, image)) in images.into_iter().enumerate() {
            for cut in 0..4 {
                let image = image.copy();
                let mut chance = Seeded(seed * 1_000_003 + place as u64 * 17 + cut);
                image.cut_power(&mut |bound| chance.below(bound));
                let context = format!("seed {seed}, place {place}, cut {cut}, {acknowledged} steps reported");
                let (wal, found) = open(&image, 2_000).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let possible = possible(&steps, acknowledged);
                assert!(possible.contains(&found), "{context}: recovered something else: {found:?}");
                // And again: what recovery kept is durable, and the log goes on behind it.
                wal.write(vec![record(H, Kind::Vote, 0, 40)]).await.unwrap();
                image.cut_power(&mut |bound| chance.below(bound));
                let (_, again) = open(&image, 2_000).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
                let mut expected = found.clone();
                expected.entry(H).or_default().replay(record(H, Kind::Vote, 0, 40));
                assert_eq!(again, expected, "{context}, again");
            }
        }
    }
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_with_its_place_and_the_way_out() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 1 << 20).await.unwrap();
    for index in 0..10 {
        wal.write(vec![entry(G, index, 100)]).await.unwrap();
    }
    let (file, size) = disk.sizes(&folder()).pop().unwrap();
    let mut refused = 0;
    // Every byte of all batches but the last: a flip there is damage to durable bytes.
    for offset in 0..size - 129 - 29 {
        let damaged = disk.copy();
        damaged.flip(&file, offset);
        match open(&damaged, 1 << 20).await {
            Err(error @ WalError::Damaged { .. }) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains("0000000000000001.wal") && text.contains("replace-node"), "{text}");
            }
            Err(WalError::Foreign { .. } | WalError::Disk(_)) => panic!("byte {offset}: refused for the wrong reason"),
            Ok((_, groups)) => panic!("byte {offset}: {groups:?}"),
        }
    }
    assert!(refused > 1_000);
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_only_the_tail() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 1 << 20).await.unwrap();
    for index in 0..3 {
        wal.write(vec![entry(G, index, 100)]).await.unwrap();
    }
    let (file, size) = disk.sizes(&folder()).pop().unwrap();
    for kept in size - 129..size {
        let torn = disk.copy();
        torn.cut(file.clone(), kept as u64).await.unwrap();
        let (_, groups) = open(&torn, 1 << 20).await.unwrap();
        assert_eq!(groups[&G].entries.len(), 2, "{kept} bytes of {size}");
    }
}

#[tokio::test]
async fn a_missing_segment_is_damage() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 300).await.unwrap();
    for index in 0..10 {
        wal.write(vec![entry(G, index, 200)]).await.unwrap();
    }
    let files = disk.sizes(&folder());
    assert!(files.len() > 4);
    disk.remove(files[2].0.clone()).await.unwrap();
    assert!(matches!(open(&disk, 300).await, Err(WalError::Damaged { .. })));
}

#[tokio::test]
async fn purged_segments_go_and_votes_stay() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 500).await.unwrap();
    let vote = record(H, Kind::Vote, 0, 20);
    wal.write(vec![vote.clone(), entry(H, 0, 10)]).await.unwrap();
    for index in 0..50 {
        wal.write(vec![entry(G, index, 200)]).await.unwrap();
    }
    let before = disk.sizes(&folder()).len();
    wal.write(vec![record(G, Kind::Purge, 48, 12)]).await.unwrap();
    // The quiet group's entry keeps everything behind it.
    assert!(disk.sizes(&folder()).len() >= before);
    wal.write(vec![record(H, Kind::Purge, 0, 12)]).await.unwrap();
    wal.write(vec![entry(G, 50, 10)]).await.unwrap();
    assert!(disk.sizes(&folder()).len() <= 3, "{:?}", disk.sizes(&folder()));
    let (_, groups) = open(&disk, 500).await.unwrap();
    assert_eq!(groups[&G].entries.keys().copied().collect::<Vec<_>>(), [49, 50]);
    assert_eq!(groups[&H].vote, Some(vote));
    assert_eq!(groups[&H].purge.as_ref().map(|purge| purge.index), Some(0));
}

#[tokio::test]
async fn another_nodes_log_is_refused() {
    let disk = MemoryDisk::default();
    open(&disk, 500).await.unwrap();
    let other = Wal::open(Arc::new(disk), folder(), NodeId(2), 500).await;
    assert!(matches!(other, Err(WalError::Foreign { found: NODE, .. })));
}

#[tokio::test]
async fn what_waits_together_is_synced_together() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 1 << 20).await.unwrap();
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    for index in 0..100 {
        let sender = sender.clone();
        wal.submit(vec![entry(G, index, 10)], Box::new(move || sender.send(index).unwrap()));
    }
    for index in 0..100 {
        assert_eq!(done.recv().await, Some(index), "reported in the order of submission");
    }
    assert!(wal.counters().syncs.load(Ordering::Relaxed) <= 2);
    // What nobody waits for is not written for its own sake.
    wal.submit_lazily(vec![record(G, Kind::Committed, 99, 10)]);
    tokio::task::yield_now().await;
    let syncs = wal.counters().syncs.load(Ordering::Relaxed);
    wal.write(vec![entry(G, 100, 10)]).await.unwrap();
    assert_eq!(wal.counters().syncs.load(Ordering::Relaxed), syncs + 1);
    let (_, groups) = open(&disk, 1 << 20).await.unwrap();
    assert_eq!(groups[&G].committed.as_ref().map(|record| record.index), Some(99));
}

#[test]
fn the_bytes_of_a_record_are_pinned() {
    let mut bytes = bytes::BytesMut::new();
    Record { group: G, kind: Kind::Entry, term: 3, index: 5, payload: Bytes::from_static(b"seat") }.encode(&mut bytes);
    assert_eq!(
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "040000006d89b0cc01000000020300000000000000050000000000000073656174"
    );
    let (record, end) = Record::decode(&bytes.freeze(), 0).unwrap();
    assert_eq!((record.index, end), (5, 33));
}

#[tokio::test]
async fn real_files_hold_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(crate::disk::RealDisk::default());
    let path = |at: &Path| at.join("log");
    let (wal, _) = Wal::open(disk.clone(), path(folder.path()), NODE, 400).await.unwrap();
    for index in 0..20 {
        wal.write(vec![entry(G, index, 50)]).await.unwrap();
    }
    wal.write(vec![record(G, Kind::Purge, 15, 12)]).await.unwrap();
    // Segments are removed after the purge is reported, and before the next write is.
    wal.write(vec![record(G, Kind::Vote, 0, 9)]).await.unwrap();
    let (_, groups) = Wal::open(disk, path(folder.path()), NODE, 400).await.unwrap();
    assert_eq!(groups[&G].entries.keys().copied().collect::<Vec<_>>(), [16, 17, 18, 19]);
}

/// A disk whose syncs fail after a while.
struct Failing {
    disk: MemoryDisk,
    left: AtomicU64,
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> futures::future::BoxFuture<'static, std::io::Result<$answer>> {
            self.disk.$name($($argument),*)
        })*
    };
}

impl Disk for Failing {
    pass_on! {
        create_folder(folder: PathBuf) -> ();
        list(folder: PathBuf) -> Vec<String>;
        read(file: PathBuf) -> Bytes;
        append(file: PathBuf, bytes: Bytes) -> ();
        sync(file: PathBuf) -> ();
        cut(file: PathBuf, length: u64) -> ();
        sync_folder(folder: PathBuf) -> ();
        rename(from: PathBuf, to: PathBuf) -> ();
        remove(file: PathBuf) -> ();
        lock(file: PathBuf) -> crate::disk::Lock;
    }

    fn append_synced(&self, file: PathBuf, bytes: Bytes) -> futures::future::BoxFuture<'static, std::io::Result<()>> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Box::pin(async { Err(std::io::Error::other("the disk is gone")) });
        }
        self.disk.append_synced(file, bytes)
    }
}

/// Runs in a process of its own, started by the test below.
#[tokio::test]
async fn dies_of_a_failed_sync() {
    if std::env::var_os("ENCORE_TEST_FAILED_SYNC").is_none() {
        return;
    }
    let disk = Failing { disk: MemoryDisk::default(), left: AtomicU64::new(2) };
    let (wal, _) = Wal::open(Arc::new(disk), folder(), NODE, 1 << 20).await.unwrap();
    wal.write(vec![entry(G, 0, 10)]).await.unwrap();
    let _ = wal.write(vec![entry(G, 1, 10)]).await;
    unreachable!("the process must be gone");
}

#[test]
fn a_failed_sync_ends_the_process_loudly() {
    use std::os::unix::process::ExitStatusExt;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "wal::tests::dies_of_a_failed_sync", "--nocapture"])
        .env("ENCORE_TEST_FAILED_SYNC", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(6), "{said}");
    assert!(said.contains("aborting") && said.contains("the disk is gone"), "{said}");
}
