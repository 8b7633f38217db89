//! Settlement: the one place where the store is asked to judge a payment, and step 6 after its answer.
//!
//! Generic over store and ledger, given `now`: the simulation runs these very functions. A crash between any two lines
//! leaves the payment CAPTURED (or the release due), and the next pass asks again; the store's answer does not change.

use crate::step::{Done, StepError, each};
use crate::store::Store;
use domain::ids::{PaymentId, ReservationId};
use domain::inventory::{Outcome, Status};
use domain::order::refund::RefundReason;
use domain::time::WallMs;
use ledger::Ledger;
use ledger::payments::OpenPayment;
use ledger::settlement::{CapturedPayment, ReleaseTask, SettleOutcome};
use raft_store::client::ClientError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What one pass takes on.
const BATCH: u32 = 256;
/// An extension is not asked for again before this, nor later than half of what is left.
const EXTEND_EVERY_MS: std::ops::RangeInclusive<u64> = 500..=60_000;

/// An extension that takes longer is asked for again with the next round, which must not wait for it.
const EXTEND_WITHIN: Duration = Duration::from_secs(2);

/// Settle what was captured.
pub async fn settle<S: Store, L: Ledger>(store: &S, ledger: &L, now: WallMs) -> Done {
    let captured = ledger.captured(BATCH).await?;
    each(captured, |captured| settle_one(store.clone(), ledger.clone(), captured, now)).await
}

async fn settle_one<S: Store, L: Ledger>(
    store: S,
    ledger: L,
    captured: CapturedPayment,
    now: WallMs,
) -> Result<(), StepError> {
    let CapturedPayment { payment, reservation, amount, currency } = captured;
    let settled = match store.pay(reservation, payment, amount, currency).await? {
        Outcome::Reservation(view) if view.status == Status::Paid && view.payment == Some(payment) => {
            ledger.settle_paid(payment, &view.seats, now).await?
        }
        // Too late, another payment's, or unknown to the store: the money goes back.
        Outcome::MustRefund(_) | Outcome::Unknown => ledger.settle_refund(payment, RefundReason::TooLate, now).await?,
        Outcome::Preparing => return Ok(()),
        other => return Err(StepError::Impossible(format!("{payment}: the store judged {other:?}"))),
    };
    let outcome = match settled {
        SettleOutcome::Booked(_) => "booked",
        SettleOutcome::Refunding => "refunding",
        SettleOutcome::NotCaptured => "not captured",
    };
    tracing::info!(%payment, %reservation, outcome, "payment settled");
    if matches!(settled, SettleOutcome::Booked(_)) {
        // Only collection waits for this, and the feed says it again.
        store.ledger_ack(reservation).await?;
    }
    Ok(())
}

/// Free the seats of payments that failed.
pub async fn release<S: Store, L: Ledger>(store: &S, ledger: &L) -> Done {
    let due = ledger.releases_due(BATCH).await?;
    each(due, |task| release_one(store.clone(), ledger.clone(), task)).await
}

async fn release_one<S: Store, L: Ledger>(store: S, ledger: L, task: ReleaseTask) -> Result<(), StepError> {
    // Whatever it is now, it is no longer a hold; a reservation that another payment bought stays paid.
    let status = match store.cancel(task.reservation).await? {
        Outcome::Reservation(view) => Some(view.status),
        _ => None,
    };
    tracing::info!(payment = %task.payment, reservation = %task.reservation, ?status, "seats of a failed payment freed");
    ledger.mark_released(task.payment).await?;
    Ok(())
}

/// Keeps holds alive whose payment is in progress, within the store's fixed bound.
#[derive(Debug, Default)]
pub struct Extender {
    next: BTreeMap<PaymentId, WallMs>,
}

impl Extender {
    /// Ask for an extension where it is time.
    pub async fn extend<S: Store, L: Ledger>(&mut self, store: &S, ledger: &L, now: WallMs) -> Done {
        let open = ledger.open_payments(10_000).await?;
        let known = std::mem::take(&mut self.next);
        let mut due = Vec::new();
        for OpenPayment { payment, reservation, .. } in open {
            match known.get(&payment) {
                Some(next) if *next > now => {
                    self.next.insert(payment, *next);
                }
                _ => due.push((payment, reservation)),
            }
        }
        let (next, count) = (Mutex::new(&mut self.next), due.len());
        each(due, |(payment, reservation)| {
            let next = &next;
            async move {
                // What fails is its own trouble only, and due again at once.
                let again = extend_one(store, reservation, payment, now).await?;
                next.lock().unwrap_or_else(PoisonError::into_inner).insert(payment, again);
                Ok(())
            }
        })
        .await?;
        Ok(count)
    }
}

/// Extend one hold; when to ask again.
async fn extend_one<S: Store>(
    store: &S,
    reservation: ReservationId,
    payment: PaymentId,
    now: WallMs,
) -> Result<WallMs, StepError> {
    let answer = tokio::time::timeout(EXTEND_WITHIN, store.extend(reservation, payment)).await;
    let wait = match answer.unwrap_or(Err(ClientError::Timeout))? {
        Outcome::Reservation(view) if view.status == Status::Held => {
            (view.remaining_ms / 2).clamp(*EXTEND_EVERY_MS.start(), *EXTEND_EVERY_MS.end())
        }
        // It has ended; nothing will extend it.
        _ => *EXTEND_EVERY_MS.end(),
    };
    Ok(WallMs(now.0 + wait))
}
