//! Carrying an operator's order out on a node. Consensus itself keeps a change safe; what is checked here is that a voter
//! has caught up before it counts, because a majority of voters that are far behind acknowledges nothing.

use crate::bootstrap;
use crate::group::{GroupHandle, ProposeError};
use crate::node::Node;
use crate::runtime::{sleep, timeout};
use crate::types::TypeConfig;
use crate::wire::frames::{self, Order, OrderReply, order, order_reply};
use domain::ids::{GroupId, NodeId};
use domain::limits;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Entries that a voter may be behind when it begins to vote.
const BEHIND: u64 = 1_000;
/// How long a change of members may take before its fate is called unknown.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks at a group that is being formed.
const LOOK: Duration = Duration::from_millis(50);

/// Carries an order out, if this node is the one to do it.
pub async fn carry(node: &Node, order: Order) -> OrderReply {
    let group = GroupId(order.group);
    let Some(what) = order.what else { return refused("an order without words") };
    if let order::What::FormGroup(form) = what {
        return form_group(node, group, form).await;
    }
    let Some(handle) = node.group(group) else { return refused(&format!("group {group} is not on this node")) };
    if !handle.is_leader() {
        return not_leader(&handle);
    }
    match timeout(PATIENCE, change(&handle, what)).await {
        Some(reply) => reply,
        None => unknown("it takes long"),
    }
}

async fn change(group: &GroupHandle, what: order::What) -> OrderReply {
    let raft = group.raft();
    let changed = match what {
        order::What::TransferLeader(transfer) => {
            return match group.transfer_leader(NodeId(transfer.to)).await {
                Ok(()) => done(),
                Err(ProposeError::NotLeader(_)) => not_leader(group),
                Err(error) => unknown(&error.to_string()),
            };
        }
        order::What::AddLearner(frames::AddLearner { member }) => {
            let Some(frames::Member { node, address }) = member else { return refused("a learner without a name") };
            raft.add_learner(node, BasicNode::new(address), false).await
        }
        order::What::SetVoters(frames::SetVoters { voters }) => {
            let voters: BTreeSet<u64> = voters.into_iter().collect();
            if let Err(reason) = caught_up(group, &voters) {
                return refused(&reason);
            }
            raft.change_membership(voters, false).await
        }
        order::What::RemoveLearner(frames::RemoveLearner { node }) => {
            raft.change_membership(ChangeMembers::RemoveNodes([node].into()), false).await
        }
        order::What::FormGroup(_) => return refused("it is done elsewhere"),
    };
    match changed {
        Ok(_) => done(),
        Err(_) if !group.is_leader() => not_leader(group),
        // A change that is under way is finished by giving the order again.
        Err(error) => unknown(&in_words(&error)),
    }
}

/// Why the members are not changed, in words of the operator's.
fn in_words(error: &RaftError<TypeConfig, ClientWriteError<TypeConfig>>) -> String {
    use openraft::errors::ChangeMembershipError::{InProgress, LearnerNotFound, UncommittedLeaderLog};
    match error {
        RaftError::APIError(ClientWriteError::ChangeMembershipError(InProgress(_))) => {
            "another change of voters is not decided yet".to_owned()
        }
        RaftError::APIError(ClientWriteError::ChangeMembershipError(UncommittedLeaderLog(_))) => {
            "the leader is new and has decided nothing yet".to_owned()
        }
        RaftError::APIError(ClientWriteError::ChangeMembershipError(LearnerNotFound(missing))) => {
            format!("node {} is not in the group yet", missing.node_id)
        }
        other => other.to_string(),
    }
}

/// Whether every voter has the log, nearly.
fn caught_up(group: &GroupHandle, voters: &BTreeSet<u64>) -> Result<(), String> {
    let status = group.status();
    if voters.is_empty() {
        return Err("a group without voters decides nothing".to_owned());
    }
    let last = status.last_log.unwrap_or(0);
    let added = voters.iter().map(|voter| NodeId(*voter)).filter(|voter| !status.voters.contains(voter));
    for voter in added {
        let matched = status.matched.get(&voter).copied().unwrap_or(0);
        if matched == 0 || matched + BEHIND < last {
            return Err(format!("node {voter} has the log up to {matched} of {last}: it must learn first"));
        }
    }
    Ok(())
}

/// Begins a group that the meta group has reserved for these members; harmless where it has begun.
async fn form_group(node: &Node, group: GroupId, form: frames::FormGroup) -> OrderReply {
    let members: BTreeMap<NodeId, String> =
        form.members.into_iter().map(|member| (NodeId(member.node), member.address)).collect();
    if !members.contains_key(&node.id()) || group.0 > limits::GROUPS || group == GroupId::META {
        return refused(&format!("node {} cannot form group {group} with these members", node.id()));
    }
    let handle = match node.host(group).await {
        Ok(handle) => handle,
        Err(error) => return refused(&error.to_string()),
    };
    let begun = async {
        while handle.status().applied.is_none() {
            if let Ok(false) = handle.raft().is_initialized().await
                && let Err(error) = handle.raft().initialize(bootstrap::members(&members)).await
            {
                tracing::debug!(%group, %error, "not formed yet");
            }
            sleep(LOOK).await;
        }
    };
    match timeout(PATIENCE, begun).await {
        Some(()) => done(),
        None => unknown("the group has no majority yet"),
    }
}

fn reply(what: order_reply::What) -> OrderReply {
    OrderReply { what: Some(what) }
}

fn done() -> OrderReply {
    reply(order_reply::What::Done(frames::Done {}))
}

fn refused(reason: &str) -> OrderReply {
    reply(order_reply::What::Refused(frames::Refused { reason: reason.to_owned() }))
}

fn unknown(reason: &str) -> OrderReply {
    reply(order_reply::What::Unknown(frames::Unknown { reason: reason.to_owned() }))
}

fn not_leader(group: &GroupHandle) -> OrderReply {
    let hint = group.leader_hint();
    reply(order_reply::What::NotLeader(frames::NotLeader {
        node: hint.leader.map_or(0, |node| node.0),
        address: hint.address.unwrap_or_default(),
    }))
}
