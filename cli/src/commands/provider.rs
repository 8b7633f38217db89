//! `encore provider-simulator`: a payment provider on this machine that charges nobody. For demos and tests only.

use super::process;
use crate::config::{Layers, LogSettings, Settings};
use anyhow::{Context, Result};
use fulfillment::provider::simulator::{self, SimulatorConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use telemetry::Operations;

/// Settings of `encore provider-simulator`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// Where it serves.
    pub listen: SocketAddr,
    /// Logs.
    pub log: LogSettings,
    /// The simulator.
    pub provider: SimulatorConfig,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 7600).into(),
            log: LogSettings::default(),
            provider: SimulatorConfig::default(),
        }
    }
}

impl Settings for ProviderSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<ProviderSettings>()? else { return Ok(()) };
    let listener = process::listen(settings.listen).await?;
    let shutdown = layers.shutdown();
    let served = simulator::serve(settings.provider, listener, Operations::new("provider"), shutdown.clone());
    process::bounded(shutdown, served).await.context("the provider simulator failed")
}
