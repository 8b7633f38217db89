//! The waiting room in the public description. It is a process of its own, with an address of its own (`queue` in
//! `/config.json`), and answers these; nothing here is served. A test over running processes holds the two together.

#![expect(dead_code, reason = "these items exist to be described")]

use crate::wire::problem::Problem;
use utoipa::{OpenApi, ToSchema};

/// Where a fan stands. The same from joining, polling and the socket. Times are in seconds.
#[derive(ToSchema)]
pub struct QueueStanding {
    /// Names fan and event to `status` and `ws`, so that they need no login.
    session: String,
    state: QueueState,
    /// 1 is next; 0 is inside; null where there is no place (yet).
    position: Option<u64>,
    /// How many are before this fan.
    ahead: Option<u64>,
    /// Until one's turn at the present rate; null while that cannot be said.
    estimated_wait: Option<u64>,
    /// Fans let in a minute, lately.
    release_rate: f64,
    /// The pass, for `X-Queue-Token`, while `admitted`.
    token: Option<String>,
    /// How long the pass, or the hold, still lasts.
    expires_in: Option<u64>,
    /// The fan's own reservation, while in `checkout`: who lost the answer to a hold reads it at
    /// `/api/v1/reservations/{id}`.
    reservation_id: Option<String>,
    /// 0 once the sale has started.
    sale_starts_in: u64,
    /// A sentence for people.
    message: String,
}

/// In a word.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum QueueState {
    /// The sale has not started.
    PreSale,
    /// In line.
    Waiting,
    /// In line, but so far back that the seats left will probably not suffice.
    Unlikely,
    /// Let in: `token` opens a checkout.
    Admitted,
    /// Inside, with seats held or bought: `reservation_id` says under which reservation.
    Checkout,
    /// The pass ran out unused. Who joins again goes first, once.
    Expired,
    /// Not in the queue: join.
    Gone,
    /// No seat is left, and none is in anybody's hold.
    SoldOut,
    /// The event is not on sale any more.
    Closed,
}

/// Join the queue of an event, or find the old place again. A `GET` is accepted too.
#[utoipa::path(
    post, path = "/api/v1/events/{id}/queue/join", tag = "queue", security(("fan" = [])),
    params(("id" = u32, Path, description = "The event")),
    responses(
        (status = 200, body = QueueStanding), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, description = "EVENT_NOT_FOUND", body = Problem),
        (status = 503, description = "The waiting room is full, or cannot be asked just now", body = Problem)
    )
)]
fn join() {}

/// Where one stands; a heartbeat too.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/queue/status", tag = "queue",
    params(
        ("id" = u32, Path, description = "The event"),
        ("session" = String, Query, description = "As joining gave it"),
        ("wait_ms" = Option<u64>, Query, description = "Wait so long for news before answering")
    ),
    responses(
        (status = 200, body = QueueStanding), (status = 400, body = Problem),
        (status = 401, description = "SESSION_INVALID", body = Problem),
        (status = 404, description = "EVENT_NOT_FOUND", body = Problem), (status = 503, body = Problem)
    )
)]
fn status() {}

/// The same by WebSocket: one `QueueStanding` a message, at intervals and at once when the turn comes.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/queue/ws", tag = "queue",
    params(
        ("id" = u32, Path, description = "The event"),
        ("session" = String, Query, description = "As joining gave it")
    ),
    responses(
        (status = 101, description = "A socket"), (status = 401, description = "SESSION_INVALID", body = Problem),
        (status = 404, description = "EVENT_NOT_FOUND", body = Problem), (status = 426, body = Problem),
        (status = 503, body = Problem)
    )
)]
fn websocket() {}

/// The three addresses.
#[derive(OpenApi)]
#[openapi(paths(join, status, websocket), components(schemas(QueueStanding, QueueState)))]
pub struct WaitingRoom;
