//! The bytes of the log. A record is
//!
//! ```text
//! length u32 | crc32c u32 | group u32 | kind u8 | term u64 | index u64 | payload (length bytes)
//! ```
//!
//! little endian; the checksum covers the length and everything after the checksum. Each synced batch of records opens with
//! a mark that numbers it: a batch is written only once the one before it is durable, so damage that is followed by a
//! later mark is damage to durable bytes, and damage that is not may be what a power cut left of the last batch.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use domain::ids::GroupId;

/// Bytes before the payload.
pub const HEAD: usize = 29;
/// No record is longer; a length past this is damage.
pub const MAX_PAYLOAD: usize = 64 << 20;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Opens a batch; index is its number.
    Mark = 1,
    /// A log entry at its index.
    Entry = 2,
    /// What the node voted for.
    Vote = 3,
    /// What is known to be committed.
    Committed = 4,
    /// Entries from this index on are no more.
    Truncate = 5,
    /// Entries up to this index, inclusive, are no more: a snapshot has them.
    Purge = 6,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Mark, Self::Entry, Self::Vote, Self::Committed, Self::Truncate, Self::Purge]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose.
    pub group: GroupId,
    /// What.
    pub kind: Kind,
    /// Term of the entry or vote; zero elsewhere.
    pub term: u64,
    /// Index of the entry, or as its kind says.
    pub index: u64,
    /// The encoded entry, vote or log id.
    pub payload: Bytes,
}

impl Record {
    /// A batch's opening.
    pub fn mark(batch: u64) -> Self {
        Self { group: GroupId::META, kind: Kind::Mark, term: 0, index: batch, payload: Bytes::new() }
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        out.reserve(HEAD + self.payload.len());
        out.put_u32_le(u32::try_from(self.payload.len()).expect("payloads are at most MAX_PAYLOAD"));
        out.put_u32_le(0);
        out.put_u32_le(self.group.0);
        out.put_u8(self.kind as u8);
        out.put_u64_le(self.term);
        out.put_u64_le(self.index);
        out.put_slice(&self.payload);
        let crc = checksum(&out[start..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the record at `offset`, and says where the next one begins. `None` if there is no whole, sound record.
    pub fn decode(bytes: &Bytes, offset: usize) -> Option<(Self, usize)> {
        let mut head = bytes.get(offset..offset.checked_add(HEAD)?)?;
        let length = head.get_u32_le() as usize;
        let crc = head.get_u32_le();
        let group = GroupId(head.get_u32_le());
        let kind = Kind::from_byte(head.get_u8())?;
        let term = head.get_u64_le();
        let index = head.get_u64_le();
        if length > MAX_PAYLOAD {
            return None;
        }
        let end = offset + HEAD + length;
        if checksum(bytes.get(offset..end)?) != crc {
            return None;
        }
        Some((Self { group, kind, term, index, payload: bytes.slice(offset + HEAD..end) }, end))
    }
}

/// Of a whole record, leaving the checksum's own field out.
fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Whether a mark of a later batch than `batch` stands anywhere at or after `offset`.
pub fn later_mark(bytes: &Bytes, offset: usize, batch: u64) -> bool {
    (offset..bytes.len().saturating_sub(HEAD - 1)).any(|at| {
        // Cheap look first: an empty payload and the mark's kind.
        bytes[at..at + 4] == [0; 4]
            && bytes[at + 12] == Kind::Mark as u8
            && Record::decode(bytes, at).is_some_and(|(record, _)| record.kind == Kind::Mark && record.index > batch)
    })
}
