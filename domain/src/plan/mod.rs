//! Seating plans and event files: what an organiser writes, checked whole before anything is published.
//!
//! Every refusal names the place in the file. What comes out is integer geometry in plan order: seats are neighbours because
//! they stand beside each other in a row of the file, never because their numbers follow.

mod event_file;
mod generate;
mod moment;
mod pretix;

pub use event_file::{
    EventFile, EventFileError, PlanSource, PromotionFile, QueueFile, SectionSource, StandingArea, TierFile,
};
pub use generate::GeneratedSections;
pub use moment::{BadMoment, Moment};
pub use pretix::{PlanError, PretixOptions, read_pretix};

use crate::ids::PromotionCode;
use crate::inventory::record::{EventRecord, SectionPlan};

/// Everything that one event file says, ready to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The catalogue's record.
    pub event: EventRecord,
    /// The geometry of each of its sections, in the same order.
    pub plans: Vec<SectionPlan>,
    /// Codes that take something off.
    pub promotions: Vec<Promotion>,
}

/// A code that takes something off each seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// As printed.
    pub code: PromotionCode,
    /// Taken off every seat, in basis points.
    pub discount_bps: u16,
    /// Uses over all orders.
    pub cap: u32,
}

/// A name or label that can be shown and typed: not blank, not too long, one line.
fn printable(text: &str) -> Option<String> {
    let text = text.trim();
    let fits =
        !text.is_empty() && text.chars().count() <= crate::limits::LABEL_LEN && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
}
