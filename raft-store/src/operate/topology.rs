//! The cluster as plans see it: which nodes there are, who answers, and who is in which group.

use crate::client::{ClusterStatus, GroupStatus, NodeAnswer};
use domain::ids::{GroupId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it listens.
    pub address: String,
    /// Whether it answered.
    pub up: bool,
}

/// A group's members, as its leader says, or else whoever knows the most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// They elect and commit.
    pub voters: BTreeSet<NodeId>,
    /// They receive.
    pub learners: BTreeSet<NodeId>,
    /// Who leads, if somebody does.
    pub leader: Option<NodeId>,
    /// Whether a change of members is under way: voters of before still count, or it is not decided yet.
    pub joint: bool,
}

impl Shape {
    /// Whether the node is in the group in any role.
    pub fn has(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.learners.contains(&node)
    }
}

/// Nodes and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Every node that answered or is a member of something.
    pub nodes: BTreeMap<NodeId, Member>,
    /// Every group that somebody hosts and that has members.
    pub groups: BTreeMap<GroupId, Shape>,
}

impl Topology {
    /// What a status shows.
    pub fn seen(status: &ClusterStatus) -> Self {
        let mut nodes = BTreeMap::new();
        for (address, answer) in &status.nodes {
            if let NodeAnswer::Up(node) = answer {
                nodes.insert(node.node, Member { address: address.clone(), up: true });
            }
        }
        // The leader of the newest term knows best; without one, the replica that has applied most.
        let rank = |node: NodeId, replica: &GroupStatus| (replica.leader == Some(node), replica.term, replica.applied);
        let mut best: BTreeMap<GroupId, (NodeId, &GroupStatus)> = BTreeMap::new();
        for (node, replica) in status.replicas().filter(|(_, replica)| !replica.members.is_empty()) {
            for (member, address) in &replica.members {
                nodes.entry(*member).or_insert_with(|| Member { address: address.clone(), up: false });
            }
            let known = best.get(&replica.group);
            if known.is_none_or(|(other, known)| rank(*other, known) < rank(node, replica)) {
                best.insert(replica.group, (node, replica));
            }
        }
        let groups = best.into_iter().map(|(group, (node, replica))| {
            // Who was deposed and has not heard of it knows neither who is a member now nor that another one leads.
            let members = status.replicas().filter(|(at, _)| replica.members.contains_key(at));
            let newest = members.filter(|(_, other)| other.group == group).map(|(_, other)| other.term).max();
            let leads = replica.leader == Some(node) && newest.is_none_or(|newest| newest <= replica.term);
            let shape = Shape {
                voters: replica.voters.iter().copied().collect(),
                learners: replica.learners.iter().copied().collect(),
                leader: leads.then_some(node),
                joint: replica.joint,
            };
            (group, shape)
        });
        Self { groups: groups.collect(), nodes }
    }

    /// Whether the node answered.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|member| member.up)
    }

    /// How many groups each node that is up leads.
    pub fn leading(&self) -> BTreeMap<NodeId, usize> {
        let mut count: BTreeMap<_, _> = self.up().map(|node| (node, 0)).collect();
        for leader in self.groups.values().filter_map(|shape| shape.leader) {
            if let Some(count) = count.get_mut(&leader) {
                *count += 1;
            }
        }
        count
    }

    /// How many replicas each node that is up has.
    pub fn hosting(&self) -> BTreeMap<NodeId, usize> {
        let replicas = |node| self.groups.values().filter(|shape| shape.has(node)).count();
        self.up().map(|node| (node, replicas(node))).collect()
    }

    fn up(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|(_, member)| member.up).map(|(node, _)| *node)
    }
}
