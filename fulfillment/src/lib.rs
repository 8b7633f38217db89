//! Fulfilment: what follows from money. Opens payments at the provider, settles what was captured, sends refunds, carries
//! the outbox, issues tickets, tells fans, and consumes the store's feeds.
//!
//! Every captured payment ends in tickets or in a full refund without a human: each step is due in the ledger until it
//! is done, safe to repeat, and safe to stop anywhere.

pub mod cancellation;
pub mod consumers;
pub mod feed;
pub mod initialize;
mod metrics;
pub mod notify;
pub mod provider;
pub mod refunds;
pub mod relay;
pub mod settlement;
pub mod step;
pub mod store;
mod workers;

use ledger::{Ledger, Sealer};
use notify::FileSink;
use provider::Provider;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use store::Store;
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Settings of fulfilment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that mail is written to.
    pub mail_folder: PathBuf,
    /// Who mail is from.
    pub mail_from: String,
    /// Pause between two passes of a step that found nothing to do.
    pub poll_ms: u64,
    /// Pause between two looks at the store's feeds.
    pub feed_ms: u64,
    /// Whether holds are extended while their payment is in progress.
    pub extend_holds: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mail_folder: "mail".into(),
            mail_from: "Encore <tickets@encore.invalid>".into(),
            poll_ms: 100,
            feed_ms: 500,
            extend_holds: true,
        }
    }
}

/// Why fulfilment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum FulfillmentError {
    /// Mail cannot be written.
    #[error("mail cannot be sent: {0}")]
    Mail(String),
    /// The listener failed.
    #[error("serving failed: {0}")]
    Serve(#[from] std::io::Error),
}

/// What fulfilment works with.
#[derive(Clone, Debug)]
pub struct Parts<S, L, P> {
    /// The inventory store.
    pub store: S,
    /// The ledger, as the role `relay`.
    pub ledger: L,
    /// The payment provider.
    pub provider: P,
    /// Seals the secrets of tickets.
    pub sealer: Sealer,
}

/// Work, and serve operators' pages, until `shutdown`. Needs neither store nor ledger nor provider to start: what is not
/// there is waited for.
pub async fn serve<S: Store, L: Ledger, P: Provider>(
    config: Config,
    parts: Parts<S, L, P>,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), FulfillmentError> {
    let sink = FileSink::new(&config.mail_folder, &config.mail_from).map_err(FulfillmentError::Mail)?;
    let workers = workers::start(&config, parts, sink, &operations, &shutdown);
    operations.set_ready("start");
    axum::serve(listener, operations.router()).with_graceful_shutdown(shutdown.cancelled_owned()).await?;
    workers.join_all().await;
    Ok(())
}
