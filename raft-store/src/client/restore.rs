//! Bringing a rebuilt event into an empty store: the catalogue's record first, so that its partitions have a place, then
//! each partition. Repeating it is harmless: what is there already stays. And the copies from which it is rebuilt.

use super::{Client, ClientError, NodeAnswer, PublishError};
use bytes::Bytes;
use domain::ids::{GroupId, Partition, PromotionCode};
use domain::inventory::command::{Manage, Meta};
use domain::inventory::query::Placement;
use domain::inventory::{Command, EventRecord, Outcome};
use std::time::Duration;

/// Between two looks at a store that is just being founded, or at a group without a leader.
const PAUSE: Duration = Duration::from_millis(200);

impl Client {
    /// Brings one event in; buckets should be last among the partitions.
    pub async fn restore(
        &self,
        event: EventRecord,
        promotions: Vec<PromotionCode>,
        partitions: Vec<(Partition, Vec<u8>)>,
    ) -> Result<(), PublishError> {
        self.await_groups().await?;
        let meta = Meta::Publish { event: Box::new(event), promotions, groups: Vec::new() };
        self.bring(Partition::Meta, Command::Meta(meta)).await?;
        self.placement().await?;
        for (partition, state) in partitions {
            self.bring(partition, Command::Manage(Manage::Restore { state })).await?;
        }
        Ok(())
    }

    async fn bring(&self, partition: Partition, command: Command) -> Result<(), PublishError> {
        match self.submit(partition.clone(), command).await? {
            Outcome::Done => Ok(()),
            Outcome::Invalid(reason) => Err(PublishError::Refused { partition, reason }),
            other => Err(PublishError::Refused { partition, reason: format!("{other:?}") }),
        }
    }

    async fn await_groups(&self) -> Result<(), ClientError> {
        let founded = |placement: &Placement| placement.groups.keys().any(|group| *group != GroupId::META);
        let attempts = self.router.attempts();
        while !founded(&self.placement().await?) {
            if attempts.left().is_zero() {
                return Err(ClientError::Unavailable("no group is registered for events yet".into()));
            }
            crate::runtime::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// A copy of one group from its leader, as a snapshot's bytes; asked for again while the group has no leader.
    pub async fn export(&self, group: GroupId) -> Result<Bytes, ClientError> {
        let attempts = self.router.attempts();
        loop {
            let reason = match self.leader_of(group).await {
                Some(address) => match crate::network::export(&self.router.config, &address, group).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(reason) if reason.contains("certificate") => return Err(ClientError::Denied(reason)),
                    Err(reason) => reason,
                },
                None => format!("group {group} has no leader"),
            };
            if attempts.left().is_zero() {
                return Err(ClientError::Unavailable(reason));
            }
            crate::runtime::sleep(PAUSE).await;
        }
    }

    async fn leader_of(&self, group: GroupId) -> Option<String> {
        let status = self.status().await;
        let leader = status.leaders().get(&group).copied()?;
        status.nodes.into_iter().find_map(|(address, answer)| match answer {
            NodeAnswer::Up(node) if node.node == leader => Some(address),
            _ => None,
        })
    }
}
