//! Where the pages find the other planes.

use crate::router::BrowseState;
use crate::wire::catalogue::PageConfig;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Origins of the waiting room and of the buy plane; empty when they are this one.
#[utoipa::path(get, path = "/config.json", tag = "browse", responses((status = 200, body = PageConfig)))]
pub async fn config_json(State(state): State<Arc<BrowseState>>) -> Response {
    let cache = HeaderValue::from_static("no-cache");
    ([(header::CACHE_CONTROL, cache)], Json(state.public.clone())).into_response()
}
