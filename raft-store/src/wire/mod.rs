//! The one place where the store's words become bytes and bytes become words. Log entries, snapshots and the payloads of
//! frames are postcard of the domain's types; frames themselves are protobuf. Both forms are pinned by tests, because
//! they outlive the program that wrote them.

pub mod frames;

#[cfg(test)]
mod pinned;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what}: {reason}")]
pub struct Malformed {
    /// What was expected.
    pub what: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// The bytes of a value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Bytes {
    // Serialising the domain's types into memory has no way to fail: no maps of unknown length, no custom errors.
    postcard::to_stdvec(value).expect("the domain's types always serialise").into()
}

/// The same, after what is there.
pub fn encode_onto<T: Serialize + ?Sized>(bytes: Vec<u8>, value: &T) -> Vec<u8> {
    postcard::to_extend(value, bytes).expect("the domain's types always serialise")
}

/// How many bytes a value takes.
pub fn size<T: Serialize + ?Sized>(value: &T) -> usize {
    postcard::experimental::serialized_size(value).expect("the domain's types always serialise")
}

/// The value of bytes, all of them: what is left over is an error, because it would be silently lost.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Malformed { what, reason: format!("{} bytes too many", rest.len()) }),
        Err(error) => Err(Malformed { what, reason: error.to_string() }),
    }
}
