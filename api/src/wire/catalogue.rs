//! Browsing: events, geometry and the state of seats.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// In the order of their start.
    pub events: Vec<EventSummary>,
}

/// An event in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSummary {
    /// Its id.
    pub event_id: u32,
    /// Its title.
    pub title: String,
    /// Where.
    pub venue: String,
    /// When.
    pub starts_at: String,
    /// When the sale begins.
    pub on_sale_at: String,
    /// `scheduled`, `on_sale`, `closed` or `cancelled`.
    pub status: String,
    /// ISO 4217, of every price of the event.
    pub currency: String,
    /// Seats and places in all.
    pub capacity: u64,
    /// The cheapest price category before occupancy, in minor units.
    pub from_price_cents: i64,
    /// Where to go on.
    pub links: EventLinks,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventLinks {
    /// The event.
    #[serde(rename = "self")]
    pub this: String,
    /// The geometry; this very address never changes what it answers.
    pub layout: String,
    /// The state of seats; add `?section=`.
    pub seats: String,
    /// Server-sent events: what changed.
    pub stream: String,
}

/// `GET /events/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventDetail {
    /// What the list says.
    #[serde(flatten)]
    pub summary: EventSummary,
    /// Version of the geometry.
    pub plan_version: u32,
    /// How long a hold lasts.
    pub hold_seconds: u32,
    /// Seats in one cart.
    pub cart_limit: u32,
    /// Seats one fan may hold and own.
    pub user_limit: u32,
    /// Whether prices follow occupancy and date.
    pub dynamic_pricing: bool,
    /// Price categories.
    pub tiers: Vec<TierView>,
    /// Sections in plan order.
    pub sections: Vec<SectionView>,
}

/// A price category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// Before occupancy, in minor units.
    pub base_price_cents: i64,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SectionView {
    /// Its name.
    pub section: String,
    /// `seated` or `standing`.
    pub kind: String,
    /// The name of its price category.
    pub tier: String,
    /// Seats or places.
    pub capacity: u32,
}

/// `GET /events/{id}/layout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Layout {
    /// Of which event.
    pub event_id: u32,
    /// Under this version it never changes.
    pub plan_version: u32,
    /// Sections in plan order.
    pub sections: Vec<SectionLayout>,
}

/// A section's geometry. Coordinates are hundredths of the plan's unit, x to the right, y downwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SectionLayout {
    /// Its name.
    pub section: String,
    /// `seated` or `standing`.
    pub kind: String,
    /// The name of its price category.
    pub tier: String,
    /// Seats or places.
    pub capacity: u32,
    /// What everybody looks at.
    pub focal: PointView,
    /// Rows in plan order: the order of seats in `…/seats`. Empty for a standing section.
    pub rows: Vec<RowLayout>,
}

/// A point of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PointView {
    /// To the right.
    pub x: i32,
    /// Downwards.
    pub y: i32,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowLayout {
    /// As printed.
    pub row: String,
    /// From one end to the other.
    pub seats: Vec<SeatLayout>,
}

/// A seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatLayout {
    /// As printed.
    pub seat: String,
    /// To the right.
    pub x: i32,
    /// Downwards.
    pub y: i32,
    /// Kept for wheelchair users and their companions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accessible: bool,
    /// An aisle follows: the next seat is no neighbour.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aisle_after: bool,
}

/// `GET /events/{id}/seats?section=` as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SectionSeats {
    /// Of which event.
    pub event_id: u32,
    /// The section's name.
    pub section: String,
    /// Rises with every change of this section.
    pub version: u64,
    /// Version of the geometry that the seats refer to.
    pub plan_version: u32,
    /// How many are free, held, sold and blocked.
    pub counts: SeatCounts,
    /// What a seat would cost if it were claimed now, before a promotion; a hint.
    pub price_cents: i64,
    /// In plan order. A standing section lists none: its places are interchangeable.
    pub seats: Vec<SeatView>,
}

/// A seat's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatView {
    /// The row's label.
    pub row: String,
    /// The seat's label.
    pub seat: String,
    /// `free`, `held`, `sold` or `blocked`.
    pub status: String,
}

/// Seats by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatCounts {
    /// Can be had.
    pub free: u32,
    /// In somebody's checkout.
    pub held: u32,
    /// Gone.
    pub sold: u32,
    /// Kept by the box office.
    pub blocked: u32,
}

/// `GET /events/{id}/seats` without a section: an overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSeats {
    /// Of which event.
    pub event_id: u32,
    /// Every section, in plan order.
    pub sections: Vec<SectionCounts>,
}

/// A section in the overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SectionCounts {
    /// The section's name.
    pub section: String,
    /// Rises with every change of this section.
    pub version: u64,
    /// How many are free, held, sold and blocked.
    pub counts: SeatCounts,
    /// What a seat would cost if it were claimed now, before a promotion; a hint.
    pub price_cents: i64,
}

/// `GET /config.json`: where the pages find the other planes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageConfig {
    /// Origin of the waiting room, such as `http://127.0.0.1:7001`.
    pub queue: String,
    /// Origin of the buy plane.
    pub buy: String,
}
