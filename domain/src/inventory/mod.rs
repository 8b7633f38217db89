//! The inventory: who owns a seat, and when a hold ends. A pure machine, replicated by `raft-store`.
//!
//! One [`Group`] hosts many partitions. [`Group::apply`] takes one replicated [`Entry`] and gives one [`Outcome`] a
//! request; the same entries give the same state and the same outcomes on every replica.

pub mod best_available;
mod checkouts;
pub mod command;
mod copy;
pub mod event;
mod feed;
pub mod group;
pub mod invariants;
mod locals;
mod news;
pub mod outcome;
pub mod pieces;
mod placement;
pub mod pricing;
mod promotion;
pub mod query;
mod reads;
pub mod rebuild;
pub mod record;
mod reply;
mod seats;
mod shared;
mod watermark;

pub use command::{Command, Entry, Request};
pub use copy::Stage;
pub use event::{Fact, FeedEntry};
pub use group::{Group, Hosted};
pub use news::{SeatChange, SeatChangeKind};
pub use outcome::{Outcome, Refusal};
pub use query::{Answer, Query};
pub use record::{EventRecord, ReservationView, SectionPlan, Status};
pub use reply::reply;
