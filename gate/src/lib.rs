//! The venue's service: checks tickets at the doors, with no network beyond the venue's own.
//!
//! A signed manifest brings the tickets; a SQLite file that all gates share remembers who is in; when any of it is missing,
//! nobody is admitted. See [`scan`] for the order of checks and [`ledger`] for what makes an admission final.

mod desk;
pub mod ledger;
pub mod manifest;
pub mod scan;
mod server;
mod wire;

pub use server::{Clock, Config, GateError, serve, serve_with_clock, system_clock};
