//! The operator's dials: how many may be inside, how many are let in a second, and whether anybody is.

use crate::server::Context;
use crate::server::auth::operator;
use crate::server::error::Refusal;
use crate::server::handlers::{not_found, wrong_method};
use crate::store::Dial;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use domain::ids::EventId;
use serde::Serialize;
use std::sync::Arc;

/// More than this is a slip of the keyboard.
const MAX_CAPACITY: u32 = 1_000_000;

/// An event's door, for its operator.
#[derive(Serialize)]
struct Door {
    event_id: EventId,
    waiting: u64,
    inside: u64,
    capacity: u32,
    dial: Dial,
}

/// `/admin/events/{id}/queue`, for operators only.
pub(crate) fn router(context: Arc<Context>) -> Router {
    Router::new()
        .route("/admin/events/{id}/queue", get(read).put(turn))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(1_024))
        .with_state(context)
}

async fn read(
    State(context): State<Arc<Context>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Door>, Refusal> {
    operator(&headers, &context.fans)?;
    context.door(&id).await.map(Json)
}

async fn turn(
    State(context): State<Arc<Context>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Door>, Refusal> {
    let operator = operator(&headers, &context.fans)?;
    let (event, _) = context.room(&id)?;
    let body =
        body.map_err(|_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "A dial is a short object."))?;
    let dial = parse(&body)?;
    if dial.capacity.max(dial.batch).is_some_and(|number| number > MAX_CAPACITY) {
        return Err(Refusal::bad_request(format!("A capacity or batch is at most {MAX_CAPACITY}.")));
    }
    context.dials.turn(&context.store, event, dial).await.map_err(|error| Refusal::redis_lost(&error))?;
    tracing::info!(event = event.0, operator = %operator.user, ?dial, "the operator turned the dial");
    context.door(&id).await.map(Json)
}

/// An object, and nothing else: without the detour an array of the values would do as well.
fn parse(body: &[u8]) -> Result<Dial, Refusal> {
    serde_json::from_slice(body).and_then(|fields| serde_json::from_value(serde_json::Value::Object(fields))).map_err(
        |error| {
            Refusal::bad_request(format!("A dial is an object of capacity, batch and paused, each optional: {error}."))
        },
    )
}

impl Context {
    async fn door(&self, id: &str) -> Result<Door, Refusal> {
        let (event, room) = self.room(id)?;
        let lost = |error| Refusal::redis_lost(&error);
        let dial = self.dials.read(&self.store, event).await.map_err(lost)?;
        let (waiting, inside) = self.store.counts(event).await.map_err(lost)?;
        let capacity = dial.capacity.unwrap_or(room.view().gate.capacity);
        Ok(Door { event_id: event, waiting, inside, capacity, dial })
    }
}
