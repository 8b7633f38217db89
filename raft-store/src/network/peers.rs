//! The way between nodes over gRPC, both ends: calls with their own time-outs, snapshots in pieces on a connection of
//! their own, so that a large one never delays the log.

use super::caller::Caller;
use super::dialer::{MESSAGE_BYTES, channel, text};
use crate::identity::Identity;
use crate::lives::{Lives, to_wire};
use crate::node::Node;
use crate::peer::PeerRefusal;
use crate::runtime::timeout;
use crate::tls::{TlsFiles, node_name};
use crate::transport::{Lane, PeerCall, PeerRequest, Transport, TransportError};
use crate::wire::frames::peer_client::PeerClient;
use crate::wire::frames::{self, Introduced, Introduction, PeerReply, SnapshotPiece, peer_server};
use bytes::{Bytes, BytesMut};
use domain::ids::{GroupId, NodeId};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

/// Bytes of a snapshot in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Largest snapshot that a node accepts.
const SNAPSHOT_BYTES: u64 = 4 << 30;
/// How long a connection between nodes may take; each call has its own, shorter time-out besides.
const CONNECT: Duration = Duration::from_millis(1_500);

/// How long a node that begins waits for its peers' word about its id. The meta group has the last one.
const INTRODUCTION: Duration = Duration::from_secs(1);

/// Calls peers over gRPC.
pub struct GrpcTransport {
    own: Identity,
    lives: Lives,
    tls: Option<TlsFiles>,
    addresses: BTreeMap<NodeId, String>,
    channels: Mutex<BTreeMap<(NodeId, String, Lane), Channel>>,
}

impl GrpcTransport {
    /// Node `own`'s way to peers at these addresses; others are called where their group's membership says. With
    /// certificates, who answers must be the node that is meant.
    pub fn new(own: Identity, lives: Lives, addresses: BTreeMap<NodeId, String>, tls: Option<TlsFiles>) -> Self {
        Self { own, lives, tls, addresses, channels: Mutex::default() }
    }

    /// Whether peers that answer in time say that this node's id belongs to another life.
    pub async fn is_another(&self) -> bool {
        let peers = self.addresses.iter().filter(|(peer, _)| **peer != self.own.id);
        let asked = peers.map(|(peer, address)| async move {
            let name = node_name(*peer);
            let tls = self.tls.as_ref().map(|files| (files, name.as_str()));
            let mut client = PeerClient::new(channel(address, CONNECT, tls).ok()?);
            let introduction = Introduction { node: self.own.id.0, life: to_wire(Some(self.own.life)) };
            // A peer that is being begun, too, has bound its port and does not answer yet: it is not waited for.
            let asked = timeout(INTRODUCTION, client.introduce(introduction)).await?;
            let known = asked.ok()?.into_inner().known;
            (!known.is_empty()).then(|| known[..] != self.own.life.to_be_bytes())
        });
        futures::future::join_all(asked).await.into_iter().flatten().any(|another| another)
    }

    fn head(&self, request: &PeerRequest) -> frames::PeerCall {
        frames::PeerCall {
            group: request.group.0,
            call: request.call as u32,
            body: Bytes::new(),
            to: request.to.0,
            from: self.own.id.0,
            from_life: to_wire(Some(self.own.life)),
            to_life: to_wire(self.lives.of(request.to)),
        }
    }

    fn client(&self, request: &PeerRequest) -> Result<PeerClient<Channel>, String> {
        let address = self.addresses.get(&request.to).unwrap_or(&request.address);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (request.to, address.clone(), request.lane);
        let channel = match channels.get(&key) {
            Some(channel) => channel.clone(),
            None => {
                let name = node_name(request.to);
                let tls = self.tls.as_ref().map(|files| (files, name.as_str()));
                channels.entry(key).or_insert(channel(address, CONNECT, tls)?).clone()
            }
        };
        Ok(PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl Transport for GrpcTransport {
    fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>> {
        let client = self.client(&request);
        let head = self.head(&request);
        Box::pin(async move {
            let to = request.to;
            let failed = |reason: String| TransportError { to, reason };
            let mut client = client.map_err(failed)?;
            let timeout = request.timeout;
            let reply = if request.call == PeerCall::Snapshot {
                let mut pieces = Request::new(futures::stream::iter(pieces(head, request)));
                pieces.set_timeout(timeout);
                client.snapshot(pieces).await
            } else {
                let mut call = Request::new(frames::PeerCall { body: request.body, ..head });
                call.set_timeout(timeout);
                client.call(call).await
            };
            reply.map(|reply| reply.into_inner().body).map_err(|status| failed(text(&status)))
        })
    }
}

fn pieces(head: frames::PeerCall, request: PeerRequest) -> impl Iterator<Item = SnapshotPiece> {
    let mut body = request.body;
    let first = SnapshotPiece { head: Some(head), size: body.len() as u64, data: Bytes::new() };
    let rest = std::iter::from_fn(move || {
        let next = body.len().min(PIECE_BYTES);
        (next > 0).then(|| SnapshotPiece { data: body.split_to(next), ..SnapshotPiece::default() })
    });
    std::iter::once(first).chain(rest)
}

/// Answers peers over gRPC.
pub struct PeerService {
    /// The node.
    pub node: Node,
    /// Which life it leads.
    pub own: Identity,
    /// Which lives others lead.
    pub lives: Lives,
}

impl PeerService {
    async fn answer(
        &self,
        caller: Caller,
        head: &frames::PeerCall,
        body: Bytes,
    ) -> Result<Response<PeerReply>, Status> {
        caller.may_speak_as(NodeId(head.from))?;
        // A node that was replaced under an address must not answer for the one that was there, nor one that has lost its
        // data folder for what it was.
        let own = self.own.id;
        if head.to != own.0 {
            return Err(Status::failed_precondition(format!("this is node {own}, not {}", head.to)));
        }
        if !head.to_life.is_empty() && head.to_life[..] != self.own.life.to_be_bytes() {
            return Err(Status::failed_precondition(format!("this node {own} is not the one that is meant")));
        }
        if !self.lives.may_be(NodeId(head.from), &head.from_life) {
            let text = format!("node {} has lost its data folder and is not the one that was known", head.from);
            return Err(Status::failed_precondition(text));
        }
        let call = PeerCall::from_wire(head.call)
            .ok_or_else(|| Status::invalid_argument(format!("no such call: {}", head.call)))?;
        let body = self.node.answer_peer(GroupId(head.group), call, body).await.map_err(|refusal| refused(&refusal))?;
        Ok(Response::new(PeerReply { body }))
    }
}

fn refused(refusal: &PeerRefusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        PeerRefusal::NoSuchGroup(_) => Status::not_found(text),
        PeerRefusal::Unreadable(_) => Status::invalid_argument(text),
        PeerRefusal::Stopped(_) => Status::unavailable(text),
    }
}

#[tonic::async_trait]
impl peer_server::Peer for PeerService {
    async fn introduce(&self, request: Request<Introduction>) -> Result<Response<Introduced>, Status> {
        let node = NodeId(request.get_ref().node);
        Caller::of(&request)?.may_speak_as(node)?;
        Ok(Response::new(Introduced { known: to_wire(self.lives.of(node)) }))
    }

    async fn call(&self, request: Request<frames::PeerCall>) -> Result<Response<PeerReply>, Status> {
        let caller = Caller::of(&request)?;
        let mut call = request.into_inner();
        let body = std::mem::take(&mut call.body);
        self.answer(caller, &call, body).await
    }

    async fn snapshot(&self, request: Request<Streaming<SnapshotPiece>>) -> Result<Response<PeerReply>, Status> {
        let caller = Caller::of(&request)?;
        let mut pieces = request.into_inner();
        let first = pieces.message().await?.ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        let head = first.head.ok_or_else(|| Status::invalid_argument("a snapshot without its head"))?;
        caller.may_speak_as(NodeId(head.from))?;
        if first.size > SNAPSHOT_BYTES {
            return Err(Status::resource_exhausted(format!("a snapshot of {} bytes", first.size)));
        }
        // Grows as bytes come: the announced size is a promise of the sender, not yet a fact.
        let mut body = BytesMut::new();
        while let Some(piece) = pieces.message().await? {
            body.extend_from_slice(&piece.data);
            if body.len() as u64 > first.size {
                return Err(Status::invalid_argument("a snapshot longer than announced"));
            }
        }
        if body.len() as u64 != first.size {
            return Err(Status::invalid_argument("a snapshot shorter than announced"));
        }
        self.answer(caller, &head, body.freeze()).await
    }
}
