//! The client's way to a node over gRPC. Every limit and time-out is set here; the library's defaults are none.

use crate::client::dial::{Conversation, Dial, FRAMES_AHEAD};
use crate::wire::frames::store_client::StoreClient;
use crate::wire::frames::{WatchFrame, WatchRequest};
use domain::ids::EventId;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// Largest message in either direction: an exported partition, or an audit's records.
pub(super) const MESSAGE_BYTES: usize = 64 << 20;

/// A channel with the store's time-outs that connects when first used.
pub(super) fn channel(address: &str, connect_timeout: Duration) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    Ok(endpoint
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(10)))
        .http2_keep_alive_interval(Duration::from_secs(3))
        .keep_alive_timeout(Duration::from_secs(6))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .connect_lazy())
}

/// Dials over gRPC.
#[derive(Clone, Debug, Default)]
pub struct GrpcDial;

impl GrpcDial {
    /// The dialler. Each conversation and each watch has a connection of its own, so that neither waits for the other.
    pub fn new() -> Self {
        Self
    }

    fn client(address: &str) -> Result<StoreClient<Channel>, String> {
        let channel = channel(address, Duration::from_secs(2))?;
        Ok(StoreClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl Dial for GrpcDial {
    fn converse(&self, address: &str) -> BoxFuture<'static, Result<Conversation, String>> {
        let client = Self::client(address);
        Box::pin(async move {
            let (asks, outgoing) = mpsc::channel(FRAMES_AHEAD);
            let answers = client?.converse(ReceiverStream::new(outgoing)).await.map_err(|status| text(&status))?;
            let answers = answers.into_inner().map(|frame| frame.map_err(|status| text(&status))).boxed();
            Ok(Conversation { asks, answers })
        })
    }

    fn watch(
        &self,
        address: &str,
        event: EventId,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Result<WatchFrame, String>>, String>> {
        let client = Self::client(address);
        Box::pin(async move {
            let frames = client?.watch(WatchRequest { event: event.0 }).await.map_err(|status| text(&status))?;
            Ok(frames.into_inner().map(|frame| frame.map_err(|status| text(&status))).boxed())
        })
    }
}

/// A status without its trailers, for the log.
pub(super) fn text(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}
