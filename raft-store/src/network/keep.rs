//! Operators' copies of a group, both ends: a point-in-time view of what the leader has applied, encoded beside the work and
//! sent in pieces.

use super::caller::Caller;
use super::dialer::{MESSAGE_BYTES, channel, text};
use crate::client::ClientConfig;
use crate::group::ReadError;
use crate::node::Node;
use crate::tls::STORE_NAME;
use crate::wire::frames::keep_client::KeepClient;
use crate::wire::frames::{ExportRequest, SnapshotPiece, keep_server};
use bytes::{Bytes, BytesMut};
use domain::ids::GroupId;
use futures::StreamExt;
use futures::stream::BoxStream;
use tonic::{Request, Response, Status};

/// Bytes in one piece.
const PIECE_BYTES: usize = 1 << 20;

/// Gives copies to operators.
pub struct KeepService(pub Node);

#[tonic::async_trait]
impl keep_server::Keep for KeepService {
    type ExportStream = BoxStream<'static, Result<SnapshotPiece, Status>>;

    async fn export(&self, request: Request<ExportRequest>) -> Result<Response<Self::ExportStream>, Status> {
        Caller::of(&request)?.may_operate()?;
        let id = GroupId(request.into_inner().group);
        let group = self.0.group(id).ok_or_else(|| Status::not_found(format!("group {id} is not on this node")))?;
        let mut bytes = group.export().await.map_err(|error| refused(&error))?;
        let first = SnapshotPiece { size: bytes.len() as u64, ..SnapshotPiece::default() };
        let rest = std::iter::from_fn(move || {
            let next = bytes.len().min(PIECE_BYTES);
            (next > 0).then(|| SnapshotPiece { data: bytes.split_to(next), ..SnapshotPiece::default() })
        });
        Ok(Response::new(futures::stream::iter(std::iter::once(first).chain(rest).map(Ok)).boxed()))
    }
}

fn refused(error: &ReadError) -> Status {
    match error {
        ReadError::NotLeader(hint) => {
            let leader = hint.leader.map_or_else(|| "nobody that is known".to_owned(), |node| format!("node {node}"));
            Status::failed_precondition(format!("this node does not lead the group; {leader} does"))
        }
        other => Status::unavailable(other.to_string()),
    }
}

/// Fetches a copy of one group from the node at this address, which must lead it.
pub async fn export(config: &ClientConfig, address: &str, group: GroupId) -> Result<Bytes, String> {
    let tls = config.tls.as_ref().map(|files| (files, STORE_NAME));
    let channel = channel(address, config.connect_timeout(), tls)?;
    let mut client = KeepClient::new(channel).max_decoding_message_size(MESSAGE_BYTES);
    let pieces = client.export(ExportRequest { group: group.0 }).await.map_err(|status| text(&status))?;
    let mut pieces = pieces.into_inner();
    let mut size = None;
    let mut body = BytesMut::new();
    while let Some(piece) = pieces.message().await.map_err(|status| text(&status))? {
        size = size.or(Some(piece.size));
        body.extend_from_slice(&piece.data);
    }
    match size == Some(body.len() as u64) {
        true => Ok(body.freeze()),
        false => Err(format!("the copy ended after {} of {} bytes", body.len(), size.unwrap_or(0))),
    }
}
