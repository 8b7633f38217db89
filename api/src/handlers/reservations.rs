//! Holds of chosen seats: open, read, give back.

use super::{At, id};
use crate::auth::{self, SignedIn};
use crate::body::Parsed;
use crate::cart;
use crate::error::HttpError;
use crate::holds::{Wish, hold};
use crate::idempotency::{Keyed, fingerprint};
use crate::render;
use crate::router::BuyState;
use crate::wire::problem::Problem;
use crate::wire::reservation::{Reservation, ReserveRequest};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use domain::ids::{EventId, ReservationId, UserId};
use domain::inventory::{Outcome, ReservationView, Status};
use domain::limits;
use std::sync::Arc;

/// Hold seats, all or none, at prices that are frozen now.
#[utoipa::path(
    post, path = "/api/v1/reservations", tag = "buy", security(("fan" = [])), request_body = ReserveRequest,
    params(
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it"),
        ("X-Queue-Token" = String, Header, description = "The waiting room's pass")
    ),
    responses(
        (status = 201, description = "Held", body = Reservation),
        (status = 400, description = "INVALID_JSON, IDEMPOTENCY_KEY_REQUIRED", body = Problem),
        (status = 401, body = Problem),
        (status = 403, description = "QUEUE_TOKEN_INVALID, QUEUE_TOKEN_USED; a request that was decided before is answered \
            as it was also when its pass has ended", body = Problem),
        (status = 404, description = "EVENT_NOT_FOUND", body = Problem),
        (status = 409, description = "SEAT_UNAVAILABLE {unavailable_seats, suggestion, final}, CHECKOUT_ALREADY_OPEN \
            {reservation}, IDEMPOTENCY_KEY_REUSED, TICKET_LIMIT, PROMOTION_EXHAUSTED, PROMOTION_USED, NOT_ON_SALE, \
            SALE_CLOSED", body = Problem),
        (status = 410, description = "The hold of this key has ended: HOLD_EXPIRED, RESERVATION_ENDED", body = Problem),
        (status = 422, description = "INVALID_FIELD, INVALID_CART, UNKNOWN_SEAT, PROMOTION_UNKNOWN", body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn reserve(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    Keyed(key): Keyed,
    headers: HeaderMap,
    Parsed(mut request): Parsed<ReserveRequest>,
) -> Result<axum::response::Response, HttpError> {
    state.limit(&fan.user)?;
    cart::check_size(&request.seats, &request.places, limits::CART_SEATS)?;
    let promotion = cart::promotion(request.promotion.as_ref())?;
    let event = state.catalogue.event(EventId(request.event_id)).await?;
    let pass = auth::pass(&headers, &state.passes, event.id, &fan.user)?;
    let hold_ttl_ms = cart::hold_ttl_ms(request.hold_duration_seconds, &event)?;
    let cart = cart::resolve(&state.catalogue, &event, &request.seats, &request.places).await?;
    // The order in which seats are listed is not part of the wish.
    request.seats.sort_unstable();
    request.places.sort_unstable();
    let fingerprint = fingerprint(&Method::POST, "/api/v1/reservations", &request);
    hold(state, pass, Wish { event, user: fan.user, key, fingerprint, cart, promotion, hold_ttl_ms }).await
}

/// The record, as it stands now.
#[utoipa::path(
    get, path = "/api/v1/reservations/{id}", tag = "buy", security(("fan" = [])),
    params(("id" = String, Path, description = "The reservation")),
    responses(
        (status = 200, body = Reservation), (status = 401, body = Problem),
        (status = 404, description = "None, or another fan's", body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn read(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    At(text): At<String>,
) -> Result<Json<Reservation>, HttpError> {
    let view = own(&state, &text, &fan.user).await?;
    shown(&state, &view).await
}

/// Give the seats back. Repeating it changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/reservations/{id}", tag = "buy", security(("fan" = [])),
    params(
        ("id" = String, Path, description = "The reservation"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 200, description = "It has ended: `cancelled`, or `expired` before", body = Reservation),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "RESERVATION_PAID", body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn cancel(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    Keyed(_repeating_changes_nothing): Keyed,
    At(text): At<String>,
) -> Result<Json<Reservation>, HttpError> {
    state.limit(&fan.user)?;
    let view = own(&state, &text, &fan.user).await?;
    if view.status == Status::Paid {
        return Err(paid(&view));
    }
    let view = match state.store.cancel(view.id, Some(fan.user.clone())).await? {
        Outcome::Reservation(view) if view.status == Status::Paid => return Err(paid(&view)),
        Outcome::Reservation(view) => *view,
        Outcome::Unknown => return Err(HttpError::not_found("reservation")),
        other => {
            tracing::error!(?other, "the store gave a cancellation an answer that is not one");
            return Err(HttpError::internal());
        }
    };
    // Best effort: the waiting room also asks the store which reservations have ended.
    if let Err(error) = state.leases.free(view.id.event, fan.user, view.id).await {
        tracing::warn!(%error, "a lease was not freed");
    }
    shown(&state, &view).await
}

/// A reservation of this user, linearizable. Another's does not exist for them.
pub async fn own(state: &BuyState, text: &str, user: &UserId) -> Result<ReservationView, HttpError> {
    let id: ReservationId = id(text, "reservation")?;
    let view = state.store.reservation(id).await.or_else(|error| match error {
        // A reservation of an event that does not exist does not exist either.
        raft_store::client::ClientError::NoSuchEvent(_) => Ok(None),
        other => Err(other),
    })?;
    view.filter(|view| view.user == *user).ok_or_else(|| HttpError::not_found("reservation"))
}

async fn shown(state: &BuyState, view: &ReservationView) -> Result<Json<Reservation>, HttpError> {
    let event = state.catalogue.event(view.id.event).await?;
    render::reservation(&state.catalogue, &event, view).await.map(Json)
}

fn paid(view: &ReservationView) -> HttpError {
    let message = "This reservation is paid: its seats are yours. To give them back, ask for a refund.";
    HttpError::new(StatusCode::CONFLICT, "RESERVATION_PAID", message).with("reservation_id", view.id.to_string())
}
