//! Where groups live, for clients: whoever leads a group tells the meta group its members, again whenever they change. What
//! the meta group has is a hint, as old as the last telling; consensus itself never reads it. The other way round, the node's
//! own client is told of the nodes that its groups know.

use crate::client::Client;
use crate::group::GroupHandle;
use crate::node::Node;
use crate::runtime::sleep;
use domain::ids::{GroupId, Partition};
use domain::inventory::command::Meta;
use domain::inventory::query::Placement;
use domain::inventory::{Answer, Command, Query, Request};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_millis(300);
/// Between two looks when everything is registered.
const REST: Duration = Duration::from_secs(2);

/// Registers what this node leads until it stops.
pub async fn run(node: Node, stop: CancellationToken) {
    loop {
        let settled = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            settled = round(&node) => settled,
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(if settled { REST } else { RETRY }) => {}
        }
    }
}

/// Whether the meta group knows all that this node can say.
async fn round(node: &Node) -> bool {
    let meta = node.group(GroupId::META);
    let speaker = meta.as_ref().filter(|meta| meta.is_leader());
    // Without a way to other nodes the leader of the meta group speaks for all that it hosts.
    let speaks = |group: &GroupHandle| group.is_leader() || (node.elsewhere().is_none() && speaker.is_some());
    if let Some(client) = node.elsewhere() {
        // A node that joined knows nobody but those with whom it shares a group; so does a founder whose fellows are gone.
        client.also_at(node.groups().iter().flat_map(|group| group.status().members.into_values()).collect());
    }
    let groups: Vec<GroupHandle> = node.groups().into_iter().filter(|group| speaks(group)).collect();
    if groups.is_empty() {
        return node.knows_leaders();
    }
    let Some(placement) = placement(meta.as_ref(), node.elsewhere()).await else { return false };
    let mut settled = node.knows_leaders();
    for status in groups.iter().map(GroupHandle::status) {
        if status.members.is_empty() || placement.groups.get(&status.group) == Some(&status.members) {
            continue;
        }
        settled = false;
        let command = Command::Meta(Meta::RegisterGroup { group: status.group, nodes: status.members });
        let told = match (speaker, node.elsewhere()) {
            (Some(meta), _) => meta.propose(Request { partition: Partition::Meta, command }).await.is_ok(),
            (None, Some(client)) => client.submit(Partition::Meta, command).await.is_ok(),
            (None, None) => false,
        };
        tracing::debug!(group = %status.group, told, "registering a group's members");
    }
    settled
}

async fn placement(meta: Option<&GroupHandle>, client: Option<&Client>) -> Option<Placement> {
    match (meta.map(|meta| meta.read_applied(&Partition::Meta, &Query::Placement)), client) {
        (Some(Answer::Placement(placement)), _) => Some(placement),
        (_, Some(client)) => client.placement().await.ok(),
        _ => None,
    }
}
