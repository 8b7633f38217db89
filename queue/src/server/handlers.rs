//! Joining and asking: parse, visit, answer.

use crate::rooms::Room;
use crate::server::answer::Answer;
use crate::server::auth::{fan, wall_now};
use crate::server::error::Refusal;
use crate::server::{Context, socket};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::ids::{EventId, UserId};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a poll waits for news.
const MAX_WAIT_MS: u64 = 25_000;

/// What a poll says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusQuery {
    session: String,
    /// Wait this long for news before answering; none by default.
    #[serde(default)]
    wait_ms: u64,
}

/// What a socket says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketQuery {
    session: String,
}

/// `POST` and `GET /api/v1/events/{id}/queue/join`.
pub(crate) async fn join(
    State(context): State<Arc<Context>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Answer>, Refusal> {
    let body = body.map_err(|_| {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "Joining takes no body, or an empty object.")
    })?;
    let user = fan(&headers, &context.fans)?.user;
    // Joining has nothing to say but who joins.
    let says_nothing =
        body.is_empty() || serde_json::from_slice::<serde_json::Map<_, _>>(&body).is_ok_and(|fields| fields.is_empty());
    if !says_nothing {
        return Err(Refusal::bad_request("Joining takes no body, or an empty JSON object."));
    }
    let (event, room) = context.room(&id)?;
    let session = context.issuer.session(event, &user, wall_now());
    context.answer(&room, &user, &session, true).await.map(Json)
}

/// `GET /api/v1/events/{id}/queue/status?session=&wait_ms=`.
pub(crate) async fn status(
    State(context): State<Arc<Context>>,
    Path(id): Path<String>,
    query: Result<Query<StatusQuery>, QueryRejection>,
) -> Result<Json<Answer>, Refusal> {
    let Query(StatusQuery { session, wait_ms }) = query.map_err(|_| {
        Refusal::bad_request("Ask with ?session=, as joining gave it, and optionally &wait_ms=, and nothing else.")
    })?;
    let (room, user) = context.session(&id, &session)?;
    if wait_ms == 0 {
        return context.answer(&room, &user, &session, false).await.map(Json);
    }
    let listening = context.rooms.listen(&room, &user).map_err(Refusal::no_seat)?;
    let mut phases = room.phases();
    let first = context.answer(&room, &user, &session, false).await?;
    if !first.state.is_waiting() {
        return Ok(Json(first));
    }
    let wait = Duration::from_millis(wait_ms.min(MAX_WAIT_MS));
    tokio::select! {
        biased;
        () = context.shutdown.cancelled() => return Err(Refusal::stopping()),
        () = listening.news() => {}
        _changed = phases.changed() => {}
        () = tokio::time::sleep(wait) => {}
    }
    context.answer(&room, &user, &session, false).await.map(Json)
}

/// `GET /api/v1/events/{id}/queue/ws?session=`.
pub(crate) async fn websocket(
    State(context): State<Arc<Context>>,
    Path(id): Path<String>,
    query: Result<Query<SocketQuery>, QueryRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let Query(SocketQuery { session }) =
        query.map_err(|_| Refusal::bad_request("Connect with ?session=, as joining gave it, and nothing else."))?;
    let (room, user) = context.session(&id, &session)?;
    let upgrade = upgrade.map_err(|_| {
        Refusal::new(StatusCode::UPGRADE_REQUIRED, "WEBSOCKET_REQUIRED", "This address speaks WebSocket only.")
    })?;
    let listening = context.rooms.listen(&room, &user).map_err(Refusal::no_seat)?;
    Ok(socket::accept(context, upgrade, socket::Seat { room, user, session, listening }))
}

pub(crate) async fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", "There is nothing at this address.")
}

pub(crate) async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "This address does not take that method.")
}

impl Context {
    /// The event of the address.
    pub(crate) fn room(&self, id: &str) -> Result<(EventId, Arc<Room>), Refusal> {
        let event: EventId = id.parse().map_err(|_| Refusal::unknown_event(id))?;
        match self.rooms.get(event) {
            Some(room) => Ok((event, room)),
            None if self.rooms.loaded() => Err(Refusal::unknown_event(id)),
            None => Err(Refusal::not_loaded()),
        }
    }

    /// The event and the fan of a session.
    fn session(&self, id: &str, session: &str) -> Result<(Arc<Room>, UserId), Refusal> {
        let (event, room) = self.room(id)?;
        let opened = self.issuer.open_session(session, wall_now()).map_err(Refusal::bad_session)?;
        if opened.event != event {
            let message = "This session is for another event. Join the queue of this one.";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "SESSION_INVALID", message));
        }
        Ok((room, opened.user))
    }

    /// Visit, and say what came of it.
    pub(crate) async fn answer(
        &self,
        room: &Room,
        user: &UserId,
        session: &str,
        joining: bool,
    ) -> Result<Answer, Refusal> {
        let view = room.view();
        if let Some(over) = Answer::over(&view, session) {
            return Ok(over);
        }
        let visit = self.store.visit(&view.gate, user, joining).await.map_err(|error| {
            self.metrics.unavailable();
            Refusal::redis_lost(&error)
        })?;
        Answer::of(&view, &visit, session, |record| self.issuer.pass(view.gate.event, user, record))
            .ok_or_else(Refusal::full)
    }
}
