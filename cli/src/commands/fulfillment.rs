//! `encore fulfillment`: settlement, tickets, refunds and mail. The only process with the provider's key.

use super::process;
use crate::config::{Layers, LogSettings, Settings, check};
use anyhow::{Context, Result};
use fulfillment::Parts;
use fulfillment::provider::stripe::{Stripe, StripeConfig};
use ledger::postgres::Config as LedgerConfig;
use ledger::{Postgres, Sealer};
use raft_store::client::{Client, ClientConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use telemetry::Operations;

/// Settings of `encore fulfillment`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FulfillmentSettings {
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub listen: SocketAddr,
    /// Logs.
    pub log: LogSettings,
    /// Where the store is.
    pub store: ClientConfig,
    /// The ledger, with the role `relay`.
    pub ledger: LedgerConfig,
    /// The payment provider.
    pub provider: StripeConfig,
    /// File with the key that seals ticket secrets.
    pub sealing_key_file: PathBuf,
    /// The work.
    pub fulfillment: fulfillment::Config,
}

impl Default for FulfillmentSettings {
    fn default() -> Self {
        let ledger =
            LedgerConfig { url: "postgres://encore_relay@127.0.0.1:5432/encore".to_owned(), ..LedgerConfig::default() };
        Self {
            listen: ([127, 0, 0, 1], 7400).into(),
            log: LogSettings::default(),
            store: ClientConfig::default(),
            ledger,
            provider: StripeConfig::default(),
            sealing_key_file: "sealing.key".into(),
            fulfillment: fulfillment::Config::default(),
        }
    }
}

impl Settings for FulfillmentSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn check(&self) -> Result<()> {
        check::store(&self.store)?;
        check::ledger("ledger", &self.ledger)
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<FulfillmentSettings>()? else { return Ok(()) };
    let listener = process::listen(settings.listen).await?;
    let parts = Parts {
        store: Client::connect(settings.store),
        ledger: Postgres::new(&settings.ledger)?,
        provider: Stripe::new(settings.provider)?,
        sealer: Sealer::new(process::read_key(&settings.sealing_key_file)?),
    };
    let (operations, shutdown) = (Operations::new("fulfillment"), layers.shutdown());
    let served = fulfillment::serve(settings.fulfillment, parts, listener, operations, shutdown.clone());
    process::bounded(shutdown, served).await.context("fulfillment failed")
}
