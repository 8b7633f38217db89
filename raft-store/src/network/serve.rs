//! A whole node on this machine: real disk, gRPC to its peers and for its clients, on one port.

use super::dialer::MESSAGE_BYTES;
use super::peers::{GrpcTransport, PeerService};
use super::store::StoreService;
use crate::client::{Client, ClientConfig};
use crate::config::NodeConfig;
use crate::disk::RealDisk;
use crate::node::{Node, StartError, World};
use crate::wire::frames::peer_server::PeerServer;
use crate::wire::frames::store_server::StoreServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;

/// How long open connections have to end when the node stops.
const LINGER: Duration = Duration::from_secs(2);

/// Why a node does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its port failed.
    #[error("the node's port failed: {0}")]
    Port(#[from] tonic::transport::Error),
    /// Its server ended by a panic.
    #[error("the node's server died: {0}")]
    Died(String),
}

/// A node that serves.
pub struct Server {
    node: Node,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Recovers the node and serves it on this listener until `shutdown`.
    pub async fn start(
        config: NodeConfig,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let stop = shutdown.child_token();
        let world = World {
            disk: Arc::new(RealDisk::default()),
            transport: Arc::new(GrpcTransport::new(config.peers.clone())),
            observers: Vec::new(),
            elsewhere: Some(Client::connect(ClientConfig::with_endpoints(config.peers.values().cloned()))),
        };
        let node = Node::start(config, world).await?;
        let serving = tokio::spawn(listen(node.clone(), listener, stop.clone()));
        Ok(Self { node, stop, serving })
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Asks it to stop; [`Server::stopped`] waits.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has stopped, by `shutdown`, by [`Server::stop`] or by an error.
    pub async fn stopped(self) -> Result<(), ServeError> {
        let mut serving = self.serving;
        let served = tokio::select! {
            biased;
            served = &mut serving => served,
            () = self.stop.cancelled() => {
                self.node.shutdown().await;
                match tokio::time::timeout(LINGER, &mut serving).await {
                    Ok(served) => served,
                    Err(_) => {
                        // A peer keeps its connection open; there is nothing left to say on it.
                        serving.abort();
                        Ok(Ok(()))
                    }
                }
            }
        };
        self.stop.cancel();
        self.node.shutdown().await;
        served.map_err(|error| ServeError::Died(error.to_string()))?.map_err(ServeError::Port)
    }
}

/// Runs a node until `shutdown`.
pub async fn serve(config: NodeConfig, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
    Server::start(config, listener, shutdown).await?.stopped().await
}

async fn listen(node: Node, listener: TcpListener, stop: CancellationToken) -> Result<(), tonic::transport::Error> {
    let peers = PeerServer::new(PeerService(node.clone()))
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    let store = StoreServer::new(StoreService::new(node, stop.clone()))
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(3)))
        .http2_keepalive_timeout(Some(Duration::from_secs(6)))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .max_concurrent_streams(1_024)
        .add_service(peers)
        .add_service(store)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop.cancelled_owned())
        .await
}
