//! `encore admin event`: opens, closes or cancels an event. Cancelling is for good and pays everybody back, so it is done
//! only on a second word.

use super::{Desk, now};
use anyhow::{Context, Result};
use domain::ids::{EventId, UserId};
use domain::inventory::EventRecord;
use domain::inventory::record::EventStatus;
use ledger::Cancellations;
use ledger::cancellations::{Progress, Tally};
use std::process::ExitCode;

/// What an event becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Become {
    /// On sale, from its sale start on.
    Open,
    /// No new hold; what is held may still be paid.
    Closed,
    /// Called off, for good: holds end, every order is refunded, tickets let nobody in.
    Cancelled,
}

pub async fn run(desk: &Desk, event: EventId, become_: Become, yes: bool) -> Result<ExitCode> {
    let record = desk.store.event(event).await.context("the store")?;
    let record = record.with_context(|| format!("there is no event {event}"))?;
    let status = match become_ {
        Become::Open => EventStatus::Scheduled,
        Become::Closed => EventStatus::Closed,
        Become::Cancelled => return cancel(desk, &record, yes).await,
    };
    desk.store.set_status(event, status).await.context("the store")?;
    println!("Event {event} is {}.", format!("{become_:?}").to_lowercase());
    Ok(ExitCode::SUCCESS)
}

/// Say what would follow, begin it, or say how far it is.
async fn cancel(desk: &Desk, event: &EventRecord, yes: bool) -> Result<ExitCode> {
    let (id, title) = (event.id, &event.title);
    let tally = |Tally { orders, amount }: Tally| {
        let word = if orders == 1 { "order" } else { "orders" };
        format!("{orders} {word} ({})", amount.display(event.currency))
    };
    let progress = desk.ledger.cancellation(id).await.context("the ledger")?;
    if progress.cancellation.is_none() && !yes {
        let held = desk.store.stock(id).await.context("the store")?.held;
        println!("Cancelling event {id}, “{title}”, is for good. It would");
        println!("  refund {} and make their tickets invalid,", tally(progress.sold));
        println!("  end the holds of {held} seats,");
        println!("  and close the sale; it cannot be opened again.");
        println!("Nothing has been done. To do it, repeat this with --yes.");
        return Ok(ExitCode::FAILURE);
    }
    // The store first: once nothing can be held any more, what the ledger owes is all that there will be, and fulfilment
    // carries it out. A command that died before its last line is repeated.
    let operator: UserId = "encore-admin".parse().context("an operator's name")?;
    desk.store.set_status(id, EventStatus::Cancelled).await.context("the store")?;
    desk.ledger.cancel_event(id, &operator, now()).await.context("the ledger")?;
    let Progress { cancellation, sold, refunding, refunded, failed } =
        desk.ledger.cancellation(id).await.context("the ledger")?;
    let holds_ended = cancellation.is_some_and(|cancellation| cancellation.holds_ended);
    println!("Event {id}, “{title}”, is cancelled, for good.");
    println!("  holds:       {}", if holds_ended { "all ended" } else { "ending" });
    println!("  to refund:   {}", tally(sold));
    println!("  on the way:  {}", tally(refunding));
    println!("  refunded:    {}", tally(refunded));
    if failed.orders > 0 {
        println!("  failed:      {}: the provider could not pay them back; see the incidents", tally(failed));
    }
    if !holds_ended || sold.orders + refunding.orders > 0 {
        println!("Fulfilment carries it out; repeat this to see how far it is.");
    }
    Ok(ExitCode::SUCCESS)
}
