//! `encore admin event`: opens, closes or cancels an event.

use super::Desk;
use anyhow::{Context, Result};
use domain::ids::EventId;
use domain::inventory::record::EventStatus;

/// What an event becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Become {
    /// On sale, from its sale start on.
    Open,
    /// No new hold; what is held may still be paid.
    Closed,
    /// Called off.
    Cancelled,
}

pub async fn run(desk: &Desk, event: EventId, become_: Become) -> Result<()> {
    let status = match become_ {
        Become::Open => EventStatus::Scheduled,
        Become::Closed => EventStatus::Closed,
        Become::Cancelled => EventStatus::Cancelled,
    };
    desk.store.set_status(event, status).await.context("the store")?;
    println!("Event {event} is {}.", format!("{become_:?}").to_lowercase());
    Ok(())
}
