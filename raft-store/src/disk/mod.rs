//! The disk under the store: few operations, each of which may fail, with durability as a separate act. Real files here;
//! the simulation has its own disk, which forgets what was not synced.

pub mod memory;

use crate::runtime::run_blocking;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What the log and the snapshots need of a disk. Nothing is durable before its sync: bytes by `sync`, names by
/// `sync_folder`.
pub trait Disk: Send + Sync + 'static {
    /// Creates a folder and its parents, durably.
    fn create_folder(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<()>>;
    /// Names in a folder, sorted; none if it does not exist.
    fn list(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<Vec<String>>>;
    /// A whole file; `NotFound` if there is none.
    fn read(&self, file: PathBuf) -> BoxFuture<'static, io::Result<Bytes>>;
    /// Appends to a file, creating it if need be.
    fn append(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>>;
    /// Makes a file's bytes and length durable.
    fn sync(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>>;
    /// Cuts a file to this length; durable after `sync`.
    fn cut(&self, file: PathBuf, length: u64) -> BoxFuture<'static, io::Result<()>>;
    /// Makes names durable: after creating, renaming or removing.
    fn sync_folder(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<()>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: PathBuf, to: PathBuf) -> BoxFuture<'static, io::Result<()>>;
    /// Removes a file; nothing if there is none.
    fn remove(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>>;
    /// Appends and syncs in one go.
    fn append_synced(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>>;
    /// Keeps other processes away until the lock is dropped, or the process ends; fails if another has it.
    fn lock(&self, file: PathBuf) -> BoxFuture<'static, io::Result<Lock>>;
}

/// Something that is held.
pub type Lock = Box<dyn Any + Send + Sync>;

/// Bytes of a replacement between two syncs. A file system may let the sync of one file wait for what another one has not
/// synced yet (ext4 with ordered data does), so that the log would stand still for all that is written at once. Few in tests, so
/// that power is cut between them.
const BETWEEN_SYNCS: usize = if cfg!(test) { 512 } else { 1 << 20 };

/// New content of a file: whatever happens, either the old or the new one is there. It is written beside the old one and
/// synced piece by piece; [`Replacement::finish`] renames it and syncs the folder.
pub struct Replacement<'a> {
    disk: &'a dyn Disk,
    file: PathBuf,
    beside: PathBuf,
    unwritten: BytesMut,
}

impl<'a> Replacement<'a> {
    /// Begins with nothing.
    pub async fn begin(disk: &'a dyn Disk, file: &Path) -> io::Result<Self> {
        let beside = file.with_extension("tmp");
        disk.remove(beside.clone()).await?;
        Ok(Self { disk, file: file.to_path_buf(), beside, unwritten: BytesMut::new() })
    }

    /// Appends to the new content.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BETWEEN_SYNCS - self.unwritten.len()));
            self.unwritten.extend_from_slice(now);
            if self.unwritten.len() == BETWEEN_SYNCS {
                self.flush().await?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// The new content takes the place of the old one, durably.
    pub async fn finish(mut self) -> io::Result<()> {
        self.flush().await?;
        let folder = self.file.parent().ok_or_else(|| io::Error::other("a file without a folder"))?.to_path_buf();
        self.disk.rename(self.beside, self.file).await?;
        self.disk.sync_folder(folder).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        let bytes = self.unwritten.split().freeze();
        self.disk.append_synced(self.beside.clone(), bytes).await
    }
}

/// Files of this machine. The files being appended to stay open.
#[derive(Clone, Default)]
pub struct RealDisk {
    open: Arc<Mutex<BTreeMap<PathBuf, Arc<File>>>>,
}

impl RealDisk {
    fn opened(&self, file: &Path) -> io::Result<Arc<File>> {
        let mut open = self.open.lock().expect("no holder of this lock panics");
        if let Some(handle) = open.get(file) {
            return Ok(handle.clone());
        }
        let handle = Arc::new(OpenOptions::new().create(true).append(true).open(file)?);
        open.insert(file.to_path_buf(), handle.clone());
        Ok(handle)
    }

    fn forget(&self, file: &Path) {
        self.open.lock().expect("no holder of this lock panics").remove(file);
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let disk = self.clone();
        Box::pin(run_blocking(move || work(disk)))
    }
}

impl Disk for RealDisk {
    fn create_folder(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |_| {
            fs::create_dir_all(&folder)?;
            // The new name is durable only once its parent is.
            folder.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_folder)
        })
    }

    fn list(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<Vec<String>>> {
        self.blocking(move |_| {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut names = entries
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        })
    }

    fn read(&self, file: PathBuf) -> BoxFuture<'static, io::Result<Bytes>> {
        self.blocking(move |_| fs::read(&file).map(Bytes::from))
    }

    fn append(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| disk.opened(&file)?.as_ref().write_all(&bytes))
    }

    fn sync(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| disk.opened(&file)?.sync_data())
    }

    fn cut(&self, file: PathBuf, length: u64) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| {
            disk.forget(&file);
            OpenOptions::new().write(true).open(&file)?.set_len(length)
        })
    }

    fn sync_folder(&self, folder: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |_| sync_folder(&folder))
    }

    fn rename(&self, from: PathBuf, to: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| {
            disk.forget(&from);
            disk.forget(&to);
            fs::rename(&from, &to)
        })
    }

    fn remove(&self, file: PathBuf) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| {
            disk.forget(&file);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn append_synced(&self, file: PathBuf, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |disk| {
            let handle = disk.opened(&file)?;
            handle.as_ref().write_all(&bytes)?;
            handle.sync_data()
        })
    }

    fn lock(&self, file: PathBuf) -> BoxFuture<'static, io::Result<Lock>> {
        self.blocking(move |_| {
            let handle = OpenOptions::new().create(true).append(true).open(&file)?;
            handle.try_lock().map_err(|error| {
                let what = format!("{} is locked: another process uses this data folder ({error})", file.display());
                io::Error::new(io::ErrorKind::WouldBlock, what)
            })?;
            Ok(Box::new(handle) as Lock)
        })
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
