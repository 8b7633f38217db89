//! Refunds: sent once under their own key, followed until the provider has finished, their seats given back to the sale.

use crate::provider::{Provider, ProviderError, RefundRequest};
use crate::step::{Done, StepError, each};
use crate::store::Store;
use domain::inventory::Outcome;
use domain::order::refund::{RefundState, provider_key};
use domain::time::WallMs;
use ledger::Ledger;
use ledger::refunds::{RefundTask, ReturnTask};
use serde_json::json;

/// What one pass takes on.
const BATCH: u32 = 256;
/// Pause after a failure: doubled each time, up to this.
const LONGEST_PAUSE_MS: u64 = 60_000;

/// Send what is owed and ask about what is not finished.
pub async fn send<L: Ledger, P: Provider>(ledger: &L, provider: &P, now: WallMs) -> Done {
    let due = ledger.refunds_due(now, BATCH).await?;
    each(due, |task| send_one(ledger.clone(), provider.clone(), task, now)).await
}

async fn send_one<L: Ledger, P: Provider>(
    ledger: L,
    provider: P,
    task: RefundTask,
    now: WallMs,
) -> Result<(), StepError> {
    let answer = match (&task.refund_reference, task.state) {
        (Some(reference), RefundState::Sent) => provider.refund(reference).await,
        _ => {
            let request = RefundRequest {
                refund: task.refund,
                key: provider_key(task.payment, task.sequence),
                reference: task.reference.clone(),
                amount: task.amount,
            };
            provider.create_refund(&request).await
        }
    };
    match answer {
        Ok(refund) => {
            tracing::info!(refund = %task.refund, reference = refund.reference, report = ?refund.report, "refund");
            Ok(ledger.refund_reported(task.refund, &refund.reference, refund.report, now).await?)
        }
        Err(error) => {
            let pause = (1_000_u64 << task.tries.min(6)).min(LONGEST_PAUSE_MS);
            ledger.delay_refund(task.refund, WallMs(now.0 + pause)).await?;
            if let ProviderError::Refused { code, message, .. } = &error {
                // Repeating the request will not change the answer: somebody must look, while we go on asking.
                let detail = json!({"code": code, "message": message, "payment": task.payment});
                ledger.raise("refund_refused", &task.refund.to_string(), &detail, now).await?;
            }
            Err(error.into())
        }
    }
}

/// Give the seats of committed refunds back to the sale.
pub async fn return_seats<S: Store, L: Ledger>(store: &S, ledger: &L, now: WallMs) -> Done {
    let due = ledger.returns_due(BATCH).await?;
    each(due, |task| return_one(store.clone(), ledger.clone(), task, now)).await
}

async fn return_one<S: Store, L: Ledger>(store: S, ledger: L, task: ReturnTask, now: WallMs) -> Result<(), StepError> {
    match store.refund(task.refund, task.reservation, task.seats).await? {
        Outcome::Done => {}
        other => {
            let detail = json!({"reservation": task.reservation, "outcome": format!("{other:?}")});
            ledger.raise("seats_not_returned", &task.refund.to_string(), &detail, now).await?;
        }
    }
    ledger.mark_returned(task.refund).await?;
    Ok(())
}
