//! How a cluster comes to be: each group of the configuration is initialised by one founder with the founders as members.
//! The founders take turns, because whoever initialises a group is its first leader. Tried again until it holds, because an
//! initialisation returns before it is durable; harmless where another founder was first, because all name the same members.

use crate::config::NodeConfig;
use crate::group::GroupHandle;
use crate::runtime::sleep;
use domain::ids::{GroupId, NodeId};
use openraft::BasicNode;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_millis(300);

/// Initialises one group, if this node is the one to do it.
pub async fn initialise(group: GroupHandle, config: NodeConfig, stop: CancellationToken) {
    if founder(group.id(), &config.peers) != Some(config.id) {
        return;
    }
    // Done when an entry is committed and applied: before that a crash may undo it.
    while group.status().applied.is_none() && !stop.is_cancelled() {
        match group.raft().is_initialized().await {
            Ok(true) => {}
            Ok(false) => match group.raft().initialize(members(&config.peers)).await {
                Ok(()) => tracing::info!(group = %group.id(), "initialised"),
                Err(error) => tracing::debug!(group = %group.id(), %error, "not initialised yet"),
            },
            Err(_) => return,
        }
        sleep(RETRY).await;
    }
}

/// Who begins a group: its members take turns.
pub fn founder(group: GroupId, members: &BTreeMap<NodeId, String>) -> Option<NodeId> {
    members.keys().nth(group.0 as usize % members.len().max(1)).copied()
}

/// Members as consensus wants them.
pub fn members(nodes: &BTreeMap<NodeId, String>) -> BTreeMap<u64, BasicNode> {
    nodes.iter().map(|(id, address)| (id.0, BasicNode::new(address.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn founders_take_turns() {
        let peers = [4, 7, 9].map(|id| (NodeId(id), format!("node-{id}:1"))).into();
        let first = (0..6).map(|group| founder(GroupId(group), &peers).unwrap().0);
        assert_eq!(first.collect::<Vec<_>>(), [4, 7, 9, 4, 7, 9]);
        assert_eq!(founder(GroupId(0), &BTreeMap::new()), None);
    }
}
