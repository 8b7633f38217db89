//! Tickets, and the secret from which a wallet computes codes offline.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /me/tickets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketList {
    /// Newest first.
    pub tickets: Vec<Ticket>,
}

/// A ticket: one seat of a paid reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ticket {
    /// The ticket.
    #[schema(example = "tic_0123456789abcdef0123456789abcdef")]
    pub ticket_id: String,
    /// Of which event.
    pub event_id: u32,
    /// The event's title.
    pub event_title: String,
    /// Where.
    pub venue: String,
    /// When.
    pub starts_at: String,
    /// The reservation that bought it.
    pub reservation_id: String,
    /// The section's name.
    pub section: String,
    /// The row's label; empty for a standing place.
    pub row: String,
    /// The seat's label.
    pub seat: String,
    /// What was paid for it.
    pub price_cents: i64,
    /// ISO 4217.
    pub currency: String,
    /// `valid`, `revoked` or `checked_in`.
    pub status: String,
    /// Rises when a device is removed: a wallet whose secret is of another version fetches it again.
    pub secret_version: u32,
    /// When it was issued.
    pub issued_at: String,
    /// Where to go on.
    pub links: TicketLinks,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketLinks {
    /// The ticket.
    #[serde(rename = "self")]
    pub this: String,
    /// The wallet's secret: GET with `?device=`.
    pub wallet: String,
}

/// `GET /tickets/{id}/wallet?device=`: what a wallet needs to show codes without a network. Given once a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WalletSecret {
    /// The ticket.
    pub ticket_id: String,
    /// The device it was given to.
    pub device: String,
    /// 32 bytes in lower-case hex. The code is `{ticket}.{window}.{hex HMAC-SHA256(secret, "ticket:window")}`.
    pub secret: String,
    /// Which of the ticket's secrets it is.
    pub secret_version: u32,
    /// Seconds that one code lives; the window is the Unix time divided by it.
    pub window_seconds: u64,
    /// The shop's clock now, so that a wallet can correct its own: milliseconds since the Unix epoch.
    pub server_time_ms: u64,
}
