//! The best seats that can be had, picked and held in one step by the store. Here only the order of sections is made.

use super::{At, event_id};
use crate::auth::{self, SignedIn};
use crate::body::Parsed;
use crate::cart;
use crate::error::HttpError;
use crate::holds::{Wish, hold};
use crate::idempotency::{Keyed, fingerprint};
use crate::pricing_hint::price_now;
use crate::router::BuyState;
use crate::wire::problem::Problem;
use crate::wire::reservation::{BestAvailableRequest, Preferences, Reservation};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use domain::ids::SectionId;
use domain::inventory::EventRecord;
use domain::inventory::command::{BestAvailable, Cart};
use domain::inventory::record::{SectionKind, SectionSummary};
use domain::limits;
use domain::money::Minor;
use std::sync::Arc;

/// Hold the best seats that fit the wishes.
#[utoipa::path(
    post, path = "/api/v1/events/{id}/best-available", tag = "buy", security(("fan" = [])),
    request_body = BestAvailableRequest,
    params(
        ("id" = u32, Path, description = "The event"),
        ("Idempotency-Key" = String, Header, description = "A fresh one for each wish; the same one repeats it"),
        ("X-Queue-Token" = String, Header, description = "The waiting room's pass")
    ),
    responses(
        (status = 201, description = "Held; `together` says whether all are neighbours", body = Reservation),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, description = "NO_MATCHING_SEATS {alternatives}, EVENT_NOT_FOUND", body = Problem),
        (status = 409, body = Problem), (status = 410, body = Problem), (status = 422, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem)
    )
)]
pub async fn best_available(
    State(state): State<Arc<BuyState>>,
    SignedIn(fan): SignedIn,
    Keyed(key): Keyed,
    At(text): At<String>,
    headers: HeaderMap,
    Parsed(request): Parsed<BestAvailableRequest>,
) -> Result<Response, HttpError> {
    state.limit(&fan.user)?;
    let wanted = event_id(&text)?;
    check(&request)?;
    let promotion = cart::promotion(request.promotion.as_ref())?;
    let event = state.catalogue.event(wanted).await?;
    let pass = auth::pass(&headers, &state.passes, wanted, &fan.user)?;
    let hold_ttl_ms = cart::hold_ttl_ms(request.hold_duration_seconds, &event)?;
    let sections = sections(&state, &event, &request.preferences).await?;
    if sections.is_empty() {
        return Err(nothing_fits());
    }
    let cart = Cart::Best(BestAvailable {
        sections,
        count: request.count as u8,
        contiguous: request.preferences.contiguous,
        accessible: request.preferences.accessible as u8,
        max_price: request.preferences.max_price_cents.map(Minor),
    });
    let fingerprint = fingerprint(&Method::POST, &format!("/api/v1/events/{wanted}/best-available"), &request);
    hold(state, pass, Wish { event, user: fan.user, key, fingerprint, cart, promotion, hold_ttl_ms }).await
}

fn check(request: &BestAvailableRequest) -> Result<(), HttpError> {
    if !(1..=limits::CART_SEATS as u32).contains(&request.count) {
        let message = format!("Ask for 1 to {} seats.", limits::CART_SEATS);
        return Err(HttpError::invalid_cart(message).with("limit", limits::CART_SEATS));
    }
    if request.preferences.accessible > request.count {
        let why = "there cannot be more seats for wheelchair users than seats";
        return Err(HttpError::invalid_field("preferences.accessible", why));
    }
    if request.preferences.max_price_cents.is_some_and(|max| max < 0) {
        return Err(HttpError::invalid_field("preferences.max_price_cents", "a price is not negative"));
    }
    Ok(())
}

/// Sections to try, preferred first: better category, then cheaper. Seats that a fan cannot want are left out; standing
/// places are given only to who asks for their section or category.
async fn sections(state: &BuyState, event: &EventRecord, wishes: &Preferences) -> Result<Vec<SectionId>, HttpError> {
    let tier = wishes.tier.as_ref().map(|name| tier_named(event, name)).transpose()?;
    if let Some(name) = &wishes.section
        && event.section_named(name).is_none()
    {
        let message = format!("There is no section {name:?} at this event.");
        return Err(HttpError::invalid_field_as("UNKNOWN_SEAT", message).with("field", "preferences.section"));
    }
    let named = wishes.section.is_some() || tier.is_some();
    let fits = |section: &&SectionSummary| {
        wishes.section.as_ref().is_none_or(|name| *name == section.name)
            && tier.is_none_or(|tier| tier == section.tier)
            && (named || section.kind == SectionKind::Seated)
    };
    let mut priced = Vec::new();
    for section in event.sections.iter().filter(fits) {
        // An old price here only orders sections; the store checks the real one against the fan's limit.
        priced.push((section, price_now(&state.catalogue, event, section).await));
    }
    Ok(cart::ordered(priced))
}

/// 404 without asking the store: no section of this event is of the kind that is wanted.
fn nothing_fits() -> HttpError {
    let message = "No section of this event fits all your wishes.";
    HttpError::new(StatusCode::NOT_FOUND, "NO_MATCHING_SEATS", message)
        .with("alternatives", serde_json::json!([]))
        .with("final", true)
}

fn tier_named(event: &EventRecord, name: &str) -> Result<u16, HttpError> {
    let found = event.tiers.iter().position(|tier| tier.name == name);
    found.and_then(|index| u16::try_from(index).ok()).ok_or_else(|| {
        HttpError::invalid_field("preferences.tier", format!("there is no price category {name:?} at this event"))
    })
}
