//! What every process does alike: listens, reads its keys, serves its operator's view, and ends in order.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a process may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(8);

/// Listen, or say in words why not.
pub async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(%address, "listening");
    Ok(listener)
}

/// `/healthz`, `/readyz` and `/metrics` on a listener of their own, for processes that serve something else than HTTP.
pub fn serve_operations(
    listener: TcpListener,
    operations: &Operations,
    shutdown: &CancellationToken,
) -> JoinHandle<Result<()>> {
    let (router, shutdown) = (operations.router(), shutdown.clone());
    tokio::spawn(async move {
        axum::serve(listener, router)
            .with_graceful_shutdown(async move { shutdown.cancelled().await })
            .await
            .context("the operator's listener failed")
    })
}

/// What a key file holds.
pub fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// A 32-byte key in hex, from a file.
pub fn read_key(file: &Path) -> Result<[u8; 32]> {
    let text = read(file)?;
    let text = text.trim();
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes
        .filter(|_| text.len() == 64)
        .and_then(|bytes| bytes.try_into().ok())
        .with_context(|| format!("{} should hold 32 bytes in hex", file.display()))
}

/// Serve, but once `shutdown` has been asked for, no longer than the grace: what was under way then is safe to leave, as it
/// would be in a crash, and nobody must wait for a store or a ledger that has gone already.
pub async fn bounded<E>(shutdown: CancellationToken, served: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        done = served => done,
        () = late => {
            tracing::warn!(seconds = GRACE.as_secs(), "what was still under way is left");
            Ok(())
        }
    }
}
