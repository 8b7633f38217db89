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
use ledger::payments::{AttachOutcome, InitializeTask, OpenPayment};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Attempts before an unavailable provider fails a payment.
const TRIES: u32 = 3;
/// Pause before the second attempt; doubled after each.
const BACKOFF_MS: u64 = 500;
/// Pause before a provider that left us in the dark is asked again.
const ASK_AGAIN_MS: u64 = 30_000;

/// Payments being opened now: a slow one must neither be opened twice nor keep the others waiting.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    running: Arc<Mutex<BTreeSet<PaymentId>>>,
}

impl Opening {
    /// Start opening what is due; returns before it is done. `tasks` holds what runs.
    pub async fn start<L: Ledger, P: Provider>(
        &self,
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
            let (ledger, provider, running) = (ledger.clone(), provider.clone(), self.running.clone());
            tasks.spawn(async move {
                let payment = task.payment;
                if let Err(error) = open(&ledger, &provider, task, now).await {
                    tracing::warn!(%payment, %error, "a payment could not be opened yet");
                }
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&payment);
            });
        }
        Ok(started)
    }
}

/// Open one payment: step 2 and step 3.
pub async fn open<L: Ledger, P: Provider>(
    ledger: &L,
    provider: &P,
    task: InitializeTask,
    now: WallMs,
) -> Result<(), StepError> {
    let request = IntentRequest {
        payment: task.payment,
        amount: task.amount,
        currency: task.currency,
        method: task.method,
        token: task.token,
    };
    match provider.create_intent(&request).await {
        Ok(intent) => attach(ledger, task.payment, &intent, now).await,
        Err(ProviderError::TimedOut) => match provider.find_intent(task.payment).await {
            // Charged or not: what the provider says now counts as its webhook would.
            Ok(Some(intent)) => {
                attach(ledger, task.payment, &intent, now).await?;
                record_answer(ledger, &intent, now).await
            }
            Ok(None) => Ok(ledger.delay_initialize(task.payment, WallMs(now.0 + BACKOFF_MS)).await?),
            Err(_) => Ok(ledger.delay_initialize(task.payment, WallMs(now.0 + ASK_AGAIN_MS)).await?),
        },
        Err(ProviderError::Refused { code, intent: Some(intent), .. }) => {
            tracing::info!(payment = %task.payment, code, "declined");
            attach(ledger, task.payment, &intent, now).await?;
            record_answer(ledger, &intent, now).await
        }
        Err(ProviderError::Refused { code, message, intent: None }) => {
            tracing::warn!(payment = %task.payment, code, message, "the provider refused a payment");
            Ok(ledger.fail_payment(task.payment, &code, now).await?)
        }
        Err(error) if task.tries + 1 < TRIES => {
            let retry_at = WallMs(now.0 + (BACKOFF_MS << task.tries));
            ledger.delay_initialize(task.payment, retry_at).await?;
            Err(error.into())
        }
        Err(error) => give_up(ledger, provider, task.payment, error, now).await,
    }
}

/// The last attempt failed. Unless the provider knows the payment after all, say so and free the seats; should it have
/// been charged nevertheless, its webhook names the payment and the money goes back.
async fn give_up<L: Ledger, P: Provider>(
    ledger: &L,
    provider: &P,
    payment: PaymentId,
    error: ProviderError,
    now: WallMs,
) -> Result<(), StepError> {
    if let Ok(Some(intent)) = provider.find_intent(payment).await {
        attach(ledger, payment, &intent, now).await?;
        return record_answer(ledger, &intent, now).await;
    }
    tracing::warn!(%payment, %error, "the provider is not available; the payment failed");
    Ok(ledger.fail_payment(payment, "provider_unavailable", now).await?)
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

/// Ask the provider about payments of which no webhook came.
pub async fn ask<S: Store, L: Ledger, P: Provider>(store: &S, ledger: &L, provider: &P, now: WallMs) -> Done {
    let open = ledger.open_payments(10_000).await?;
    let due = open.into_iter().filter(|open| open.ask_at <= now && open.reference.is_some()).take(256).collect();
    each(due, |open| ask_one(store.clone(), ledger.clone(), provider.clone(), open, now)).await
}

async fn ask_one<S: Store, L: Ledger, P: Provider>(
    store: S,
    ledger: L,
    provider: P,
    open: OpenPayment,
    now: WallMs,
) -> Result<(), StepError> {
    let Some(reference) = open.reference else { return Ok(()) };
    let mut intent = provider.intent(&reference).await?;
    let abandoned = intent.status.starts_with("requires_") && store.live(&[open.reservation]).await?.is_empty();
    if abandoned {
        // Nobody confirmed it, and there is nothing left to pay for: from now on nobody can.
        intent = match provider.cancel_intent(&reference).await {
            Ok(cancelled) => cancelled,
            Err(ProviderError::Refused { .. }) => provider.intent(&reference).await?,
            Err(error) => return Err(error.into()),
        };
    }
    record_answer(&ledger, &intent, now).await?;
    ledger.ask_again(open.payment, WallMs(now.0 + ASK_AGAIN_MS)).await?;
    Ok(())
}
