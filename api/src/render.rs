//! From the store's records to the wire: names for ids, moments for ticks.

use crate::catalogue::Catalogue;
use crate::error::HttpError;
use crate::wire::catalogue::{EventLinks, EventSummary};
use crate::wire::reservation::{HeldSeat, Reservation, ReservationLinks, SeatLabel};
use crate::wire::{timestamp, wall_now};
use domain::ids::SeatRef;
use domain::inventory::record::{EventStatus, QuotedSeat, SectionKind};
use domain::inventory::{EventRecord, ReservationView, Status};
use domain::money::Minor;
use domain::time::WallMs;

/// Where the contract lives.
pub const BASE: &str = "/api/v1";

/// The word on the wire.
pub fn status_word(status: Status) -> &'static str {
    match status {
        Status::Preparing => "preparing",
        Status::Offered => "offered",
        Status::Held => "held",
        Status::Paid => "paid",
        Status::Expired => "expired",
        Status::Cancelled => "cancelled",
        Status::Aborted => "aborted",
    }
}

/// The word on the wire.
pub fn kind_word(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Seated => "seated",
        SectionKind::Standing => "standing",
    }
}

/// When a hold ends or has ended, by the wall; for people.
pub fn ends_at(view: &ReservationView) -> WallMs {
    let now = wall_now();
    match view.ended_at {
        Some(at) => at,
        None if view.status.is_terminal() => now,
        None => WallMs(now.0.saturating_add(view.remaining_ms)),
    }
}

/// A reservation as its owner sees it.
pub async fn reservation(
    catalogue: &Catalogue,
    event: &EventRecord,
    view: &ReservationView,
) -> Result<Reservation, HttpError> {
    let labels = catalogue.labels(event, &seats_of(view)).await?;
    let seats = view.seats.iter().zip(labels).map(|(quoted, at)| held_seat(quoted, at)).collect();
    let ends_at = timestamp(ends_at(view));
    let this = format!("{BASE}/reservations/{}", view.id);
    Ok(Reservation {
        reservation_id: view.id.to_string(),
        event_id: view.id.event.0,
        status: status_word(view.status).to_owned(),
        seats,
        total_cents: view.total.0,
        currency: view.currency.to_string(),
        promotion: view.promotion.as_ref().map(ToString::to_string),
        together: view.together,
        created_at: timestamp(view.created_at),
        expires_at: ends_at.clone(),
        remaining_ms: if view.status.is_terminal() { 0 } else { view.remaining_ms },
        payment_deadline: ends_at,
        ended_at: view.ended_at.map(timestamp),
        payment_id: view.payment.map(|payment| payment.to_string()),
        links: ReservationLinks { payment: format!("{this}/payment"), this },
    })
}

fn held_seat(quoted: &QuotedSeat, at: SeatLabel) -> HeldSeat {
    HeldSeat {
        section: at.section,
        row: at.row,
        seat: at.seat,
        price_cents: quoted.net().0,
        full_price_cents: quoted.gross.0,
    }
}

/// The seats of a reservation.
pub fn seats_of(view: &ReservationView) -> Vec<SeatRef> {
    view.seats.iter().map(|quoted| quoted.seat).collect()
}

/// An event in a list.
pub fn summary(event: &EventRecord, now: WallMs) -> EventSummary {
    let this = format!("{BASE}/events/{}", event.id);
    let status = match event.status {
        EventStatus::Scheduled if event.on_sale_at <= now => "on_sale",
        EventStatus::Scheduled => "scheduled",
        EventStatus::Closed => "closed",
        EventStatus::Cancelled => "cancelled",
    };
    EventSummary {
        event_id: event.id.0,
        title: event.title.clone(),
        venue: event.venue.clone(),
        starts_at: timestamp(event.starts_at),
        on_sale_at: timestamp(event.on_sale_at),
        status: status.to_owned(),
        currency: event.currency.to_string(),
        capacity: event.sections.iter().map(|section| u64::from(section.capacity)).sum(),
        from_price_cents: event.tiers.iter().map(|tier| tier.base).min().unwrap_or(Minor(0)).0,
        links: EventLinks {
            layout: format!("{this}/layout?version={}", event.plan_version),
            seats: format!("{this}/seats"),
            stream: format!("{this}/stream"),
            this,
        },
    }
}

/// The name of a section's price category.
pub fn tier_name(event: &EventRecord, tier: u16) -> String {
    event.tiers.get(usize::from(tier)).map_or_else(String::new, |tier| tier.name.clone())
}
