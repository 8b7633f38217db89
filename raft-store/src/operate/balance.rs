//! Plans that even out what nodes carry: leaders, which do most of the work, and replicas.

use super::membership::replace_in;
use super::plan::{Plan, Refusal, Step};
use super::topology::Topology;
use domain::ids::{GroupId, NodeId};

/// Moves leaders from nodes that lead most to voters that lead least, until no such move would help. Gentle: it takes the
/// fewest transfers, and none where the difference is one.
pub fn rebalance(topology: &Topology) -> Plan {
    let mut plan = Plan::default();
    let mut now = topology.clone();
    // A chain of moves may be needed where voters differ from group to group; each lowers the sum of squares, so it ends.
    while let Some((group, to)) = best_transfer(&now) {
        if let Some(shape) = now.groups.get_mut(&group) {
            shape.leader = Some(to);
        }
        plan.push(Step::TransferLeader { group, to });
    }
    let silent: Vec<_> = topology.groups.iter().filter(|(_, shape)| shape.leader.is_none()).collect();
    for (group, _) in silent {
        plan.note(format!("group {group} has no leader and is left alone"));
    }
    plan
}

fn best_transfer(topology: &Topology) -> Option<(GroupId, NodeId)> {
    let leading = topology.leading();
    let count = |node: &NodeId| leading.get(node).copied();
    let candidates = topology.groups.iter().flat_map(|(group, shape)| {
        let from = shape.leader.and_then(|leader| count(&leader)).unwrap_or(0);
        let voters = shape.voters.iter().filter_map(move |voter| Some((count(voter)?, *voter)));
        voters.map(move |(there, voter)| (from.saturating_sub(there), *group, voter))
    });
    let best = candidates.max_by_key(|(gain, group, voter)| (*gain, std::cmp::Reverse((*group, *voter))));
    best.filter(|(gain, ..)| *gain >= 2).map(|(_, group, voter)| (group, voter))
}

/// Takes everything away from a node: its leaders, and its replicas where another node can take them. What cannot go is
/// said, and stays, so that no group gets smaller.
pub fn drain(topology: &Topology, node: NodeId) -> Result<Plan, Refusal> {
    if !topology.nodes.contains_key(&node) {
        return Err(Refusal::NoSuchNode(node));
    }
    let mut plan = Plan::default();
    // What the plan makes of the cluster, so that each of its steps counts those before.
    let mut then = topology.clone();
    let groups: Vec<GroupId> =
        topology.groups.iter().filter_map(|(group, shape)| shape.has(node).then_some(*group)).collect();
    for group in groups {
        let shape = topology.groups[&group].clone();
        let hosting = then.hosting();
        let spare = hosting.iter().filter(|(other, _)| **other != node && !shape.has(**other));
        let spare = spare.min_by_key(|(other, hosted)| (**hosted, **other)).map(|(other, _)| *other);
        let kept = format!("group {group} keeps its replica on node {node}");
        match spare.map(|spare| replace_in(&mut then, group, node, spare, &mut plan)) {
            Some(Ok(())) => continue,
            Some(Err(refusal)) if refusal.is_of_one_group() => plan.leave(format!("{kept}: {refusal}")),
            Some(Err(refusal)) => return Err(refusal),
            None if survives(&then, group, node) => {
                plan.note(format!("{kept}: every other node that answers has one"));
            }
            None => plan.leave(format!(
                "{kept}, which needs it: without it too few of its voters answer, and no other node can take its place"
            )),
        }
        if shape.leader == Some(node) {
            hand_over(group, node, &mut then, &mut plan);
        }
    }
    if plan.steps.is_empty() && plan.notes.is_empty() {
        plan.note(format!("node {node} hosts nothing"));
    }
    Ok(plan)
}

/// Whether a majority of the group's voters answers without this node.
fn survives(topology: &Topology, group: GroupId, without: NodeId) -> bool {
    let voters = topology.groups.get(&group).map(|shape| &shape.voters).into_iter().flatten();
    let (all, up) = voters
        .fold((0, 0), |(all, up), voter| (all + 1, up + usize::from(*voter != without && topology.is_up(*voter))));
    up > all / 2
}

fn hand_over(group: GroupId, node: NodeId, then: &mut Topology, plan: &mut Plan) {
    let leading = then.leading();
    let Some(shape) = then.groups.get_mut(&group) else { return };
    let others = shape.voters.iter().copied().filter(|voter| *voter != node && leading.contains_key(voter));
    match others.min_by_key(|voter| (leading[voter], *voter)) {
        Some(to) => {
            shape.leader = Some(to);
            plan.push(Step::TransferLeader { group, to });
        }
        None => plan.leave(format!("group {group} stays led by node {node}: no other voter answers")),
    }
}
