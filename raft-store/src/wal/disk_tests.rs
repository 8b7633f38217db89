//! A full and a broken disk, on real files and in a process of its own: the node ends loudly, and what it had reported is
//! there.

use super::Wal;
use super::tests::{G, NODE, entry, folder};
use crate::disk::{Disk, Lock, RealDisk};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of a disk without room, and of one that fails.
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// Batches that are written before the disk fails; segments are so small that one of them is just being begun.
const SOUND: [u64; 3] = [1, 6, 7];
const SEGMENT: u64 = 1_000;

/// Real files whose writes fail after a while, having written a part.
struct Failing {
    disk: RealDisk,
    left: AtomicU64,
    errno: i32,
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> BoxFuture<'static, io::Result<$answer>> {
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
        lock(file: PathBuf) -> Lock;
    }

    fn append_synced(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return self.disk.append_synced(file, bytes);
        }
        let (disk, errno) = (self.disk.clone(), self.errno);
        Box::pin(async move {
            let part = bytes.slice(..bytes.len() / 2);
            disk.append_synced(file, part).await?;
            Err(io::Error::from_raw_os_error(errno))
        })
    }
}

fn setting(name: &str) -> Option<String> {
    std::env::var(format!("ENCORE_TEST_{name}")).ok()
}

/// Runs in a process of its own, started by the test below; says what was reported to it.
#[tokio::test]
async fn writes_until_the_disk_fails() {
    let Some(at) = setting("FAILING_DISK") else { return };
    let number = |name: &str| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap();
    let disk = Failing {
        disk: RealDisk::default(),
        // The log's first segment is a write, too.
        left: AtomicU64::new(number("SOUND") + 1),
        errno: i32::try_from(number("ERRNO")).unwrap(),
    };
    let (wal, _) =
        Wal::open(Arc::new(disk), Path::new(&at).join(folder().file_name().unwrap()), NODE, SEGMENT).await.unwrap();
    for index in 0..1_000 {
        wal.write(vec![entry(G, index, 300)]).await.unwrap();
        writeln!(io::stdout().lock(), "reported {index}").unwrap();
    }
    unreachable!("the process must be gone");
}

#[tokio::test]
async fn a_full_or_broken_disk_ends_the_node_and_loses_nothing_that_was_reported() {
    use std::os::unix::process::ExitStatusExt;
    for errno in [ENOSPC, EIO] {
        for sound in SOUND {
            let at = tempfile::tempdir().unwrap();
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "wal::disk_tests::writes_until_the_disk_fails", "--nocapture"])
                .env("ENCORE_TEST_FAILING_DISK", at.path())
                .env("ENCORE_TEST_SOUND", sound.to_string())
                .env("ENCORE_TEST_ERRNO", errno.to_string())
                .output()
                .unwrap();
            let (told, said) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
            let context = format!("errno {errno} after {sound} writes: {told}{said}");
            assert_eq!(child.status.signal(), Some(6), "{context}");
            let why = io::Error::from_raw_os_error(errno).to_string();
            assert!(said.contains("aborting") && said.contains(&why), "{context}");
            let reported = told.lines().filter(|line| line.contains("reported ")).count();
            let log = at.path().join(folder().file_name().unwrap());
            let (_, groups) = Wal::open(Arc::new(RealDisk::default()), log, NODE, SEGMENT).await.unwrap();
            let found = groups.get(&G).map_or(0, |record| record.entries.len());
            assert!(found >= reported, "{found} entries are there: {context}");
            assert!(groups.get(&G).is_none_or(|record| record.entries.keys().copied().eq(0..found as u64)));
        }
    }
}
