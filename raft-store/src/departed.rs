//! Groups that go on without this node. Whoever was away while it was taken out of a group never hears of it, because nobody
//! speaks to it any more: it would ask for votes for ever, and wait to be told what it has missed before it is ready. So a voter to
//! whom no leader speaks looks what leaders say, and rests once one that leads now does not count it among the members.

use crate::client::{ClusterStatus, Role};
use crate::group::{GroupHandle, GroupStatus};
use crate::node::Node;
use crate::runtime::sleep;
use domain::ids::NodeId;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// A voter to whom no leader has spoken for so long, which is longer than any election, looks what they say.
const SILENT_MS: u64 = 5_000;

/// Looks until the node stops.
pub(crate) async fn run(node: Node, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = look(&node) => {}
        }
    }
}

async fn look(node: &Node) {
    let Some(client) = node.elsewhere() else { return };
    let (lost, heard): (Vec<GroupHandle>, Vec<GroupHandle>) =
        node.groups().into_iter().filter(|group| !group.is_leader()).partition(|group| group.unheard_ms() >= SILENT_MS);
    for group in heard.iter().filter(|group| group.has_departed()) {
        tracing::info!(group = %group.id(), "this node is in the group again");
        group.set_departed(false);
    }
    let lost: Vec<GroupHandle> =
        lost.into_iter().filter(|group| !group.has_departed() && group.status().voters.contains(&node.id())).collect();
    if lost.is_empty() {
        return;
    }
    let said = client.status().await;
    for group in lost.iter().filter(|group| goes_on_without(&said, node.id(), &group.status())) {
        tracing::info!(group = %group.id(), "the group goes on without this node, whose replica of it rests from now on");
        group.set_departed(true);
    }
}

/// Whether a leader has members decided without this node. One of an older term than this replica has heard of may itself
/// have been left behind.
fn goes_on_without(said: &ClusterStatus, node: NodeId, own: &GroupStatus) -> bool {
    said.replicas().filter(|(_, replica)| replica.group == own.group).any(|(_, replica)| {
        let decided = !replica.joint && !replica.members.is_empty();
        replica.role == Role::Leader && replica.term >= own.term && decided && !replica.members.contains_key(&node)
    })
}
