//! A backup's bytes: each group's state as a snapshot, under one head.
//!
//! ```text
//! "ENCOREB1" | format u32 | made at u64 (wall ms) | groups u32 | crc32c u32
//! and for each group: group u32 | length u64 | crc32c u32 | snapshot (length bytes)
//! ```
//!
//! little endian; a group's checksum covers its number, its length and its bytes. Damage anywhere is found and named.

use bytes::{BufMut, Bytes, BytesMut};
use domain::ids::GroupId;
use domain::inventory::Group;
use domain::time::WallMs;

const MAGIC: [u8; 8] = *b"ENCOREB1";
const FORMAT: u32 = 3;
const HEAD: usize = 28;
const GROUP_HEAD: usize = 16;

/// A backup.
pub struct Backup {
    /// When it was begun, by the wall clock of whoever made it.
    pub made_at: WallMs,
    /// Each group's state; not one cut.
    pub groups: Vec<Group>,
}

/// A backup that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// Another kind of file, or none at all.
    #[error("this is no backup of Encore")]
    Foreign,
    /// Made by another version.
    #[error("the backup has format {0}, and this program reads format {FORMAT}")]
    Format(u32),
    /// Its bytes are not what was written.
    #[error("the backup is damaged at offset {offset}: {what}. Use another copy of it")]
    Damaged {
        /// Where.
        offset: usize,
        /// What is wrong.
        what: String,
    },
}

/// The bytes of a backup of these groups' snapshots.
pub fn encode(made_at: WallMs, groups: &[(GroupId, Bytes)]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&MAGIC);
    bytes.put_u32_le(FORMAT);
    bytes.put_u64_le(made_at.0);
    bytes.put_u32_le(u32::try_from(groups.len()).expect("group ids are 32 bits"));
    let crc = crc32c::crc32c(&bytes);
    bytes.put_u32_le(crc);
    for (group, snapshot) in groups {
        let head = group_head(*group, snapshot.len() as u64);
        bytes.put_slice(&head);
        bytes.put_u32_le(crc32c::crc32c_append(crc32c::crc32c(&head), snapshot));
        bytes.put_slice(snapshot);
    }
    bytes.freeze()
}

fn group_head(group: GroupId, length: u64) -> [u8; 12] {
    let mut head = [0; 12];
    head[..4].copy_from_slice(&group.0.to_le_bytes());
    head[4..].copy_from_slice(&length.to_le_bytes());
    head
}

/// Reads a backup, all of it.
pub fn decode(bytes: &Bytes) -> Result<Backup, BackupError> {
    let damaged = |offset: usize, what: String| BackupError::Damaged { offset, what };
    let head = bytes.get(..HEAD).ok_or(BackupError::Foreign)?;
    if crc32c::crc32c(&head[..24]) != number(&head[24..]) as u32 {
        return match head[..8] == MAGIC {
            true => Err(damaged(0, "its head is not sound".to_owned())),
            false => Err(BackupError::Foreign),
        };
    }
    let format = number(&head[8..12]) as u32;
    if head[..8] != MAGIC || format != FORMAT {
        return Err(BackupError::Format(format));
    }
    let made_at = WallMs(number(&head[12..20]));
    let mut groups = Vec::new();
    let mut offset = HEAD;
    for _ in 0..number(&head[20..24]) {
        let head = bytes.get(offset..offset + GROUP_HEAD);
        let head = head.ok_or_else(|| damaged(offset, "it ends before its last group".to_owned()))?;
        let (group, length) = (number(&head[..4]), number(&head[4..12]));
        let begin = offset + GROUP_HEAD;
        let end = usize::try_from(length).ok().and_then(|length| begin.checked_add(length));
        let body = end.and_then(|end| bytes.get(begin..end));
        let body = body.ok_or_else(|| damaged(offset, format!("group {group} is cut off")))?;
        if crc32c::crc32c_append(crc32c::crc32c(&head[..12]), body) != number(&head[12..]) as u32 {
            return Err(damaged(offset, format!("the checksum of group {group} does not fit")));
        }
        let snapshot = crate::snapshot::decode(&bytes.slice_ref(body));
        let snapshot = snapshot.ok_or_else(|| damaged(begin, format!("group {group} is no snapshot")))?;
        let state =
            crate::wire::decode("group", &snapshot.snapshot).map_err(|error| damaged(begin, error.to_string()))?;
        groups.push(state);
        offset = begin + body.len();
    }
    match offset == bytes.len() {
        true => Ok(Backup { made_at, groups }),
        false => Err(damaged(offset, format!("{} bytes follow its last group", bytes.len() - offset))),
    }
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SnapshotMeta;

    #[test]
    fn a_backup_reads_back_and_every_flipped_or_missing_byte_is_found() {
        let snapshot = |id: u32| {
            let state = crate::wire::encode(&Group::new(GroupId(id)));
            (GroupId(id), crate::snapshot::encode(&SnapshotMeta::default(), &state).expect("small"))
        };
        let bytes = encode(WallMs(7), &[snapshot(0), snapshot(1)]);
        let backup = decode(&bytes).expect("sound");
        assert_eq!((backup.made_at, backup.groups.len()), (WallMs(7), 2));
        assert_eq!(backup.groups[1].id(), GroupId(1));
        for offset in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[offset] ^= 0x10;
            assert!(decode(&flipped.into()).is_err(), "byte {offset}");
            assert!(decode(&bytes.slice(..offset)).is_err(), "cut at {offset}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode(&longer.into()).is_err());
    }
}
