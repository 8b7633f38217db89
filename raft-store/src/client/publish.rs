//! Putting an event on sale: the catalogue's record and placement first, then every partition. Each step is idempotent, so
//! that a publication that died is finished by running it again.

use super::{Client, ClientError, Freshness};
use domain::ids::{EventId, GroupId, Partition, PromotionCode};
use domain::inventory::command::{CheckoutRules, Manage, Meta, PriceRule, Spec};
use domain::inventory::{Answer, Command, EventRecord, Outcome, Query, SectionPlan};
use futures::{StreamExt, TryStreamExt};

/// Sections that are asked at the same time.
const SECTIONS_AT_ONCE: usize = 32;

/// A promotion of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// Its code.
    pub code: PromotionCode,
    /// Taken off every seat, in basis points.
    pub discount_bps: u16,
    /// Uses over all orders.
    pub cap: u32,
}

/// Why an event is not (wholly) published. Running the publication again finishes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] ClientError),
    /// The record and the plans contradict each other.
    #[error("the publication contradicts itself: {0}")]
    Inconsistent(String),
    /// The catalogue has another plan of this event than the one that was to be published.
    #[error("plan version {plan_version} is not the one that is published: publish under a higher version")]
    Superseded {
        /// The plan version that was to be published.
        plan_version: u32,
    },
    /// A partition refused.
    #[error("{partition} refused: {reason}")]
    Refused {
        /// Which.
        partition: Partition,
        /// Why.
        reason: String,
    },
}

impl Client {
    /// Writes an event's record and creates (or updates) all its partitions. `spread` lists the groups over which its
    /// sections are spread; empty for one group. Idempotent by the record's version.
    pub async fn publish(
        &self,
        event: EventRecord,
        plans: Vec<SectionPlan>,
        promotions: Vec<Promotion>,
        spread: Vec<GroupId>,
    ) -> Result<(), PublishError> {
        check(&event, &plans)?;
        self.wait_for_groups(&spread).await?;
        let plan_version = event.plan_version;
        let meta = Meta::Publish {
            event: Box::new(event.clone()),
            promotions: promotions.iter().map(|promotion| promotion.code.clone()).collect(),
            groups: spread,
        };
        self.done(Partition::Meta, Command::Meta(meta)).await?;
        self.placement().await?;
        // From here on the catalogue's word counts: an older publication changed nothing there, and a change of status
        // has raised its version.
        let event = self.record_now(event.id).await?;
        if event.plan_version != plan_version || check(&event, &plans).is_err() {
            return Err(PublishError::Superseded { plan_version });
        }
        for plan in plans {
            let partition = Partition::Seats { event: event.id, section: plan.section };
            // `check` has found the tier.
            let base = event.tiers[usize::from(plan.tier)].base;
            let price = PriceRule { base, dynamic: event.dynamic_pricing, event_starts_at: event.starts_at };
            self.create(partition, Spec::Seats { plan, price }).await?;
        }
        for Promotion { code, discount_bps, cap } in promotions {
            let partition = Partition::Promotion { event: event.id, code };
            self.create(partition, Spec::Promotion { discount_bps, cap }).await?;
        }
        // Buckets last: a hold can only begin once everything that it may touch is there.
        self.write_rules(&event).await
    }

    /// Whether this publication leaves alone what was published: no section goes, and one that somebody has taken seats of
    /// keeps its plan. Asked before anything is written down anywhere.
    pub async fn may_publish(&self, event: &EventRecord, plans: &[SectionPlan]) -> Result<(), PublishError> {
        check(event, plans)?;
        let placement = self.placement().await?;
        let known = placement.events.get(&event.id).map(|placed| placed.sections.clone()).unwrap_or_default();
        if let Some(section) = known.iter().find(|section| event.section(**section).is_none()) {
            let reason = "it has been published, and a section cannot go: block its seats instead".to_owned();
            return Err(PublishError::Refused {
                partition: Partition::Seats { event: event.id, section: *section },
                reason,
            });
        }
        let asked = known.into_iter().map(|section| async move {
            let partition = Partition::Seats { event: event.id, section };
            match self.plan_on_sale(&partition).await? {
                Some(plan) if !plans.contains(&plan) => {
                    let reason = format!("section {} is on sale: its plan cannot change", plan.name);
                    Err(PublishError::Refused { partition, reason })
                }
                _ => Ok(()),
            }
        });
        futures::stream::iter(asked).buffer_unordered(SECTIONS_AT_ONCE).try_collect().await
    }

    /// The plan of a section that has been sold from; `None` for one that has not, or that a publication has not reached.
    async fn plan_on_sale(&self, partition: &Partition) -> Result<Option<SectionPlan>, ClientError> {
        let map = match self.query(partition.clone(), Query::SeatMap, Freshness::Linearizable).await {
            Ok(Answer::SeatMap(map)) => map,
            Ok(_) | Err(ClientError::Moved { .. } | ClientError::Invalid(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if map.version <= 1 {
            return Ok(None);
        }
        match self.query(partition.clone(), Query::Plan, Freshness::Linearizable).await? {
            Answer::Plan(plan) => Ok(Some(*plan)),
            other => Err(ClientError::Protocol(format!("{other:?}").chars().take(80).collect())),
        }
    }

    pub(super) async fn change_status(&self, event: EventId, command: Meta) -> Result<(), PublishError> {
        self.done(Partition::Meta, Command::Meta(command)).await?;
        let record = self.record_now(event).await?;
        self.write_rules(&record).await
    }

    async fn record_now(&self, event: EventId) -> Result<EventRecord, ClientError> {
        match self.query(Partition::Meta, Query::Events, Freshness::Linearizable).await? {
            Answer::Events(records) => {
                records.into_iter().find(|record| record.id == event).ok_or(ClientError::NoSuchEvent(event))
            }
            _ => Err(ClientError::Protocol("no events in the answer".into())),
        }
    }

    /// A new cluster registers its groups one after the other; an event published before would live in the meta group.
    async fn wait_for_groups(&self, wanted: &[GroupId]) -> Result<(), ClientError> {
        let mut attempts = self.router.attempts();
        loop {
            let groups = self.placement().await?.groups;
            let for_events = groups.keys().any(|group| *group != GroupId::META);
            if for_events && wanted.iter().all(|group| groups.contains_key(group)) {
                return Ok(());
            }
            if !attempts.pause().await {
                // A group that does not come is the meta group's to refuse.
                let none = || ClientError::Unavailable("no group is registered for events yet".into());
                return if for_events { Ok(()) } else { Err(none()) };
            }
        }
    }

    async fn write_rules(&self, event: &EventRecord) -> Result<(), PublishError> {
        let rules = CheckoutRules::of(event);
        let placement = self.router.event_placement(event.id).await?;
        for partition in placement.partitions(event.id) {
            if matches!(partition, Partition::Checkouts { .. }) {
                self.create(partition, Spec::Checkouts(rules)).await?;
            }
        }
        Ok(())
    }

    async fn create(&self, partition: Partition, spec: Spec) -> Result<(), PublishError> {
        self.done(partition, Command::Manage(Manage::Create(Box::new(spec)))).await
    }

    async fn done(&self, partition: Partition, command: Command) -> Result<(), PublishError> {
        match self.submit(partition.clone(), command).await? {
            Outcome::Done => Ok(()),
            Outcome::Invalid(reason) => Err(PublishError::Refused { partition, reason }),
            other => Err(PublishError::Refused { partition, reason: format!("{other:?}") }),
        }
    }
}

/// The record lists exactly the sections that the plans describe, and each has its tier.
fn check(event: &EventRecord, plans: &[SectionPlan]) -> Result<(), PublishError> {
    let wrong = |text: String| Err(PublishError::Inconsistent(text));
    if event.sections.len() != plans.len() {
        return wrong(format!("{} sections in the record, {} plans", event.sections.len(), plans.len()));
    }
    for plan in plans {
        match event.section(plan.section) {
            Some(section) if section.capacity == plan.capacity && section.tier == plan.tier => {}
            _ => return wrong(format!("section {} differs between record and plan", plan.name)),
        }
        if usize::from(plan.tier) >= event.tiers.len() {
            return wrong(format!("section {} has tier {}, which does not exist", plan.name, plan.tier));
        }
    }
    Ok(())
}
