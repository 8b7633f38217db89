//! The organiser's system of record: venues, plans, events, prices and promotions. Publishing copies a version of it to
//! the store.

use crate::Result;
use domain::ids::{EventId, PromotionCode};
use domain::inventory::{EventRecord, SectionPlan};
use serde::{Deserialize, Serialize};
use std::future::Future;

/// A promotion of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// As printed.
    pub code: PromotionCode,
    /// Taken off every seat, in basis points.
    pub discount_bps: u16,
    /// Uses over all orders.
    pub cap: u32,
}

/// Everything that is published of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The record that browsers see.
    pub event: EventRecord,
    /// Geometry of each section, in plan order.
    pub plans: Vec<SectionPlan>,
    /// Its promotions.
    pub promotions: Vec<Promotion>,
}

/// What came of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// Written.
    Published,
    /// This version was written before.
    Unchanged,
    /// A newer version is there; nothing changed.
    Older {
        /// The version that stands.
        current: u64,
    },
}

/// The catalogue.
pub trait Catalogue {
    /// Write a version of an event, if it is newer.
    fn publish(&self, publication: &Publication) -> impl Future<Output = Result<PublishOutcome>> + Send;

    /// Every event's record, by id.
    fn events(&self) -> impl Future<Output = Result<Vec<EventRecord>>> + Send;

    /// Everything about one event.
    fn publication(&self, event: EventId) -> impl Future<Output = Result<Option<Publication>>> + Send;
}
