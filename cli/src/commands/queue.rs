//! `encore queue`: the waiting room. Holds Redis, the key that signs passes, and a read-only view of the store.

use super::inventory::StoreInventory;
use super::process;
use crate::config::{Layers, LogSettings, Settings};
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
    /// The waiting room.
    pub queue: queue::Config,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 7200).into(),
            log: LogSettings::default(),
            store: ClientConfig::default(),
            queue: queue::Config::default(),
        }
    }
}

impl Settings for QueueSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<QueueSettings>()? else { return Ok(()) };
    let listener = process::listen(settings.listen).await?;
    let inventory = StoreInventory(Client::connect(settings.store));
    let operations = Operations::new("queue");
    let shutdown = layers.shutdown();
    let served = queue::serve(settings.queue, inventory, listener, operations, shutdown.clone());
    process::bounded(shutdown, served).await.context("the waiting room failed")
}
