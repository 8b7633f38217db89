//! Why a hold was not granted, in the words of the contract: every refusal of the store has its status and code here.

use crate::catalogue::Catalogue;
use crate::error::HttpError;
use crate::ports::Store;
use crate::render;
use crate::suggest;
use crate::wire::reservation::SectionAlternative;
use crate::wire::timestamp;
use axum::http::StatusCode;
use domain::ids::{ReservationId, SeatRef, UserId};
use domain::inventory::command::Cart;
use domain::inventory::outcome::Alternative;
use domain::inventory::{EventRecord, Refusal};
use serde_json::json;

/// What was asked for, as far as a refusal speaks of it.
pub struct Asked<'a> {
    /// Names for ids.
    pub catalogue: &'a Catalogue,
    /// The event.
    pub event: &'a EventRecord,
    /// What was wanted.
    pub cart: &'a Cart,
    /// Who asked.
    pub user: &'a UserId,
}

impl Asked<'_> {
    /// The answer for this refusal. One that is not `last` may be granted to the same request later.
    pub async fn refused(&self, refusal: Refusal, last: bool) -> HttpError {
        let error = match refusal {
            Refusal::SeatsTaken(seats) => self.seats_taken(&seats).await,
            Refusal::PlacesTaken { section, left } => self.places_taken(section, left).await,
            Refusal::NoMatchingSeats { alternatives } => self.no_matching_seats(&alternatives),
            Refusal::CheckoutOpen(open) => self.checkout_open(open).await,
            other => plain(other),
        };
        error.with("final", last)
    }

    async fn seats_taken(&self, seats: &[SeatRef]) -> HttpError {
        let labels = match self.catalogue.labels(self.event, seats).await {
            Ok(labels) => labels,
            Err(error) => return error,
        };
        let suggestion = suggest::instead(self.catalogue, self.event, self.cart, seats).await;
        let message = match labels.len() {
            1 => "This seat was taken by somebody else.".to_owned(),
            many => format!("{many} of these seats were taken by somebody else."),
        };
        conflict("SEAT_UNAVAILABLE", message)
            .with("unavailable_seats", json!(labels))
            .with("suggestion", json!(suggestion))
    }

    async fn places_taken(&self, section: domain::ids::SectionId, left: u32) -> HttpError {
        let name = self.event.section(section).map_or_else(String::new, |section| section.name.clone());
        conflict("SEAT_UNAVAILABLE", format!("The section {name} has {left} places left."))
            .with("unavailable_seats", json!([]))
            .with("unavailable_places", json!([{"section": name, "left": left}]))
            .with("suggestion", json!(null))
    }

    fn no_matching_seats(&self, alternatives: &[Alternative]) -> HttpError {
        let named = alternatives.iter().filter(|one| one.free > 0).filter_map(|one| {
            let section = self.event.section(one.section)?.name.clone();
            Some(SectionAlternative { section, free: one.free, largest_together: one.largest_together })
        });
        let named: Vec<SectionAlternative> = named.collect();
        let message = if named.is_empty() {
            "No seats are left that fit your wishes."
        } else {
            "No seats fit all your wishes; there are others."
        };
        HttpError::new(StatusCode::NOT_FOUND, "NO_MATCHING_SEATS", message).with("alternatives", json!(named))
    }

    /// The open reservation goes back to its owner, so that a lost answer does not lock them out.
    async fn checkout_open(&self, open: ReservationId) -> HttpError {
        let message = "You have a checkout open already: pay for it or give it back first.";
        let mut error = conflict("CHECKOUT_ALREADY_OPEN", message).with("reservation_id", open.to_string());
        let store: &dyn Store = &**self.catalogue.store();
        if let Ok(Some(view)) = store.reservation(open).await
            && view.user == *self.user
            && let Ok(record) = render::reservation(self.catalogue, self.event, &view).await
        {
            error = error.with("reservation", json!(record));
        }
        error
    }
}

fn conflict(code: &str, message: impl Into<String>) -> HttpError {
    HttpError::new(StatusCode::CONFLICT, code, message)
}

/// Refusals that need no names.
fn plain(refusal: Refusal) -> HttpError {
    match refusal {
        Refusal::KeyReused => {
            conflict("IDEMPOTENCY_KEY_REUSED", "This Idempotency-Key was used for another request. Use a fresh one.")
        }
        Refusal::TicketLimit { limit, has } => {
            let message = format!("One fan may have {limit} seats of this event, and you have {has} already.");
            conflict("TICKET_LIMIT", message).with("limit", limit).with("has", has)
        }
        Refusal::PassUsed => {
            let message = "This pass has been used for an earlier hold. Join the waiting room to get a new one.";
            HttpError::new(StatusCode::FORBIDDEN, "QUEUE_TOKEN_USED", message)
        }
        Refusal::PromotionUnknown => {
            HttpError::invalid_field_as("PROMOTION_UNKNOWN", "There is no such promotion code for this event.")
        }
        Refusal::PromotionExhausted => conflict("PROMOTION_EXHAUSTED", "All uses of this promotion code are taken."),
        Refusal::PromotionUsed => conflict("PROMOTION_USED", "You have used this promotion code already."),
        Refusal::NotOnSale { on_sale_at } => {
            let at = timestamp(on_sale_at);
            conflict("NOT_ON_SALE", format!("The sale begins at {at}.")).with("on_sale_at", at)
        }
        Refusal::SaleClosed => conflict("SALE_CLOSED", "This event is not on sale any more."),
        Refusal::BadCart(why) => HttpError::invalid_cart(format!("These seats cannot be held together: {why}.")),
        Refusal::NoSuchSeat(seat) => {
            let message = format!("There is no seat {} in section {} of this event.", seat.seat, seat.section);
            HttpError::invalid_field_as("UNKNOWN_SEAT", message)
        }
        Refusal::PriceOverflow => HttpError::invalid_cart("The sum of these prices cannot be charged."),
        Refusal::PrepareTimeout | Refusal::ParticipantGone => {
            let message =
                "The seats could not all be asked in time. Nothing was held; try again with a fresh Idempotency-Key.";
            HttpError::unavailable("HOLD_NOT_DECIDED", message, 1)
        }
        Refusal::SeatsTaken(_)
        | Refusal::PlacesTaken { .. }
        | Refusal::NoMatchingSeats { .. }
        | Refusal::CheckoutOpen(_) => {
            unreachable!("answered with names before")
        }
    }
}
