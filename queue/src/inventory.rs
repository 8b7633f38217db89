//! What the waiting room needs to know of the seats, as a port: the binary implements it over the store's client.

use domain::ids::{EventId, ReservationId};
use domain::time::WallMs;
use serde::{Deserialize, Serialize};

/// The store did not answer. The waiting room goes on with what it last knew, and lets nobody in because of it.
#[derive(Debug, thiserror::Error)]
#[error("the store does not answer: {0}")]
pub struct InventoryUnavailable(pub String);

/// In which order an event lets its fans in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// First come, first served.
    #[default]
    Fifo,
    /// Those who join before the sale starts are shuffled once when it does; later ones follow in order.
    Lottery,
}

/// Whether an event's door may open at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStatus {
    /// Announced or on sale: fans may wait, and enter from the start of the sale on.
    Open,
    /// Cancelled, over, or withdrawn: nobody waits and nobody enters.
    Closed,
}

/// One event as its door sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventGate {
    /// The event.
    pub event: EventId,
    /// When the sale starts. Compared with Redis's clock here, and by the store again.
    pub on_sale_at: WallMs,
    /// How many may be inside at once.
    pub capacity: u32,
    /// The order.
    pub mode: Mode,
    /// Open or closed.
    pub status: GateStatus,
}

/// How many seats of an event are in which state; seats that are blocked are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Seats that can be taken now.
    pub free: u32,
    /// Seats in somebody's hold, which may come back.
    pub held: u32,
    /// All seats on sale: free, held and sold.
    pub total: u32,
}

impl Stock {
    /// Nothing is left and nothing can come back by itself.
    pub fn sold_out(&self) -> bool {
        self.free == 0 && self.held == 0
    }
}

/// How the rest of the shop copes, for the adaptive batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The 99th percentile of the time a hold takes, over the last ten seconds or so.
    pub hold_p99_ms: Option<f64>,
    /// The part of the payment provider's answers that were errors, 0 to 1.
    pub provider_error_ratio: Option<f64>,
}

/// The port.
pub trait Inventory: Send + Sync + 'static {
    /// Every event whose door exists.
    fn events(&self) -> impl Future<Output = Result<Vec<EventGate>, InventoryUnavailable>> + Send;

    /// The seats of `event`; some staleness is fine.
    fn stock(&self, event: EventId) -> impl Future<Output = Result<Stock, InventoryUnavailable>> + Send;

    /// Which of these reservations are paid, expired, cancelled, or unknown to the store. Leave out what it could not
    /// ask about.
    fn ended(
        &self,
        reservations: &[ReservationId],
    ) -> impl Future<Output = Result<Vec<ReservationId>, InventoryUnavailable>> + Send;

    /// How the rest of the shop copes; `None` where nobody measures, and then nothing is adapted.
    fn load(&self) -> impl Future<Output = Option<Load>> + Send {
        std::future::ready(None)
    }
}
