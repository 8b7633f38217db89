//! A plan: steps in their order, and what the operator should know besides.

use domain::ids::{GroupId, NodeId, Partition};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One step. Doing it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The meta group takes note that the group is to exist, with these members.
    Reserve {
        /// Which.
        group: GroupId,
        /// Its members and where they listen.
        nodes: BTreeMap<NodeId, String>,
    },
    /// One of the members begins the group.
    Form {
        /// Which.
        group: GroupId,
        /// Its members and where they listen.
        nodes: BTreeMap<NodeId, String>,
    },
    /// Another voter leads.
    TransferLeader {
        /// Which.
        group: GroupId,
        /// The new leader.
        to: NodeId,
    },
    /// The node receives the group's state and log, without a vote.
    AddLearner {
        /// Which.
        group: GroupId,
        /// The node.
        node: NodeId,
        /// Where it listens.
        address: String,
    },
    /// These and no others vote, by joint consensus; voters that are not among them leave the group.
    SetVoters {
        /// Which.
        group: GroupId,
        /// All voters.
        voters: BTreeSet<NodeId>,
    },
    /// A learner leaves the group.
    RemoveLearner {
        /// Which.
        group: GroupId,
        /// The node.
        node: NodeId,
    },
    /// A partition goes to another group.
    Move {
        /// Which.
        partition: Partition,
        /// Where it is.
        from: GroupId,
        /// Where it goes.
        to: GroupId,
    },
}

/// Ids, with a comma between.
fn list<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    nodes.into_iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve { group, nodes } => write!(f, "reserve group {group} for nodes {}", list(nodes.keys())),
            Self::Form { group, nodes } => write!(f, "form group {group} on nodes {}", list(nodes.keys())),
            Self::TransferLeader { group, to } => write!(f, "group {group}: node {to} takes the lead"),
            Self::AddLearner { group, node, .. } => write!(f, "group {group}: node {node} learns"),
            Self::SetVoters { group, voters } => write!(f, "group {group}: nodes {} vote", list(voters)),
            Self::RemoveLearner { group, node } => write!(f, "group {group}: node {node} leaves"),
            Self::Move { partition, from, to } => write!(f, "move {partition} from group {from} to group {to}"),
        }
    }
}

/// What is to be done. Empty when everything is as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// For the operator.
    pub notes: Vec<String>,
    /// Whether something that was asked for is not among the steps: the notes say why, and the command wants to be given
    /// again.
    pub unfinished: bool,
}

impl Plan {
    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub(super) fn leave(&mut self, text: String) {
        self.note(text);
        self.unfinished = true;
    }

    pub(super) fn append(&mut self, more: Self) {
        self.steps.extend(more.steps);
        self.notes.extend(more.notes);
        self.unfinished |= more.unfinished;
    }
}

impl Refusal {
    /// Whether it says something of one group, and others may still be changed.
    pub(super) fn is_of_one_group(&self) -> bool {
        matches!(self, Self::NoLeader(_) | Self::LosesQuorum { .. } | Self::Shrinks { .. })
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such group.
    #[error("there is no group {0}, or none of its members answers")]
    NoSuchGroup(GroupId),
    /// A plan for all groups would leave out one that cannot be seen.
    #[error("group {0} does not answer, so that nobody knows who is in it: bring it back first, or name a group")]
    Unseen(GroupId),
    /// Nobody knows the node.
    #[error("node {0} is not known: say where it listens, as {0}@HOST:PORT")]
    NoSuchNode(NodeId),
    /// The node does not answer.
    #[error("node {0} does not answer")]
    NodeDown(NodeId),
    /// The node is not in the group.
    #[error("node {node} is no voter of group {group}")]
    NotAVoter {
        /// The group.
        group: GroupId,
        /// The node.
        node: NodeId,
    },
    /// Nobody leads the group, so nothing can be changed.
    #[error("group {0} has no leader: bring a majority of its voters back first")]
    NoLeader(GroupId),
    /// A change would leave the group without a majority that answers.
    #[error(
        "group {group} would lose its quorum: of its voters {} only {} answer, and {needed} are needed",
        list(voters),
        list(up)
    )]
    LosesQuorum {
        /// The group.
        group: GroupId,
        /// Its voters after the change.
        voters: BTreeSet<NodeId>,
        /// Those of them that answer.
        up: BTreeSet<NodeId>,
        /// The majority.
        needed: usize,
    },
    /// A node that votes already takes nobody's place: the group would only get smaller.
    #[error(
        "node {new} votes in group {group} already: without node {old} the group would survive no loss. Put another node in \
         its place, or take it out with remove-node"
    )]
    Shrinks {
        /// The group.
        group: GroupId,
        /// The node that was to go.
        old: NodeId,
        /// The node that was to come.
        new: NodeId,
    },
    /// The last voter cannot leave.
    #[error("node {node} is the only voter of group {group}: add another one first")]
    LastVoter {
        /// The group.
        group: GroupId,
        /// The node.
        node: NodeId,
    },
    /// There are fewer groups than asked for.
    #[error("there are {there} groups for events, not {wanted}: make more with `encore admin group create`")]
    TooFewGroups {
        /// How many there are.
        there: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Senseless(String),
}
