//! Holds: what is asked for, and the record as its owner sees it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /reservations`. Seats and places together: one to six.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// Of which event.
    pub event_id: u32,
    /// Numbered seats, each once.
    #[serde(default)]
    #[schema(max_items = 6)]
    pub seats: Vec<SeatLabel>,
    /// Places of standing sections, each section once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 6)]
    pub places: Vec<PlacesWanted>,
    /// A shorter hold than the event's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub hold_duration_seconds: Option<u32>,
    /// A promotion code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 40)]
    pub promotion: Option<String>,
}

/// A seat, as printed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SeatLabel {
    /// The section's name.
    pub section: String,
    /// The row's label; empty for a standing place.
    pub row: String,
    /// The seat's label.
    pub seat: String,
}

/// Places of a standing section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacesWanted {
    /// The section's name.
    pub section: String,
    /// How many.
    #[schema(minimum = 1, maximum = 6)]
    pub count: u32,
}

/// `POST /events/{id}/best-available`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BestAvailableRequest {
    /// How many seats.
    #[schema(minimum = 1, maximum = 6)]
    pub count: u32,
    /// What matters.
    #[serde(default)]
    pub preferences: Preferences,
    /// A shorter hold than the event's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub hold_duration_seconds: Option<u32>,
    /// A promotion code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 40)]
    pub promotion: Option<String>,
}

/// Wishes for best available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Preferences {
    /// All in one row, side by side.
    pub contiguous: bool,
    /// Only this price category, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Only this section, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// No seat may cost more, before a discount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub max_price_cents: Option<i64>,
    /// How many of them for wheelchair users; the rest are their companions.
    #[schema(minimum = 0, maximum = 6)]
    pub accessible: u32,
}

/// A hold, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// `event-bucket-incarnation-sequence`.
    #[schema(example = "1-3-0-42")]
    pub reservation_id: String,
    /// Of which event.
    pub event_id: u32,
    /// `preparing`, `offered`, `held`, `paid`, `expired`, `cancelled` or `aborted`.
    pub status: String,
    /// Every seat with its frozen price.
    pub seats: Vec<HeldSeat>,
    /// What is to be paid, in minor units.
    pub total_cents: i64,
    /// ISO 4217.
    pub currency: String,
    /// The code that was claimed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<String>,
    /// Whether all seats are neighbours in one row. Means something for best available.
    pub together: bool,
    /// When it was opened.
    pub created_at: String,
    /// When the hold runs out, if service goes on as it does now; for people. An outage of the shop moves it back.
    pub expires_at: String,
    /// Service time left at the moment of the answer; zero once it has ended.
    pub remaining_ms: u64,
    /// Pay before this: the same moment as `expires_at`.
    pub payment_deadline: String,
    /// When it ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The payment that bought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<String>,
    /// Where to go on.
    pub links: ReservationLinks,
}

/// A seat with the price frozen when it was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldSeat {
    /// The section's name.
    pub section: String,
    /// The row's label; empty for a standing place.
    pub row: String,
    /// The seat's label.
    pub seat: String,
    /// What is paid for it.
    pub price_cents: i64,
    /// Before the promotion.
    pub full_price_cents: i64,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationLinks {
    /// The record: GET to read it, DELETE to give the seats back.
    #[serde(rename = "self")]
    pub this: String,
    /// POST to pay.
    pub payment: String,
}

/// Seats that could be had instead; a hint, not a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    /// As many seats as were asked for, side by side.
    pub seats: Vec<SeatLabel>,
}

/// What else best available could offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SectionAlternative {
    /// The section's name.
    pub section: String,
    /// Free seats in all.
    pub free: u32,
    /// The longest run of neighbours.
    pub largest_together: u32,
}
