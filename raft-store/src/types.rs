//! The types that openraft is instantiated with, and short names for them. Log bytes and peer messages are postcard of
//! these; an upgrade of openraft that changes their form is caught by the pinned bytes in the tests.

use crate::runtime::Rt;
use domain::inventory::{Entry, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What one log entry carries: the leader's batch. Shared, because it is read by every replication stream and by apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch(pub Arc<Entry>);

impl Serialize for Batch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Entry::deserialize(deserializer).map(|entry| Self(Arc::new(entry)))
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests", self.0.requests.len())
    }
}

/// What applying an entry came to: one outcome a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied(pub Vec<Outcome>);

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} outcomes", self.0.len())
    }
}

openraft::declare_raft_types!(
    /// Encore's instance of openraft.
    pub TypeConfig:
        D = Batch,
        R = Applied,
        NodeId = u64,
        Node = openraft::BasicNode,
        AsyncRuntime = Rt,
);

/// One group's consensus on this node.
pub type Raft = openraft::Raft<TypeConfig, crate::state_machine::StateMachine>;
/// One entry of a group's log.
pub type LogEntry = openraft::alias::EntryOf<TypeConfig>;
/// Term, leader and index.
pub type LogId = openraft::alias::LogIdOf<TypeConfig>;
/// What a node has voted for.
pub type Vote = openraft::alias::VoteOf<TypeConfig>;
/// Who is in the group, and since which entry.
pub type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
/// What a snapshot covers.
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
/// A snapshot's bytes: the machine, postcard encoded.
pub type SnapshotData = bytes::Bytes;
/// A snapshot with what it covers.
pub type Snapshot = openraft::alias::SnapshotOf<TypeConfig, SnapshotData>;
