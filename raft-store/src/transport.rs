//! How one node asks another: encoded bytes in, encoded bytes out. gRPC implements it for real (`network`), the
//! simulation with a link that loses, delays, repeats and reorders. What is above this line runs unchanged in both.

use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use futures::future::BoxFuture;
use std::time::Duration;

/// What a peer is asked. Numbers are wire values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PeerCall {
    /// Log entries, or none as a heartbeat.
    Append = 1,
    /// A vote.
    Vote = 2,
    /// Whether a vote would be granted.
    PreVote = 3,
    /// Leadership is handed to the receiver.
    TransferLeader = 4,
    /// A whole snapshot: head and state, see [`crate::peer`].
    Snapshot = 5,
    /// What time of day it is there; about no group.
    Clock = 6,
    /// How far the receiver, the leader, has applied the group; none if it does not lead it.
    Applied = 7,
}

impl PeerCall {
    /// The call with this wire value.
    pub fn from_wire(value: u32) -> Option<Self> {
        [Self::Append, Self::Vote, Self::PreVote, Self::TransferLeader, Self::Snapshot, Self::Clock, Self::Applied]
            .into_iter()
            .find(|call| *call as u32 == value)
    }
}

/// Calls that must not wait behind one another travel on separate channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Replication, votes.
    Log,
    /// Heartbeats, the probes of linearizable reads, and looks at clocks and at how far leaders are.
    Heartbeat,
    /// Snapshots: large and slow.
    Snapshot,
}

/// One request to one peer about one group.
#[derive(Clone, Debug)]
pub struct PeerRequest {
    /// To whom.
    pub to: NodeId,
    /// Where the group's membership says that it lives; a static peer list overrides it.
    pub address: String,
    /// Which channel.
    pub lane: Lane,
    /// About which group.
    pub group: GroupId,
    /// What.
    pub call: PeerCall,
    /// The encoded message. Up to the size of a snapshot.
    pub body: Bytes,
    /// The answer is worthless after this.
    pub timeout: Duration,
}

/// No answer came; whether the peer acted on the request is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peer {to} did not answer: {reason}")]
pub struct TransportError {
    /// Which peer.
    pub to: NodeId,
    /// For the log.
    pub reason: String,
}

/// The way to other nodes.
pub trait Transport: Send + Sync + 'static {
    /// Asks a peer. The answer is what [`crate::node::Node::answer_peer`] gave there.
    fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>>;
}
