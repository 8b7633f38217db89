//! Three nodes in one process on real files, joined by a transport that can be cut.
#![allow(dead_code)]

use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use futures::future::BoxFuture;
use raft_store::config::{NodeConfig, Timing};
use raft_store::disk::RealDisk;
use raft_store::group::GroupHandle;
use raft_store::node::{Node, StartError, World};
use raft_store::runtime::WallClock;
use raft_store::state_machine::Observer;
use raft_store::transport::{PeerRequest, Transport, TransportError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where nodes find one another.
#[derive(Clone, Default)]
pub struct Net {
    nodes: Arc<Mutex<BTreeMap<NodeId, Node>>>,
    cut: Arc<Mutex<BTreeSet<NodeId>>>,
    deaf: Arc<Mutex<BTreeSet<NodeId>>>,
}

impl Net {
    /// This node's way to the others.
    pub fn end(&self, from: NodeId) -> Arc<dyn Transport> {
        Arc::new(End { from, net: self.clone() })
    }

    /// From now on this node is found.
    pub fn join(&self, id: NodeId, node: Node) {
        self.nodes.lock().unwrap().insert(id, node);
    }

    /// What this node asks arrives, and what it is answered does not.
    pub fn deafen(&self, id: NodeId, off: bool) {
        let mut deaf = self.deaf.lock().unwrap();
        if off {
            deaf.insert(id)
        } else {
            deaf.remove(&id)
        };
    }
}

/// One node's end of it.
struct End {
    from: NodeId,
    net: Net,
}

impl Transport for End {
    fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>> {
        let (from, net) = (self.from, self.net.clone());
        Box::pin(async move {
            let failed = |reason: &str| TransportError { to: request.to, reason: reason.to_owned() };
            let reachable = {
                let cut = net.cut.lock().unwrap();
                !cut.contains(&from) && !cut.contains(&request.to)
            };
            let target = net.nodes.lock().unwrap().get(&request.to).cloned();
            let target = target.filter(|_| reachable).ok_or_else(|| failed("unreachable"))?;
            let answer = target.answer_peer(request.group, request.call, request.body).await;
            if net.deaf.lock().unwrap().contains(&from) {
                return Err(failed("the answer was lost"));
            }
            answer.map_err(|error| failed(&error.to_string()))
        })
    }
}

/// A cluster whose data folders live as long as it does.
pub struct Cluster {
    pub net: Net,
    pub folder: tempfile::TempDir,
    pub snapshot_every: u64,
    observers: Vec<Arc<dyn Observer>>,
}

pub const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
pub const DATA: GroupId = GroupId(1);

impl Cluster {
    /// Starts three nodes.
    pub async fn start(snapshot_every: u64) -> Self {
        Self::observed(snapshot_every, Vec::new()).await
    }

    /// The same, with all nodes watched.
    pub async fn observed(snapshot_every: u64, observers: Vec<Arc<dyn Observer>>) -> Self {
        let cluster = Self { net: Net::default(), folder: tempfile::tempdir().unwrap(), snapshot_every, observers };
        for id in IDS {
            cluster.start_node(id).await;
        }
        cluster
    }

    pub fn config(&self, id: NodeId) -> NodeConfig {
        NodeConfig {
            id,
            data: self.folder.path().join(format!("node-{id}")),
            peers: IDS.iter().map(|id| (*id, format!("node-{id}:1"))).collect(),
            snapshot_every: self.snapshot_every,
            // sled lets go of its folder a while after its last handle: too late for a restart in one process.
            seat_history: false,
            timing: Timing { heartbeat_ms: 50, election_min_ms: 200, election_max_ms: 400 },
            ..NodeConfig::default()
        }
    }

    pub async fn try_start(&self, config: NodeConfig) -> Result<Node, StartError> {
        let transport = self.net.end(config.id);
        Node::start(
            config,
            World {
                disk: Arc::new(RealDisk::default()),
                transport,
                observers: self.observers.clone(),
                elsewhere: None,
                clock: WallClock::default(),
            },
        )
        .await
    }

    pub async fn start_node(&self, id: NodeId) -> Node {
        let node = self.try_start(self.config(id)).await.unwrap();
        self.net.join(id, node.clone());
        node
    }

    pub async fn stop_node(&self, id: NodeId) {
        let node = self.net.nodes.lock().unwrap().remove(&id).unwrap();
        node.shutdown().await;
        drop(node);
        // The data folder is free once every task has let go of the node.
        let folder = self.config(id).data;
        eventually("the data folder is free", || {
            let lock = std::fs::OpenOptions::new().append(true).open(folder.join("lock")).unwrap();
            lock.try_lock().is_ok()
        })
        .await;
    }

    pub fn cut(&self, id: NodeId, off: bool) {
        let mut cut = self.net.cut.lock().unwrap();
        if off {
            cut.insert(id)
        } else {
            cut.remove(&id)
        };
    }

    pub fn nodes(&self) -> Vec<Node> {
        self.net.nodes.lock().unwrap().values().cloned().collect()
    }

    pub fn node(&self, id: NodeId) -> Node {
        self.net.nodes.lock().unwrap()[&id].clone()
    }

    /// The group on the node that leads it.
    pub async fn leader(&self, group: GroupId) -> GroupHandle {
        let leader = || {
            let candidates = self.nodes().into_iter().filter_map(|node| node.group(group));
            let leading = candidates.filter(|handle| handle.status().is_leader && handle.is_leader());
            leading.max_by_key(|handle| handle.status().term)
        };
        eventually("the group has a leader", || leader().is_some()).await;
        leader().unwrap()
    }

    /// Waits until all running nodes have applied the same and agree about the state.
    pub async fn converged(&self, group: GroupId) -> (Option<u64>, [u8; 32]) {
        let hashes =
            || -> BTreeSet<_> { self.nodes().iter().map(|node| node.group(group).unwrap().state_hash()).collect() };
        eventually("replicas agree", || hashes().len() == 1).await;
        hashes().pop_first().unwrap()
    }
}

/// Waits for a condition, at most half a minute.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
