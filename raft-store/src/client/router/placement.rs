//! Where partitions and groups live, as far as was learnt: asked anew when an answer shows that it is old, by one caller for
//! all that wait.

use super::{Router, locked};
use crate::client::attempt::Attempts;
use crate::client::{ClientError, Freshness};
use crate::runtime;
use domain::ids::{EventId, GroupId, Partition, PromotionCode};
use domain::inventory::query::{EventPlacement, Placement};
use domain::inventory::{Answer, Query};
use std::sync::Arc;

/// A placement at most this old answers that an event does not exist, so that made-up ids do not all reach the store.
const NEGATIVE_CACHE_MS: u64 = 200;
/// What was last learnt, and when.
#[derive(Clone, Default)]
pub(super) struct Cached {
    pub(super) placement: Arc<Placement>,
    at: Option<runtime::Instant>,
    generation: u64,
}

impl Router {
    /// Where an event's partitions live.
    pub(in crate::client) async fn event_placement(&self, event: EventId) -> Result<EventPlacement, ClientError> {
        if let Some(found) = locked(&self.placement).placement.events.get(&event) {
            return Ok(found.clone());
        }
        let placement = self.fresh_placement(NEGATIVE_CACHE_MS).await?;
        placement.events.get(&event).cloned().ok_or(ClientError::NoSuchEvent(event))
    }

    /// The same, at most so old.
    pub(in crate::client) async fn young_placement(
        &self,
        event: EventId,
        max_age_ms: u64,
    ) -> Result<EventPlacement, ClientError> {
        let placement = self.fresh_placement(max_age_ms).await?;
        placement.events.get(&event).cloned().ok_or(ClientError::NoSuchEvent(event))
    }

    /// Whether an event has a partition for this code, by a placement that is young enough to know.
    pub(in crate::client) async fn has_promotion(
        &self,
        event: EventId,
        code: &PromotionCode,
    ) -> Result<bool, ClientError> {
        let has = |placement: &Placement| placement.events.get(&event).is_some_and(|e| e.promotions.contains(code));
        if has(&locked(&self.placement).placement) {
            return Ok(true);
        }
        Ok(has(&*self.fresh_placement(NEGATIVE_CACHE_MS).await?))
    }

    pub(super) async fn locate(&self, partition: &Partition, attempts: &mut Attempts) -> Result<GroupId, ClientError> {
        let Some(event) = partition.event() else { return Ok(GroupId::META) };
        let max_age = {
            let cached = locked(&self.placement);
            match (cached.at, cached.placement.events.get(&event)) {
                (Some(_), Some(found)) => return Ok(found.locate(partition).0),
                (Some(_), None) => NEGATIVE_CACHE_MS,
                (None, _) => 0,
            }
        };
        // Placement may be unreachable for a while: keep what is known rather than fail.
        let placement = match self.fresh_placement(max_age).await {
            Ok(placement) => placement,
            Err(error) => {
                let stale = locked(&self.placement).placement.clone();
                if !stale.events.contains_key(&event) {
                    return Err(error);
                }
                stale
            }
        };
        match placement.events.get(&event) {
            Some(found) => Ok(found.locate(partition).0),
            None => Err(attempts.failure_if_written().unwrap_or(ClientError::NoSuchEvent(event))),
        }
    }

    /// A placement at most `max_age_ms` old. Callers that wait here share one question.
    async fn fresh_placement(&self, max_age_ms: u64) -> Result<Arc<Placement>, ClientError> {
        let before = locked(&self.placement).generation;
        let _one_at_a_time = self.refreshing.lock().await;
        {
            let cached = locked(&self.placement);
            let young = cached.at.is_some_and(|at| runtime::millis_since(at) < max_age_ms);
            if young || cached.generation > before {
                return Ok(cached.placement.clone());
            }
        }
        self.ask_placement().await
    }

    /// Asks the meta group where everything lives.
    pub(in crate::client) async fn refresh_placement(&self) -> Result<Arc<Placement>, ClientError> {
        let _one_at_a_time = self.refreshing.lock().await;
        self.ask_placement().await
    }

    async fn ask_placement(&self) -> Result<Arc<Placement>, ClientError> {
        // Boxed: a question to the meta partition never needs placement, but the compiler cannot know.
        let asked = Box::pin(self.query(Partition::Meta, Query::Placement, Freshness::Linearizable)).await?;
        let Answer::Placement(placement) = asked else {
            return Err(ClientError::Protocol("no placement in the answer".into()));
        };
        let placement = Arc::new(placement);
        let mut cached = locked(&self.placement);
        *cached = Cached { placement: placement.clone(), at: Some(runtime::now()), generation: cached.generation + 1 };
        Ok(placement)
    }

    /// This group, after trying to learn where it lives if that is not known.
    pub(super) async fn with_replicas(&self, group: GroupId) -> GroupId {
        let known = {
            let cached = locked(&self.placement);
            cached.at.is_some() && cached.placement.groups.contains_key(&group)
        };
        if !known && group != GroupId::META {
            let _ = self.fresh_placement(NEGATIVE_CACHE_MS).await;
        }
        group
    }

    pub(super) fn forget_placement(&self) {
        locked(&self.placement).at = None;
    }
}
