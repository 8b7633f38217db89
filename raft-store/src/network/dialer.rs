//! The client's way to a node over gRPC. Every limit and time-out is set here; the library's defaults are none.

use crate::client::dial::{Conversation, Dial, FRAMES_AHEAD, OrderError};
use crate::tls::{STORE_NAME, TlsFiles};
use crate::wire::frames::operate_client::OperateClient;
use crate::wire::frames::store_client::StoreClient;
use crate::wire::frames::{Order, OrderReply, WatchFrame, WatchRequest};
use domain::ids::EventId;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response};

/// Largest message in either direction: an exported partition, or an audit's records.
pub(super) const MESSAGE_BYTES: usize = 64 << 20;

/// An order takes as long as a change of members may, and a little.
const ORDER: Duration = Duration::from_secs(10);

/// What may be wrong, too, when a client without a certificate is not answered.
const NO_CERTIFICATE: &str =
    " (this client shows no certificate; if the node wants one, set tls.ca, tls.cert and tls.key)";

/// A channel with the store's time-outs that connects when first used. With certificates, who answers must have `name`.
pub(super) fn channel(
    address: &str,
    connect_timeout: Duration,
    tls: Option<(&TlsFiles, &str)>,
) -> Result<Channel, String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| error.to_string())?;
    if let Some((files, name)) = tls {
        let config = files.client(name).map_err(|error| error.to_string())?;
        endpoint = endpoint.tls_config(config).map_err(|error| because(&error))?;
    }
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
pub struct GrpcDial {
    tls: Option<TlsFiles>,
}

impl GrpcDial {
    /// The dialler. Each conversation and each watch has a connection of its own, so that neither waits for the other.
    pub fn new(tls: Option<TlsFiles>) -> Self {
        Self { tls }
    }

    fn client(&self, address: &str) -> Result<StoreClient<Channel>, String> {
        let tls = self.tls.as_ref().map(|files| (files, STORE_NAME));
        let channel = channel(address, Duration::from_secs(2), tls)?;
        Ok(StoreClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl Dial for GrpcDial {
    fn converse(&self, address: &str) -> BoxFuture<'static, Result<Conversation, String>> {
        let client = self.client(address);
        let hint = if self.tls.is_none() { NO_CERTIFICATE } else { "" };
        Box::pin(async move {
            let (asks, outgoing) = mpsc::channel(FRAMES_AHEAD);
            let answers = client?.converse(ReceiverStream::new(outgoing)).await;
            let answers = answers.map_err(|status| format!("{}{hint}", text(&status)))?;
            let answers = answers.into_inner().map(|frame| frame.map_err(|status| text(&status))).boxed();
            Ok(Conversation { asks, answers })
        })
    }

    fn watch(
        &self,
        address: &str,
        event: EventId,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Result<WatchFrame, String>>, String>> {
        let client = self.client(address);
        Box::pin(async move {
            let frames = client?.watch(WatchRequest { event: event.0 }).await.map_err(|status| text(&status))?;
            Ok(frames.into_inner().map(|frame| frame.map_err(|status| text(&status))).boxed())
        })
    }

    fn order(&self, address: &str, order: Order) -> BoxFuture<'static, Result<OrderReply, OrderError>> {
        let tls = self.tls.as_ref().map(|files| (files, STORE_NAME));
        let channel = channel(address, Duration::from_secs(2), tls);
        Box::pin(async move {
            let mut order = Request::new(order);
            order.set_timeout(ORDER);
            let reply = OperateClient::new(channel.map_err(OrderError::Failed)?).carry(order).await;
            reply.map(Response::into_inner).map_err(|status| match status.code() {
                Code::PermissionDenied | Code::Unauthenticated => OrderError::Denied(status.message().to_owned()),
                _ => OrderError::Failed(text(&status)),
            })
        })
    }
}

/// A status without its trailers, for the log, and what caused it: a handshake says there why it failed.
pub(super) fn text(status: &tonic::Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    if let Some(source) = status.source() {
        text = format!("{text}: {}", because(source));
    }
    text
}

/// An error with its causes, each once.
fn because(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    if text.contains("CertificateRequired") {
        text.push_str(" (the node wants a certificate: set tls.ca, tls.cert and tls.key)");
    }
    text
}
