//! Server-sent events: what changed. Opens with `reset`; then `invalidate {section, version}`, never how it changed.

use super::{At, event_id};
use crate::error::HttpError;
use crate::router::BrowseState;
use crate::wire::problem::Problem;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Hints of changes, until the client leaves or falls behind.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/stream", tag = "browse",
    params(("id" = u32, Path, description = "The event")),
    responses(
        (status = 200, description = "Events `reset` (pull everything) and `invalidate` with data {section, version}",
            body = String, content_type = "text/event-stream"),
        (status = 404, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn stream(State(state): State<Arc<BrowseState>>, At(id): At<String>) -> Result<Response, HttpError> {
    let event = state.catalogue.event(event_id(&id)?).await?;
    if !state.push {
        let message = "Live hints are paused; ask for seats every few seconds instead.";
        return Err(HttpError::unavailable("PUSH_PAUSED", message, 30));
    }
    let viewer = state.hub.view(&event).map_err(|_too_many| {
        HttpError::unavailable("TOO_MANY_VIEWERS", "No more streams can be opened here just now.", 10)
    })?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::from_stream(viewer)).into_response())
}
