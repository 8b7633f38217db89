//! Snapshot files, one a group: written beside the old one, synced, renamed, folder synced, checksummed. The log is purged
//! only behind one of these, so a damaged one is fatal, not skipped.
//!
//! ```text
//! "ENCORES3" | length of the head u32 | head | state | crc32c u32 of all before it
//! ```

use crate::disk::{Disk, Replacement};
use crate::types::{Snapshot, SnapshotMeta};
use bytes::{BufMut, Bytes, BytesMut};
use domain::ids::GroupId;
use futures::{Stream, TryStreamExt};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Mutex;

const MAGIC: [u8; 8] = *b"ENCORES2";
/// Magic, length of the head.
const FIXED: usize = 12;
const CHECKSUM: usize = 4;

/// The snapshots of one group.
#[derive(Clone)]
pub struct SnapshotStore {
    disk: Arc<dyn Disk>,
    file: PathBuf,
    /// The last entry of the saved snapshot: one that was built slowly must not replace a newer one.
    saved: Arc<Mutex<Option<u64>>>,
}

impl SnapshotStore {
    /// The snapshot of `group` in `folder`, which is created.
    pub async fn open(disk: Arc<dyn Disk>, folder: PathBuf, group: GroupId) -> io::Result<Self> {
        disk.create_folder(folder.clone()).await?;
        // A killed process may have renamed a snapshot into place without making that durable: the log may be purged
        // behind what is found here, so it must not come undone.
        disk.sync_folder(folder.clone()).await?;
        Ok(Self { disk, file: folder.join(format!("group-{group}.snapshot")), saved: Arc::default() })
    }

    /// Replaces an older snapshot; durable when it returns. The state comes in pieces, so that nobody has to hold all of it.
    pub async fn save(&self, meta: &SnapshotMeta, state: impl Stream<Item = io::Result<Bytes>>) -> io::Result<()> {
        let index = meta.last_log_id.map(|log_id| log_id.index());
        let mut saved = self.saved.lock().await;
        if *saved > index {
            return Ok(());
        }
        let head = head(meta)?;
        let mut crc = crc32c::crc32c(&head);
        let mut file = Replacement::begin(self.disk.as_ref(), &self.file).await?;
        file.write(&head).await?;
        let mut state = pin!(state);
        while let Some(piece) = state.try_next().await? {
            crc = crc32c::crc32c_append(crc, &piece);
            file.write(&piece).await?;
        }
        file.write(&crc.to_le_bytes()).await?;
        file.finish().await?;
        *saved = index;
        Ok(())
    }

    /// The snapshot, if there is one.
    pub async fn load(&self) -> io::Result<Option<Snapshot>> {
        match self.disk.read(self.file.clone()).await {
            Ok(bytes) => {
                let snapshot = decode(&bytes).ok_or_else(|| self.damaged())?;
                let index = snapshot.meta.last_log_id.map(|log_id| log_id.index());
                let mut saved = self.saved.lock().await;
                *saved = index.max(*saved);
                Ok(Some(snapshot))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn damaged(&self) -> io::Error {
        let what = format!(
            "snapshot {} is damaged; the log before it is purged. Start a node with an empty data folder under a new id \
             and let it take this one's place in the configuration of all nodes",
            self.file.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

/// The file's bytes; they travel between nodes, too.
pub fn encode(meta: &SnapshotMeta, state: &[u8]) -> io::Result<Bytes> {
    let head = head(meta)?;
    let mut bytes = BytesMut::with_capacity(head.len() + state.len() + CHECKSUM);
    bytes.put_slice(&head);
    bytes.put_slice(state);
    let crc = crc32c::crc32c(&bytes);
    bytes.put_u32_le(crc);
    Ok(bytes.freeze())
}

/// All that stands before the state.
fn head(meta: &SnapshotMeta) -> io::Result<Bytes> {
    let head = crate::wire::encode(meta);
    let mut bytes = BytesMut::with_capacity(FIXED + head.len());
    bytes.put_slice(&MAGIC);
    bytes.put_u32_le(u32::try_from(head.len()).map_err(io::Error::other)?);
    bytes.put_slice(&head);
    Ok(bytes.freeze())
}

/// What `encode` made; `None` if it is damaged.
pub fn decode(bytes: &Bytes) -> Option<Snapshot> {
    let sound = bytes.len().checked_sub(CHECKSUM)?;
    let fixed = bytes.get(..FIXED)?;
    if fixed[..8] != MAGIC || crc32c::crc32c(&bytes[..sound]).to_le_bytes() != bytes[sound..] {
        return None;
    }
    let end = FIXED.checked_add(u32::from_le_bytes(fixed[8..].try_into().ok()?) as usize)?;
    let meta = crate::wire::decode("snapshot head", bytes.get(FIXED..end)?).ok()?;
    Some(Snapshot { meta, snapshot: bytes.get(end..sound).map(|state| bytes.slice_ref(state))? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use futures::stream;

    #[tokio::test]
    async fn damage_is_refused_and_the_older_one_never_comes_back() {
        let disk = MemoryDisk::default();
        let folder = PathBuf::from("/node/snapshots");
        let open = || SnapshotStore::open(Arc::new(disk.clone()), folder.clone(), GroupId(1));
        let store = open().await.unwrap();
        let meta = |index| SnapshotMeta {
            last_log_id: Some(openraft::testing::log_id::<crate::types::TypeConfig>(1, 1, index)),
            ..SnapshotMeta::default()
        };
        let pieces = |pieces: &'static [&'static str]| stream::iter(pieces.iter().map(|piece| Ok(Bytes::from(*piece))));
        store.save(&meta(5), pieces(&["five"])).await.unwrap();
        store.save(&meta(9), pieces(&["ni", "", "ne"])).await.unwrap();
        store.save(&meta(7), pieces(&["slowly", "built"])).await.unwrap();
        let failed = stream::iter([Ok(Bytes::from("half")), Err(io::Error::other("of it"))]);
        store.save(&meta(11), failed).await.unwrap_err();
        disk.cut_power(&mut |_| 0);
        let snapshot = open().await.unwrap().load().await.unwrap().unwrap();
        assert_eq!((snapshot.meta, snapshot.snapshot), (meta(9), Bytes::from_static(b"nine")));
        let (file, size) = disk.sizes(&folder).pop().unwrap();
        for offset in 0..size {
            let damaged = disk.copy();
            damaged.flip(&file, offset);
            let store = SnapshotStore::open(Arc::new(damaged), folder.clone(), GroupId(1)).await.unwrap();
            let error = store.load().await.unwrap_err();
            assert!(error.to_string().contains("new id"), "byte {offset}: {error}");
        }
    }
}
