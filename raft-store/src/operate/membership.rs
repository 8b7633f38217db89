//! Plans that change who is in a group and who leads it. A node learns before it votes, voters change by joint consensus, and
//! a change that would leave a group without a majority that answers is refused.

use super::plan::{Plan, Refusal, Step};
use super::topology::{Shape, Topology};
use domain::ids::{GroupId, NodeId};
use domain::limits;
use std::collections::{BTreeMap, BTreeSet};

/// A node joins a group: it learns, then it votes.
pub fn add_node(topology: &Topology, group: GroupId, node: NodeId) -> Result<Plan, Refusal> {
    let shape = led(topology, group)?;
    let mut plan = Plan::default();
    if shape.voters.contains(&node) && !shape.joint {
        plan.note(format!("node {node} votes in group {group} already"));
        return Ok(plan);
    }
    let voters: BTreeSet<NodeId> = shape.voters.iter().copied().chain([node]).collect();
    admit(topology, group, shape, node, &mut plan)?;
    set_voters(topology, group, shape, voters, &mut plan)?;
    Ok(plan)
}

/// A node leaves a group.
pub fn remove_node(topology: &Topology, group: GroupId, node: NodeId) -> Result<Plan, Refusal> {
    let shape = led(topology, group)?;
    let mut plan = Plan::default();
    if shape.learners.contains(&node) && !shape.voters.contains(&node) {
        plan.push(Step::RemoveLearner { group, node });
        return Ok(plan);
    }
    if !shape.voters.contains(&node) {
        plan.note(format!("node {node} is not in group {group}"));
        finish(group, shape, &mut plan);
        return Ok(plan);
    }
    let voters: BTreeSet<NodeId> = shape.voters.iter().copied().filter(|voter| *voter != node).collect();
    if voters.is_empty() {
        return Err(Refusal::LastVoter { group, node });
    }
    set_voters(topology, group, shape, voters, &mut plan)?;
    Ok(plan)
}

/// Every group that is registered can be seen. Without this look a plan for all groups of a node would say nothing of those
/// of which no member answers, and whoever then throws the node away may throw away what they need.
pub fn all_seen(topology: &Topology, registered: &BTreeMap<GroupId, BTreeMap<NodeId, String>>) -> Result<(), Refusal> {
    let unseen = registered.keys().find(|group| !topology.groups.contains_key(group));
    unseen.map_or(Ok(()), |group| Err(Refusal::Unseen(*group)))
}

/// A node takes another one's place, in every group of the old one or in the given one; in one change of voters each, so
/// that no group is smaller meanwhile. For all groups, see to it that [`all_seen`] holds.
pub fn replace_node(topology: &Topology, only: Option<GroupId>, old: NodeId, new: NodeId) -> Result<Plan, Refusal> {
    if old == new {
        return Err(Refusal::Senseless(format!("node {old} cannot take its own place")));
    }
    if let Some(group) = only.filter(|group| !topology.groups.contains_key(group)) {
        return Err(Refusal::NoSuchGroup(group));
    }
    let mut plan = Plan::default();
    let mut then = topology.clone();
    let mut refused = None;
    for group in topology.groups.keys().filter(|group| only.is_none_or(|only| only == **group)) {
        match replace_in(&mut then, *group, old, new, &mut plan) {
            Ok(()) => {}
            Err(refusal) if refusal.is_of_one_group() => {
                plan.leave(format!("group {group} is left as it is, and may need node {old}: {refusal}"));
                refused = Some(refusal);
            }
            Err(refusal) => return Err(refusal),
        }
    }
    match refused {
        Some(refusal) if plan.steps.is_empty() => return Err(refusal),
        None if plan.steps.is_empty() => plan.note(format!("node {old} is in no such group")),
        _ => {}
    }
    Ok(plan)
}

/// The same in one group. `then` becomes what the plan makes of it, so that the plan for the next
/// group counts what this one does.
pub(super) fn replace_in(
    then: &mut Topology,
    group: GroupId,
    old: NodeId,
    new: NodeId,
    plan: &mut Plan,
) -> Result<(), Refusal> {
    let shape = led(then, group)?.clone();
    if !shape.has(old) {
        finish(group, &shape, plan);
        return Ok(());
    }
    if !shape.voters.contains(&old) {
        plan.push(Step::RemoveLearner { group, node: old });
        return Ok(());
    }
    let voters: BTreeSet<NodeId> = shape.voters.iter().copied().filter(|voter| *voter != old).chain([new]).collect();
    let mut steps = Plan::default();
    admit(then, group, &shape, new, &mut steps)?;
    if voters.len() < 3 && voters.len() < shape.voters.len() {
        return Err(Refusal::Shrinks { group, old, new });
    }
    set_voters(then, group, &shape, voters.clone(), &mut steps)?;
    let leader = steps.steps.iter().find_map(|step| match step {
        Step::TransferLeader { to, .. } => Some(*to),
        _ => None,
    });
    then.groups.insert(group, Shape { voters, leader: leader.or(shape.leader), ..shape });
    plan.append(steps);
    Ok(())
}

/// Another voter leads.
pub fn transfer_leader(topology: &Topology, group: GroupId, to: NodeId) -> Result<Plan, Refusal> {
    let shape = led(topology, group)?;
    let mut plan = Plan::default();
    if shape.leader == Some(to) {
        plan.note(format!("node {to} leads group {group} already"));
        return Ok(plan);
    }
    if !shape.voters.contains(&to) {
        return Err(Refusal::NotAVoter { group, node: to });
    }
    if !topology.is_up(to) {
        return Err(Refusal::NodeDown(to));
    }
    plan.push(Step::TransferLeader { group, to });
    Ok(plan)
}

/// Voters of a group whose nodes are not named: it survives the loss of one.
const USUAL_VOTERS: usize = 3;

/// A new group on these nodes, or on the three that host least; `registered` are the groups that the meta group knows.
/// With a number, an unfinished creation is finished.
pub fn create_group(
    topology: &Topology,
    registered: &BTreeMap<GroupId, BTreeMap<NodeId, String>>,
    wanted: Option<GroupId>,
    nodes: &[NodeId],
) -> Result<Plan, Refusal> {
    let last = registered.keys().chain(topology.groups.keys()).max().map_or(0, |group| group.0);
    let group = wanted.unwrap_or(GroupId(last + 1));
    if group.0 > limits::GROUPS {
        return Err(Refusal::Senseless(format!("a store has at most {} groups", limits::GROUPS)));
    }
    let mut plan = Plan::default();
    if topology.groups.contains_key(&group) {
        plan.note(format!("group {group} exists"));
        return Ok(plan);
    }
    if wanted.is_some() && !registered.contains_key(&group) {
        let text = format!("group {group} was never reserved: a new group is given its number, so leave --number out");
        return Err(Refusal::Senseless(text));
    }
    let mut fewest: Vec<_> = topology.hosting().into_iter().map(|(node, hosted)| (hosted, node)).collect();
    fewest.sort_unstable();
    let chosen: BTreeSet<NodeId> = match (registered.get(&group), nodes) {
        (Some(reserved), _) => reserved.keys().copied().collect(),
        (None, []) => fewest.into_iter().take(USUAL_VOTERS).map(|(_, node)| node).collect(),
        (None, nodes) => nodes.iter().copied().collect(),
    };
    if let Some(twice) = nodes.iter().find(|node| nodes.iter().filter(|other| other == node).count() > 1) {
        return Err(Refusal::Senseless(format!("node {twice} is named twice, and has one vote")));
    }
    if nodes.is_empty() && chosen.len() < USUAL_VOTERS.min(topology.nodes.len()) {
        let text = format!(
            "only {} of {} nodes answer, and a group is made on {USUAL_VOTERS}: bring the others back, or name its nodes",
            chosen.len(),
            topology.nodes.len()
        );
        return Err(Refusal::Senseless(text));
    }
    let mut members = BTreeMap::new();
    for node in chosen {
        let member = topology.nodes.get(&node).ok_or(Refusal::NoSuchNode(node))?;
        // All of them: a group that begins with a part missing has nothing in reserve.
        if !member.up {
            return Err(Refusal::NodeDown(node));
        }
        members.insert(node, member.address.clone());
    }
    if members.is_empty() {
        return Err(Refusal::Senseless("a group needs nodes".into()));
    }
    if members.len() % 2 == 0 {
        plan.note(format!("{} voters survive no more failures than {} would", members.len(), members.len() - 1));
    }
    plan.push(Step::Reserve { group, nodes: members.clone() });
    plan.push(Step::Form { group, nodes: members });
    Ok(plan)
}

/// The group, if it can be changed.
fn led(topology: &Topology, group: GroupId) -> Result<&Shape, Refusal> {
    let shape = topology.groups.get(&group).ok_or(Refusal::NoSuchGroup(group))?;
    shape.leader.map(|_| shape).ok_or(Refusal::NoLeader(group))
}

/// The node receives the group's state, if it does not yet.
fn admit(topology: &Topology, group: GroupId, shape: &Shape, node: NodeId, plan: &mut Plan) -> Result<(), Refusal> {
    let member = topology.nodes.get(&node).ok_or(Refusal::NoSuchNode(node))?;
    if !member.up {
        return Err(Refusal::NodeDown(node));
    }
    if !shape.has(node) {
        plan.push(Step::AddLearner { group, node, address: member.address.clone() });
    }
    Ok(())
}

/// What the leader shows may not be decided yet: a group without a node is not rid of it before that is.
fn finish(group: GroupId, shape: &Shape, plan: &mut Plan) {
    if shape.joint {
        plan.push(Step::SetVoters { group, voters: shape.voters.clone() });
    }
}

/// These vote from now on. Whoever leads and will not vote hands over first.
fn set_voters(
    topology: &Topology,
    group: GroupId,
    shape: &Shape,
    voters: BTreeSet<NodeId>,
    plan: &mut Plan,
) -> Result<(), Refusal> {
    let up: BTreeSet<NodeId> = voters.iter().copied().filter(|voter| topology.is_up(*voter)).collect();
    let needed = voters.len() / 2 + 1;
    if up.len() < needed {
        return Err(Refusal::LosesQuorum { group, voters, up, needed });
    }
    let stays = |node: &NodeId| voters.contains(node) && shape.voters.contains(node) && topology.is_up(*node);
    if shape.leader.is_some_and(|leader| !voters.contains(&leader)) {
        let leading = topology.leading();
        if let Some(to) = up.iter().copied().filter(stays).min_by_key(|node| (leading.get(node), *node)) {
            plan.push(Step::TransferLeader { group, to });
        }
    }
    if voters.len() < 3 && voters.len() < shape.voters.len() {
        plan.note(format!("group {group} will not survive the loss of a node with {} voters", voters.len()));
    }
    plan.push(Step::SetVoters { group, voters });
    Ok(())
}
