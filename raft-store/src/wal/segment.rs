//! Segment files: `NNNNNNNNNNNNNNNN.wal`, each opening with a header that says whose log it is and which segment.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use domain::ids::NodeId;
use std::path::{Path, PathBuf};

/// Bytes of a header.
pub const HEADER: usize = 28;
const MAGIC: [u8; 8] = *b"ENCOREW1";

/// The file of a segment.
pub fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016}.wal"))
}

/// The segment of a file name, if it is one.
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    (digits.len() == 16).then(|| digits.parse().ok())?
}

/// Appends a header.
pub fn encode_header(node: NodeId, segment: u64, out: &mut BytesMut) {
    let start = out.len();
    out.put_slice(&MAGIC);
    out.put_u64_le(node.0);
    out.put_u64_le(segment);
    let crc = crc32c::crc32c(&out[start..]);
    out.put_u32_le(crc);
}

/// Node and segment of a sound header.
pub fn decode_header(bytes: &Bytes) -> Option<(NodeId, u64)> {
    let mut head = bytes.get(..HEADER)?;
    let sound = head[..8] == MAGIC && crc32c::crc32c(&head[..24]).to_le_bytes() == head[24..28];
    head.advance(8);
    sound.then(|| (NodeId(head.get_u64_le()), head.get_u64_le()))
}
