//! The catalogue: every event, and one.

use super::{At, event_id};
use crate::error::HttpError;
use crate::render::{kind_word, summary, tier_name};
use crate::router::BrowseState;
use crate::wire::catalogue::{EventDetail, EventList, SectionView, TierView};
use crate::wire::problem::Problem;
use crate::wire::wall_now;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use domain::inventory::EventRecord;
use domain::limits;
use std::sync::Arc;

/// How long a client may use the catalogue without asking again.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=2");

/// Every event, in the order of their start.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "browse",
    responses((status = 200, body = EventList), (status = 503, body = Problem))
)]
pub async fn list(State(state): State<Arc<BrowseState>>) -> Result<Response, HttpError> {
    let events = state.catalogue.events().await?;
    Ok(([(header::CACHE_CONTROL, CACHE)], Json(EventList { events: summaries(events.values().map(Arc::as_ref)) }))
        .into_response())
}

/// Summaries in the order of their start.
pub fn summaries<'a>(events: impl Iterator<Item = &'a EventRecord>) -> Vec<crate::wire::catalogue::EventSummary> {
    let now = wall_now();
    let mut events: Vec<&EventRecord> = events.collect();
    events.sort_by_key(|event| (event.starts_at, event.id));
    events.into_iter().map(|event| summary(event, now)).collect()
}

/// One event with its sections and price categories.
#[utoipa::path(
    get, path = "/api/v1/events/{id}", tag = "browse",
    params(("id" = u32, Path, description = "The event")),
    responses((status = 200, body = EventDetail), (status = 404, body = Problem), (status = 503, body = Problem))
)]
pub async fn one(State(state): State<Arc<BrowseState>>, At(id): At<String>) -> Result<Response, HttpError> {
    let event = state.catalogue.event(event_id(&id)?).await?;
    Ok(([(header::CACHE_CONTROL, CACHE)], Json(detail(&event))).into_response())
}

fn detail(event: &EventRecord) -> EventDetail {
    let sections = event.sections.iter().map(|section| SectionView {
        section: section.name.clone(),
        kind: kind_word(section.kind).to_owned(),
        tier: tier_name(event, section.tier),
        capacity: section.capacity,
    });
    let tiers = event.tiers.iter().map(|tier| TierView { name: tier.name.clone(), base_price_cents: tier.base.0 });
    EventDetail {
        summary: summary(event, wall_now()),
        plan_version: event.plan_version,
        hold_seconds: event.hold_ttl_ms / 1_000,
        cart_limit: limits::CART_SEATS as u32,
        user_limit: u32::from(event.user_limit),
        dynamic_pricing: event.dynamic_pricing,
        tiers: tiers.collect(),
        sections: sections.collect(),
    }
}
