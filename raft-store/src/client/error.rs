//! How asking the store can fail. An outcome is a replicated answer; an error here means that the surroundings failed.

use domain::ids::{EventId, Partition};

/// No answer was had from the store. Only [`ClientError::Timeout`] leaves open whether the command was written; repeating
/// the same command is safe in every case, because commands are idempotent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No node could be asked; nothing was written by this call.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store has more waiting than it takes; nothing was written.
    #[error("the store is overloaded; ask again in {retry_after_ms} ms")]
    Overloaded {
        /// When to ask again.
        retry_after_ms: u64,
    },
    /// Unknown: it may have been written, or may be written yet. Ask again with the same idempotency key.
    #[error("the store did not answer in time; the outcome is unknown")]
    Timeout,
    /// The partition is being moved and did not settle in time; nothing was written.
    #[error("partition {partition} is being moved")]
    Moved {
        /// Which.
        partition: Partition,
    },
    /// The catalogue has no such event.
    #[error("there is no event {0}")]
    NoSuchEvent(EventId),
    /// The question does not fit the partition (for example a section that does not exist).
    #[error("the store refused the question: {0}")]
    Invalid(String),
    /// This client's certificate does not allow it.
    #[error("the store refused: {0}")]
    Denied(String),
    /// An answer that cannot be read: versions do not fit together.
    #[error("the store answered something unexpected: {0}")]
    Protocol(String),
}

impl ClientError {
    /// Whether the command may nevertheless have been written.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Timeout | Self::Protocol(_))
    }

    /// When asking again makes sense, in milliseconds; `None` if it does not.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Overloaded { retry_after_ms } => Some(*retry_after_ms),
            Self::Unavailable(_) | Self::Timeout | Self::Moved { .. } => Some(1_000),
            Self::NoSuchEvent(_) | Self::Invalid(_) | Self::Denied(_) | Self::Protocol(_) => None,
        }
    }
}
