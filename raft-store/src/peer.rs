//! openraft's network over a [`Transport`]: messages become bytes here, on both ends.

use crate::failure::Failure;
use crate::group::GroupHandle;
use crate::node::Node;
use crate::snapshot;
use crate::transport::{Lane, PeerCall, PeerRequest, Transport, TransportError};
use crate::types::{LogEntry, LogId, Snapshot, SnapshotData, TypeConfig, Vote};
use crate::wire;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use domain::ids::{GroupId, NodeId};
use openraft::alias::VoteOf;
use openraft::entry::RaftEntry;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why a node does not answer a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerRefusal {
    /// It does not host the group (yet).
    #[error("group {0} is not on this node")]
    NoSuchGroup(GroupId),
    /// The message cannot be read.
    #[error("unreadable message: {0}")]
    Unreadable(String),
    /// Its consensus has stopped.
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

/// What a leader sends with entries and heartbeats: the message, and up to where this peer has acknowledged the log to it.
type Append = (AppendEntriesRequest<TypeConfig>, Option<LogId>);

/// Answers one message of a peer.
pub async fn answer(node: &Node, group: &GroupHandle, call: PeerCall, body: Bytes) -> Result<Bytes, PeerRefusal> {
    let stopped = |error: &dyn std::fmt::Display| PeerRefusal::Stopped(error.to_string());
    let raft = group.raft();
    match call {
        PeerCall::Append => {
            let (message, acknowledged): Append = decode(&body)?;
            group.note_heard();
            if let Some((acknowledged, has)) = acknowledged.and_then(|it| group.has_forgotten(&message.vote, it)) {
                let failure = Failure::Forgot { node: node.id(), group: group.id(), acknowledged, has };
                node.fail(failure.clone());
                return Err(stopped(&failure));
            }
            encode(&raft.append_entries(message).await.map_err(|e| stopped(&e))?)
        }
        PeerCall::Vote => encode(&raft.vote(decode(&body)?).await.map_err(|e| stopped(&e))?),
        PeerCall::PreVote => encode(&raft.pre_vote(decode(&body)?).await.map_err(|e| stopped(&e))?),
        PeerCall::TransferLeader => {
            encode(&raft.handle_transfer_leader(decode(&body)?).await.map_err(|e| stopped(&e))?)
        }
        PeerCall::Snapshot => {
            let (vote, snapshot) = decode_snapshot(body)?;
            encode(&raft.install_full_snapshot(vote, snapshot).await.map_err(|e| stopped(&e))?)
        }
        PeerCall::Clock | PeerCall::Applied => {
            Err(PeerRefusal::Unreadable("consensus is not asked this, but its node".to_owned()))
        }
    }
}

/// Whether the bytes are a message at all; garbage founds no group.
pub fn is_readable(call: PeerCall, body: &Bytes) -> bool {
    match call {
        PeerCall::Append => decode::<Append>(body).is_ok(),
        PeerCall::Vote | PeerCall::PreVote => decode::<VoteRequest<TypeConfig>>(body).is_ok(),
        PeerCall::TransferLeader | PeerCall::Clock | PeerCall::Applied => false,
        PeerCall::Snapshot => decode_snapshot(body.clone()).is_ok(),
    }
}

/// Makes the connections of one group.
#[derive(Clone)]
pub struct PeerNetwork {
    group: GroupId,
    transport: Arc<dyn Transport>,
    acknowledged: Acknowledged,
}

/// Under which vote of this node's a peer has acknowledged the log, and up to where. Connections share it, because openraft
/// makes new ones while it goes on counting what was acknowledged over the old ones.
type Acknowledged = Arc<Mutex<BTreeMap<NodeId, (Vote, LogId)>>>;

impl PeerNetwork {
    /// Of this group, over this transport.
    pub fn new(group: GroupId, transport: Arc<dyn Transport>) -> Self {
        Self { group, transport, acknowledged: Acknowledged::default() }
    }

    fn connection(&self, target: u64, node: &BasicNode, lane: Lane) -> Connection {
        let (to, address) = (NodeId(target), node.addr.clone());
        let (transport, acknowledged) = (self.transport.clone(), self.acknowledged.clone());
        Connection { group: self.group, to, address, lane, transport, acknowledged }
    }
}

impl RaftNetworkFactory<TypeConfig> for PeerNetwork {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.connection(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.connection(target, node, Lane::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.connection(target, node, Lane::Snapshot)
    }
}

/// One group's way to one peer.
pub struct Connection {
    group: GroupId,
    to: NodeId,
    address: String,
    lane: Lane,
    transport: Arc<dyn Transport>,
    acknowledged: Acknowledged,
}

impl Connection {
    fn acknowledged(&self) -> MutexGuard<'_, BTreeMap<NodeId, (Vote, LogId)>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to where the peer has acknowledged the log under this vote.
    fn acknowledged_under(&self, vote: &Vote) -> Option<LogId> {
        self.acknowledged().get(&self.to).filter(|(under, _)| under == vote).map(|(_, last)| *last)
    }

    /// The peer has the log up to here.
    fn note_acknowledged(&self, vote: Vote, last: LogId) {
        let mut acknowledged = self.acknowledged();
        let known = acknowledged.entry(self.to).or_insert((vote, last));
        let newest = if known.0 == vote { known.1.max(last) } else { last };
        *known = (vote, newest);
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        call: PeerCall,
        body: Bytes,
        option: &RPCOption,
    ) -> Result<T, Unreachable<TypeConfig>> {
        let request = PeerRequest {
            to: self.to,
            address: self.address.clone(),
            lane: self.lane,
            group: self.group,
            call,
            body,
            timeout: option.hard_ttl(),
        };
        let answer = self.transport.call(request).await.map_err(|error| Unreachable::new(&error))?;
        wire::decode("answer", &answer)
            .map_err(|error| Unreachable::new(&TransportError { to: self.to, reason: error.to_string() }))
    }

    async fn exchange<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: PeerCall,
        message: &Q,
        option: &RPCOption,
    ) -> Result<A, RPCError<TypeConfig>> {
        Ok(self.ask(call, wire::encode(message), option).await?)
    }
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        message: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let vote = message.vote;
        let last = message.entries.last().map(LogEntry::log_id).or(message.prev_log_id);
        let message = (message, self.acknowledged_under(&vote));
        let answer = self.exchange(PeerCall::Append, &message, &option).await?;
        if let (AppendEntriesResponse::Success, Some(last)) = (&answer, last) {
            self.note_acknowledged(vote, last);
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        message: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.exchange(PeerCall::Vote, &message, &option).await
    }

    async fn pre_vote(
        &mut self,
        message: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.exchange(PeerCall::PreVote, &message, &option).await
    }

    async fn transfer_leader(
        &mut self,
        message: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.exchange(PeerCall::TransferLeader, &message, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let body = encode_snapshot(&vote, &snapshot)
            .map_err(|error| Unreachable::new(&TransportError { to: self.to, reason: error.to_string() }))?;
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            answer = self.ask(PeerCall::Snapshot, body, &option) => Ok(answer?),
        }
    }
}

fn encode<T: Serialize>(message: &T) -> Result<Bytes, PeerRefusal> {
    Ok(wire::encode(message))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, PeerRefusal> {
    wire::decode("message", bytes).map_err(|error| PeerRefusal::Unreadable(error.to_string()))
}

/// Length of the vote, the vote, and the snapshot as it is on disk, checksum included.
fn encode_snapshot(vote: &Vote, snapshot: &Snapshot) -> std::io::Result<Bytes> {
    let vote = wire::encode(vote);
    let snapshot = snapshot::encode(&snapshot.meta, &snapshot.snapshot)?;
    let mut bytes = BytesMut::with_capacity(4 + vote.len() + snapshot.len());
    bytes.put_u32_le(u32::try_from(vote.len()).map_err(std::io::Error::other)?);
    bytes.put_slice(&vote);
    bytes.put_slice(&snapshot);
    Ok(bytes.freeze())
}

fn decode_snapshot(mut bytes: Bytes) -> Result<(Vote, Snapshot), PeerRefusal> {
    let unreadable = || PeerRefusal::Unreadable("a damaged snapshot".to_owned());
    let length = bytes.try_get_u32_le().map_err(|_| unreadable())? as usize;
    if bytes.len() < length {
        return Err(unreadable());
    }
    let vote = decode(&bytes.split_to(length))?;
    Ok((vote, snapshot::decode(&bytes).ok_or_else(unreadable)?))
}
