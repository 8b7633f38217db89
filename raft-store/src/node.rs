//! A store node: its identity, its log, its groups, and the tasks that drive them. What it needs of the world (disk, way
//! to its peers, observers) is handed in, so that the simulation runs this very code.

use crate::client::Client;
use crate::clocks::Clocks;
use crate::config::NodeConfig;
use crate::disk::{Disk, Lock};
use crate::failure::{Failure, watch_over};
use crate::group::GroupHandle;
use crate::history::History;
use crate::identity::{self, IdentityError};
use crate::leader::Leaders;
use crate::log_store::LogStore;
use crate::mover::{self, MoveLog};
use crate::peer::{self, PeerNetwork, PeerRefusal};
use crate::runtime::{WallClock, spawn};
use crate::snapshot::SnapshotStore;
use crate::state_machine::{Observer, StateMachine};
use crate::transport::{PeerCall, Transport};
use crate::types::Raft;
use crate::wal::{GroupRecord, Wal, WalError};
use crate::wire;
use crate::{bootstrap, catch_up, clocks, departed, driver, housekeeping, registrar};
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use domain::limits;
use openraft::{Config, SnapshotPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;
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
    /// What it takes for the time of day.
    pub clock: WallClock,
}

struct Inner {
    config: NodeConfig,
    raft_config: Arc<Config>,
    world: World,
    wal: Wal,
    history: Option<History>,
    groups: RwLock<BTreeMap<GroupId, GroupHandle>>,
    /// Held while a group is opened, so that none is opened twice.
    opening: tokio::sync::Mutex<()>,
    moves: MoveLog,
    clocks: Clocks,
    caught_up: AtomicBool,
    failure: watch::Sender<Option<Failure>>,
    stop: CancellationToken,
    _lock: Lock,
}

/// A running node. Clones share it.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

impl Node {
    /// Recovers what is on disk and starts every group. Returns once they run, not once they have leaders.
    ///
    /// Groups are those of the configuration (unless the node joins a running cluster) and those that its log knows.
    /// Others come later, when a peer speaks of them.
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
        let configured = config.configured_groups();
        let inner = Inner {
            config,
            raft_config,
            world,
            wal,
            history,
            groups: RwLock::default(),
            opening: tokio::sync::Mutex::default(),
            moves: MoveLog::default(),
            clocks: Clocks::default(),
            caught_up: AtomicBool::new(false),
            failure: watch::Sender::default(),
            stop: CancellationToken::new(),
            _lock: lock,
        };
        let node = Self(Arc::new(inner));
        let ids: BTreeSet<GroupId> = configured.chain(records.keys().copied()).collect();
        for id in ids {
            node.open(id, records.remove(&id).unwrap_or_default()).await?;
        }
        spawn(registrar::run(node.clone(), node.0.stop.clone()));
        spawn(clocks::run(node.clone(), node.0.world.transport.clone(), node.0.stop.clone()));
        spawn(departed::run(node.clone(), node.0.stop.clone()));
        spawn(catch_up::run(node.clone(), node.0.world.transport.clone(), node.0.stop.clone()));
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
    pub fn group(&self, id: GroupId) -> Option<GroupHandle> {
        self.0.groups.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Every group that it hosts, ascending.
    pub fn groups(&self) -> Vec<GroupHandle> {
        self.0.groups.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Hosts a group from now on: with an empty replica, if it is new here.
    pub async fn host(&self, id: GroupId) -> Result<GroupHandle, StartError> {
        let _one_at_a_time = self.0.opening.lock().await;
        match self.group(id) {
            Some(known) => Ok(known),
            None => {
                tracing::info!(group = %id, "hosting a group that is new here");
                self.open(id, GroupRecord::default()).await
            }
        }
    }

    /// Answers one message of a peer; the bytes go back to [`Transport::call`] there. A group that is new here is hosted
    /// when a peer speaks of it: its members know best that this node is one of them.
    pub async fn answer_peer(&self, group: GroupId, call: PeerCall, body: Bytes) -> Result<Bytes, PeerRefusal> {
        if call == PeerCall::Clock {
            return Ok(wire::encode(&self.0.world.clock.now()));
        }
        let handle = match self.group(group) {
            Some(handle) => handle,
            None if group.0 <= limits::GROUPS && peer::is_readable(call, &body) => {
                self.host(group).await.map_err(|error| PeerRefusal::Stopped(error.to_string()))?
            }
            None => return Err(PeerRefusal::NoSuchGroup(group)),
        };
        if call == PeerCall::Applied {
            return Ok(wire::encode(&handle.applied_as_leader().await));
        }
        if let Some(failure) = self.failure() {
            return Err(PeerRefusal::Stopped(failure.to_string()));
        }
        peer::answer(self, &handle, call, body).await
    }

    /// It takes no further part, for this reason. The first one stays.
    pub(crate) fn fail(&self, failure: Failure) {
        tracing::error!(%failure, "this node can take no further part");
        self.0.failure.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(failure);
            first
        });
    }

    /// Why it takes no part any more, if that is so.
    pub fn failure(&self) -> Option<Failure> {
        self.0.failure.borrow().clone()
    }

    /// Waits until it can take no further part: whoever runs it has to end it then.
    pub async fn failed(&self) -> Failure {
        let mut failures = self.0.failure.subscribe();
        match failures.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Whether it is fit to serve: it has caught up since it started, and knows a leader of every group that it is in.
    pub fn is_ready(&self) -> bool {
        self.0.caught_up.load(Ordering::Relaxed) && self.knows_leaders()
    }

    pub(crate) fn knows_leaders(&self) -> bool {
        self.member_of().iter().all(|group| group.status().leader.is_some())
    }

    pub(crate) fn note_caught_up(&self) {
        self.0.caught_up.store(true, Ordering::Relaxed);
    }

    /// The groups of which this node is a member, as far as it knows. One that the configuration names is among them even before it has members.
    pub(crate) fn member_of(&self) -> Vec<GroupHandle> {
        let configured: BTreeSet<GroupId> = self.0.config.configured_groups().collect();
        let mut groups = self.groups();
        groups.retain(|group| {
            let members = group.status().members;
            (members.contains_key(&self.id()) && !group.has_departed())
                || (members.is_empty() && configured.contains(&group.id()))
        });
        groups
    }

    /// Moves that this node has driven, for status and metrics.
    pub fn moves(&self) -> &MoveLog {
        &self.0.moves
    }

    /// What it takes for the time of day.
    pub fn clock(&self) -> &WallClock {
        &self.0.world.clock
    }

    /// How far its wall clock is ahead of its peers', as it last found.
    pub fn clocks(&self) -> &Clocks {
        &self.0.clocks
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

    pub(crate) fn elsewhere(&self) -> Option<&Client> {
        self.0.world.elsewhere.as_ref()
    }

    /// Opens a group on what the log knows of it, and starts its tasks.
    async fn open(&self, id: GroupId, record: GroupRecord) -> Result<GroupHandle, StartError> {
        let Inner { config, raft_config, world, wal, moves, stop, .. } = &*self.0;
        let snapshots = SnapshotStore::open(world.disk.clone(), config.data.join("snapshots"), id).await?;
        let machine = StateMachine::open(id, snapshots, world.observers.clone()).await?;
        let log = LogStore::open(id, wal.clone(), record)?;
        let network = PeerNetwork::new(id, world.transport.clone());
        let raft = Raft::new(config.id.0, raft_config.clone(), network, log.clone(), machine.clone())
            .await
            .map_err(|error| StartError::Consensus(error.to_string()))?;
        let leaders = Leaders::new(raft.clone(), Arc::new(config.peers.clone()));
        let group = GroupHandle::start(id, raft, log, machine, leaders, world.clock.clone(), config.proposal_queue);
        self.0.groups.write().unwrap_or_else(PoisonError::into_inner).insert(id, group.clone());
        if config.configured_groups().any(|configured| configured == id) {
            spawn(bootstrap::initialise(group.clone(), config.clone(), stop.clone()));
        }
        spawn(watch_over(self.clone(), group.clone(), stop.clone()));
        spawn(driver::run(group.clone(), world.elsewhere.clone(), stop.clone()));
        spawn(housekeeping::run(group.clone(), wal.clone(), config.snapshot_every, stop.clone()));
        if let Some(client) = world.elsewhere.clone().filter(|_| id == GroupId::META) {
            spawn(mover::run(group.clone(), client, moves.clone(), stop.clone()));
        }
        Ok(group)
    }
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
        // What was replicated lately was a heartbeat, too.
        heartbeat_min_interval: Some(config.timing.heartbeat_ms),
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
