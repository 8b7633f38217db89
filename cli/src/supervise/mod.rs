//! A whole sale as processes on this machine: started in order, watched, and stopped in reverse. Used by `encore demo`
//! and by the process-level tests.

pub mod keep;
pub mod part;
pub mod places;
pub mod ports;
pub mod postgres;
pub(crate) mod probe;
pub mod process;
pub mod redis;
pub mod revive;
pub mod secrets;
mod settings;
pub mod stack;
pub mod users;

pub use part::Part;
pub use places::Door;
pub use stack::{Options, Stack};
