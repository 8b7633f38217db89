//! What operators ask for and see, on their own listener.

use super::catalogue::EventSummary;
use super::reservation::{PlacesWanted, SeatLabel};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /admin/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdminEvents {
    /// In the order of their start.
    pub events: Vec<EventSummary>,
}

/// `POST /admin/events/{id}/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    /// What it becomes.
    pub status: WantedStatus,
}

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WantedStatus {
    /// On sale from its `on_sale_at`.
    Open,
    /// No new hold; what is held may still be paid.
    Closed,
    /// Called off, for good.
    Cancelled,
}

/// How far the cancellation of an event is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancellationView {
    /// The event.
    pub event_id: u32,
    /// Of every amount here.
    pub currency: String,
    /// Whether every hold has ended.
    pub holds_ended: bool,
    /// Orders whose refund is owed and not begun.
    pub to_refund: OrdersView,
    /// Refunds on their way.
    pub refunding: OrdersView,
    /// Refunds that arrived.
    pub refunded: OrdersView,
    /// Refunds that the provider could not make: an operator must.
    pub failed: OrdersView,
}

/// So many orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrdersView {
    /// How many.
    pub orders: u64,
    /// Together, in minor units.
    pub amount_cents: i64,
}

/// `POST /admin/events/{id}/blocks`: keep seats back. They are one claim each, ended only by their release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockRequest {
    /// Which seats.
    #[serde(default)]
    pub seats: Vec<SeatLabel>,
    /// Places of standing sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlacesWanted>,
    /// Why; for people.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub reason: String,
}

/// Blocks that were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocks {
    /// One a seat or place.
    pub blocks: Vec<BlockView>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockView {
    /// DELETE `/admin/blocks/{block_id}` releases it.
    pub block_id: String,
    /// What it keeps.
    pub seats: Vec<SeatLabel>,
    /// `held` while it blocks, `cancelled` once released.
    pub status: String,
}

/// `GET /admin/events/{id}/promotions/{code}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromotionUses {
    /// The code.
    pub code: String,
    /// Uses claimed now, by holds and by sales.
    pub uses: u64,
    /// By which reservations.
    pub reservations: Vec<String>,
}

/// `GET /admin/cluster`: where everything lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Groups and their replicas.
    pub groups: Vec<GroupView>,
    /// Events and their groups.
    pub events: Vec<EventPlacementView>,
    /// What each node says about itself, by its address.
    #[schema(value_type = Object)]
    pub nodes: serde_json::Value,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupView {
    /// Its id; 0 is the meta group.
    pub group: u32,
    /// Node id and address of each replica.
    pub replicas: Vec<ReplicaView>,
}

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaView {
    /// The node.
    pub node: u64,
    /// Where clients reach it.
    pub address: String,
}

/// Where an event lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPlacementView {
    /// The event.
    pub event_id: u32,
    /// The group of what is not listed in `moved`.
    pub home_group: u32,
    /// `checkouts` partitions.
    pub buckets: u16,
    /// Seat sections.
    pub sections: u32,
    /// Partitions that live elsewhere.
    pub moved: u32,
}

/// `POST /admin/orders/{reservation_id}/refund`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundRequest {
    /// Which seats go back: `"all"`, or a list of at least one.
    pub seats: SeatsToRefund,
}

/// Some seats of an order, or all of it. Everything is never meant by saying nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "seats must be \"all\" or a list of seats")]
pub enum SeatsToRefund {
    /// All that have not gone back.
    All(AllSeats),
    /// These.
    Some(Vec<SeatLabel>),
}

/// The word for all of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllSeats {
    /// All of it.
    All,
}

/// 202: the refund is owed and will be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundAccepted {
    /// The reservation that was paid.
    pub reservation_id: String,
    /// What was owed by this request.
    pub refund_ids: Vec<String>,
}
