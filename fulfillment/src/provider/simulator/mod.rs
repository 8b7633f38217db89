//! A payment provider on this machine that charges nobody: Stripe's subset, its idempotency and its signed webhooks, and
//! on request every trouble that a real one has been seen to make. Its books survive a restart.

mod books;
mod deliver;
mod form;
mod http;
mod journal;
mod trouble;

pub use trouble::{Switches, Trouble};

use books::Books;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Settings of the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatorConfig {
    /// File of its books, one JSON object a line.
    pub journal: PathBuf,
    /// The only key that it accepts.
    pub api_key: String,
    /// Where events go.
    pub webhook_url: String,
    /// What they are signed with.
    pub webhook_secret: String,
    /// How long after the fact an event is sent.
    pub webhook_delay_ms: u64,
    /// How long it keeps a caller waiting that is to time out.
    pub hang_ms: u64,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            journal: "provider-books.jsonl".into(),
            api_key: "sk_test_encore".into(),
            webhook_url: "http://127.0.0.1:7300/api/v1/webhooks/payments/stripe".into(),
            webhook_secret: "whsec_encore".into(),
            webhook_delay_ms: 50,
            hang_ms: 30_000,
        }
    }
}

/// Why the simulator cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// Its books cannot be read or written.
    #[error("the books {path} cannot be used: {reason}")]
    Books {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The listener failed.
    #[error("serving failed: {0}")]
    Serve(#[from] std::io::Error),
}

/// What handlers and the delivery task share.
struct Shared {
    config: SimulatorConfig,
    books: Mutex<Books>,
    switches: Mutex<Switches>,
    /// Rung when an event is due earlier than the delivery task knows.
    events: Notify,
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serve until `shutdown`, delivering events meanwhile.
pub async fn serve(
    config: SimulatorConfig,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), SimulatorError> {
    let books = Books::open(&config.journal)
        .map_err(|reason| SimulatorError::Books { path: config.journal.clone(), reason })?;
    let shared = Arc::new(Shared {
        config,
        books: Mutex::new(books),
        switches: Mutex::new(Switches::default()),
        events: Notify::new(),
    });
    let deliveries = tokio::spawn(deliver::run(shared.clone(), shutdown.clone()));
    let router = http::router(shared).merge(operations.router());
    operations.set_ready("start");
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await?;
    deliveries.abort();
    Ok(())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
