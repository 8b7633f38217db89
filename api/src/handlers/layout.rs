//! Geometry: immutable under its plan version, so that the address with `?version=` is cached for ever.

use super::{At, event_id};
use crate::body::Asked;
use crate::error::HttpError;
use crate::http_cache::{not_modified, tagged};
use crate::render::{kind_word, tier_name};
use crate::router::BrowseState;
use crate::wire::catalogue::{Layout, PointView, RowLayout, SeatLayout, SectionLayout};
use crate::wire::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::inventory::{EventRecord, SectionPlan};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const FOR_NOW: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// What may be asked of a layout.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LayoutQuery {
    /// The plan version; with it the answer may be cached for ever.
    version: Option<u32>,
    /// Only this section, by name.
    section: Option<String>,
}

/// Sections, rows and seats with their places on the plan.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/layout", tag = "browse",
    params(("id" = u32, Path, description = "The event"), LayoutQuery),
    responses(
        (status = 200, body = Layout), (status = 304, description = "Unchanged"),
        (status = 404, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn layout(
    State(state): State<Arc<BrowseState>>,
    At(id): At<String>,
    Asked(query): Asked<LayoutQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let event = state.catalogue.event(event_id(&id)?).await?;
    if let Some(wanted) = query.version.filter(|wanted| *wanted != event.plan_version) {
        let message = format!("Version {wanted} of the plan is not kept; the current one is {}.", event.plan_version);
        let error = HttpError::new(StatusCode::NOT_FOUND, "LAYOUT_NOT_FOUND", message);
        return Err(error.with("plan_version", event.plan_version));
    }
    let cache = if query.version.is_some() { FOR_EVER } else { FOR_NOW };
    let tag = format!("\"layout-{}-{}\"", event.id, event.plan_version);
    if not_modified(&headers, &tag) {
        return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &tag, cache));
    }
    let mut sections = Vec::new();
    for section in &event.sections {
        if query.section.as_ref().is_none_or(|name| *name == section.name) {
            sections.push(section_layout(&event, &*state.catalogue.plan(&event, section.id).await?));
        }
    }
    if sections.is_empty() && query.section.is_some() {
        return Err(HttpError::not_found("section"));
    }
    let body = Layout { event_id: event.id.0, plan_version: event.plan_version, sections };
    Ok(tagged(Json(body).into_response(), &tag, cache))
}

fn section_layout(event: &EventRecord, plan: &SectionPlan) -> SectionLayout {
    let rows = plan.rows.iter().map(|row| RowLayout {
        row: row.label.clone(),
        seats: row
            .seats
            .iter()
            .map(|seat| SeatLayout {
                seat: seat.label.clone(),
                x: seat.at.x,
                y: seat.at.y,
                accessible: seat.accessible,
                aisle_after: seat.aisle_after,
            })
            .collect(),
    });
    SectionLayout {
        section: plan.name.clone(),
        kind: kind_word(plan.kind).to_owned(),
        tier: tier_name(event, plan.tier),
        capacity: plan.capacity,
        focal: PointView { x: plan.focal.x, y: plan.focal.y },
        rows: rows.collect(),
    }
}
