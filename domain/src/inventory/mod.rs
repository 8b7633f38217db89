//! The inventory: who owns a seat, and when a hold ends. A pure machine, replicated by `raft-store`.
//!
//! One [`Group`] hosts many partitions. [`Group::apply`] takes one replicated [`Entry`] and gives one [`Outcome`] a
//! request; the same entries give the same state and the same outcomes on every replica.

pub mod command;
pub mod event;
pub mod group;
pub mod outcome;
pub mod query;
pub mod record;

pub use command::{Command, Entry, Request};
pub use event::{Fact, FeedEntry};
pub use group::{Group, Hosted, SeatChange, SeatChangeKind, Stage, reply};
pub use outcome::{Outcome, Refusal};
pub use query::{Answer, Query};
pub use record::{EventRecord, ReservationView, SectionPlan, Status};
