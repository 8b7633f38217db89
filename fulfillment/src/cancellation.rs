//! Events that are called off: the sale stops for good, holds end, and each paid order is refunded by the path of any
//! other refund. What was not done when a worker died is still due.

use crate::step::{Done, StepError, each};
use crate::store::Store;
use domain::ids::IdempotencyKey;
use domain::inventory::record::EventStatus;
use domain::order::refund::RefundReason;
use domain::time::WallMs;
use ledger::Ledger;
use ledger::cancellations::{Cancellation, CancelledOrder};
use ledger::refunds::RefundOrder;

/// Orders that one pass takes on.
const BATCH: u32 = 256;

/// Do what is owed by every cancellation, as far as one pass goes.
pub async fn carry_out<S: Store, L: Ledger>(store: &S, ledger: &L, now: WallMs) -> Done {
    let open = ledger.with_holds().await?;
    // Holds first: what is paid while they end becomes an order, and is refunded as one.
    let ended = each(open, |cancellation| end_holds(store.clone(), ledger.clone(), cancellation)).await;
    let orders = ledger.cancelled_orders(BATCH).await?;
    let refunded = each(orders, |order| refund_one(ledger.clone(), order, now)).await;
    Ok(ended? + refunded?)
}

async fn end_holds<S: Store, L: Ledger>(store: S, ledger: L, cancellation: Cancellation) -> Result<(), StepError> {
    let event = cancellation.event;
    // Closing the sale is the operator's to do, and was done before the ledger heard of it. Were it not so, a hold could
    // begin after the last one was ended.
    let closed = store.events().await?.iter().any(|known| known.id == event && known.status == EventStatus::Cancelled);
    if !closed {
        return Err(StepError::Impossible(format!("event {event} is cancelled in the ledger and not in the store")));
    }
    let holds = store.holds(event).await?;
    if holds.is_empty() {
        tracing::info!(%event, "no hold of a cancelled event is left");
        return Ok(ledger.holds_ended(event).await?);
    }
    for reservation in holds {
        store.cancel(reservation).await?;
    }
    Ok(())
}

async fn refund_one<L: Ledger>(ledger: L, order: CancelledOrder, now: WallMs) -> Result<(), StepError> {
    let CancelledOrder { reservation, by } = order;
    let key: IdempotencyKey =
        format!("event-cancelled-{reservation}").parse().map_err(|error| StepError::Impossible(format!("{error}")))?;
    let order = RefundOrder {
        reservation,
        seats: None,
        reason: RefundReason::EventCancelled,
        operator: by,
        key,
        fingerprint: RefundReason::EventCancelled.as_str().to_owned(),
        now,
    };
    let outcome = ledger.request_refund(&order).await?;
    tracing::info!(%reservation, ?outcome, "an order of a cancelled event goes back");
    Ok(())
}
