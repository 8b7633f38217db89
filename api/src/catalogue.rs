//! Events, geometry and seat maps in memory, as every browsing request and every cart needs them.
//!
//! Filled from any replica's applied state. Maps never go backwards; geometry is kept per plan version, under which it
//! never changes.

use crate::config::Config;
use crate::error::HttpError;
use crate::fresh::Fresh;
use crate::ports::Store;
use crate::wire::reservation::SeatLabel;
use domain::ids::{EventId, SeatIndex, SeatRef, SectionId};
use domain::inventory::query::SeatMap;
use domain::inventory::record::SectionSummary;
use domain::inventory::{EventRecord, SectionPlan};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// However far ahead of this process a client says to be, a map is not pulled more often than this for it.
const BUSY_REFRESH: Duration = Duration::from_millis(100);

/// Geometry by event, section and version of the plan: immutable once it is known.
type Plans = BTreeMap<(EventId, SectionId, u32), Arc<Fresh<SectionPlan>>>;

/// What this process knows of the shop.
pub struct Catalogue {
    store: Arc<dyn Store>,
    events_refresh: Duration,
    seats_refresh: Duration,
    events: Fresh<BTreeMap<EventId, Arc<EventRecord>>>,
    plans: RwLock<Plans>,
    maps: RwLock<BTreeMap<(EventId, SectionId), Arc<Section>>>,
}

/// One section's map, and the version that is known to exist.
#[derive(Default)]
struct Section {
    map: Fresh<SeatMap>,
    known: std::sync::atomic::AtomicU64,
}

impl Catalogue {
    /// Nothing is known yet; everything is asked when it is needed.
    pub fn new(store: Arc<dyn Store>, config: &Config) -> Self {
        Self {
            store,
            events_refresh: Duration::from_millis(config.catalogue_refresh_ms),
            seats_refresh: Duration::from_millis(config.seats_refresh_ms),
            events: Fresh::default(),
            plans: RwLock::default(),
            maps: RwLock::default(),
        }
    }

    /// Every event.
    pub async fn events(&self) -> Result<Arc<BTreeMap<EventId, Arc<EventRecord>>>, HttpError> {
        let load = || async {
            let records = self.store.events().await?;
            Ok(records.into_iter().map(|record| (record.id, Arc::new(record))).collect())
        };
        Ok(self.events.get(|_, age| age < self.events_refresh, load).await?)
    }

    /// One event.
    pub async fn event(&self, id: EventId) -> Result<Arc<EventRecord>, HttpError> {
        self.events().await?.get(&id).cloned().ok_or_else(|| HttpError::not_found("event"))
    }

    /// The geometry of a section of this event.
    pub async fn plan(&self, event: &EventRecord, section: SectionId) -> Result<Arc<SectionPlan>, HttpError> {
        let key = (event.id, section, event.plan_version);
        let slot = entry(&self.plans, key);
        Ok(slot.get(|_, _| true, || self.store.plan(event.id, section)).await?)
    }

    /// The state of a section's seats: of at least `wanted` if that can be had now, and never of less than what was
    /// announced here before the question. Whoever opens a stream or is told to pull is told of that change no more.
    pub async fn seat_map(&self, event: EventId, section: SectionId, wanted: u64) -> Result<Arc<SeatMap>, HttpError> {
        use std::sync::atomic::Ordering::Relaxed;
        let slot = entry(&self.maps, (event, section));
        let known = slot.known.load(Relaxed);
        let good = |map: &SeatMap, age: Duration| {
            age < BUSY_REFRESH && map.version >= known || age < self.seats_refresh && map.version >= wanted.max(known)
        };
        let does = |map: &SeatMap| map.version >= known;
        let load = || async {
            // What a client claims to have seen is not waited for: only what the store itself announced.
            let map = self.store.seat_map(event, section, known).await?;
            match slot.map.peek() {
                Some((newer, _)) if newer.version > map.version => Ok((*newer).clone()),
                _ => Ok(map),
            }
        };
        let map = slot.map.get_or(good, does, load).await?;
        slot.known.fetch_max(map.version, Relaxed);
        Ok(map)
    }

    /// The store announced that this version exists.
    pub fn announce(&self, event: EventId, section: SectionId, version: u64) {
        entry(&self.maps, (event, section)).known.fetch_max(version, std::sync::atomic::Ordering::Relaxed);
    }

    /// What is printed on these seats, in their order.
    pub async fn labels(&self, event: &EventRecord, seats: &[SeatRef]) -> Result<Vec<SeatLabel>, HttpError> {
        let mut labels = Vec::new();
        for seat in seats {
            let plan = self.plan(event, seat.section).await?;
            let (row, label) = plan.labels(seat.seat).unwrap_or(("?", seat.seat.to_string()));
            labels.push(SeatLabel { section: plan.name.clone(), row: row.to_owned(), seat: label });
        }
        Ok(labels)
    }

    /// The seat with these labels.
    pub async fn find(
        &self,
        event: &EventRecord,
        section: &SectionSummary,
        row: &str,
        seat: &str,
    ) -> Result<Option<SeatIndex>, HttpError> {
        Ok(self.plan(event, section.id).await?.find(row, seat))
    }

    /// The store, for what is not kept here.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

fn entry<K: Ord + Clone, V: Default>(map: &RwLock<BTreeMap<K, Arc<V>>>, key: K) -> Arc<V> {
    if let Some(found) = map.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return found.clone();
    }
    map.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
}
