//! Connections: how many, how long they may be idle or slow, and how they end.

use crate::config::Config;
use crate::metrics::Metrics;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Headers of one request.
const MAX_HEADERS: usize = 64;
/// Bytes of one request's head, and of what is read ahead.
const MAX_HEAD: usize = 32 * 1024;
/// How long to wait when the system gives no more connections.
const AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// Serve `router` until `shutdown`; then no new connection is taken, idle ones are closed, and busy ones may finish.
pub async fn serve(
    router: Router,
    config: &Config,
    metrics: &Metrics,
    listener: TcpListener,
    shutdown: CancellationToken,
) {
    let builder = Arc::new(builder(config));
    let room = Arc::new(Semaphore::new(config.max_connections.max(1)));
    let graceful = GracefulShutdown::new();
    loop {
        // A place first: what cannot be served waits in the listen queue, where it costs nothing.
        let place = tokio::select! {
            place = room.clone().acquire_owned() => place.expect("it is never closed"),
            () = shutdown.cancelled() => break,
        };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "no connection could be taken");
                    tokio::time::sleep(AFTER_ACCEPT_ERROR).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        let connection = connection(&builder, stream, router.clone());
        let watched = graceful.watch(connection);
        let metrics = metrics.clone();
        tokio::spawn(async move {
            metrics.connections().inc();
            // Errors here are the client's: a connection cut, a head that never came.
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended badly");
            }
            metrics.connections().dec();
            drop(place);
        });
    }
    drop(listener);
    let grace = Duration::from_millis(config.shutdown_grace_ms);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not finished when the process stopped");
    }
}

fn builder(config: &Config) -> Builder<TokioExecutor> {
    let head = Duration::from_millis(config.header_timeout_ms.max(1));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Also bounds how long a connection may stay idle between two requests.
        .header_read_timeout(head)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(head)
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(100);
    builder
}

fn connection(
    builder: &Builder<TokioExecutor>,
    stream: TcpStream,
    router: Router,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = Box<dyn std::error::Error + Send + Sync>> + use<> {
    // Small answers must not wait for more to be sent with them.
    let _best_effort = stream.set_nodelay(true);
    builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).into_owned()
}
