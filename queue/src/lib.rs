//! The waiting room: who waits, who is inside, and the signed pass between the two.
//!
//! Redis keeps the line and the leases, and may lose them: that delays fans, it never lets anybody in. Only this crate
//! signs passes; the buy plane imports it to verify them and to ask whether a lease is live.

mod admitter;
mod config;
mod connection;
mod connections;
mod inventory;
mod keys;
pub mod leases;
mod metrics;
pub mod pace;
pub mod pass_issuer;
pub mod redis;
mod rooms;
mod serve;
mod server;
pub mod store;
pub mod token;

pub use config::Config;
pub use connection::RedisLost;
pub use inventory::{EventGate, GateStatus, Inventory, InventoryUnavailable, Load, Mode, Stock};
pub use serve::{QueueError, serve, serve_on};
