//! The inventory store: consensus, disk, network and the client that routes. The only door to the seats.

pub mod backup;
mod bootstrap;
mod catch_up;
pub mod client;
mod clocks;
pub mod config;
pub mod disk;
mod driver;
pub mod group;
pub mod history;
mod housekeeping;
mod identity;
mod leader;
mod lives;
mod log_store;
pub mod metrics;
pub mod mover;
pub mod network;
pub mod node;
pub mod operate;
pub mod peer;
mod proposer;
mod reader;
mod registrar;
pub mod runtime;
mod snapshot;
pub mod state_machine;
pub mod tls;
pub mod transport;
pub mod types;
pub mod wal;
pub mod wire;

pub use clocks::{CLOCK_WRONG_MS, Clocks};
pub use config::NodeConfig;
pub use network::{ServeError, Server, serve};
pub use node::Node;
