//! Rounds of blows against a store of real node processes, while fans storm it and an operator moves partitions, changes
//! members and sends leaders about. What was acknowledged is recorded, and in the end it must all be there.
//!
//! A seed chooses blows, the operator's commands and what fans want; processes and the clock do the rest, so that a seed
//! repeats a kind of day, not a day. Nobody waits for a quiet store between rounds: a round ends as soon as the fans have had
//! some answers since its blow. A blow or a command that never came about makes the whole run fail: it would have proved
//! nothing.

mod blows;
pub mod checker;
mod cluster;
mod crowd;
mod event;
mod feeds;
pub mod history;
mod operator;
mod run;
mod world;

pub use run::{Rounds, run};
