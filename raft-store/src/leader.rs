//! Where a group's leader is, as far as this node knows. The static peer list says where nodes listen now; what the
//! group's membership says may be older than a restart on another port.

use crate::group::LeaderHint;
use crate::types::Raft;
use domain::ids::NodeId;
use openraft::BasicNode;
use openraft::async_runtime::WatchReceiver;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Looks leaders up. Clones share the list.
#[derive(Clone)]
pub struct Leaders {
    raft: Raft,
    peers: Arc<BTreeMap<NodeId, String>>,
}

impl Leaders {
    /// Of this group, with this list of peers.
    pub fn new(raft: Raft, peers: Arc<BTreeMap<NodeId, String>>) -> Self {
        Self { raft, peers }
    }

    /// The leader now.
    pub fn hint(&self) -> LeaderHint {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(leader) = metrics.current_leader else { return LeaderHint::default() };
        let member = metrics.membership_config.membership().get_node(&leader).map(|node| node.addr.clone());
        self.located(NodeId(leader), member)
    }

    /// Where a member listens now.
    pub fn address(&self, member: u64, node: &BasicNode) -> String {
        self.peers.get(&NodeId(member)).cloned().unwrap_or_else(|| node.addr.clone())
    }

    /// This node as a leader, where it listens; `member` is the address that its group remembers.
    pub fn located(&self, leader: NodeId, member: Option<String>) -> LeaderHint {
        LeaderHint { leader: Some(leader), address: self.peers.get(&leader).cloned().or(member) }
    }
}
