//! The door for clients over gRPC: conversations and watches become tasks, which end with their streams.

use super::caller::Caller;
use super::conversation::converse_as;
use super::revoked::Revoked;
use super::watching::{FRAMES_AHEAD as WATCH_FRAMES, watch};
use crate::client::dial::FRAMES_AHEAD;
use crate::node::Node;
use crate::runtime::spawn;
use crate::wire::frames::{AnswerFrame, AskFrame, WatchFrame, WatchRequest, store_server};
use domain::ids::EventId;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Open conversations and watches of one node: its clients are processes, not fans.
const STREAMS: usize = 1_024;

/// Answers clients over gRPC.
pub struct StoreService {
    node: Node,
    revoked: Revoked,
    stop: CancellationToken,
    streams: Arc<AtomicUsize>,
}

/// A stream that is counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StoreService {
    /// Of this node, until it stops.
    pub(super) fn new(node: Node, revoked: Revoked, stop: CancellationToken) -> Self {
        Self { node, revoked, stop, streams: Arc::default() }
    }

    fn admit(&self) -> Result<Counted, Status> {
        let counted = Counted(self.streams.clone());
        if self.streams.fetch_add(1, Ordering::Relaxed) >= STREAMS {
            return Err(Status::resource_exhausted("too many streams"));
        }
        Ok(counted)
    }
}

#[tonic::async_trait]
impl store_server::Store for StoreService {
    type ConverseStream = BoxStream<'static, Result<AnswerFrame, Status>>;
    type WatchStream = BoxStream<'static, Result<WatchFrame, Status>>;

    async fn converse(&self, request: Request<Streaming<AskFrame>>) -> Result<Response<Self::ConverseStream>, Status> {
        let caller = Caller::of(&request)?;
        let counted = self.admit()?;
        let revoked = self.revoked.wait(&request);
        let (frames, outgoing) = mpsc::channel(FRAMES_AHEAD);
        let asks = request.into_inner().map(|frame| frame.map_err(|status| status.to_string())).boxed();
        let (node, stop) = (self.node.clone(), self.stop.clone());
        spawn(async move {
            let _counted = counted;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = revoked => {}
                () = converse_as(caller, node, asks, frames) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(outgoing).map(Ok).boxed()))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Caller::of(&request)?;
        let counted = self.admit()?;
        let revoked = self.revoked.wait(&request);
        let (frames, outgoing) = mpsc::channel(WATCH_FRAMES);
        let event = EventId(request.into_inner().event);
        let (node, stop) = (self.node.clone(), self.stop.clone());
        spawn(async move {
            let _counted = counted;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = revoked => {}
                () = watch(node, event, frames) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(outgoing).map(Ok).boxed()))
    }
}
