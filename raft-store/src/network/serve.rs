//! A whole node on this machine: real disk, gRPC to its peers and for its clients, on one port.

use super::dialer::MESSAGE_BYTES;
use super::keep::KeepService;
use super::operating::OperateService;
use super::peers::{GrpcTransport, PeerService};
use super::revoked::Revoked;
use super::store::StoreService;
use crate::client::{Client, ClientConfig};
use crate::config::NodeConfig;
use crate::disk::RealDisk;
use crate::failure::Failure;
use crate::identity::{self, Identity};
use crate::lives::Lives;
use crate::node::{Node, StartError, World};
use crate::runtime::WallClock;
use crate::tls::TlsError;
use crate::wire::frames::keep_server::KeepServer;
use crate::wire::frames::operate_server::OperateServer;
use crate::wire::frames::peer_server::PeerServer;
use crate::wire::frames::store_server::StoreServer;
use domain::ids::{NodeId, Partition};
use domain::inventory::command::Meta;
use domain::inventory::{Command, Outcome};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::ServerTlsConfig;
use tonic::transport::server::TcpIncoming;

/// How long open connections have to end when the node stops.
const LINGER: Duration = Duration::from_secs(2);
/// Between two tries to register.
const REGISTER_RETRY: Duration = Duration::from_millis(500);

/// Why a node does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its data folder is new, and its id is not.
    #[error(
        "node {0} has been another one: its data folder was lost or replaced, and with it its votes and entries, so it must \
         not go on under its id. Give the new folder a new id: start it with `node.id` set to a number that was never used \
         and `node.join = true`, then run `encore admin group replace-node {0} NEW-ID@HOST:PORT`"
    )]
    Wiped(NodeId),
    /// It would be open to everybody.
    #[error(
        "without certificates a node listens on loopback only, and {0} is not: make certificates with `encore admin certs` \
         and set node.tls"
    )]
    Open(SocketAddr),
    /// It cannot tell whether it would be.
    #[error("without certificates a node listens on loopback only, and where it listens cannot be told: {0}")]
    Nowhere(std::io::Error),
    /// The store remembers every node that it ever had, and that is too many.
    #[error("node {id} cannot be registered, so it must not go on: {reason}")]
    Unregistered {
        /// Its id.
        id: NodeId,
        /// What the meta group says.
        reason: String,
    },
    /// It ran, and can take no further part.
    #[error(transparent)]
    Failed(#[from] Failure),
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
    /// Told when the meta group does not take this node for what it is.
    rejected: oneshot::Receiver<ServeError>,
}

impl Server {
    /// Recovers the node and serves it on this listener until `shutdown`.
    pub async fn start(
        config: NodeConfig,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        Self::start_by(WallClock::default(), config, listener, shutdown).await
    }

    /// The same by another wall clock than the machine's.
    pub async fn start_by(
        clock: WallClock,
        config: NodeConfig,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let stop = shutdown.child_token();
        let tls = security(&config, &listener)?;
        let revoked = Revoked::read(config.revoked.as_deref())?;
        let endpoints = ClientConfig::with_endpoints(config.peers.values().cloned());
        let disk = RealDisk::default();
        let own = identity::claim(&disk, &config.data, config.id).await.map_err(StartError::from)?;
        let lives = Lives::default();
        let transport = GrpcTransport::new(own, lives.clone(), config.peers.clone(), config.tls.clone());
        if transport.is_another().await {
            return Err(ServeError::Wiped(own.id));
        }
        let client = Client::connect(ClientConfig { tls: config.tls.clone(), ..endpoints });
        let world = World {
            disk: Arc::new(disk),
            transport: Arc::new(transport),
            observers: vec![Arc::new(lives.clone())],
            elsewhere: Some(client.clone()),
            clock,
        };
        let node = Node::start(config, world).await?;
        let peers = PeerService { node: node.clone(), own, lives: lives.clone() };
        tokio::spawn(revoked.clone().follow(stop.clone()));
        let serving = tokio::spawn(listen(node.clone(), peers, listener, (tls, revoked), stop.clone()));
        let (reject, rejected) = oneshot::channel();
        tokio::spawn(register(own, lives, client, reject, stop.clone()));
        Ok(Self { node, stop, serving, rejected })
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
            error = ends(&self.node, self.rejected) => {
                self.stop.cancel();
                self.node.shutdown().await;
                serving.abort();
                return Err(error);
            }
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

/// Waits for the reason why a node must not go on.
async fn ends(node: &Node, rejected: oneshot::Receiver<ServeError>) -> ServeError {
    let rejected = async {
        match rejected.await {
            Ok(error) => error,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        error = rejected => error,
        failure = node.failed() => failure.into(),
    }
}

/// Certificates, or a port that only this machine reaches.
fn security(config: &NodeConfig, listener: &TcpListener) -> Result<Option<ServerTlsConfig>, ServeError> {
    if let Some(files) = &config.tls {
        return Ok(Some(files.server()?));
    }
    private(listener.local_addr()).map(|()| None)
}

/// Whether nobody else can reach this port: one that does not say where it is may be anywhere.
fn private(address: std::io::Result<SocketAddr>) -> Result<(), ServeError> {
    match address {
        Ok(address) if address.ip().is_loopback() => Ok(()),
        Ok(address) => Err(ServeError::Open(address)),
        Err(error) => Err(ServeError::Nowhere(error)),
    }
}

/// Tells the meta group which life this node leads, until it knows.
async fn register(
    own: Identity,
    lives: Lives,
    client: Client,
    reject: oneshot::Sender<ServeError>,
    stop: CancellationToken,
) {
    let command = Command::Meta(Meta::RegisterNode { node: own.id, life: own.life });
    while lives.of(own.id) != Some(own.life) && !stop.is_cancelled() {
        match client.submit(Partition::Meta, command.clone()).await {
            Ok(Outcome::Done) => return,
            Ok(Outcome::AnotherLife) => {
                tracing::error!(node = %own.id, "this node's id belongs to another life");
                let _ = reject.send(ServeError::Wiped(own.id));
                return;
            }
            Ok(Outcome::Invalid(reason)) => {
                tracing::error!(node = %own.id, reason, "this node cannot be registered");
                let _ = reject.send(ServeError::Unregistered { id: own.id, reason });
                return;
            }
            Ok(other) => tracing::debug!(?other, "not registered yet"),
            Err(error) => tracing::debug!(%error, "not registered yet"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(REGISTER_RETRY) => {}
        }
    }
}

async fn listen(
    node: Node,
    peers: PeerService,
    listener: TcpListener,
    (tls, revoked): (Option<ServerTlsConfig>, Revoked),
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let guard = revoked.clone();
    #[allow(clippy::result_large_err)]
    let guard = move |request: Request<()>| guard.check(&request).map(|()| request);
    let peers =
        PeerServer::new(peers).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES);
    let operators = OperateServer::new(OperateService(node.clone()));
    let keep = KeepServer::new(KeepService(node.clone()));
    let store = StoreServer::new(StoreService::new(node, revoked, stop.clone()))
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    let mut server = tonic::transport::Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls)?;
    }
    server
        .http2_keepalive_interval(Some(Duration::from_secs(3)))
        .http2_keepalive_timeout(Some(Duration::from_secs(6)))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .max_concurrent_streams(1_024)
        .add_service(InterceptedService::new(peers, guard.clone()))
        .add_service(InterceptedService::new(store, guard.clone()))
        .add_service(InterceptedService::new(keep, guard.clone()))
        .add_service(InterceptedService::new(operators, guard))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop.cancelled_owned())
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_certificates_must_be_on_loopback_and_must_say_so() {
        assert!(private(Ok(([127, 0, 0, 1], 7001).into())).is_ok());
        assert!(matches!(private(Ok(([0, 0, 0, 0], 7001).into())), Err(ServeError::Open(_))));
        let untold = private(Err(std::io::Error::other("no such socket")));
        assert!(matches!(&untold, Err(error) if error.to_string().contains("cannot be told")), "{untold:?}");
    }
}
