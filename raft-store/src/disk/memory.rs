//! A disk in memory that forgets what was not synced. At a power cut each file keeps its synced bytes and, of the rest, some
//! sectors; names keep some of their latest changes, in order. For tests of the log and for the simulation.

use super::{Disk, Lock};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// What survives a power cut survives by whole sectors.
const SECTOR: usize = 512;

/// A number below the given one, by chance.
pub type Chance<'a> = &'a mut dyn FnMut(u64) -> u64;

/// Called between the steps of an operation with the disk as it is then; for tests that cut the power everywhere.
pub type Probe = Arc<dyn Fn(&MemoryDisk) + Send + Sync>;

/// Waits as long as a sync takes.
pub type SyncDelay = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Clone, Default)]
struct File {
    synced: Vec<u8>,
    now: Vec<u8>,
}

/// A change of names that no folder sync has made durable yet.
#[derive(Clone)]
enum Renaming {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Renaming {
    fn touches(&self, folder: &Path) -> bool {
        let (Self::Create(file, _) | Self::Rename(_, file) | Self::Remove(file)) = self;
        file.parent() == Some(folder)
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Create(file, id) => drop(names.insert(file, id)),
            Self::Rename(from, to) => {
                if let Some(id) = names.remove(&from) {
                    names.insert(to, id);
                }
            }
            Self::Remove(file) => drop(names.remove(&file)),
        }
    }
}

#[derive(Clone, Default)]
struct Contents {
    files: BTreeMap<u64, File>,
    synced_names: BTreeMap<PathBuf, u64>,
    names: BTreeMap<PathBuf, u64>,
    renamings: Vec<Renaming>,
    next_id: u64,
    /// Rises with each power cut: syncs that were under way then do not count.
    cuts: u64,
    /// Bytes that power cuts have taken.
    lost: u64,
}

/// The disk. Clones share it; it outlives the node that uses it.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    contents: Arc<Mutex<Contents>>,
    probe: Option<Probe>,
    delay: Option<SyncDelay>,
}

impl MemoryDisk {
    /// The same disk, seen by a probe.
    pub fn probed(&self, probe: Probe) -> Self {
        Self { probe: Some(probe), ..self.clone() }
    }

    /// The same disk, whose syncs take time.
    pub fn delayed(&self, delay: SyncDelay) -> Self {
        Self { delay: Some(delay), ..self.clone() }
    }

    /// Another disk with the same contents.
    pub fn copy(&self) -> Self {
        Self { contents: Arc::new(Mutex::new(self.contents().clone())), ..Self::default() }
    }

    /// Cuts the power: what was not synced is lost, torn or reordered, by chance.
    pub fn cut_power(&self, chance: Chance<'_>) {
        let mut contents = self.contents();
        contents.cuts += 1;
        let kept = chance(contents.renamings.len() as u64 + 1) as usize;
        let mut names = std::mem::take(&mut contents.synced_names);
        for renaming in std::mem::take(&mut contents.renamings).into_iter().take(kept) {
            renaming.apply(&mut names);
        }
        let mut lost = 0;
        for file in contents.files.values_mut() {
            lost += file.tear(chance);
        }
        contents.lost += lost;
        contents.files.retain(|id, _| names.values().any(|named| named == id));
        contents.synced_names.clone_from(&names);
        contents.names = names;
    }

    /// Bytes that power cuts have taken so far.
    pub fn lost_bytes(&self) -> u64 {
        self.contents().lost
    }

    /// Whether a power cut would take something now.
    pub fn is_dirty(&self) -> bool {
        let contents = self.contents();
        !contents.renamings.is_empty() || contents.files.values().any(|file| file.now.len() > file.synced.len())
    }

    /// Changes one byte, as a failing disk would.
    pub fn flip(&self, file: &Path, offset: usize) {
        let mut contents = self.contents();
        let id = contents.names[file];
        let file = contents.files.get_mut(&id).expect("a name has a file");
        file.now[offset] ^= 0x40;
        file.synced[offset] ^= 0x40;
    }

    /// The files in a folder with their sizes.
    pub fn sizes(&self, folder: &Path) -> Vec<(PathBuf, usize)> {
        let contents = self.contents();
        let inside = contents.names.iter().filter(|(name, _)| name.parent() == Some(folder));
        inside.map(|(name, id)| (name.clone(), contents.files[id].now.len())).collect()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no holder of this lock panics")
    }

    fn look(&self) {
        if let Some(probe) = &self.probe {
            probe(self);
        }
    }

    fn write(&self, file: &Path, bytes: &[u8]) {
        let mut contents = self.contents();
        let id = match contents.names.get(file) {
            Some(id) => *id,
            None => {
                contents.next_id += 1;
                let id = contents.next_id;
                contents.names.insert(file.to_path_buf(), id);
                contents.renamings.push(Renaming::Create(file.to_path_buf(), id));
                id
            }
        };
        contents.files.entry(id).or_default().now.extend_from_slice(bytes);
    }

    async fn settle(&self, file: PathBuf) -> io::Result<()> {
        self.look();
        let (cuts, upto) = {
            let contents = self.contents();
            (contents.cuts, contents.file(&file)?.now.len())
        };
        if let Some(delay) = &self.delay {
            delay().await;
        }
        let mut contents = self.contents();
        if contents.cuts != cuts {
            return Err(io::Error::other("the power was cut during the sync"));
        }
        let id = contents.names.get(&file).copied().ok_or_else(|| missing(&file))?;
        let file = contents.files.get_mut(&id).expect("a name has a file");
        file.synced = file.now[..upto.min(file.now.len())].to_vec();
        drop(contents);
        self.look();
        Ok(())
    }
}

impl Contents {
    fn file(&self, name: &Path) -> io::Result<&File> {
        self.names.get(name).and_then(|id| self.files.get(id)).ok_or_else(|| missing(name))
    }
}

impl File {
    /// What a power cut leaves: a length between the synced and the written one, and some of the sectors in between.
    fn tear(&mut self, chance: Chance<'_>) -> u64 {
        let written = std::mem::take(&mut self.now);
        if written.len() <= self.synced.len() {
            // Only cut: either the cut held, or it did not.
            if written.len() < self.synced.len() && chance(2) == 0 {
                self.synced.truncate(written.len());
            }
            self.now.clone_from(&self.synced);
            return 0;
        }
        let kept = self.synced.len() + chance((written.len() - self.synced.len()) as u64 + 1) as usize;
        let mut left = written[..kept].to_vec();
        let mut lost = written.len() - kept;
        for start in (0..kept).step_by(SECTOR) {
            let end = (start + SECTOR).min(kept);
            if end > self.synced.len() && chance(4) == 0 {
                let sector = start.max(self.synced.len())..end;
                lost += sector.len();
                left[sector].fill(0);
            }
        }
        self.synced.clone_from(&left);
        self.now = left;
        lost as u64
    }
}

fn missing(file: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", file.display()))
}

impl Disk for MemoryDisk {
    fn create_folder(&self, _folder: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn list(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<Vec<String>>> {
        let disk = self.clone();
        Box::pin(async move {
            let contents = disk.contents();
            let inside = contents.names.keys().filter(|name| name.parent() == Some(&folder));
            Ok(inside.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
        })
    }

    fn read(&self, file: PathBuf) -> BoxFuture<'static, io::Result<Bytes>> {
        let disk = self.clone();
        Box::pin(async move { Ok(Bytes::copy_from_slice(&disk.contents().file(&file)?.now)) })
    }

    fn append(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            disk.write(&file, &bytes);
            disk.look();
            Ok(())
        })
    }

    fn sync(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move { disk.settle(file).await })
    }

    fn cut(&self, file: PathBuf, length: u64) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            {
                let mut contents = disk.contents();
                let id = contents.names.get(&file).copied().ok_or_else(|| missing(&file))?;
                let length = usize::try_from(length).map_err(io::Error::other)?;
                contents.files.get_mut(&id).expect("a name has a file").now.truncate(length);
            }
            disk.look();
            Ok(())
        })
    }

    fn sync_folder(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            let mut contents = disk.contents();
            let Contents { renamings, synced_names, .. } = &mut *contents;
            for renaming in renamings.extract_if(.., |renaming| renaming.touches(&folder)) {
                renaming.apply(synced_names);
            }
            drop(contents);
            disk.look();
            Ok(())
        })
    }

    fn rename(&self, from: PathBuf, to: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            {
                let mut contents = disk.contents();
                let id = contents.names.remove(&from).ok_or_else(|| missing(&from))?;
                contents.names.insert(to.clone(), id);
                contents.renamings.push(Renaming::Rename(from, to));
            }
            disk.look();
            Ok(())
        })
    }

    fn remove(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            {
                let mut contents = disk.contents();
                if contents.names.remove(&file).is_some() {
                    contents.renamings.push(Renaming::Remove(file));
                }
            }
            disk.look();
            Ok(())
        })
    }

    fn append_synced(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.clone();
        Box::pin(async move {
            disk.write(&file, &bytes);
            disk.settle(file).await
        })
    }

    fn lock(&self, _file: PathBuf) -> BoxFuture<'static, io::Result<Lock>> {
        Box::pin(async { Ok(Box::new(()) as Lock) })
    }
}
