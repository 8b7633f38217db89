//! What the waiting room asks of the store, answered by the store's client. Read only: `queue` never submits a command.

use super::load::LoadWatch;
use domain::ids::{EventId, ReservationId};
use domain::inventory::record::{EventStatus, QueueMode};
use queue::{EventGate, GateStatus, Inventory, InventoryUnavailable, Load, Mode, Stock};
use raft_store::client::{Client, ClientError};
use std::collections::BTreeSet;

/// The store as the waiting room sees it.
#[derive(Clone)]
pub struct StoreInventory {
    /// The store.
    pub store: Client,
    /// How the shop copes.
    pub load: LoadWatch,
}

fn unavailable(error: ClientError) -> InventoryUnavailable {
    InventoryUnavailable(error.to_string())
}

impl Inventory for StoreInventory {
    async fn events(&self) -> Result<Vec<EventGate>, InventoryUnavailable> {
        let events = self.store.events().await.map_err(unavailable)?;
        let gates = events.into_iter().map(|event| EventGate {
            event: event.id,
            on_sale_at: event.on_sale_at,
            capacity: event.queue_capacity,
            mode: match event.queue_mode {
                QueueMode::Fifo => Mode::Fifo,
                QueueMode::Lottery => Mode::Lottery,
            },
            status: match event.status {
                EventStatus::Scheduled => GateStatus::Open,
                EventStatus::Closed | EventStatus::Cancelled => GateStatus::Closed,
            },
        });
        Ok(gates.collect())
    }

    async fn stock(&self, event: EventId) -> Result<Stock, InventoryUnavailable> {
        let stock = self.store.stock(event).await.map_err(unavailable)?;
        Ok(Stock { free: stock.free, held: stock.held, total: stock.free + stock.held + stock.sold })
    }

    async fn ended(&self, reservations: &[ReservationId]) -> Result<Vec<ReservationId>, InventoryUnavailable> {
        let live: BTreeSet<_> = self.store.live(reservations).await.map_err(unavailable)?.into_iter().collect();
        Ok(reservations.iter().copied().filter(|id| !live.contains(id)).collect())
    }

    async fn load(&self) -> Option<Load> {
        self.load.latest()
    }
}
