//! Carrying plans out from the operator's side: each step is ordered again until what the nodes say shows that it is done,
//! so that a step survives elections, and a command that was interrupted is simply given again.

use super::dial::OrderError;
use super::{Client, ClientError, Freshness};
use crate::bootstrap::founder;
use crate::operate::{Step, Topology};
use crate::runtime::{Instant, millis_since, now, sleep, timeout};
use crate::wire::frames::{self, Order, OrderReply, order, order_reply};
use domain::ids::{Attempt, GroupId, NodeId, Partition};
use domain::inventory::command::Meta;
use domain::inventory::query::{Move, MoveStage};
use domain::inventory::{Answer, Command, Outcome, Query};
use std::collections::BTreeMap;
use std::time::Duration;

/// A step may take as long as a node needs to receive a group's whole state.
const PATIENCE_MS: u64 = 300_000;
/// Between two looks at whether a step is done.
const LOOK: Duration = Duration::from_millis(100);
/// One order; the node answers within less.
const ORDER: Duration = Duration::from_secs(10);
/// Between two looks at a move.
const MOVE_LOOK: Duration = Duration::from_millis(20);
/// Attempts to move a partition before its troubles are told.
const MOVE_ATTEMPTS: u32 = 5;

/// Why a step was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] ClientError),
    /// The store said no.
    #[error("{0}")]
    Refused(String),
    /// It took too long; what was last heard.
    #[error("“{step}” took too long: {reason}")]
    Impatient {
        /// Which step.
        step: String,
        /// What was last heard.
        reason: String,
    },
}

impl OperateError {
    /// Whether giving the command again may get further, from where it stopped.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.retry_after_ms().is_some(),
            Self::Refused(_) => false,
            Self::Impatient { .. } => true,
        }
    }
}

/// Told what is going on, for people.
pub type Progress<'a> = &'a mut (dyn FnMut(&str) + Send);

impl Client {
    /// Nodes and groups as their nodes see them now.
    pub async fn topology(&self) -> Topology {
        Topology::seen(&self.status().await)
    }

    /// Carries one step out; returns once it is done.
    pub async fn carry_out(&self, step: &Step, progress: Progress<'_>) -> Result<(), OperateError> {
        match step {
            Step::Reserve { group, nodes } => {
                let reserve = Meta::ReserveGroup { group: *group, nodes: nodes.clone() };
                self.tell_meta(reserve).await.map(drop)
            }
            Step::Move { partition, to, .. } => self.move_partition(partition, *to, progress).await.map(drop),
            Step::Form { group, .. } => {
                self.order_until_done(step, progress).await?;
                self.registered(*group, step).await
            }
            _ => self.order_until_done(step, progress).await,
        }
    }

    /// Until a group that is led is known to the meta group, so that something can be put there.
    async fn registered(&self, group: GroupId, step: &Step) -> Result<(), OperateError> {
        let begun = now();
        while !self.placement().await?.groups.contains_key(&group) {
            if millis_since(begun) > PATIENCE_MS {
                let reason = "its leader has not told the meta group of it".to_owned();
                return Err(OperateError::Impatient { step: step.to_string(), reason });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Every group that there is or is to be, with its members as the meta group knows them, linearizable.
    pub async fn known_groups(&self) -> Result<BTreeMap<GroupId, BTreeMap<NodeId, String>>, ClientError> {
        let reserved = match self.query(Partition::Meta, Query::Reserved, Freshness::Linearizable).await? {
            Answer::Reserved(groups) => groups,
            other => return Err(ClientError::Protocol(format!("{other:?}").chars().take(80).collect())),
        };
        // Asked in this order: one that is formed in between is not missed.
        Ok(reserved.into_iter().chain(self.placement().await?.groups).collect())
    }

    /// Moves a partition to another group; returns once it serves there and is forgotten where it was. Gives how many
    /// attempts it took, none if it is there.
    pub async fn move_partition(
        &self,
        partition: &Partition,
        to: GroupId,
        progress: Progress<'_>,
    ) -> Result<u32, OperateError> {
        for tries in 0..MOVE_ATTEMPTS {
            let open = self.moves().await?.into_iter().rfind(|open| open.partition == *partition);
            let attempt = match open {
                Some(open) if open.stage != MoveStage::Begun || open.to == to => open.attempt,
                _ if self.whereabouts(partition).await? == Some(to) => return Ok(tries),
                _ => match self.tell_meta(Meta::MoveBegin { partition: partition.clone(), to }).await? {
                    Outcome::MoveBegun { attempt, .. } => attempt,
                    other => return Err(OperateError::Refused(format!("{other:?}"))),
                },
            };
            self.await_attempt(partition, attempt).await?;
            if self.whereabouts(partition).await? == Some(to) {
                return Ok(tries + 1);
            }
            progress(&format!("attempt {attempt} to move {partition} ended where it was; trying again"));
        }
        Err(OperateError::Refused(format!(
            "{partition} could not be moved to group {to}; the leader of the meta group says why in its status"
        )))
    }

    /// Ends an attempt that meta has not decided: the partition serves on where it is. True if there was one.
    pub async fn cancel_move(&self, partition: &Partition) -> Result<bool, OperateError> {
        let moves = self.moves().await?;
        let begun = moves.into_iter().find(|open| open.partition == *partition && open.stage == MoveStage::Begun);
        let Some(Move { attempt, .. }) = begun else { return Ok(false) };
        self.tell_meta(Meta::MoveAbort { partition: partition.clone(), attempt }).await?;
        self.await_attempt(partition, attempt).await?;
        Ok(true)
    }

    /// Moves that are not done, linearizable.
    pub async fn moves(&self) -> Result<Vec<Move>, ClientError> {
        match self.query(Partition::Meta, Query::Moves, Freshness::Linearizable).await? {
            Answer::Moves(moves) => Ok(moves),
            other => Err(ClientError::Protocol(format!("{other:?}").chars().take(80).collect())),
        }
    }

    /// Until both ends of an attempt have done their part.
    async fn await_attempt(&self, partition: &Partition, attempt: Attempt) -> Result<(), OperateError> {
        let begun = now();
        loop {
            let open = self.moves().await?.into_iter().find(|o| o.partition == *partition && o.attempt == attempt);
            let Some(open) = open else { return Ok(()) };
            if millis_since(begun) > PATIENCE_MS {
                let step = format!("move {partition} to group {}", open.to);
                return Err(OperateError::Impatient { step, reason: format!("attempt {attempt} is {:?}", open.stage) });
            }
            sleep(MOVE_LOOK).await;
        }
    }

    async fn whereabouts(&self, partition: &Partition) -> Result<Option<GroupId>, ClientError> {
        let placement = self.placement().await?;
        let placed = partition.event().and_then(|event| placement.events.get(&event));
        Ok(placed.map(|placed| placed.locate(partition).0))
    }

    async fn tell_meta(&self, command: Meta) -> Result<Outcome, OperateError> {
        match self.submit(Partition::Meta, Command::Meta(command)).await? {
            Outcome::Invalid(reason) => Err(OperateError::Refused(reason)),
            outcome => Ok(outcome),
        }
    }

    async fn order_until_done(&self, step: &Step, progress: Progress<'_>) -> Result<(), OperateError> {
        let begun: Instant = now();
        let mut heard = "nobody leads the group".to_owned();
        loop {
            let topology = self.topology().await;
            if is_done(step, &topology) {
                return Ok(());
            }
            if millis_since(begun) > PATIENCE_MS {
                return Err(OperateError::Impatient { step: step.to_string(), reason: heard });
            }
            if let Some((address, order)) = order_for(step, &topology) {
                let asked = timeout(ORDER, self.router.dial.order(&address, order)).await;
                let said = match asked.unwrap_or_else(|| Err(OrderError::Failed("no answer in time".to_owned()))) {
                    Ok(OrderReply { what: Some(order_reply::What::Done(_)) }) => None,
                    Ok(OrderReply { what: Some(order_reply::What::Refused(refused)) }) => Some(refused.reason),
                    Ok(OrderReply { what: Some(order_reply::What::Unknown(unknown)) }) => Some(unknown.reason),
                    Ok(_) => Some("the leader has changed".to_owned()),
                    Err(OrderError::Denied(reason)) => return Err(ClientError::Denied(reason).into()),
                    Err(OrderError::Failed(reason)) => Some(format!("{address}: {reason}")),
                };
                if let Some(said) = said.filter(|said| *said != heard) {
                    progress(&said);
                    heard = said;
                }
            }
            sleep(LOOK).await;
        }
    }
}

/// Whether the nodes show the step done.
fn is_done(step: &Step, topology: &Topology) -> bool {
    let shape = |group: &GroupId| topology.groups.get(group);
    match step {
        Step::Form { group, .. } => shape(group).is_some_and(|shape| shape.leader.is_some()),
        Step::TransferLeader { group, to } => shape(group).is_some_and(|shape| shape.leader == Some(*to)),
        Step::AddLearner { group, node, .. } => shape(group).is_some_and(|shape| shape.has(*node)),
        Step::SetVoters { group, voters } => {
            shape(group).is_some_and(|shape| !shape.joint && shape.voters == *voters && shape.leader.is_some())
        }
        Step::RemoveLearner { group, node } => shape(group).is_some_and(|shape| !shape.has(*node)),
        Step::Reserve { .. } | Step::Move { .. } => false,
    }
}

/// Whom to order, and what.
fn order_for(step: &Step, topology: &Topology) -> Option<(String, Order)> {
    let member = |(node, address): (&NodeId, &String)| frames::Member { node: node.0, address: address.clone() };
    let members = |nodes: &BTreeMap<NodeId, String>| nodes.iter().map(member).collect();
    let (group, what) = match step {
        Step::Form { group, nodes } => {
            let address = nodes.get(&founder(*group, nodes)?)?.clone();
            let what = Some(order::What::FormGroup(frames::FormGroup { members: members(nodes) }));
            return Some((address, Order { group: group.0, what }));
        }
        Step::TransferLeader { group, to } => (group, order::What::TransferLeader(frames::TransferLeader { to: to.0 })),
        Step::AddLearner { group, node, address } => {
            let member = Some(member((node, address)));
            (group, order::What::AddLearner(frames::AddLearner { member }))
        }
        Step::SetVoters { group, voters } => {
            let voters = voters.iter().map(|voter| voter.0).collect();
            (group, order::What::SetVoters(frames::SetVoters { voters }))
        }
        Step::RemoveLearner { group, node } => {
            (group, order::What::RemoveLearner(frames::RemoveLearner { node: node.0 }))
        }
        Step::Reserve { .. } | Step::Move { .. } => return None,
    };
    let leader = topology.groups.get(group)?.leader?;
    let address = topology.nodes.get(&leader)?.address.clone();
    Some((address, Order { group: group.0, what: Some(what) }))
}
