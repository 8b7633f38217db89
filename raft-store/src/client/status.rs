//! What the operator sees of the store: nodes, groups, leaders, log and snapshot positions, partitions.

use super::link::LinkError;
use super::router::Router;
use crate::mover::MoveNote;
use crate::wire;
use crate::wire::frames::{StatusRequest, answer, ask};
use domain::ids::{GroupId, NodeId, Partition};
use domain::inventory::Hosted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The whole store, as far as it answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Every known node by its client address.
    pub nodes: BTreeMap<String, NodeAnswer>,
}

/// What one address said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAnswer {
    /// It is up.
    Up(NodeStatus),
    /// It did not answer; why.
    Down(String),
}

/// One node as it sees itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its id.
    pub node: NodeId,
    /// Version of its program.
    pub version: String,
    /// Its replicas, ascending.
    pub groups: Vec<GroupStatus>,
    /// The last attempts to move a partition that it drove, oldest first.
    pub moves: Vec<MoveNote>,
    /// How far its wall clock is ahead of its peers', in milliseconds; `None` while no peer has told the time.
    pub clock_ahead_ms: Option<i64>,
}

/// One replica of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The group.
    pub group: GroupId,
    /// What this replica is.
    pub role: Role,
    /// Whom it takes for the leader.
    pub leader: Option<NodeId>,
    /// Its term.
    pub term: u64,
    /// Index of the last entry in its log.
    pub last_log: Option<u64>,
    /// Index of the last entry that it applied.
    pub applied: Option<u64>,
    /// Index up to which its snapshot goes.
    pub snapshot: Option<u64>,
    /// Index up to which its log was purged.
    pub purged: Option<u64>,
    /// Voters.
    pub voters: Vec<NodeId>,
    /// Learners.
    pub learners: Vec<NodeId>,
    /// All of them and where they listen; empty before the group has begun on this node.
    pub members: BTreeMap<NodeId, String>,
    /// Whether a change of members is under way, or not decided yet.
    pub joint: bool,
    /// Proposals that wait for an entry.
    pub queued: u64,
    /// Partitions that its state has.
    pub partitions: Vec<Hosted>,
    /// Requests that this replica has applied since it started, by partition.
    pub served: BTreeMap<Partition, u64>,
}

/// What a replica is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Orders the entries.
    Leader,
    /// Follows.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Receives without a vote.
    Learner,
    /// Stopped by an error, or stopping.
    Stopped,
    /// No member: it was one, or will be.
    Outside,
}

impl ClusterStatus {
    /// The leader of each group, by the newest term that anybody reports.
    pub fn leaders(&self) -> BTreeMap<GroupId, NodeId> {
        let mut newest: BTreeMap<GroupId, (u64, NodeId)> = BTreeMap::new();
        for (node, status) in self.replicas() {
            if status.role == Role::Leader {
                let entry = newest.entry(status.group).or_insert((status.term, node));
                if entry.0 < status.term {
                    *entry = (status.term, node);
                }
            }
        }
        newest.into_iter().map(|(group, (_, node))| (group, node)).collect()
    }

    /// Every replica that answered, with its node.
    pub fn replicas(&self) -> impl Iterator<Item = (NodeId, &GroupStatus)> {
        self.nodes.values().flat_map(|answer| match answer {
            NodeAnswer::Up(status) => status.groups.iter().map(|group| (status.node, group)).collect::<Vec<_>>(),
            NodeAnswer::Down(_) => Vec::new(),
        })
    }
}

impl Router {
    /// Asks every known node about itself.
    pub(super) async fn status(&self) -> ClusterStatus {
        // Learn of nodes that are not among the endpoints, if the meta group answers in time.
        let _ = crate::runtime::timeout(self.config.attempt_timeout(), self.refresh_placement()).await;
        let mut status = ClusterStatus { nodes: self.ask_about_themselves(self.addresses()).await };
        // And of members that came so lately that the meta group has not been told.
        let members = status.replicas().flat_map(|(_, replica)| replica.members.values().cloned());
        let more: BTreeSet<String> = members.filter(|address| !status.nodes.contains_key(address)).collect();
        status.nodes.extend(self.ask_about_themselves(more).await);
        status
    }

    async fn ask_about_themselves(&self, nodes: impl IntoIterator<Item = String>) -> BTreeMap<String, NodeAnswer> {
        let asked = nodes.into_iter().map(|address| async move {
            let answer = self.status_of(&address).await.map_or_else(NodeAnswer::Down, NodeAnswer::Up);
            (address, answer)
        });
        futures::future::join_all(asked).await.into_iter().collect()
    }

    async fn status_of(&self, address: &str) -> Result<NodeStatus, String> {
        let link = self.link(address);
        let asked = link.ask(GroupId::META.0, ask::What::Status(StatusRequest {}));
        match crate::runtime::timeout(self.config.attempt_timeout(), asked).await {
            Some(Ok(answer::What::Status(bytes))) => {
                wire::decode("node status", &bytes).map_err(|error| error.to_string())
            }
            Some(Ok(other)) => Err(format!("{other:?}").chars().take(80).collect()),
            Some(Err(LinkError::NotSent(why) | LinkError::Broken(why))) => Err(why),
            Some(Err(LinkError::Full)) => Err("too many questions wait for it".into()),
            None => Err("no answer in time".into()),
        }
    }
}
