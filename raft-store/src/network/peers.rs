//! The way between nodes over gRPC, both ends: calls with their own time-outs, snapshots in pieces on a connection of
//! their own, so that a large one never delays the log.

use super::dialer::{MESSAGE_BYTES, channel, text};
use crate::node::Node;
use crate::peer::PeerRefusal;
use crate::transport::{Lane, PeerCall, PeerRequest, Transport, TransportError};
use crate::wire::frames::peer_client::PeerClient;
use crate::wire::frames::{self, PeerReply, SnapshotPiece, peer_server};
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

/// Calls peers over gRPC.
#[derive(Default)]
pub struct GrpcTransport {
    addresses: BTreeMap<NodeId, String>,
    channels: Mutex<BTreeMap<(String, Lane), Channel>>,
}

impl GrpcTransport {
    /// A transport to peers at these addresses; others are called where their group's membership says.
    pub fn new(addresses: BTreeMap<NodeId, String>) -> Self {
        Self { addresses, channels: Mutex::default() }
    }

    fn client(&self, request: &PeerRequest) -> Result<PeerClient<Channel>, String> {
        let address = self.addresses.get(&request.to).unwrap_or(&request.address);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.clone(), request.lane);
        let channel = match channels.get(&key) {
            Some(channel) => channel.clone(),
            None => channels.entry(key).or_insert(channel(address, CONNECT)?).clone(),
        };
        Ok(PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl Transport for GrpcTransport {
    fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>> {
        let client = self.client(&request);
        Box::pin(async move {
            let to = request.to;
            let failed = |reason: String| TransportError { to, reason };
            let mut client = client.map_err(failed)?;
            let timeout = request.timeout;
            let reply = if request.call == PeerCall::Snapshot {
                let mut pieces = Request::new(futures::stream::iter(pieces(request)));
                pieces.set_timeout(timeout);
                client.snapshot(pieces).await
            } else {
                let (head, body) = (head(&request), request.body);
                let mut call = Request::new(frames::PeerCall { body, ..head });
                call.set_timeout(timeout);
                client.call(call).await
            };
            reply.map(|reply| reply.into_inner().body).map_err(|status| failed(text(&status)))
        })
    }
}

fn head(request: &PeerRequest) -> frames::PeerCall {
    frames::PeerCall { group: request.group.0, call: request.call as u32, body: Bytes::new(), to: request.to.0 }
}

fn pieces(request: PeerRequest) -> impl Iterator<Item = SnapshotPiece> {
    let mut body = request.body.clone();
    let first = SnapshotPiece { head: Some(head(&request)), size: body.len() as u64, data: Bytes::new() };
    let rest = std::iter::from_fn(move || {
        let next = body.len().min(PIECE_BYTES);
        (next > 0).then(|| SnapshotPiece { data: body.split_to(next), ..SnapshotPiece::default() })
    });
    std::iter::once(first).chain(rest)
}

/// Answers peers over gRPC.
pub struct PeerService(pub Node);

impl PeerService {
    async fn answer(&self, head: &frames::PeerCall, body: Bytes) -> Result<Response<PeerReply>, Status> {
        // A node that was replaced under an address must not answer for the one that was there.
        if head.to != self.0.id().0 {
            return Err(Status::failed_precondition(format!("this is node {}, not {}", self.0.id(), head.to)));
        }
        let call = PeerCall::from_wire(head.call)
            .ok_or_else(|| Status::invalid_argument(format!("no such call: {}", head.call)))?;
        let body = self.0.answer_peer(GroupId(head.group), call, body).await.map_err(|refusal| refused(&refusal))?;
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
    async fn call(&self, request: Request<frames::PeerCall>) -> Result<Response<PeerReply>, Status> {
        let mut call = request.into_inner();
        let body = std::mem::take(&mut call.body);
        self.answer(&call, body).await
    }

    async fn snapshot(&self, request: Request<Streaming<SnapshotPiece>>) -> Result<Response<PeerReply>, Status> {
        let mut pieces = request.into_inner();
        let first = pieces.message().await?.ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        let head = first.head.ok_or_else(|| Status::invalid_argument("a snapshot without its head"))?;
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
        self.answer(&head, body.freeze()).await
    }
}
