//! How a client reaches a node: a stream of frames each way. gRPC implements it for real (`network`), the simulation with
//! a link of its own that carries the same encoded frames.

use crate::wire::frames::{AnswerFrame, AskFrame, Order, OrderReply, WatchFrame};
use domain::ids::EventId;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

/// Frames that may wait to be sent on one stream. Small on purpose: while the stream is busy, what arrives is gathered
/// into the next frame instead.
pub const FRAMES_AHEAD: usize = 2;

/// An open conversation with one node.
pub struct Conversation {
    /// Takes frames of asks; closed when the stream is.
    pub asks: mpsc::Sender<AskFrame>,
    /// Gives frames of answers; ends when the stream does.
    pub answers: BoxStream<'static, Result<AnswerFrame, String>>,
}

/// Why an order has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// This client may not give orders: asking again does not help.
    #[error("{0}")]
    Denied(String),
    /// It may or may not have been carried out.
    #[error("{0}")]
    Failed(String),
}

/// Opens streams to nodes.
pub trait Dial: Send + Sync + 'static {
    /// Opens a conversation with the node at this address (`host:port`).
    fn converse(&self, address: &str) -> BoxFuture<'static, Result<Conversation, String>>;

    /// Opens a stream of changes of one event.
    fn watch(
        &self,
        address: &str,
        event: EventId,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Result<WatchFrame, String>>, String>>;

    /// Gives the node at this address an operator's order. Where this is not implemented, there are no operators.
    fn order(&self, _address: &str, _order: Order) -> BoxFuture<'static, Result<OrderReply, OrderError>> {
        Box::pin(async { Err(OrderError::Failed("operators have no way to the nodes here".to_owned())) })
    }
}
