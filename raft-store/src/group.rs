//! One group on this node, as everything above consensus sees it: propose, read, watch. Errors of this module never say
//! that a proposal was not written, except [`ProposeError::NotLeader`] and [`ProposeError::Overloaded`].

use crate::leader::Leaders;
use crate::log_store::LogStore;
use crate::proposer::Proposer;
use crate::reader::Reader;
use crate::runtime::{Instant, WallClock, millis_since, now};
use crate::state_machine::StateMachine;
use crate::types::{LogId, Raft, Vote};
use bytes::Bytes;
use domain::ids::{GroupId, NodeId, Partition};
use domain::inventory::{Answer, Hosted, Outcome, Query, Request};
use openraft::async_runtime::WatchReceiver;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Where the leader is, as far as this node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderHint {
    /// The leader, if one is known.
    pub leader: Option<NodeId>,
    /// Where it listens.
    pub address: Option<String>,
}

/// A proposal that has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another node leads; nothing was written.
    #[error("this node does not lead the group")]
    NotLeader(LeaderHint),
    /// Too many proposals wait; nothing was written.
    #[error("overloaded: try again in {retry_after_ms} ms")]
    Overloaded {
        /// When to try again.
        retry_after_ms: u64,
    },
    /// The request is larger than an entry may be; nothing was written.
    #[error("a request of {bytes} bytes is larger than the {limit} that an entry may have")]
    TooLarge {
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It may or may not have been written: ask again with the same key.
    #[error("the outcome is unknown: {reason}")]
    Unknown {
        /// For the log.
        reason: String,
        /// Whom to ask.
        hint: LeaderHint,
    },
    /// This node does not host the group.
    #[error("group {0} is not on this node")]
    NoSuchGroup(GroupId),
}

/// A read that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another node leads.
    #[error("this node does not lead the group")]
    NotLeader(LeaderHint),
    /// No quorum confirmed this leader.
    #[error("leadership could not be confirmed: {0}")]
    Unavailable(String),
    /// This node does not host the group.
    #[error("group {0} is not on this node")]
    NoSuchGroup(GroupId),
}

/// A group's consensus as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Which group.
    pub group: GroupId,
    /// Term of this node's vote.
    pub term: u64,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// Whether this node does.
    pub is_leader: bool,
    /// The last entry in the log.
    pub last_log: Option<u64>,
    /// The last entry that was applied.
    pub applied: Option<u64>,
    /// The last entry in the snapshot.
    pub snapshot: Option<u64>,
    /// The last entry that was purged.
    pub purged: Option<u64>,
    /// Voters.
    pub voters: Vec<NodeId>,
    /// Learners.
    pub learners: Vec<NodeId>,
    /// Voters and learners, and where they listen. Empty before the group has begun here.
    pub members: BTreeMap<NodeId, String>,
    /// Whether a change of members is under way: a majority of the old voters and of the new ones is needed, or the members
    /// shown here are not decided yet, so that another leader may undo the change.
    pub joint: bool,
    /// How far each follower has the log, as this node, the leader, knows; otherwise empty.
    pub matched: BTreeMap<NodeId, u64>,
    /// Whether consensus has stopped on this node, and why.
    pub stopped: Option<String>,
}

/// Which partitions changed, with their versions now.
pub type Changes = BTreeMap<Partition, u64>;

/// One group on this node. Clones share it.
#[derive(Clone)]
pub struct GroupHandle {
    id: GroupId,
    raft: Raft,
    log: LogStore,
    machine: StateMachine,
    leaders: Leaders,
    proposer: Proposer,
    reader: Reader,
    /// The group goes on without this node, which has not heard of it through the log.
    departed: Arc<AtomicBool>,
    /// When a leader last spoke to this replica.
    heard: Arc<Mutex<Instant>>,
}

impl GroupHandle {
    /// Starts the group's tasks on a running consensus.
    pub(crate) fn start(
        id: GroupId,
        raft: Raft,
        log: LogStore,
        machine: StateMachine,
        leaders: Leaders,
        clock: WallClock,
        proposal_queue: usize,
    ) -> Self {
        let proposer = Proposer::start(raft.clone(), machine.clone(), leaders.clone(), clock, proposal_queue);
        let reader = Reader::start(raft.clone(), leaders.clone());
        Self {
            id,
            raft,
            log,
            machine,
            leaders,
            proposer,
            reader,
            departed: Arc::default(),
            heard: Arc::new(Mutex::new(now())),
        }
    }

    /// Which group.
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Proposes a request and waits for its outcome: applied on this node and durable on a majority.
    pub async fn propose(&self, request: Request) -> Result<Outcome, ProposeError> {
        self.proposer.propose(request).await
    }

    /// Queues a request whose encoded size is known; its outcome comes through the receiver, which an ending node drops.
    pub fn submit(
        &self,
        request: Request,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Outcome, ProposeError>>, ProposeError> {
        self.proposer.submit(request, bytes)
    }

    /// Reads what includes everything that was acknowledged before; only the leader answers.
    pub async fn read(&self, partition: &Partition, query: &Query) -> Result<Answer, ReadError> {
        self.reader.confirm().await?;
        Ok(self.read_applied(partition, query))
    }

    /// Reads what this replica has applied, which may be old.
    pub fn read_applied(&self, partition: &Partition, query: &Query) -> Answer {
        let elapsed_ms = self.proposer.elapsed_ms();
        self.machine.state().machine.query(partition, query, elapsed_ms)
    }

    /// A copy of everything that was acknowledged before, as a snapshot's bytes; only the leader gives one. Apply does not
    /// wait for it.
    pub async fn export(&self) -> Result<Bytes, ReadError> {
        self.reader.confirm().await?;
        self.machine.view().encode().await.map_err(|error| ReadError::Unavailable(error.to_string()))
    }

    /// A leader, or somebody who was one, has spoken to this replica.
    pub(crate) fn note_heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now();
    }

    /// Since when nobody has; consensus itself goes on naming the last leader that it knew.
    pub(crate) fn unheard_ms(&self) -> u64 {
        millis_since(*self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the group is known to go on without this node.
    pub fn has_departed(&self) -> bool {
        self.departed.load(Ordering::Relaxed)
    }

    /// A replica that is in the group no more asks for no votes.
    pub(crate) fn set_departed(&self, departed: bool) {
        self.raft.runtime_config().elect(!departed);
        self.departed.store(departed, Ordering::Relaxed);
    }

    /// Whether this replica lacks an entry that it has acknowledged to a leader with this vote: that entry, and the last one
    /// that is here.
    pub(crate) fn has_forgotten(&self, vote: &Vote, acknowledged: LogId) -> Option<(u64, u64)> {
        // Entries are in the log, or behind a snapshot.
        let applied = self.machine.state().applied.map_or(0, |log_id| log_id.index());
        let has = self.log.last_under(vote)?.max(applied);
        (has < acknowledged.index()).then(|| (acknowledged.index(), has))
    }

    /// How far this node, the leader, has applied: all that was acknowledged before. `None` if it does not lead.
    pub(crate) async fn applied_as_leader(&self) -> Option<u64> {
        self.reader.confirm().await.ok()?;
        self.machine.state().applied.map(|log_id| log_id.index())
    }

    /// The life that the meta group has registered for a node, as applied here.
    pub fn life_of(&self, node: NodeId) -> Option<u128> {
        self.machine.state().machine.lives()?.get(&node).copied()
    }

    /// Versions of all partitions that have one, as applied here.
    pub fn versions(&self) -> Changes {
        self.machine.state().versions.clone()
    }

    /// A stream of changes from here on. Its first answer is everything.
    pub fn watch(&self) -> ChangeStream {
        ChangeStream { machine: self.machine.clone(), seen: None }
    }

    /// What is hosted here.
    pub fn partitions(&self) -> Vec<Hosted> {
        self.machine.state().machine.partitions()
    }

    /// Requests that this replica has applied since it started, by partition.
    pub fn served(&self) -> BTreeMap<Partition, u64> {
        self.machine.state().served.clone()
    }

    /// A digest of the applied state, and the last applied entry: equal entries, equal digests.
    pub fn state_hash(&self) -> (Option<u64>, [u8; 32]) {
        let state = self.machine.state();
        (state.applied.map(|log_id| log_id.index()), state.machine.state_hash())
    }

    /// Whether this node leads.
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Where the leader is, as far as this node knows.
    pub fn leader_hint(&self) -> LeaderHint {
        self.leaders.hint()
    }

    /// Proposals that wait.
    pub fn queued(&self) -> usize {
        self.proposer.queued()
    }

    /// Bytes of the log that are not purged, and therefore in memory.
    pub fn log_bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Entries in this replica's log that it has not applied.
    pub fn lag(&self) -> u64 {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let applied = metrics.last_applied.map_or(0, |log_id| log_id.index());
        metrics.last_log_index.unwrap_or(0).saturating_sub(applied)
    }

    /// How the group stands on this node.
    pub fn status(&self) -> GroupStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        GroupStatus {
            group: self.id,
            term: metrics.current_term,
            leader: metrics.current_leader.map(NodeId),
            is_leader: metrics.current_leader == Some(metrics.id),
            last_log: metrics.last_log_index,
            applied: metrics.last_applied.map(|log_id| log_id.index()),
            snapshot: metrics.snapshot.map(|log_id| log_id.index()),
            purged: metrics.purged.map(|log_id| log_id.index()),
            voters: membership.voter_ids().map(NodeId).collect(),
            learners: membership.learner_ids().map(NodeId).collect(),
            members: membership.nodes().map(|(id, node)| (NodeId(*id), self.leaders.address(*id, node))).collect(),
            joint: membership.get_joint_config().len() > 1
                || metrics.membership_config.log_id().is_some_and(|at| metrics.last_applied.is_none_or(|it| it < at)),
            matched: (metrics.replication.iter().flatten())
                .filter_map(|(id, log_id)| Some((NodeId(*id), log_id.as_ref()?.index())))
                .collect(),
            stopped: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// Asks the leader, this node, to hand leadership to another one.
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), ProposeError> {
        let stopped = |error: &dyn std::fmt::Display| ProposeError::Unknown {
            reason: error.to_string(),
            hint: self.leader_hint(),
        };
        self.raft.trigger().transfer_leader(to.0).await.map_err(|error| stopped(&error))
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.raft
    }

    pub(crate) fn machine(&self) -> &StateMachine {
        &self.machine
    }
}

/// Changes of a group's partitions: hints to look, coalesced while nobody asks.
pub struct ChangeStream {
    machine: StateMachine,
    seen: Option<Changes>,
}

impl ChangeStream {
    /// Waits for the next change, and gives every partition whose version is not the one last given. The first answer is
    /// everything, at once. Cancelling loses nothing.
    pub async fn next(&mut self) -> Changes {
        loop {
            let machine = self.machine.clone();
            let changed = machine.changed();
            let now = machine.state().versions.clone();
            let Some(seen) = &self.seen else {
                self.seen = Some(now.clone());
                return now;
            };
            let news: Changes =
                now.iter().filter(|(p, version)| seen.get(*p) != Some(version)).map(|(p, v)| (p.clone(), *v)).collect();
            if !news.is_empty() {
                self.seen = Some(now);
                return news;
            }
            changed.await;
        }
    }
}
