//! Opening payments at the provider, and asking about those of which nothing is heard.
//!
//! The payment id is the idempotency key of every attempt, so an attempt whose answer was lost is asked for again and
//! never charged twice.

use crate::provider::{Intent, IntentRequest, Provider, ProviderError};
use crate::step::{Done, StepError, each};
use crate::store::Store;
use domain::ids::PaymentId;
use domain::order::webhook::{ProviderEvent, ProviderFact};
use domain::time::WallMs;
use ledger::Ledger;
use ledger::notices::PAYMENT_UNRESOLVED;
use ledger::payments::{AttachOutcome, InitializeTask, LostPayment, OpenPayment, UNRESOLVED_MS};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Attempts that reach a failing provider before the payment fails.
const TRIES: u32 = 3;
/// Pause before the second of them; doubled before the third, so that the three are spread over ten seconds.
const BACKOFF_MS: u64 = 3_500;
/// A payment that has waited for so long is sent only once the store has said that its hold lives.
const OLD_MS: u64 = 5_000;
/// Pause before a provider that never took a payment is given it again.
const RESEND_MS: u64 = 500;
/// Pause before a provider that is not reached is tried again: as long as the payment has been waiting, within these.
const REACH_AGAIN_MS: std::ops::RangeInclusive<u64> = 500..=10_000;
/// Pause before a provider that left us in the dark is asked again.
const ASK_AGAIN_MS: u64 = 30_000;
/// Longest pause before it is asked again about a payment that was given up; until then as long as it has been lost.
const LOST_PAUSE_MS: u64 = 60 * 60 * 1_000;

/// Payments being opened now: a slow one must neither be opened twice nor keep the others waiting.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    running: Arc<Mutex<BTreeSet<PaymentId>>>,
}

impl Opening {
    /// Start opening what is due; returns before it is done. `tasks` holds what runs.
    pub async fn start<S: Store, L: Ledger, P: Provider>(
        &self,
        store: &S,
        ledger: &L,
        provider: &P,
        tasks: &mut JoinSet<()>,
        now: WallMs,
    ) -> Done {
        while tasks.try_join_next().is_some() {}
        let mut started = 0;
        for task in ledger.to_initialize(now, 256).await? {
            let fresh = self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(task.payment);
            if !fresh {
                continue;
            }
            started += 1;
            let (store, ledger, provider) = (store.clone(), ledger.clone(), provider.clone());
            let running = self.running.clone();
            tasks.spawn(async move {
                let payment = task.payment;
                if let Err(error) = open(&store, &ledger, &provider, task, now).await {
                    tracing::warn!(%payment, %error, "a payment could not be opened yet");
                }
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&payment);
            });
        }
        Ok(started)
    }
}

/// Open one payment: step 2 and step 3. One that has waited is sent only if there is something to pay for still: whoever was
/// away for longer than the hold must not charge for what has ended.
pub async fn open<S: Store, L: Ledger, P: Provider>(
    store: &S,
    ledger: &L,
    provider: &P,
    task: InitializeTask,
    now: WallMs,
) -> Result<(), StepError> {
    if now.0.saturating_sub(task.created_at.0) >= OLD_MS {
        match store.live(&[task.reservation]).await {
            Ok(live) if live.is_empty() => {
                return give_up(ledger, provider, task.payment, "hold_ended", now).await;
            }
            Ok(_) => {}
            Err(error) => {
                ledger.delay_initialize(task.payment, reach_again(&task, now), false).await?;
                return Err(error.into());
            }
        }
    }
    let request = IntentRequest {
        payment: task.payment,
        amount: task.amount,
        currency: task.currency,
        method: task.method.clone(),
        token: task.token.clone(),
    };
    match provider.create_intent(&request).await {
        Ok(intent) => attach(ledger, task.payment, &intent, now).await,
        Err(ProviderError::TimedOut) => match provider.find_intent(task.payment).await {
            // Charged or not: what the provider says now counts as its webhook would.
            Ok(Some(intent)) => {
                attach(ledger, task.payment, &intent, now).await?;
                record_answer(ledger, &intent, now).await
            }
            // It never took it, or is silent for so long that nobody waits any more.
            _ if now.0.saturating_sub(task.created_at.0) >= UNRESOLVED_MS => {
                Ok(ledger.give_up(task.payment, "provider_unavailable", now).await?)
            }
            Ok(None) => Ok(ledger.delay_initialize(task.payment, WallMs(now.0 + RESEND_MS), true).await?),
            // It broke off and is gone: it may be back before the hold ends.
            Err(ProviderError::Unreachable(_)) => {
                Ok(ledger.delay_initialize(task.payment, reach_again(&task, now), true).await?)
            }
            Err(_) => Ok(ledger.delay_initialize(task.payment, WallMs(now.0 + ASK_AGAIN_MS), true).await?),
        },
        Err(ProviderError::Refused { code, intent: Some(intent), .. }) => {
            tracing::info!(payment = %task.payment, code, "declined");
            attach(ledger, task.payment, &intent, now).await?;
            record_answer(ledger, &intent, now).await
        }
        Err(ProviderError::Refused { code, message, intent: None }) => {
            tracing::warn!(payment = %task.payment, code, message, "the provider refused a payment");
            if task.tries == 0 {
                // Also of an attempt that nobody could count any more: under one key the provider repeats its first answer.
                Ok(ledger.fail_payment(task.payment, &code, now).await?)
            } else {
                // This attempt charged nothing; an earlier one, whose answer was lost, may have.
                give_up(ledger, provider, task.payment, &code, now).await
            }
        }
        Err(error @ ProviderError::Unreachable(_)) => {
            wait_for_provider(store, ledger, provider, &task, error, now).await
        }
        Err(error) if task.tries + 1 < TRIES => {
            let retry_at = WallMs(now.0 + (BACKOFF_MS << task.tries));
            ledger.delay_initialize(task.payment, retry_at, true).await?;
            Err(error.into())
        }
        Err(error) => {
            tracing::warn!(payment = %task.payment, %error, "the provider is not available");
            give_up(ledger, provider, task.payment, "provider_unavailable", now).await
        }
    }
}

fn reach_again(task: &InitializeTask, now: WallMs) -> WallMs {
    let waited = now.0.saturating_sub(task.created_at.0);
    WallMs(now.0 + waited.clamp(*REACH_AGAIN_MS.start(), *REACH_AGAIN_MS.end()))
}

/// The provider was not reached, so this attempt sent nothing: tried again for as long as there is something to pay for. The hold is extended meanwhile, within its fixed bound, and the fan is told that the payment is in progress.
async fn wait_for_provider<S: Store, L: Ledger, P: Provider>(
    store: &S,
    ledger: &L,
    provider: &P,
    task: &InitializeTask,
    error: ProviderError,
    now: WallMs,
) -> Result<(), StepError> {
    // A store that does not answer says nothing about the hold.
    let ended = store.live(&[task.reservation]).await.is_ok_and(|live| live.is_empty());
    if !ended {
        ledger.delay_initialize(task.payment, reach_again(task, now), false).await?;
        return Err(error.into());
    }
    tracing::warn!(payment = %task.payment, %error, "the provider was not reached before the hold ended");
    give_up(ledger, provider, task.payment, "provider_unavailable", now).await
}

/// The last attempt failed. Unless the provider knows the payment after all, say so and free the seats. It may have been
/// charged nevertheless: its webhook names it, and should that be lost too, [`ask`] finds it; then the money goes back.
async fn give_up<L: Ledger, P: Provider>(
    ledger: &L,
    provider: &P,
    payment: PaymentId,
    reason: &str,
    now: WallMs,
) -> Result<(), StepError> {
    if let Ok(Some(intent)) = provider.find_intent(payment).await {
        attach(ledger, payment, &intent, now).await?;
        return record_answer(ledger, &intent, now).await;
    }
    Ok(ledger.give_up(payment, reason, now).await?)
}

async fn attach<L: Ledger>(ledger: &L, payment: PaymentId, intent: &Intent, now: WallMs) -> Result<(), StepError> {
    let secret = intent.client_secret.as_deref();
    match ledger.attach_reference(payment, &intent.reference, secret, now).await? {
        AttachOutcome::Saved | AttachOutcome::Known => Ok(()),
        AttachOutcome::Conflict => {
            Err(StepError::Impossible(format!("{payment} and {} belong to others", intent.reference)))
        }
    }
}

/// An outcome in the provider's answer is recorded like its webhook; `processing` is none.
async fn record_answer<L: Ledger>(ledger: &L, intent: &Intent, now: WallMs) -> Result<(), StepError> {
    let fact = &intent.fact;
    if !matches!(fact, ProviderFact::Captured { .. } | ProviderFact::Declined { .. }) {
        return Ok(());
    }
    let event = ProviderEvent {
        id: format!("answer:{}:{}", intent.reference, intent.status),
        kind: "answer".into(),
        created: now,
        fingerprint: format!("{fact:?}"),
        fact: fact.clone(),
    };
    let outcome = ledger.record_event(&event, now).await?;
    tracing::info!(reference = intent.reference, status = intent.status, ?outcome, "recorded the provider's answer");
    Ok(())
}

/// Ask the provider about payments of which no webhook came, and about those that were given up without its word.
pub async fn ask<S: Store, L: Ledger, P: Provider>(store: &S, ledger: &L, provider: &P, now: WallMs) -> Done {
    let open = ledger.open_payments(10_000).await?;
    // Those without a reference have nothing that could be asked for, and must not stand in the others' way.
    let due: Vec<_> =
        open.into_iter().filter(|open| open.reference.is_some() && open.ask_at <= now).take(256).collect();
    for open in due.iter().filter(|open| is_unresolved(open, now)) {
        let detail = json!({"reservation": open.reservation, "reference": open.reference, "since_ms": open.created_at});
        ledger.raise(PAYMENT_UNRESOLVED, &open.payment.to_string(), &detail, now).await?;
    }
    ledger.end_lost(now, 256).await?;
    let silent = each(due, |open| ask_one(store.clone(), ledger.clone(), provider.clone(), open, now)).await;
    let lost = ledger.lost_payments(now, 256).await?;
    let found = each(lost, |lost| find_lost(ledger.clone(), provider.clone(), lost, now)).await;
    Ok(silent? + found?)
}

/// Whether an operator should look at a payment, because it has been without an outcome for long.
fn is_unresolved(open: &OpenPayment, now: WallMs) -> bool {
    now.0.saturating_sub(open.created_at.0) >= UNRESOLVED_MS
}

/// A search may lag behind what happened, so that one without a result proves nothing.
async fn find_lost<L: Ledger, P: Provider>(
    ledger: L,
    provider: P,
    lost: LostPayment,
    now: WallMs,
) -> Result<(), StepError> {
    let pause = now.0.saturating_sub(lost.since.0).clamp(ASK_AGAIN_MS, LOST_PAUSE_MS);
    ledger.ask_again(lost.payment, WallMs(now.0 + pause)).await?;
    let Some(mut intent) = provider.find_intent(lost.payment).await? else { return Ok(()) };
    if intent.status.starts_with("requires_") {
        intent = cancel(&provider, &intent.reference).await?;
    }
    record_answer(&ledger, &intent, now).await
}

/// Nobody may confirm it any more; if it cannot be cancelled, how it stands.
async fn cancel<P: Provider>(provider: &P, reference: &str) -> Result<Intent, ProviderError> {
    match provider.cancel_intent(reference).await {
        Err(ProviderError::Refused { .. }) => provider.intent(reference).await,
        answer => answer,
    }
}

async fn ask_one<S: Store, L: Ledger, P: Provider>(
    store: S,
    ledger: L,
    provider: P,
    open: OpenPayment,
    now: WallMs,
) -> Result<(), StepError> {
    let unresolved = is_unresolved(&open, now);
    let Some(reference) = open.reference else { return Ok(()) };
    let mut intent = provider.intent(&reference).await?;
    let abandoned = intent.status.starts_with("requires_") && store.live(&[open.reservation]).await?.is_empty();
    if abandoned {
        // Nobody confirmed it, and there is nothing left to pay for: from now on nobody can.
        intent = cancel(&provider, &reference).await?;
    }
    record_answer(&ledger, &intent, now).await?;
    // What has taken a day is not looked at by the half minute, and an operator is not told anew so often.
    let pause = if unresolved { LOST_PAUSE_MS } else { ASK_AGAIN_MS };
    ledger.ask_again(open.payment, WallMs(now.0 + pause)).await?;
    Ok(())
}
