//! Where partitions and groups live, as far as was learnt: asked anew when an answer shows that it is old, by one caller for
//! all that wait.

use super::{Router, locked};
use crate::client::attempt::Attempts;
use crate::client::{ClientError, Freshness};
use crate::runtime;
use domain::ids::{EventId, GroupId, Partition, PromotionCode};
use domain::inventory::query::{EventPlacement, Placement};
use domain::inventory::{Answer, Query};
use futures::future::BoxFuture;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// A placement at most this old answers that an event does not exist, so that made-up ids do not all reach the store.
const NEGATIVE_CACHE_MS: u64 = 200;
/// A placement older than this is not relied on once no replica of a group answers any more.
const DOUBTED_MS: u64 = 1_000;
/// Placement is learnt again after so long even if nothing speaks against it: nodes come and go while a client rests.
const LEARNT_AGAIN: Duration = Duration::from_secs(10);
/// Between two questions that doubts alone have led to.
const DOUBTS_APART: Duration = Duration::from_millis(500);

/// What was last learnt, and when.
#[derive(Clone, Default)]
pub(super) struct Cached {
    pub(super) placement: Arc<Placement>,
    at: Option<runtime::Instant>,
    /// Questions that came to an end.
    asked: u64,
    /// How the last of them failed.
    failure: Option<ClientError>,
}

/// Learns placement again now and then, and soon after a node gave no answer, until the router is gone.
pub(super) async fn keep_young(router: Weak<Router>, doubted: Arc<Notify>) {
    loop {
        let _ = runtime::timeout(LEARNT_AGAIN, doubted.notified()).await;
        let Some(router) = router.upgrade() else { return };
        if router.knows_placement() {
            // What is known stays if there is no answer.
            let _ = router.refresh_placement().await;
        }
        drop(router);
        runtime::sleep(DOUBTS_APART).await;
    }
}

impl Router {
    /// Where an event's partitions live.
    pub(in crate::client) async fn event_placement(&self, event: EventId) -> Result<EventPlacement, ClientError> {
        if let Some(found) = locked(&self.placement).placement.events.get(&event) {
            return Ok(found.clone());
        }
        self.young_placement(event, NEGATIVE_CACHE_MS).await
    }

    /// The same, at most so old.
    pub(in crate::client) async fn young_placement(
        &self,
        event: EventId,
        max_age_ms: u64,
    ) -> Result<EventPlacement, ClientError> {
        let placement = self.fresh_placement(max_age_ms, self.config.request_timeout()).await?;
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
        Ok(has(&*self.fresh_placement(NEGATIVE_CACHE_MS, self.config.request_timeout()).await?))
    }

    pub(super) async fn locate(&self, partition: &Partition, attempts: &mut Attempts) -> Result<GroupId, ClientError> {
        let Some(event) = partition.event() else { return Ok(GroupId::META) };
        let known = {
            let cached = locked(&self.placement);
            cached.at.map(|_| cached.placement.events.get(&event).map(|found| found.locate(partition).0))
        };
        let max_age = match known {
            Some(Some(group)) if !self.all_failed(group) => return Ok(group),
            Some(Some(_)) => DOUBTED_MS,
            Some(None) => NEGATIVE_CACHE_MS,
            None => 0,
        };
        // Placement may be unreachable for a while: keep what is known rather than fail.
        let placement = match self.fresh_placement(max_age, attempts.left()).await {
            Ok(placement) => placement,
            Err(error) => {
                let stale = locked(&self.placement).placement.clone();
                if !stale.events.contains_key(&event) {
                    return Err(attempts.failure_if_written().unwrap_or(error));
                }
                stale
            }
        };
        match placement.events.get(&event) {
            Some(found) => Ok(found.locate(partition).0),
            None => Err(attempts.failure_if_written().unwrap_or(ClientError::NoSuchEvent(event))),
        }
    }

    /// A placement at most `max_age_ms` old, or none within so long. Callers that wait here share one question and what
    /// came of it, so that none of them waits for the failures of all others.
    async fn fresh_placement(&self, max_age_ms: u64, within: Duration) -> Result<Arc<Placement>, ClientError> {
        let before = locked(&self.placement).asked;
        let shared = async {
            let _one_at_a_time = self.refreshing.lock().await;
            {
                let cached = locked(&self.placement);
                let young = cached.at.is_some_and(|at| runtime::millis_since(at) < max_age_ms);
                if young || cached.asked > before {
                    return cached.failure.clone().filter(|_| !young).map_or(Ok(cached.placement.clone()), Err);
                }
            }
            self.ask_placement().await
        };
        let answered = runtime::timeout(within, shared).await;
        answered.unwrap_or_else(|| Err(ClientError::Unavailable("the meta group did not answer in time".into())))
    }

    /// Asks the meta group where everything lives.
    pub(in crate::client) async fn refresh_placement(&self) -> Result<Arc<Placement>, ClientError> {
        let _one_at_a_time = self.refreshing.lock().await;
        self.ask_placement().await
    }

    /// Boxed: a question to the meta partition never needs placement, but the compiler cannot know.
    fn ask_placement(&self) -> BoxFuture<'_, Result<Arc<Placement>, ClientError>> {
        Box::pin(async {
            let learnt = match self.query(Partition::Meta, Query::Placement, Freshness::Linearizable).await {
                Ok(Answer::Placement(placement)) => Ok(Arc::new(placement)),
                Ok(_) => Err(ClientError::Protocol("no placement in the answer".into())),
                Err(error) => Err(error),
            };
            let mut cached = locked(&self.placement);
            cached.asked += 1;
            cached.failure = learnt.as_ref().err().cloned();
            if let Ok(placement) = &learnt {
                (cached.placement, cached.at) = (placement.clone(), Some(runtime::now()));
            }
            learnt
        })
    }

    /// This group, after trying to learn where it lives if that is not known, or nobody there answers.
    pub(super) async fn with_replicas(&self, group: GroupId, attempts: &Attempts) -> GroupId {
        let known = {
            let cached = locked(&self.placement);
            cached.at.is_some() && cached.placement.groups.contains_key(&group)
        };
        let max_age = if known { DOUBTED_MS } else { NEGATIVE_CACHE_MS };
        if group != GroupId::META && (!known || self.all_failed(group)) {
            let _ = self.fresh_placement(max_age, attempts.left()).await;
        }
        group
    }

    fn knows_placement(&self) -> bool {
        !locked(&self.placement).placement.groups.is_empty()
    }

    pub(super) fn forget_placement(&self) {
        locked(&self.placement).at = None;
    }
}
