//! A fan's tickets, and the secret for the offline code: once a device, for the owner alone.

use super::{At, id};
use crate::auth::SignedIn;
use crate::body::Asked;
use crate::error::HttpError;
use crate::idempotency::Keyed;
use crate::render::BASE;
use crate::router::BuyState;
use crate::wire::problem::Problem;
use crate::wire::ticket::{Ticket, TicketLinks, TicketList, WalletSecret};
use crate::wire::{timestamp, wall_now};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::ids::{EventId, UserId};
use domain::inventory::EventRecord;
use domain::{limits, ticket_code};
use ledger::Sealer;
use ledger::tickets::{Ticket as Entry, TicketState};
use ledger::wallets::{DeviceGrant, DeviceRemoval};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::IntoParams;

/// Which device asks.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeviceQuery {
    /// A name that the device chose for itself and keeps, 1 to 64 visible characters.
    device: String,
}

/// The fan's tickets, newest first.
#[utoipa::path(
    get, path = "/api/v1/me/tickets", tag = "tickets", security(("fan" = [])),
    responses((status = 200, body = TicketList), (status = 401, body = Problem), (status = 503, body = Problem))
)]
pub async fn mine(State(state): State<Arc<BuyState>>, SignedIn(fan): SignedIn) -> Result<Json<TicketList>, HttpError> {
    let entries = state.ledger.tickets_of_user(fan.user).await?;
    let events = events(&state).await;
    let tickets = entries.iter().map(|entry| ticket(entry, events.get(&entry.event).map(Arc::as_ref))).collect();
    Ok(Json(TicketList { tickets }))
}

/// One ticket.
#[utoipa::path(
    get, path = "/api/v1/tickets/{id}", tag = "tickets", security(("fan" = [])),
    params(("id" = String, Path, description = "The ticket")),
    responses(
        (status = 200, body = Ticket), (status = 401, body = Problem),
        (status = 404, description = "None, or another fan's", body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn one(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    At(text): At<String>,
) -> Result<Json<Ticket>, HttpError> {
    let entry = own(&state, &text, &fan.user).await?;
    let events = events(&state).await;
    Ok(Json(ticket(&entry, events.get(&entry.event).map(Arc::as_ref))))
}

/// The secret of a ticket's rotating code, once for each device.
#[utoipa::path(
    get, path = "/api/v1/tickets/{id}/wallet", tag = "tickets", security(("fan" = [])),
    params(("id" = String, Path, description = "The ticket"), DeviceQuery),
    responses(
        (status = 200, body = WalletSecret), (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "WALLET_ALREADY_GIVEN, TOO_MANY_DEVICES", body = Problem),
        (status = 410, description = "TICKET_REVOKED, DEVICE_REVOKED", body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn wallet(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    At(text): At<String>,
    Asked(query): Asked<DeviceQuery>,
) -> Result<Response, HttpError> {
    state.limit(&fan.user)?;
    let device = device(query)?;
    let entry = own(&state, &text, &fan.user).await?;
    if entry.state == TicketState::Revoked {
        let message = "This ticket was refunded and no longer lets anybody in.";
        return Err(HttpError::new(StatusCode::GONE, "TICKET_REVOKED", message));
    }
    let (sealed, version) = match state.ledger.grant_device(entry.id, device.clone(), wall_now()).await? {
        DeviceGrant::Granted { sealed_secret, version } => (sealed_secret, version),
        DeviceGrant::GivenBefore => {
            let message = "This device was given the ticket's secret before and should have kept it.";
            return Err(HttpError::new(StatusCode::CONFLICT, "WALLET_ALREADY_GIVEN", message));
        }
        DeviceGrant::TooMany => {
            let message = format!("A ticket can be carried by {} devices; remove one first.", limits::TICKET_DEVICES);
            return Err(HttpError::new(StatusCode::CONFLICT, "TOO_MANY_DEVICES", message));
        }
        DeviceGrant::Revoked => {
            let message = "This device was removed from the ticket.";
            return Err(HttpError::new(StatusCode::GONE, "DEVICE_REVOKED", message));
        }
    };
    let secret = state.sealer.open(entry.id, &sealed).map_err(|error| {
        tracing::error!(%error, "a ticket's secret does not open: is the sealing key the one it was sealed with?");
        HttpError::internal()
    })?;
    let body = WalletSecret {
        ticket_id: entry.id.to_string(),
        device,
        secret: hex::encode(secret),
        secret_version: version,
        window_seconds: ticket_code::WINDOW_MS / 1_000,
        server_time_ms: wall_now().0,
    };
    Ok(([(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], Json(body)).into_response())
}

/// Remove a device. The ticket has another secret from now on, so that what the device kept makes no valid code; the
/// devices that remain fetch the new one. Repeating it changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/tickets/{id}/wallet", tag = "tickets", security(("fan" = [])),
    params(
        ("id" = String, Path, description = "The ticket"), DeviceQuery,
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it")
    ),
    responses(
        (status = 204, description = "Removed"), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, description = "TICKET_NOT_FOUND, DEVICE_NOT_FOUND: no such device carries it", body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn remove_device(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    Keyed(_repeating_changes_nothing): Keyed,
    At(text): At<String>,
    Asked(query): Asked<DeviceQuery>,
) -> Result<StatusCode, HttpError> {
    state.limit(&fan.user)?;
    let device = device(query)?;
    let entry = own(&state, &text, &fan.user).await?;
    let fresh = state.sealer.seal(entry.id, &Sealer::fresh_secret());
    match state.ledger.revoke_device(entry.id, device, fresh, wall_now()).await? {
        DeviceRemoval::Removed | DeviceRemoval::RemovedBefore => Ok(StatusCode::NO_CONTENT),
        DeviceRemoval::Unknown => Err(HttpError::not_found("device")),
    }
}

fn device(query: DeviceQuery) -> Result<String, HttpError> {
    let device = query.device;
    if (1..=limits::DEVICE_LEN).contains(&device.len()) && device.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(device);
    }
    let message = format!("The device's name must be 1 to {} visible characters.", limits::DEVICE_LEN);
    Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_QUERY", message))
}

async fn own(state: &BuyState, text: &str, user: &UserId) -> Result<Entry, HttpError> {
    let found = state.ledger.ticket(id(text, "ticket")?).await?;
    found.filter(|ticket| ticket.user == *user).ok_or_else(|| HttpError::not_found("ticket"))
}

/// Titles and times, as far as the store can be asked: a ticket is shown without them rather than not at all.
async fn events(state: &BuyState) -> Arc<BTreeMap<EventId, Arc<EventRecord>>> {
    state.catalogue.events().await.unwrap_or_default()
}

fn ticket(entry: &Entry, event: Option<&EventRecord>) -> Ticket {
    let this = format!("{BASE}/tickets/{}", entry.id);
    Ticket {
        ticket_id: entry.id.to_string(),
        event_id: entry.event.0,
        event_title: event.map_or_else(String::new, |event| event.title.clone()),
        venue: event.map_or_else(String::new, |event| event.venue.clone()),
        starts_at: event.map_or_else(String::new, |event| timestamp(event.starts_at)),
        reservation_id: entry.reservation.to_string(),
        section: entry.seat.section.clone(),
        row: entry.seat.row.clone(),
        seat: entry.seat.label.clone(),
        price_cents: entry.seat.price.0,
        currency: entry.currency.to_string(),
        status: match entry.state {
            TicketState::Valid => "valid".to_owned(),
            TicketState::Revoked => "revoked".to_owned(),
        },
        secret_version: entry.secret_version,
        issued_at: timestamp(entry.issued_at),
        links: TicketLinks { wallet: format!("{this}/wallet"), this },
    }
}
