//! The box office's blocks: seats kept back, one claim each, until they are released.

use super::{At, event_id, id};
use crate::auth::Operator;
use crate::body::Parsed;
use crate::cart;
use crate::error::HttpError;
use crate::idempotency::{Keyed, fingerprint};
use crate::refusal::Asked;
use crate::render;
use crate::router::AdminState;
use crate::wire::admin::{BlockRequest, BlockView, Blocks};
use crate::wire::problem::Problem;
use crate::wire::wall_now;
use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::{Bucket, IdempotencyKey, ReservationId, UserId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::{EventRecord, Outcome, ReservationView, Status};
use std::sync::Arc;

/// Seats and places that one request may keep back.
const MOST: usize = 200;
/// Longest reason.
const REASON_LEN: usize = 200;

/// Keep seats back. What is held or sold is refused by name, and then nothing of this request stays blocked.
#[utoipa::path(
    post, path = "/admin/events/{id}/blocks", tag = "admin", security(("operator" = [])), request_body = BlockRequest,
    params(
        ("id" = u32, Path, description = "The event"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 201, body = Blocks), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn block(
    State(state): State<Arc<AdminState>>,
    Operator(operator): Operator,
    Keyed(key): Keyed,
    At(text): At<String>,
    Parsed(request): Parsed<BlockRequest>,
) -> Result<Response, HttpError> {
    cart::check_size(&request.seats, &request.places, MOST)?;
    if request.reason.chars().count() > REASON_LEN || request.reason.contains(char::is_control) {
        return Err(HttpError::invalid_field(
            "reason",
            format!("a reason has at most {REASON_LEN} characters, in one line"),
        ));
    }
    let event = state.catalogue.event(event_id(&text)?).await?;
    let whole = cart::resolve(&state.catalogue, &event, &request.seats, &request.places).await?;
    let mut made = Vec::new();
    for (number, cart) in one_by_one(whole).into_iter().enumerate() {
        let wish = Wish { event: &event, operator: &operator.user, key: &key, number, cart, request: &request };
        match keep_back(&state, wish).await {
            Ok(view) => made.push(view),
            Err(error) => {
                // All or nothing: what was made before is released again.
                for view in &made {
                    let _released = state.catalogue.store().cancel(view.id, None).await;
                }
                return Err(error);
            }
        }
    }
    let mut blocks = Vec::new();
    for view in &made {
        blocks.push(shown(&state, &event, view).await?);
    }
    Ok((StatusCode::CREATED, Json(Blocks { blocks })).into_response())
}

/// One claim per seat or place, so that each can be released alone.
fn one_by_one(cart: Cart) -> Vec<Cart> {
    let Cart::Chosen { seats, places } = cart else { return Vec::new() };
    let seats = seats.into_iter().map(|seat| Cart::Chosen { seats: vec![seat], places: Vec::new() });
    let places = places.into_iter().flat_map(|(section, count)| {
        (0..count).map(move |_| Cart::Chosen { seats: Vec::new(), places: vec![(section, 1)] })
    });
    seats.chain(places).collect()
}

struct Wish<'a> {
    event: &'a EventRecord,
    operator: &'a UserId,
    key: &'a IdempotencyKey,
    number: usize,
    cart: Cart,
    request: &'a BlockRequest,
}

async fn keep_back(state: &AdminState, wish: Wish<'_>) -> Result<ReservationView, HttpError> {
    let key = format!("{}#{}", wish.key, wish.number);
    let begin = Begin {
        key: key
            .parse()
            .map_err(|_| HttpError::invalid_field("Idempotency-Key", "it is too long for so many seats"))?,
        fingerprint: fingerprint(&Method::POST, &format!("/admin/events/{}/blocks", wish.event.id), wish.request),
        user: wish.operator.clone(),
        cart: wish.cart.clone(),
        promotion: None,
        pass: None,
        sent_at: wall_now(),
        hold_ttl_ms: None,
        purpose: Purpose::Block,
        note: (!wish.request.reason.is_empty()).then(|| wish.request.reason.clone()),
    };
    let asked = Asked { catalogue: &state.catalogue, event: wish.event, cart: &wish.cart, user: wish.operator };
    match state.catalogue.store().begin(wish.event.id, begin).await? {
        Outcome::Reservation(view) if view.status == Status::Held => Ok(*view),
        // The key's earlier block was released since, or is not decided: those seats are not kept back by it.
        Outcome::Reservation(view) => {
            let now = if view.status.is_terminal() { "was released" } else { "is not decided yet" };
            let why = format!("an earlier block under this key {now}: use a fresh key");
            Err(HttpError::invalid_field("Idempotency-Key", &why))
        }
        Outcome::Refused(refusal) => Err(asked.refused(refusal, true).await),
        Outcome::Advised(refusal) => Err(asked.refused(refusal, false).await),
        other => {
            tracing::error!(?other, "the store gave a block an answer that is not one");
            Err(HttpError::internal())
        }
    }
}

/// Release a block: its seats go on sale. Repeating it changes nothing.
#[utoipa::path(
    delete, path = "/admin/blocks/{id}", tag = "admin", security(("operator" = [])),
    params(
        ("id" = String, Path, description = "The block"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 200, body = BlockView), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn release(
    State(state): State<Arc<AdminState>>,
    Operator(_operator): Operator,
    Keyed(_repeating_changes_nothing): Keyed,
    At(text): At<String>,
) -> Result<Json<BlockView>, HttpError> {
    let block: ReservationId = id(&text, "block")?;
    if block.bucket != Bucket::BOX_OFFICE {
        return Err(HttpError::not_found("block"));
    }
    match state.catalogue.store().cancel(block, None).await? {
        Outcome::Reservation(view) => {
            let event = state.catalogue.event(block.event).await?;
            shown(&state, &event, &view).await.map(Json)
        }
        Outcome::Unknown => Err(HttpError::not_found("block")),
        other => {
            tracing::error!(?other, "the store gave a release an answer that is not one");
            Err(HttpError::internal())
        }
    }
}

async fn shown(state: &AdminState, event: &EventRecord, view: &ReservationView) -> Result<BlockView, HttpError> {
    Ok(BlockView {
        block_id: view.id.to_string(),
        seats: state.catalogue.labels(event, &render::seats_of(view)).await?,
        status: render::status_word(view.status).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{SeatIndex, SeatRef, SectionId};

    #[test]
    fn every_seat_is_a_claim_of_its_own() {
        let seat = |seat| SeatRef { section: SectionId(1), seat: SeatIndex(seat) };
        let carts = one_by_one(Cart::Chosen { seats: vec![seat(1), seat(2)], places: vec![(SectionId(9), 3)] });
        assert_eq!(carts.len(), 5);
        let one = |cart: &Cart| matches!(cart, Cart::Chosen { seats, places } if seats.len() + places.len() == 1);
        assert!(carts.iter().all(one));
    }
}
