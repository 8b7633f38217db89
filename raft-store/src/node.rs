//! A store node: its identity, its log, its groups, and the tasks that drive them. What it needs of the world (disk, way
//! to its peers, observers) is handed in, so that the simulation runs this very code.

use crate::client::Client;
use crate::config::NodeConfig;
use crate::disk::{Disk, Lock};
use crate::group::GroupHandle;
use crate::history::History;
use crate::identity::{self, IdentityError};
use crate::leader::Leaders;
use crate::log_store::LogStore;
use crate::peer::{self, PeerNetwork, PeerRefusal};
use crate::runtime::spawn;
use crate::snapshot::SnapshotStore;
use crate::state_machine::{Observer, StateMachine};
use crate::transport::{PeerCall, Transport};
use crate::types::Raft;
use crate::wal::{GroupRecord, Wal, WalError};
use crate::{bootstrap, driver, housekeeping};
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use openraft::{Config, SnapshotPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder is another node's, or cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] WalError),
    /// A snapshot or a record of the log cannot be read.
    #[error("the store's files cannot be used: {0}")]
    Disk(#[from] std::io::Error),
    /// The configuration makes no sense.
    #[error("bad configuration: {0}")]
    Config(String),
    /// Consensus did not start.
    #[error("consensus did not start: {0}")]
    Consensus(String),
}

/// What a node needs of the world.
#[derive(Clone)]
pub struct World {
    /// Where it keeps things.
    pub disk: Arc<dyn Disk>,
    /// The way to its peers.
    pub transport: Arc<dyn Transport>,
    /// Told of everything that is applied.
    pub observers: Vec<Arc<dyn Observer>>,
    /// The way to partitions in other groups; without it they are not driven.
    pub elsewhere: Option<Client>,
}

struct Inner {
    config: NodeConfig,
    groups: BTreeMap<GroupId, GroupHandle>,
    elsewhere: Option<Client>,
    wal: Wal,
    history: Option<History>,
    stop: CancellationToken,
    _lock: Lock,
}

/// A running node. Clones share it.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

impl Node {
    /// Recovers what is on disk and starts every group. Returns once they run, not once they have leaders.
    pub async fn start(config: NodeConfig, world: World) -> Result<Self, StartError> {
        let raft_config = raft_config(&config)?;
        if !config.peers.contains_key(&config.id) {
            return Err(StartError::Config(format!("node {} is not in its own list of peers", config.id)));
        }
        identity::claim(world.disk.as_ref(), &config.data, config.id).await?;
        let lock = world.disk.lock(config.data.join("lock")).await?;
        let folder = config.data.join("log");
        let (wal, mut records) = Wal::open(world.disk.clone(), folder, config.id, config.segment_bytes).await?;
        let history = match config.seat_history {
            true => Some(History::open(&config.data.join("history")).await?),
            false => None,
        };
        let mut world = world;
        world.observers.extend(history.iter().map(|history| Arc::new(history.clone()) as Arc<dyn Observer>));
        let mut groups = BTreeMap::new();
        for id in (0..=config.groups).map(GroupId) {
            let record = records.remove(&id).unwrap_or_default();
            let handle = host(id, &config, &raft_config, &world, wal.clone(), record).await?;
            groups.insert(id, handle);
        }
        let elsewhere = world.elsewhere;
        let inner = Inner { config, groups, elsewhere, wal, history, stop: CancellationToken::new(), _lock: lock };
        let node = Self(Arc::new(inner));
        node.spawn_tasks();
        Ok(node)
    }

    /// Its id.
    pub fn id(&self) -> NodeId {
        self.0.config.id
    }

    /// Its configuration.
    pub fn config(&self) -> &NodeConfig {
        &self.0.config
    }

    /// A group that it hosts.
    pub fn group(&self, id: GroupId) -> Option<&GroupHandle> {
        self.0.groups.get(&id)
    }

    /// Every group that it hosts.
    pub fn groups(&self) -> impl Iterator<Item = &GroupHandle> {
        self.0.groups.values()
    }

    /// Answers one message of a peer; the bytes go back to [`Transport::call`] there.
    pub async fn answer_peer(&self, group: GroupId, call: PeerCall, body: Bytes) -> Result<Bytes, PeerRefusal> {
        let handle = self.group(group).ok_or(PeerRefusal::NoSuchGroup(group))?;
        peer::answer(handle.raft(), call, body).await
    }

    /// Whether every group has a leader that this node knows of: fit to serve.
    pub fn is_ready(&self) -> bool {
        self.groups().all(|group| group.status().leader.is_some())
    }

    /// Who owned each seat, and since when; `None` if it is not kept.
    pub fn history(&self) -> Option<&History> {
        self.0.history.as_ref()
    }

    /// The shared log.
    pub fn wal(&self) -> &Wal {
        &self.0.wal
    }

    /// Stops every group. What was acknowledged is on disk already.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        for group in self.groups() {
            if let Err(error) = group.raft().shutdown().await {
                tracing::warn!(group = %group.id(), %error, "a group did not stop cleanly");
            }
        }
    }

    fn spawn_tasks(&self) {
        let Inner { config, groups, elsewhere, wal, stop, .. } = &*self.0;
        for group in groups.values() {
            spawn(bootstrap::initialise(group.clone(), config.clone(), stop.clone()));
            spawn(driver::run(group.clone(), elsewhere.clone(), stop.clone()));
            spawn(housekeeping::run(group.clone(), wal.clone(), config.snapshot_every, stop.clone()));
        }
        if let Some(meta) = groups.get(&GroupId::META) {
            let ids = groups.keys().copied().collect();
            spawn(bootstrap::register(meta.clone(), config.clone(), ids, stop.clone()));
        }
    }
}

async fn host(
    id: GroupId,
    config: &NodeConfig,
    raft_config: &Arc<Config>,
    world: &World,
    wal: Wal,
    record: GroupRecord,
) -> Result<GroupHandle, StartError> {
    let snapshots = SnapshotStore::open(world.disk.clone(), config.data.join("snapshots"), id).await?;
    let machine = StateMachine::open(id, snapshots, world.observers.clone()).await?;
    let log = LogStore::open(id, wal, record)?;
    let network = PeerNetwork::new(id, world.transport.clone());
    let raft = Raft::new(config.id.0, raft_config.clone(), network, log.clone(), machine.clone())
        .await
        .map_err(|error| StartError::Consensus(error.to_string()))?;
    let leaders = Leaders::new(raft.clone(), Arc::new(config.peers.clone()));
    Ok(GroupHandle::start(id, raft, log, machine, leaders, config.proposal_queue))
}

/// openraft's settings. Two are promises of ours:
///
/// - Leader restore is off: with it a restarted leader that lost an unsynced tail goes on as the same leader and uses its log
///   ids again, and acknowledged entries are lost.
/// - Snapshots and purges are ours (see `housekeeping`).
pub(crate) fn raft_config(config: &NodeConfig) -> Result<Arc<Config>, StartError> {
    let settings = Config {
        cluster_name: "encore".to_owned(),
        heartbeat_interval: config.timing.heartbeat_ms,
        election_timeout_min: config.timing.election_min_ms,
        election_timeout_max: config.timing.election_max_ms,
        max_payload_entries: 256,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        replication_lag_threshold: config.snapshot_every.saturating_mul(2),
        install_snapshot_timeout: 60_000,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(config.known_bugs.leader_restore),
        backoff: "20ms 40ms 80ms ...500ms".to_owned(),
        ..Config::default()
    };
    settings.validate().map(Arc::new).map_err(|error| StartError::Config(error.to_string()))
}
