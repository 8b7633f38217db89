//! What a store node is told at start, with defaults that suit three nodes on one machine or in one data centre.

use crate::tls::TlsFiles;
use domain::ids::{GroupId, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Configuration of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Which node this is. A data folder belongs to one id for ever.
    pub id: NodeId,
    /// Where everything is kept.
    pub data: PathBuf,
    /// Whether it joins a running cluster: it hosts nothing until a group takes it in (`encore admin group add-node`).
    /// Otherwise it is one of the founders, who all have the same list of peers.
    pub join: bool,
    /// Every founder of the cluster and where it listens (`host:port`), and this node. Nodes that came later are known
    /// by their groups.
    pub peers: BTreeMap<NodeId, String>,
    /// Data groups with which the cluster is founded, besides the meta group: `1..=groups`.
    pub groups: u32,
    /// Entries after which a group is snapshotted, so that its log can be purged.
    pub snapshot_every: u64,
    /// Proposals that may wait in one group before it says that it is overloaded.
    pub proposal_queue: usize,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// Bytes after which a new log segment is begun.
    pub segment_bytes: u64,
    /// Whether every change of a seat's owner is indexed, so that its history can be told.
    pub seat_history: bool,
    /// Its certificate. Without one it listens on loopback only.
    pub tls: Option<TlsFiles>,
    /// The list of certificates that are good no more (`encore admin certs --revoke`); read again when it changes.
    pub revoked: Option<PathBuf>,
    /// Faults to switch back on, so that the simulation can prove that it would find them. Not configurable.
    #[serde(skip)]
    pub known_bugs: KnownBugs,
}

/// Mended faults. All off, except in the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBugs {
    /// A restarted leader goes on without an election, although it may have lost the unsynced tail of its log.
    pub leader_restore: bool,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            id: NodeId(1),
            data: PathBuf::from("data"),
            join: false,
            peers: BTreeMap::new(),
            groups: 1,
            snapshot_every: 20_000,
            proposal_queue: 4_096,
            timing: Timing::default(),
            segment_bytes: 64 << 20,
            seat_history: true,
            tls: None,
            revoked: None,
            known_bugs: KnownBugs::default(),
        }
    }
}

impl NodeConfig {
    /// Groups that exist because the configuration says so.
    pub fn configured_groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        let groups = (!self.join).then_some(0..=self.groups);
        groups.into_iter().flatten().map(GroupId)
    }

    /// Where this node listens, by its own entry in the list of peers.
    pub fn own_address(&self) -> Option<&str> {
        self.peers.get(&self.id).map(String::as_str)
    }
}

/// Heartbeats and elections, in milliseconds. A follower stands for election once it has heard nothing for the lease that it
/// granted its leader, which is as long as `election_max_ms`, and a random time between the two bounds after that: with the
/// defaults 650 to 800 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Between two heartbeats.
    pub heartbeat_ms: u64,
    /// The shortest that a follower waits after its leader's lease.
    pub election_min_ms: u64,
    /// The longest, and the leader's lease.
    pub election_max_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 75, election_min_ms: 250, election_max_ms: 400 }
    }
}
