//! The same work for Encore's store and for what a user would pick instead: two seats held for one fan, all or nothing,
//! under an idempotency key, one open checkout a fan, durable before the answer. Here are the workload, the contenders
//! and the counting; who calls starts the servers, so that a missing peer is said where a person reads it.
//!
//! Nothing here asserts a speed. Figures are medians of interleaved runs on one machine, and only their ratios travel.

pub mod contender;
pub mod contenders;
pub mod drive;
pub mod report;
pub mod workload;

pub use contender::{Contender, Failure, Verdict};
pub use drive::{Load, Tally, drive, drive_until};
pub use report::{Figure, Report};
pub use workload::{Attempt, Hall, Place, Workload};
