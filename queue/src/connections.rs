//! Connections of fans: how many, how long a head may take to come, and how they end.
//!
//! A waiting room is where crowds of slow and idle clients are expected, so each of them is bounded in time and memory.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Headers of one request.
const MAX_HEADERS: usize = 64;
/// Bytes of one request's head, and of what is read ahead.
const MAX_HEAD: usize = 16 * 1_024;
/// How long to wait when the system gives no more connections.
const AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// What a listener allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Connections at a time; the rest wait in the listen queue, where they cost nothing.
    pub(crate) connections: usize,
    /// How long the head of a request may take, and how long a connection may be idle between two.
    pub(crate) head: Duration,
    /// How long requests may take to end when the process stops.
    pub(crate) grace: Duration,
}

/// Serve `router` until `shutdown`; then take no new connection, close idle ones, and let busy ones finish for a while.
/// A connection that has become a WebSocket is its handler's to close.
pub(crate) async fn connections(router: Router, bounds: Bounds, listener: TcpListener, shutdown: CancellationToken) {
    let builder = builder(bounds.head);
    let room = Arc::new(Semaphore::new(bounds.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = async {
            let place = room.clone().acquire_owned().await.expect("it is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _peer)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no connection could be taken");
                tokio::time::sleep(AFTER_ACCEPT_ERROR).await;
                continue;
            }
        };
        // A position is a small message that should not wait for the next one.
        let _only_slower = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Errors here are the client's: a connection cut, a head that never came.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(bounds.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not finished when the process stopped");
    }
}

fn builder(head: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head).max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD);
    builder
}
