//! Every write boundary, one by one: for each kind of record the power is cut before, within and after its write, with every
//! number of its bytes kept and every one of its sectors lost. Recovery finds what was reported, and at most what was
//! under way. The same for a snapshot's file.

use super::tests::{G, H, entry, folder, open, possible, record};
use super::{GroupRecord, Kind, Record, WalError};
use crate::disk::memory::MemoryDisk;
use crate::snapshot::SnapshotStore;
use crate::types::SnapshotMeta;
use bytes::Bytes;
use futures::stream;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Walks through every sequence of choices that a power cut can make.
#[derive(Default)]
struct Choices {
    made: Vec<(u64, u64)>,
    next: usize,
}

impl Choices {
    /// A choice below the bound. Of a sector's four chances one loses it: two cases.
    fn choose(&mut self, bound: u64) -> u64 {
        let cases = if bound == 4 { 2 } else { bound };
        if self.next == self.made.len() {
            self.made.push((0, cases));
        }
        self.next += 1;
        self.made[self.next - 1].0
    }

    /// The next sequence; false after the last.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((made, cases)) = self.made.pop() {
            if made + 1 < cases {
                self.made.push((made + 1, cases));
                return true;
            }
        }
        false
    }
}

/// Disks as they were at each step, each with how many steps had been reported then.
type Images = Vec<(usize, MemoryDisk)>;

/// A disk that keeps an image of itself at every step of every operation.
fn watched(reported: &Arc<AtomicUsize>) -> (MemoryDisk, Arc<Mutex<Images>>) {
    let images: Arc<Mutex<Images>> = Arc::default();
    let (kept, reported) = (images.clone(), reported.clone());
    let probe = move |disk: &MemoryDisk| kept.lock().unwrap().push((reported.load(Ordering::SeqCst), disk.copy()));
    (MemoryDisk::default().probed(Arc::new(probe)), images)
}

/// Everything a power cut can leave of each image; how many there were.
async fn each_cut<F: Future<Output = ()>>(
    images: Images,
    mut check: impl FnMut(usize, MemoryDisk, String) -> F,
) -> usize {
    let mut cuts = 0;
    for (place, (reported, image)) in images.into_iter().enumerate() {
        let mut choices = Choices::default();
        loop {
            let cut = image.copy();
            cut.cut_power(&mut |bound| choices.choose(bound));
            let context = format!("place {place}, {reported} steps reported, choices {:?}", choices.made);
            check(reported, cut, context).await;
            cuts += 1;
            if !choices.advance() {
                break;
            }
        }
    }
    cuts
}

#[tokio::test]
async fn every_tear_of_every_kind_of_record_recovers_to_a_legal_state() {
    // Longer than a sector, so that the middle of a write can be missing; and segments so small that each kind also
    // begins one.
    let long = |index| entry(G, index, 700);
    let truncate = Record { payload: Bytes::new(), ..record(G, Kind::Truncate, 3, 0) };
    let steps = vec![
        vec![record(G, Kind::Vote, 0, 9)],
        vec![entry(G, 0, 20), entry(G, 1, 30), entry(H, 0, 10)],
        vec![long(2)],
        vec![entry(G, 3, 40), entry(G, 4, 40)],
        vec![truncate],
        vec![record(H, Kind::Vote, 0, 12)],
        vec![record(G, Kind::Purge, 1, 12)],
        vec![entry(G, 3, 60)],
        vec![record(G, Kind::Vote, 0, 9), entry(G, 4, 10)],
        vec![record(H, Kind::Purge, 0, 12), record(G, Kind::Purge, 3, 12)],
    ];
    let mut total = 0;
    for segment_bytes in [1 << 20, 600] {
        let reported = Arc::new(AtomicUsize::new(0));
        let (disk, images) = watched(&reported);
        let (wal, _) = open(&disk, segment_bytes).await.unwrap();
        for step in &steps {
            wal.write(step.clone()).await.unwrap();
            reported.fetch_add(1, Ordering::SeqCst);
        }
        let images = std::mem::take(&mut *images.lock().unwrap());
        let steps = &steps;
        total += each_cut(images, |reported, cut, context| async move {
            let (_, found) = open(&cut, segment_bytes).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(possible(steps, reported).contains(&found), "{context}: {found:?}");
        })
        .await;
    }
    assert!(total > 3_000, "only {total} cuts");
}

#[tokio::test]
async fn a_flipped_byte_is_named_or_cut_off_and_never_taken_for_content() {
    let disk = MemoryDisk::default();
    let (wal, _) = open(&disk, 500).await.unwrap();
    let steps: Vec<Vec<Record>> = (0..8).map(|index| vec![entry(G, index, 90), record(H, Kind::Vote, 0, 9)]).collect();
    for step in &steps {
        wal.write(step.clone()).await.unwrap();
    }
    // What the last batch may lose: nothing tells its damage from a torn write, and nothing that came later rests on it.
    let legal: Vec<BTreeMap<_, GroupRecord>> = possible(&steps, steps.len() - 1);
    let files = disk.sizes(&folder());
    assert!(files.len() > 2);
    let (mut named, mut cut) = (0, 0);
    for (file, size) in files {
        for offset in 0..size {
            let damaged = disk.copy();
            damaged.flip(&file, offset);
            match open(&damaged, 500).await {
                Err(WalError::Damaged { file: said, .. } | WalError::Foreign { file: said, .. }) => {
                    assert!(said == file || said == folder() || said.parent() == Some(&folder()), "{}", said.display());
                    named += 1;
                }
                Err(WalError::Disk(error)) => panic!("{} byte {offset}: {error}", file.display()),
                Ok((_, found)) => {
                    assert!(legal.contains(&found), "{} byte {offset}: {found:?}", file.display());
                    cut += 1;
                }
            }
        }
    }
    assert!(named > 5 * cut, "{named} named, {cut} cut off");
}

#[tokio::test]
async fn a_snapshot_is_the_old_one_or_the_new_one_wherever_the_power_goes() {
    let reported = Arc::new(AtomicUsize::new(0));
    let (disk, images) = watched(&reported);
    let at = PathBuf::from("/node/snapshots");
    let store = SnapshotStore::open(Arc::new(disk), at.clone(), G).await.unwrap();
    let meta = |index: usize| SnapshotMeta {
        last_log_id: Some(openraft::testing::log_id::<crate::types::TypeConfig>(1, 1, index as u64)),
        ..SnapshotMeta::default()
    };
    for index in 1..4_usize {
        let piece = Bytes::from(vec![index as u8; 100 * index]);
        store.save(&meta(index), stream::iter([Ok(piece.clone()), Ok(piece.clone()), Ok(piece)])).await.unwrap();
        reported.fetch_add(1, Ordering::SeqCst);
    }
    let images = std::mem::take(&mut *images.lock().unwrap());
    let at = &at;
    let cuts = each_cut(images, |reported, cut, context| async move {
        let store = SnapshotStore::open(Arc::new(cut), at.clone(), G).await.unwrap();
        let found = store.load().await.unwrap_or_else(|error| panic!("{context}: {error}"));
        let index = found.as_ref().map_or(0, |snapshot| snapshot.snapshot.first().map_or(0, |byte| usize::from(*byte)));
        assert!(index == reported || index == reported + 1, "{context}: snapshot {index}");
        if let Some(snapshot) = found {
            assert_eq!(snapshot.meta, meta(index), "{context}");
            assert_eq!(snapshot.snapshot.len(), 300 * index, "{context}");
        }
    })
    .await;
    assert!(cuts > 300, "only {cuts} cuts");
}
