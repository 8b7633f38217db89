//! `encore node`: one node of the inventory store.

use super::process;
use crate::config::{Layers, LogSettings, Settings};
use anyhow::{Context, Result};
use raft_store::{NodeConfig, Server};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use telemetry::Operations;

/// What a node that is not ready says.
const UNREADY: &str = "a group has no leader, or not all that it had when this node started is here";
/// How often a node looks whether it is ready.
const WATCH: Duration = Duration::from_millis(100);

/// Settings of `encore node`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSettings {
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub listen: SocketAddr,
    /// Logs.
    pub log: LogSettings,
    /// The node. Peers and clients reach it at its own address in `node.peers`.
    pub node: NodeConfig,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self { listen: ([127, 0, 0, 1], 7101).into(), log: LogSettings::default(), node: NodeConfig::default() }
    }
}

impl Settings for NodeSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }
}

/// Run until asked to stop.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<NodeSettings>()? else { return Ok(()) };
    let shutdown = layers.shutdown();
    let operations = Operations::new("node");
    let side = process::serve_operations(process::listen(settings.listen).await?, &operations, &shutdown);
    let id = settings.node.id;
    let address = settings.node.peers.get(&id).with_context(|| format!("node {id} is not among its own node.peers"))?;
    let listener = tokio::net::TcpListener::bind(address.as_str())
        .await
        .with_context(|| format!("cannot listen on {address} for peers and clients"))?;
    let server = Server::start(settings.node, listener, shutdown.clone()).await.context("the node did not start")?;
    raft_store::metrics::register(server.node(), &mut operations.registry());
    operations.set_ready("start");
    operations.set_unready("groups", UNREADY);
    let watch = tokio::spawn(watch(server.node().clone(), operations));
    let served = process::bounded(shutdown.clone(), server.stopped()).await;
    watch.abort();
    shutdown.cancel();
    side.abort();
    served.context("the node failed")
}

/// Ready while every group has a leader, once the node has caught up.
async fn watch(node: raft_store::Node, operations: Operations) {
    let mut was_ready = false;
    loop {
        let is_ready = node.is_ready();
        if is_ready != was_ready {
            match is_ready {
                true => operations.set_ready("groups"),
                false => operations.set_unready("groups", UNREADY),
            }
            was_ready = is_ready;
        }
        tokio::time::sleep(WATCH).await;
    }
}
