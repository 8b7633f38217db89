//! `encore queue`: the waiting room. Holds Redis, the key that signs passes, and a read-only view of the store.

use super::inventory::StoreInventory;
use super::load::{LoadSettings, LoadWatch};
use super::process;
use crate::config::{Layers, LogSettings, Settings, check};
use anyhow::{Context, Result};
use raft_store::client::{Client, ClientConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use telemetry::Operations;

/// Settings of `encore queue`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// Where fans come.
    pub listen: SocketAddr,
    /// Logs.
    pub log: LogSettings,
    /// Where the store is.
    pub store: ClientConfig,
    /// Whose metrics say how fast fans may be let in.
    pub load: LoadSettings,
    /// The waiting room.
    pub queue: queue::Config,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 7200).into(),
            log: LogSettings::default(),
            store: ClientConfig::default(),
            load: LoadSettings::default(),
            queue: queue::Config::default(),
        }
    }
}

impl Settings for QueueSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn check(&self) -> Result<()> {
        check::store(&self.store)
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<QueueSettings>()? else { return Ok(()) };
    let listener = process::listen(settings.listen).await?;
    let load = LoadWatch::default();
    let inventory = StoreInventory { store: Client::connect(settings.store), load: load.clone() };
    let operations = Operations::new("queue");
    let shutdown = layers.shutdown();
    let reading = tokio::spawn(load.run(settings.load, shutdown.clone()));
    let served = queue::serve(settings.queue, inventory, listener, operations, shutdown.clone());
    let served = process::bounded(shutdown, served).await.context("the waiting room failed");
    reading.abort();
    served
}
