//! One viewer's stream: a reset, then what the hub sends, until it falls behind or the process stops.

use crate::metrics::Metrics;
use axum::body::Bytes;
use futures::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The body of one stream. Counted while it lives.
pub struct Viewer {
    first: Option<Bytes>,
    messages: BroadcastStream<Bytes>,
    metrics: Metrics,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl Viewer {
    pub(super) fn new(
        first: Bytes,
        messages: broadcast::Receiver<Bytes>,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Self {
        let stopped = Box::pin(shutdown.cancelled_owned());
        Self { first: Some(first), messages: BroadcastStream::new(messages), metrics, stopped, ended: false }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.metrics.viewers().dec();
    }
}

impl Stream for Viewer {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.ended || self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.messages).poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(message))) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(Some(Err(BroadcastStreamRecvError::Lagged(_)))) => {
                self.metrics.viewer_dropped();
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}
