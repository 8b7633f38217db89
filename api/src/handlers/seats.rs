//! The state of seats: JSON for people, two bits a seat for maps. From memory, with a version that never goes back.

use super::{At, event_id};
use crate::body::Asked;
use crate::error::HttpError;
use crate::http_cache::{not_modified, tagged};
use crate::pricing_hint::{counts, price_at};
use crate::router::BrowseState;
use crate::wire::catalogue::{EventSeats, SeatView, SectionCounts, SectionSeats};
use crate::wire::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::inventory::query::{SeatMap, SeatState};
use domain::inventory::record::SectionSummary;
use domain::inventory::{EventRecord, SectionPlan};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The media type of two bits a seat.
const PACKED: &str = "application/octet-stream";

/// What may be asked of seats.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeatsQuery {
    /// The section, by name; without it an overview of all sections is given.
    section: Option<String>,
    /// At least this version, as announced on the stream.
    version: Option<u64>,
}

/// The state of every seat of a section, or counts of all sections.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/seats", tag = "browse",
    params(("id" = u32, Path, description = "The event"), SeatsQuery),
    responses(
        (status = 200, description = "A section as JSON (`SectionSeats`), or as two bits a seat, four seats a byte, the \
            most significant pair first: 0 free, 1 held, 2 sold, 3 blocked; without `section` an overview (`EventSeats`)",
            content((SectionSeats = "application/json"), (String = "application/octet-stream")),
            headers(
                ("ETag" = String, description = "Of this version"),
                ("X-Seat-Count" = u32, description = "Seats in the section (two bits a seat only)"),
                ("X-Seat-Order" = String, description = "`plan-N`: the order of seats in version N of the layout"),
            )),
        (status = 304, description = "Unchanged"), (status = 404, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn seats(
    State(state): State<Arc<BrowseState>>,
    At(id): At<String>,
    Asked(query): Asked<SeatsQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let event = state.catalogue.event(event_id(&id)?).await?;
    // Memory is refilled when the store says that something changed.
    drop(state.hub.follow(&event));
    let Some(name) = &query.section else { return overview(&state, &event).await };
    let section = event.section_named(name).ok_or_else(|| HttpError::not_found("section"))?;
    let map = state.catalogue.seat_map(event.id, section.id, query.version.unwrap_or(0)).await?;
    let packed = wants_packed(&headers);
    let form = if packed { "bits" } else { "json" };
    let tag = format!("\"{}-{}-{}-{}-{form}\"", event.id, section.id, event.plan_version, map.version);
    let mut response = if not_modified(&headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if packed {
        packed_seats(&event, &map)
    } else {
        let plan = state.catalogue.plan(&event, section.id).await?;
        Json(section_seats(&event, section, &plan, &map)).into_response()
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(tagged(response, &tag, state.seats_cache.clone()))
}

fn wants_packed(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepts.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == PACKED))
}

fn packed_seats(event: &EventRecord, map: &SeatMap) -> Response {
    let headers = [
        ("content-type", PACKED.to_owned()),
        ("x-seat-count", map.count.to_string()),
        ("x-seat-order", format!("plan-{}", event.plan_version)),
        ("x-seat-version", map.version.to_string()),
    ];
    (headers, map.packed.clone()).into_response()
}

fn section_seats(event: &EventRecord, section: &SectionSummary, plan: &SectionPlan, map: &SeatMap) -> SectionSeats {
    let labels = plan.rows.iter().flat_map(|row| row.seats.iter().map(move |seat| (&row.label, &seat.label)));
    let seats = labels.enumerate().map(|(index, (row, seat))| SeatView {
        row: row.clone(),
        seat: seat.clone(),
        status: word(map.state(index as u32)).to_owned(),
    });
    let counts = counts(map);
    SectionSeats {
        event_id: event.id.0,
        section: section.name.clone(),
        version: map.version,
        plan_version: event.plan_version,
        price_cents: price_at(event, section, counts),
        counts,
        seats: seats.collect(),
    }
}

fn word(state: Option<SeatState>) -> &'static str {
    match state {
        Some(SeatState::Free) => "free",
        Some(SeatState::Held) => "held",
        Some(SeatState::Sold) => "sold",
        // A seat that the map does not know yet cannot be had.
        Some(SeatState::Blocked) | None => "blocked",
    }
}

async fn overview(state: &BrowseState, event: &EventRecord) -> Result<Response, HttpError> {
    let asked = event.sections.iter().map(|section| async move {
        let map = state.catalogue.seat_map(event.id, section.id, 0).await?;
        let counts = counts(&map);
        let price_cents = price_at(event, section, counts);
        Ok::<_, HttpError>(SectionCounts { section: section.name.clone(), version: map.version, counts, price_cents })
    });
    let sections = futures::future::try_join_all(asked).await?;
    let body = EventSeats { event_id: event.id.0, sections };
    Ok(([(header::CACHE_CONTROL, state.seats_cache.clone())], Json(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_form_is_given_only_to_who_asks_for_it() {
        let with = |value: &'static str| HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]);
        assert!(wants_packed(&with("application/octet-stream")));
        assert!(wants_packed(&with("application/octet-stream;q=1, */*")));
        assert!(!wants_packed(&with("*/*")));
        assert!(!wants_packed(&HeaderMap::new()));
    }
}
