//! Paying for a hold, and asking what became of it.
//!
//! This plane writes the wish down and answers; who asks the provider is elsewhere, and what counts is the provider's own
//! word. Amount and currency come from the frozen quote: what the browser says is only compared with it.

use super::reservations::own;
use super::{At, id};
use crate::auth::SignedIn;
use crate::body::Parsed;
use crate::error::HttpError;
use crate::holds::ended;
use crate::idempotency::{Keyed, fingerprint};
use crate::render::{self, BASE};
use crate::router::BuyState;
use crate::wire::payment::{PayRequest, PaymentAccepted, PaymentStatus};
use crate::wire::problem::Problem;
use crate::wire::wall_now;
use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::{IdempotencyKey, PaymentId, ReservationId};
use domain::inventory::{EventRecord, ReservationView, Status};
use domain::money::Currency;
use domain::order::payment::PaymentState;
use ledger::payments::{BeginOutcome, BeginPayment, PaymentView, SeatLine};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the ledger is asked for the client secret.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Longest payment method and token.
const METHOD_LEN: usize = 40;
const TOKEN_LEN: usize = 255;

/// Pay for a hold. The outcome comes from the provider; ask for it at `poll_url`.
#[utoipa::path(
    post, path = "/api/v1/reservations/{id}/payment", tag = "buy", security(("fan" = [])), request_body = PayRequest,
    params(
        ("id" = String, Path, description = "The reservation"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 202, description = "Under way", body = PaymentAccepted),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "AMOUNT_MISMATCH {amount_cents, currency}, PAYMENT_ALREADY_OPEN {payment_id, \
            poll_url}, RESERVATION_PAID, RESERVATION_NOT_HELD, IDEMPOTENCY_KEY_REUSED", body = Problem),
        (status = 410, description = "HOLD_EXPIRED {expired_at}, RESERVATION_ENDED", body = Problem),
        (status = 422, body = Problem), (status = 429, body = Problem),
        (status = 503, description = "LEDGER_UNAVAILABLE, STORE_UNAVAILABLE", body = Problem)
    )
)]
pub async fn pay(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    Keyed(key): Keyed,
    At(text): At<String>,
    Parsed(request): Parsed<PayRequest>,
) -> Result<Response, HttpError> {
    state.limit(&fan.user)?;
    let currency = check(&request)?;
    let digest = digest(id(&text, "reservation")?, &request);
    // A repetition has its answer, also when the hold has ended since.
    if let Some(known) = state.ledger.begun(fan.user.clone(), key.clone(), digest.clone()).await? {
        return answer(&state, known).await;
    }
    let view = own(&state, &text, &fan.user).await?;
    if request.amount_cents != view.total.0 || currency != view.currency {
        return Err(amount_mismatch(&view));
    }
    match view.status {
        Status::Held => {}
        // Only a repetition of what paid it can be answered; a fresh wish must not become a second charge.
        Status::Paid => still_open(&state, &view).await?,
        Status::Expired => return Err(HttpError::hold_expired(render::ends_at(&view))),
        Status::Cancelled | Status::Aborted => return Err(ended(&view)),
        Status::Preparing | Status::Offered => return Err(not_held(&view)),
    }
    let event = state.catalogue.event(view.id.event).await?;
    let mut begin = begin(&state, &event, &view, (key, digest), &request).await?;
    begin.email = fan.email;
    let outcome = state.ledger.begin_payment(begin).await?;
    answer(&state, outcome).await
}

async fn answer(state: &BuyState, outcome: BeginOutcome) -> Result<Response, HttpError> {
    match outcome {
        BeginOutcome::Begun(payment) | BeginOutcome::Repeated(payment) => {
            let payment = with_client_secret(state, payment).await;
            Ok((StatusCode::ACCEPTED, Json(accepted(&payment))).into_response())
        }
        BeginOutcome::KeyReused => {
            let message = "This Idempotency-Key was used for another payment. Use a fresh one.";
            Err(HttpError::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", message))
        }
        BeginOutcome::AlreadyOpen(payment) => Err(already_open(&payment)),
        BeginOutcome::Released => {
            let message = "A payment for this reservation failed, and its seats are no longer held.";
            Err(HttpError::new(StatusCode::GONE, "RESERVATION_ENDED", message))
        }
    }
}

/// Tells a repetition from another wish under the same key.
fn digest(reservation: ReservationId, request: &PayRequest) -> String {
    let path = format!("{BASE}/reservations/{reservation}/payment");
    hex::encode(fingerprint(&Method::POST, &path, request))
}

fn check(request: &PayRequest) -> Result<Currency, HttpError> {
    let visible =
        |text: &str, most: usize| !text.is_empty() && text.len() <= most && text.bytes().all(|b| b.is_ascii_graphic());
    if !visible(&request.payment_method, METHOD_LEN) {
        let why = format!("a payment method has 1 to {METHOD_LEN} visible characters, such as \"card\"");
        return Err(HttpError::invalid_field("payment_method", why));
    }
    if request.payment_token.as_ref().is_some_and(|token| !visible(token, TOKEN_LEN)) {
        let why = format!("a payment token has 1 to {TOKEN_LEN} visible characters");
        return Err(HttpError::invalid_field("payment_token", why));
    }
    request.currency.parse().map_err(|error| HttpError::invalid_field("currency", error))
}

fn amount_mismatch(view: &ReservationView) -> HttpError {
    let owed = view.total.display(view.currency);
    let message = format!("The amount is not what this reservation costs: {owed}. Nothing was charged.");
    HttpError::new(StatusCode::CONFLICT, "AMOUNT_MISMATCH", message)
        .with("amount_cents", view.total.0)
        .with("currency", view.currency.to_string())
}

fn not_held(view: &ReservationView) -> HttpError {
    HttpError::new(StatusCode::CONFLICT, "RESERVATION_NOT_HELD", "This reservation is not held yet.")
        .with("status", render::status_word(view.status))
}

/// Whether the payment that bought it still stands in the ledger, so that no new one can begin.
async fn still_open(state: &BuyState, view: &ReservationView) -> Result<(), HttpError> {
    let payment = match view.payment {
        Some(payment) => state.ledger.payment(payment).await?,
        None => None,
    };
    match payment {
        Some(payment) if payment.state.is_open() => Ok(()),
        _ => {
            let message = "This reservation is paid already.";
            Err(HttpError::new(StatusCode::CONFLICT, "RESERVATION_PAID", message))
        }
    }
}

async fn begin(
    state: &BuyState,
    event: &EventRecord,
    view: &ReservationView,
    (key, fingerprint): (IdempotencyKey, String),
    request: &PayRequest,
) -> Result<BeginPayment, HttpError> {
    let labels = state.catalogue.labels(event, &render::seats_of(view)).await?;
    let seats = view.seats.iter().zip(labels).map(|(quoted, at)| SeatLine {
        seat: quoted.seat,
        section: at.section,
        row: at.row,
        label: at.seat,
        price: quoted.net(),
    });
    Ok(BeginPayment {
        payment: PaymentId(uuid::Uuid::new_v4().as_u128()),
        key,
        fingerprint,
        reservation: view.id,
        user: view.user.clone(),
        email: None,
        method: request.payment_method.clone(),
        token: request.payment_token.clone(),
        amount: view.total,
        currency: view.currency,
        seats: seats.collect(),
        retry_declined: event.retry_declined,
        now: wall_now(),
    })
}

/// Wait a little for the provider's answer; without it the page polls.
async fn with_client_secret(state: &BuyState, mut payment: PaymentView) -> PaymentView {
    let deadline = Instant::now() + state.client_secret_wait;
    while payment.state == PaymentState::Initializing && payment.client_secret.is_none() && Instant::now() < deadline {
        tokio::time::sleep(ASK_EVERY).await;
        match state.ledger.payment(payment.id).await {
            Ok(Some(now)) => payment = now,
            // It is written down; that it cannot be read now changes nothing.
            Ok(None) | Err(_) => break,
        }
    }
    payment
}

fn accepted(payment: &PaymentView) -> PaymentAccepted {
    PaymentAccepted {
        payment_id: payment.id.to_string(),
        status: payment.status().as_str().to_owned(),
        reservation_id: payment.reservation.to_string(),
        client_secret: payment.client_secret.clone(),
        poll_url: poll_url(payment.id),
    }
}

fn poll_url(payment: PaymentId) -> String {
    format!("{BASE}/payments/{payment}/status")
}

fn already_open(payment: &PaymentView) -> HttpError {
    let (code, message) = match payment.state {
        PaymentState::Succeeded => ("RESERVATION_PAID", "This reservation is paid already."),
        _ => ("PAYMENT_ALREADY_OPEN", "A payment for this reservation is under way: wait for its outcome."),
    };
    HttpError::new(StatusCode::CONFLICT, code, message)
        .with("payment_id", payment.id.to_string())
        .with("status", payment.status().as_str())
        .with("poll_url", poll_url(payment.id))
}

/// What became of a payment.
#[utoipa::path(
    get, path = "/api/v1/payments/{id}/status", tag = "buy", security(("fan" = [])),
    params(("id" = String, Path, description = "The payment")),
    responses(
        (status = 200, body = PaymentStatus), (status = 401, body = Problem),
        (status = 404, description = "None, or another fan's", body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn status(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    At(text): At<String>,
) -> Result<Json<PaymentStatus>, HttpError> {
    let found = state.ledger.payment(id(&text, "payment")?).await?;
    let payment = found.filter(|one| one.user == fan.user).ok_or_else(|| HttpError::not_found("payment"))?;
    let pending = matches!(payment.state, PaymentState::Initializing | PaymentState::Pending);
    Ok(Json(PaymentStatus {
        payment_id: payment.id.to_string(),
        reservation_id: payment.reservation.to_string(),
        status: payment.status().as_str().to_owned(),
        amount_cents: payment.amount.0,
        currency: payment.currency.to_string(),
        client_secret: payment.client_secret.filter(|_| pending),
        reason: payment.failure,
    }))
}
