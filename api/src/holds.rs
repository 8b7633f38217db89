//! One hold: the lease is live, the store judges, the outcome is told.
//!
//! The waiting room may refuse and never grants: without its word no hold is opened, and with it the store still decides.
//! What was answered before is answered again without it: a fan whose pass has ended meanwhile is told what became of his
//! request. The work runs to its end even if the client is gone.

use crate::auth::Shown;
use crate::error::HttpError;
use crate::refusal::Asked;
use crate::render;
use crate::router::BuyState;
use crate::wire::wall_now;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::{IdempotencyKey, PassId, PromotionCode, UserId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::{EventRecord, Outcome, ReservationView, Status};
use queue::leases::Lease;
use std::sync::Arc;
use std::time::Instant;

/// A fan's wish, understood.
pub struct Wish {
    /// Of which event.
    pub event: Arc<EventRecord>,
    /// Whose.
    pub user: UserId,
    /// Makes a repeated wish one wish.
    pub key: IdempotencyKey,
    /// Tells a repetition from another wish.
    pub fingerprint: [u8; 16],
    /// What for.
    pub cart: Cart,
    /// A code to be claimed with it.
    pub promotion: Option<PromotionCode>,
    /// A shorter hold than the event's.
    pub hold_ttl_ms: Option<u32>,
}

/// Hold it, to the end.
pub async fn hold(state: Arc<BuyState>, pass: Shown, wish: Wish) -> Result<Response, HttpError> {
    let work = tokio::spawn(async move { decide(&state, pass, wish).await });
    work.await.map_err(|error| {
        tracing::error!(%error, "a hold did not finish");
        HttpError::internal()
    })?
}

async fn decide(state: &BuyState, pass: Shown, wish: Wish) -> Result<Response, HttpError> {
    let pass = match admitted(state, &wish, pass).await {
        Ok(pass) => pass,
        Err(refused) => return answered_before(state, &wish, refused).await,
    };
    let begin = Begin {
        key: wish.key.clone(),
        fingerprint: wish.fingerprint,
        user: wish.user.clone(),
        cart: wish.cart.clone(),
        promotion: wish.promotion.clone(),
        pass: Some(pass),
        sent_at: wall_now(),
        hold_ttl_ms: wish.hold_ttl_ms,
        purpose: Purpose::Checkout,
        note: None,
    };
    let started = Instant::now();
    let outcome = state.store.begin(wish.event.id, begin).await;
    state.metrics.hold_decided(word(&outcome), started.elapsed());
    answer(state, &wish, outcome?).await
}

/// The same request was decided before: its answer, as it stands now. Otherwise `refused`, for nothing new is opened.
async fn answered_before(state: &BuyState, wish: &Wish, refused: HttpError) -> Result<Response, HttpError> {
    let (user, key) = (wish.user.clone(), wish.key.clone());
    match state.store.answered(wish.event.id, user, key, wish.fingerprint).await? {
        Some(Outcome::Unknown) | None => Err(refused),
        Some(outcome) => answer(state, wish, outcome).await,
    }
}

/// The id of the pass, if its owner is inside with it.
async fn admitted(state: &BuyState, wish: &Wish, pass: Shown) -> Result<PassId, HttpError> {
    let pass = pass?.jti;
    match state.leases.check(wish.event.id, wish.user.clone(), pass.clone()).await {
        Ok(Lease::Live) => Ok(pass),
        Ok(Lease::None) => Err(HttpError::pass_invalid("you are not inside, or your time inside is over")),
        Ok(Lease::OtherPass) => Err(HttpError::pass_invalid("you were given a newer pass")),
        Err(error) => {
            tracing::warn!(%error, "no lease could be checked, so nobody is let in");
            Err(HttpError::waiting_room_down())
        }
    }
}

fn word(outcome: &Result<Outcome, raft_store::client::ClientError>) -> &'static str {
    match outcome {
        Ok(Outcome::Reservation(_)) => "held",
        Ok(Outcome::Refused(_)) => "refused",
        Ok(Outcome::Advised(_)) => "advised",
        _ => "failed",
    }
}

async fn answer(state: &BuyState, wish: &Wish, outcome: Outcome) -> Result<Response, HttpError> {
    let asked = Asked { catalogue: &state.catalogue, event: &wish.event, cart: &wish.cart, user: &wish.user };
    match outcome {
        Outcome::Reservation(view) => decided(state, wish, &view).await,
        Outcome::Refused(refusal) => Err(asked.refused(refusal, true).await),
        Outcome::Advised(refusal) => Err(asked.refused(refusal, false).await),
        Outcome::Preparing => Err(still_deciding()),
        Outcome::Stale { .. } => {
            let message = "This request was too old when it arrived. Send it again.";
            Err(HttpError::unavailable("STALE_REQUEST", message, 1))
        }
        Outcome::Invalid(why) => {
            tracing::warn!(why, "the store refused a hold as invalid");
            Err(HttpError::invalid_cart("These seats cannot be held."))
        }
        other => {
            tracing::error!(?other, "the store gave a hold an answer that is not one");
            Err(HttpError::internal())
        }
    }
}

/// A record, new or known by its key: the answer is its state now.
async fn decided(state: &BuyState, wish: &Wish, view: &ReservationView) -> Result<Response, HttpError> {
    match view.status {
        Status::Held => {
            // Best effort: a lease that is not extended only lets the next fan in early.
            let kept = state.leases.extend(wish.event.id, wish.user.clone(), view.id, view.remaining_ms).await;
            if let Err(error) = kept {
                tracing::warn!(%error, "a lease was not extended");
            }
        }
        Status::Paid | Status::Offered => {}
        Status::Preparing => return Err(still_deciding()),
        Status::Expired => return Err(HttpError::hold_expired(render::ends_at(view))),
        Status::Cancelled | Status::Aborted => return Err(ended(view)),
    }
    let body = render::reservation(&state.catalogue, &wish.event, view).await?;
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

fn still_deciding() -> HttpError {
    let message = "The seats are still being asked. Repeat the request with the same Idempotency-Key.";
    HttpError::unavailable("OUTCOME_UNKNOWN", message, 1)
}

/// 410: the reservation was ended by its owner, or never became a hold.
pub fn ended(view: &ReservationView) -> HttpError {
    let message = "This reservation has ended and its seats are on sale again.";
    HttpError::new(StatusCode::GONE, "RESERVATION_ENDED", message)
        .with("reservation_id", view.id.to_string())
        .with("status", render::status_word(view.status))
}
