//! `order.paid` becomes one ticket per seat. Financial: what fails stops the ones behind it, and is tried again.

use crate::step::{Done, StepError};
use domain::ids::BookingId;
use domain::order::ticket_id;
use domain::time::WallMs;
use ledger::outbox::{OutboxMessage, TICKETS};
use ledger::{Ledger, Sealer};

/// Issue the tickets of paid orders, in order.
pub async fn issue<L: Ledger>(ledger: &L, sealer: &Sealer, now: WallMs) -> Done {
    let waiting = ledger.deliveries(TICKETS, 100).await?;
    let count = waiting.len();
    for message in waiting {
        issue_one(ledger, sealer, &message, now).await?;
    }
    Ok(count)
}

async fn issue_one<L: Ledger>(
    ledger: &L,
    sealer: &Sealer,
    message: &OutboxMessage,
    now: WallMs,
) -> Result<(), StepError> {
    let wrong = |what: &str| StepError::Impossible(format!("message {}: {what}", message.id));
    let id = message.payload["booking"].as_str().and_then(|text| text.parse::<BookingId>().ok());
    let id = id.ok_or_else(|| wrong("it names no booking"))?;
    let booking = ledger.booking(id).await?.ok_or_else(|| wrong("its booking does not exist"))?;
    let secrets: Vec<_> = booking
        .seats
        .iter()
        .map(|line| (line.seat, sealer.seal(ticket_id(id, line.seat), &Sealer::fresh_secret())))
        .collect();
    ledger.issue_tickets(message.id, id, &secrets, now).await?;
    tracing::info!(booking = %id, reservation = %booking.reservation, seats = secrets.len(), "tickets issued");
    Ok(())
}
