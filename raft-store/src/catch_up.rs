//! Whether a node that has started is up to date: in each group that it is a member of, it has applied what the leader had
//! when asked. Before that it is not ready. A node that is still fetching what it missed helps no majority, so whoever
//! restarts nodes one after the other, waiting for each to be ready, never stops a group.

use crate::group::GroupHandle;
use crate::node::Node;
use crate::runtime::sleep;
use crate::transport::{Lane, PeerCall, PeerRequest, Transport};
use crate::wire;
use bytes::Bytes;
use domain::ids::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// The leader confirms that it leads before it answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks until the node has caught up; that it has is remembered, so that a group which it joins later makes it no less ready.
pub(crate) async fn run(node: Node, transport: Arc<dyn Transport>, stop: CancellationToken) {
    // What each leader had applied when it was asked: one that goes on applying is not chased for ever.
    let mut goals = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = ask(&node, &transport, &mut goals) => {}
        }
        if node.member_of().iter().all(|group| is_reached(group, &goals)) {
            node.note_caught_up();
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
    }
}

fn is_reached(group: &GroupHandle, goals: &BTreeMap<GroupId, u64>) -> bool {
    goals.get(&group.id()).is_some_and(|goal| group.status().applied.unwrap_or(0) >= *goal)
}

/// Asks the leaders of the groups that have no goal yet.
async fn ask(node: &Node, transport: &Arc<dyn Transport>, goals: &mut BTreeMap<GroupId, u64>) {
    for group in node.member_of() {
        if !goals.contains_key(&group.id())
            && let Some(applied) = leaders_applied(node, transport, &group).await
        {
            goals.insert(group.id(), applied);
        }
    }
}

async fn leaders_applied(node: &Node, transport: &Arc<dyn Transport>, group: &GroupHandle) -> Option<u64> {
    let hint = group.leader_hint();
    let leader = hint.leader?;
    if leader == node.id() {
        return group.applied_as_leader().await;
    }
    let request = PeerRequest {
        to: leader,
        address: hint.address?,
        lane: Lane::Heartbeat,
        group: group.id(),
        call: PeerCall::Applied,
        body: Bytes::new(),
        timeout: PATIENCE,
    };
    let answer = transport.call(request).await.ok()?;
    wire::decode::<Option<u64>>("applied", &answer).ok().flatten()
}
