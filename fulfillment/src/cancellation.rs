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
use ledger::notices::CANCELLATION_STUCK;
use ledger::refunds::{RefundOrder, RefundOutcome};
use serde_json::json;

/// Orders that one pass takes on.
const BATCH: u32 = 256;
/// In whose name a cancellation is written down of which only the store knew.
const WORKER: &str = "encore-fulfillment";

/// Do what is owed by every cancellation, as far as one pass goes.
pub async fn carry_out<S: Store, L: Ledger>(store: &S, ledger: &L, now: WallMs) -> Done {
    let noted = note_all(store, ledger, now).await;
    let open = ledger.with_holds().await?;
    let orders = ledger.cancelled_orders(BATCH).await?;
    // Neither waits for the other: what is paid while holds end becomes an order, and is refunded as one.
    let (ended, refunded) = futures::join!(
        each(open, |cancellation| end_holds(store.clone(), ledger.clone(), cancellation)),
        each(orders, |order| refund_one(ledger.clone(), order, now)),
    );
    Ok(noted? + ended? + refunded?)
}

/// Whoever called an event off told the store first, and may have died before the ledger heard of it.
async fn note_all<S: Store, L: Ledger>(store: &S, ledger: &L, now: WallMs) -> Done {
    let events = store.events().await?.into_iter();
    let cancelled: Vec<_> =
        events.filter(|event| event.status == EventStatus::Cancelled).map(|event| event.id).collect();
    if cancelled.is_empty() {
        return Ok(0);
    }
    let known = ledger.cancelled_events().await?;
    let mut noted = 0;
    for event in cancelled.into_iter().filter(|event| !known.contains(event)) {
        tracing::warn!(%event, "the store says that the event is cancelled, and the ledger did not know");
        let by = WORKER.parse().map_err(|error| StepError::Impossible(format!("{error}")))?;
        ledger.cancel_event(event, &by, now).await?;
        noted += 1;
    }
    Ok(noted)
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
    let cancel = |reservation| {
        let store = store.clone();
        async move { Ok(store.cancel(reservation).await.map(drop)?) }
    };
    each(holds, cancel).await.map(drop)
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
    match ledger.request_refund(&order).await? {
        outcome @ (RefundOutcome::Requested(_) | RefundOutcome::NothingLeft) => {
            tracing::info!(%reservation, ?outcome, "an order of a cancelled event goes back");
            Ok(())
        }
        // Such as an operator who has used this very key: somebody must look, or the order is passed over for ever.
        outcome => {
            let detail = json!({"reservation": reservation, "outcome": format!("{outcome:?}")});
            Ok(ledger.raise(CANCELLATION_STUCK, &reservation.to_string(), &detail, now).await?)
        }
    }
}
