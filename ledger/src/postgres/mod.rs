//! The ledger in PostgreSQL. Every line of SQL stands in this folder and in `migrations/`.
//!
//! A mutation is spawned and awaited, so that a caller who goes away never cancels a `begin` half way (sqlx would hand
//! the poisoned connection on). No operation acquires a second connection while it holds one.

mod audit;
mod cancellations;
mod catalogue;
mod events;
mod notices;
mod outbox;
mod payments;
mod recoveries;
mod refunds;
mod roles;
mod rows;
mod settlement;
mod tickets;
mod wallets;

pub use roles::set_passwords;

use crate::{LedgerError, Result};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::future::Future;
use std::time::Duration;

/// Where the ledger is and how much of it one process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `postgres://role@host:port/database`.
    pub url: String,
    /// Connections of this process.
    pub max_connections: u32,
    /// How long a request waits for a connection before it is told to come back.
    pub acquire_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "postgres://encore_buy@127.0.0.1:5432/encore".into(),
            max_connections: 8,
            acquire_timeout_ms: 1_000,
        }
    }
}

/// A ledger in PostgreSQL; clones share one pool.
#[derive(Clone, Debug)]
pub struct Postgres {
    pool: PgPool,
}

impl Postgres {
    /// Over a pool that connects when it is first used: a process starts, and keeps running, without its ledger.
    pub fn new(config: &Config) -> Result<Self> {
        let options: PgConnectOptions =
            config.url.parse().map_err(|error| LedgerError::Inconsistent(format!("ledger url: {error}")))?;
        let pool = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(Duration::from_millis(config.acquire_timeout_ms))
            .idle_timeout(Duration::from_secs(60))
            .connect_lazy_with(options.application_name("encore"));
        Ok(Self { pool })
    }

    /// Whether it answers now.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map_err(error)?;
        Ok(())
    }

    /// Let every connection go.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Run a mutation to its end, whatever becomes of the caller.
async fn detached<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(failed) => Err(LedgerError::Inconsistent(format!("a ledger step stopped: {failed}"))),
    }
}

/// One transaction, spawned and awaited. An error inside rolls it back; a commit whose answer is lost is an error too,
/// and the caller repeats the step.
macro_rules! transaction {
    ($ledger:expr, |$connection:ident| $body:expr) => {{
        let pool = $ledger.pool.clone();
        $crate::postgres::detached(async move {
            let mut transaction = pool.begin().await.map_err($crate::postgres::error)?;
            let $connection: &mut sqlx::PgConnection = &mut transaction;
            let done = $body;
            transaction.commit().await.map_err($crate::postgres::error)?;
            Ok(done)
        })
        .await
    }};
}
use transaction;

/// Bring the schema, the roles and their grants up to date. `owner_url` must be allowed to create roles.
pub async fn migrate(owner_url: &str) -> Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .connect(owner_url)
        .await
        .map_err(error)?;
    let done = sqlx::migrate!("../migrations").run(&pool).await;
    pool.close().await;
    done.map_err(|error| LedgerError::Inconsistent(format!("migration: {error}")))
}

/// Sort what the driver says into what a caller can do about it.
fn error(error: sqlx::Error) -> LedgerError {
    let text = error.to_string();
    match &error {
        sqlx::Error::Database(database) => match database.code().as_deref() {
            Some("42501" | "28000" | "28P01") => LedgerError::Forbidden(text),
            // Connection trouble, shutdown, resources, deadlock or serialization, lock and statement time-outs,
            // read-only while failing over.
            Some(code)
                if code.starts_with("08")
                    || code.starts_with("53")
                    || code.starts_with("57")
                    || code.starts_with("40")
                    || code == "55P03"
                    || code == "25006" =>
            {
                LedgerError::Unavailable(text)
            }
            _ => LedgerError::Inconsistent(text),
        },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            LedgerError::Inconsistent(text)
        }
        _ => LedgerError::Unavailable(text),
    }
}
