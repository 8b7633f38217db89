//! How a cluster comes to be: the node with the least id initialises every group with the static peer list, and the leader
//! of the meta group registers where each group lives. Both are tried again until they hold, because an initialisation
//! returns before it is durable.

use crate::config::NodeConfig;
use crate::group::GroupHandle;
use crate::runtime::sleep;
use domain::ids::{GroupId, NodeId, Partition};
use domain::inventory::command::Meta;
use domain::inventory::query::Placement;
use domain::inventory::{Answer, Command, Query, Request};
use openraft::BasicNode;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_millis(300);
const REGISTER_EVERY: Duration = Duration::from_secs(2);

/// Initialises one group, if this node is the one to do it.
pub async fn initialise(group: GroupHandle, config: NodeConfig, stop: CancellationToken) {
    if config.peers.keys().next() != Some(&config.id) {
        return;
    }
    let members: BTreeMap<u64, BasicNode> =
        config.peers.iter().map(|(id, address)| (id.0, BasicNode::new(address.clone()))).collect();
    // Done when an entry is committed and applied: before that a crash may undo it.
    while group.status().applied.is_none() && !stop.is_cancelled() {
        match group.raft().is_initialized().await {
            Ok(true) => {}
            Ok(false) => match group.raft().initialize(members.clone()).await {
                Ok(()) => tracing::info!(group = %group.id(), "initialised"),
                Err(error) => tracing::debug!(group = %group.id(), %error, "not initialised yet"),
            },
            Err(_) => return,
        }
        sleep(RETRY).await;
    }
}

/// Keeps the placement's list of groups true while this node leads the meta group.
pub async fn register(meta: GroupHandle, config: NodeConfig, groups: Vec<GroupId>, stop: CancellationToken) {
    loop {
        if meta.is_leader() {
            for request in missing(&meta, &config.peers, &groups) {
                if let Err(error) = meta.propose(request).await {
                    tracing::debug!(%error, "a group is not registered yet");
                }
            }
        }
        let pause = if registered(&meta, &config.peers, &groups) { REGISTER_EVERY } else { RETRY };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

fn registered(meta: &GroupHandle, peers: &BTreeMap<NodeId, String>, groups: &[GroupId]) -> bool {
    missing(meta, peers, groups).is_empty()
}

/// Registrations that the applied placement lacks.
fn missing(meta: &GroupHandle, peers: &BTreeMap<NodeId, String>, groups: &[GroupId]) -> Vec<Request> {
    let placement = match meta.read_applied(&Partition::Meta, &Query::Placement) {
        Answer::Placement(placement) => placement,
        _ => Placement::default(),
    };
    let lacking = groups.iter().filter(|group| placement.groups.get(group) != Some(peers));
    lacking
        .map(|group| Request {
            partition: Partition::Meta,
            command: Command::Meta(Meta::RegisterGroup { group: *group, nodes: peers.clone() }),
        })
        .collect()
}
