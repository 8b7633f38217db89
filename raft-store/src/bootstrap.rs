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
    use crate::config::Timing;
    use crate::disk::memory::MemoryDisk;
    use crate::node::{Node, World};
    use crate::runtime::{WallClock, timeout};
    use crate::transport::{PeerRequest, Transport, TransportError};
    use bytes::Bytes;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// No peers.
    struct Alone;

    impl Transport for Alone {
        fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>> {
            async move { Err(TransportError { to: request.to, reason: "nobody".to_owned() }) }.boxed()
        }
    }

    fn world(disk: MemoryDisk) -> World {
        let (observers, clock) = (Vec::new(), WallClock::default());
        World { disk: Arc::new(disk), transport: Arc::new(Alone), observers, elsewhere: None, clock }
    }

    /// openraft's `initialize()` returns before what it wrote is durable: power lost then takes the group back to nothing,
    /// although its founder was told that it exists. It must be begun again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_founder_that_lost_power_before_its_first_entry_was_durable_begins_again() {
        let config = NodeConfig {
            id: NodeId(1),
            data: PathBuf::from("/node"),
            peers: [(NodeId(1), "node-1:1".to_owned())].into(),
            seat_history: false,
            timing: Timing { heartbeat_ms: 50, election_min_ms: 200, election_max_ms: 400 },
            ..NodeConfig::default()
        };
        let (disk, stuck) = (MemoryDisk::default(), Arc::new(AtomicBool::new(false)));
        let held = stuck.clone();
        let slow = disk.delayed(Arc::new(move || {
            let held = held.clone();
            async move {
                while held.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(5)).await;
                }
            }
            .boxed()
        }));
        // One that joins begins nothing by itself.
        let first = Node::start(NodeConfig { join: true, ..config.clone() }, world(slow)).await.unwrap();
        let group = first.host(GroupId(1)).await.unwrap();
        stuck.store(true, Ordering::Relaxed);
        let begun = timeout(Duration::from_secs(30), group.raft().initialize(members(&config.peers))).await;
        assert!(matches!(begun, Some(Ok(()))), "it waits until its entry is durable, at last: {begun:?}");
        assert_eq!(group.status().applied, None);
        let left = disk.copy();
        left.cut_power(&mut |_| 0);

        let again = Node::start(config, world(left)).await.unwrap();
        let serves = async {
            while !again.groups().iter().all(|group| group.is_leader() && group.status().applied.is_some()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), serves).await.expect("the groups are begun again");
        stuck.store(false, Ordering::Relaxed);
        first.shutdown().await;
        again.shutdown().await;
    }

    #[test]
    fn founders_take_turns() {
        let peers = [4, 7, 9].map(|id| (NodeId(id), format!("node-{id}:1"))).into();
        let first = (0..6).map(|group| founder(GroupId(group), &peers).unwrap().0);
        assert_eq!(first.collect::<Vec<_>>(), [4, 7, 9, 4, 7, 9]);
        assert_eq!(founder(GroupId(0), &BTreeMap::new()), None);
    }
}
