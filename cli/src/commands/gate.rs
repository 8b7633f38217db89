//! `encore gate`: scans tickets at the venue, on its own SQLite file, with no network beyond the venue's.

use super::process;
use crate::config::{Layers, LogSettings, Settings};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use telemetry::Operations;

/// Settings of `encore gate`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateSettings {
    /// Where scanners come.
    pub listen: SocketAddr,
    /// Logs.
    pub log: LogSettings,
    /// The gate.
    pub gate: gate::Config,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self { listen: ([127, 0, 0, 1], 7500).into(), log: LogSettings::default(), gate: gate::Config::default() }
    }
}

impl Settings for GateSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<GateSettings>()? else { return Ok(()) };
    let listener = process::listen(settings.listen).await?;
    let shutdown = layers.shutdown();
    let served = gate::serve(settings.gate, listener, Operations::new("gate"), shutdown.clone());
    process::bounded(shutdown, served).await.context("the gate failed")
}
