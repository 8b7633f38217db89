//! Step 4 in SQL: one verified event of the provider, in one transaction.
//!
//! The payment is locked before the event is written down, so that eight copies at once are one.

use super::payments::{Locked, fail};
use super::refunds::{self, NewRefund};
use super::rows::{get, ms, parsed};
use super::{error, notices};
use crate::notices::{PAYMENT_LOST, PAYMENT_UNRESOLVED};
use crate::payments::{UNKNOWN_REFERENCE_MS, WebhookOutcome};
use crate::{LedgerError, Result};
use domain::ids::RefundId;
use domain::money::{Currency, Minor};
use domain::order::payment::{PaymentFact, PaymentState, Step};
use domain::order::refund::{RefundReason, RefundReport};
use domain::order::webhook::{ProviderEvent, ProviderFact};
use domain::time::WallMs;
use serde_json::json;
use sqlx::PgConnection;

/// Write an event down and do what it says.
pub(super) async fn record(
    connection: &mut PgConnection,
    event: &ProviderEvent,
    now: WallMs,
) -> Result<WebhookOutcome> {
    let locked = match event.fact.reference() {
        Some(reference) => match lock_by_reference(connection, reference).await? {
            None => adopt(connection, &event.fact, reference, now).await?,
            known => known,
        },
        None => None,
    };
    if locked.is_none() && event.fact.reference().is_some() {
        return unknown(connection, event, now).await;
    }
    let inserted = sqlx::query(
        "INSERT INTO processed_webhooks (event_id, kind, fingerprint, payment_id, received_at_ms)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    )
    .bind(&event.id)
    .bind(&event.kind)
    .bind(&event.fingerprint)
    .bind(locked.as_ref().map(Locked::id))
    .bind(ms(now))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    if inserted.rows_affected() == 0 {
        let repeated = repeated(connection, event, now).await?;
        return repeated.ok_or_else(|| LedgerError::inconsistent("a recorded event has vanished"));
    }
    match locked {
        Some(locked) => apply(connection, &locked, event, now).await,
        None => Ok(WebhookOutcome::Recorded),
    }
}

async fn lock_by_reference(connection: &mut PgConnection, reference: &str) -> Result<Option<Locked>> {
    let row = sqlx::query("SELECT * FROM payments WHERE reference = $1 FOR UPDATE")
        .bind(reference)
        .fetch_optional(connection)
        .await
        .map_err(error)?;
    row.as_ref().map(Locked::read).transpose()
}

/// A payment that was given up because the provider did not answer, and of which it now says what became of it: the event
/// names it, so it takes the reference, and if it was charged the money goes back.
async fn adopt(
    connection: &mut PgConnection,
    fact: &ProviderFact,
    reference: &str,
    now: WallMs,
) -> Result<Option<Locked>> {
    let (ProviderFact::Captured { payment: Some(payment), .. } | ProviderFact::Declined { payment: Some(payment), .. }) =
        fact
    else {
        return Ok(None);
    };
    let row = sqlx::query(
        "UPDATE payments SET reference = $2, lost_since_ms = NULL
         WHERE id = $1 AND state = 'FAILED' AND reference IS NULL RETURNING *",
    )
    .bind(payment.to_string())
    .bind(reference)
    .fetch_optional(&mut *connection)
    .await
    .map_err(error)?;
    let Some(row) = row else { return Ok(None) };
    notices::close_watch(connection, PAYMENT_LOST, &payment.to_string(), now).await?;
    // Earlier deliveries were told to come again; nobody need look.
    notices::close_watch(connection, "unknown_reference", reference, now).await?;
    Ok(Some(Locked::read(&row)?))
}

/// The answer to an event that was recorded before; `None` if it was not.
async fn repeated(connection: &mut PgConnection, event: &ProviderEvent, now: WallMs) -> Result<Option<WebhookOutcome>> {
    let row = sqlx::query("SELECT fingerprint FROM processed_webhooks WHERE event_id = $1")
        .bind(&event.id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    let Some(row) = row else { return Ok(None) };
    if get::<String>(&row, "fingerprint")? == event.fingerprint {
        return Ok(Some(WebhookOutcome::Duplicate));
    }
    let detail = json!({"kind": event.kind, "fingerprint": event.fingerprint});
    notices::raise(connection, "conflicting_webhook", &event.id, &detail, now).await?;
    Ok(Some(WebhookOutcome::ConflictingDuplicate))
}

async fn unknown(connection: &mut PgConnection, event: &ProviderEvent, now: WallMs) -> Result<WebhookOutcome> {
    if let Some(known) = repeated(connection, event, now).await? {
        return Ok(known);
    }
    let reference = event.fact.reference().unwrap_or_default();
    let detail = json!({"event": event.id, "kind": event.kind});
    let opens = WallMs(event.created.0.min(now.0) + UNKNOWN_REFERENCE_MS);
    notices::raise(connection, "unknown_reference", reference, &detail, opens).await?;
    Ok(WebhookOutcome::UnknownReference)
}

async fn apply(
    connection: &mut PgConnection,
    locked: &Locked,
    event: &ProviderEvent,
    now: WallMs,
) -> Result<WebhookOutcome> {
    match &event.fact {
        ProviderFact::Captured { amount, currency, payment, .. } => {
            let matches = *amount == locked.view.amount
                && *currency == locked.view.currency
                && payment.is_none_or(|payment| payment == locked.view.id);
            if matches {
                captured(connection, locked, *amount, *currency, now).await?;
                Ok(WebhookOutcome::Recorded)
            } else {
                mismatch(connection, locked, *amount, *currency, now).await?;
                Ok(WebhookOutcome::Mismatch)
            }
        }
        ProviderFact::Declined { reason, .. } => {
            fail(connection, locked, reason, !locked.retry_declined, now).await?;
            Ok(WebhookOutcome::Recorded)
        }
        ProviderFact::RefundedInAll { total, currency, .. } => {
            refunded_in_all(connection, locked, *total, *currency, now).await?;
            Ok(WebhookOutcome::Recorded)
        }
        ProviderFact::Refund { refund_reference, refund, report, amount, .. } => {
            one_refund(connection, locked, (*refund, refund_reference), *report, *amount, now).await?;
            Ok(WebhookOutcome::Recorded)
        }
        ProviderFact::Processing { .. } | ProviderFact::Other => Ok(WebhookOutcome::Recorded),
    }
}

async fn captured(
    connection: &mut PgConnection,
    locked: &Locked,
    amount: Minor,
    currency: Currency,
    now: WallMs,
) -> Result<()> {
    let Step::To(next) = locked.view.state.on(PaymentFact::Captured) else { return Ok(()) };
    notices::close_watch(connection, PAYMENT_UNRESOLVED, &locked.id(), now).await?;
    write_capture(connection, locked, next, amount, currency, false).await
}

async fn write_capture(
    connection: &mut PgConnection,
    locked: &Locked,
    next: PaymentState,
    amount: Minor,
    currency: Currency,
    release: bool,
) -> Result<()> {
    if release {
        super::payments::hold_still(connection, locked.view.reservation).await?;
    }
    sqlx::query(
        "UPDATE payments SET state = $2, captured_minor = $3, captured_currency = $4, release_due = release_due OR $5,
             released = released OR $5, changed_at = now() WHERE id = $1",
    )
    .bind(locked.id())
    .bind(next.as_str())
    .bind(amount.0)
    .bind(currency.code())
    .bind(release)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}

/// Something else was captured than was asked for: it never sells, and all of it goes back.
async fn mismatch(
    connection: &mut PgConnection,
    locked: &Locked,
    amount: Minor,
    currency: Currency,
    now: WallMs,
) -> Result<()> {
    let detail = json!({
        "captured": amount.display(currency), "asked": locked.view.amount.display(locked.view.currency),
        "state": locked.view.state,
    });
    notices::raise(connection, "capture_mismatch", &locked.id(), &detail, now).await?;
    let Step::To(next) = locked.view.state.on(PaymentFact::CapturedOther) else { return Ok(()) };
    notices::close_watch(connection, PAYMENT_UNRESOLVED, &locked.id(), now).await?;
    write_capture(connection, locked, next, amount, currency, true).await?;
    refunds::decide_refund(connection, locked, (amount, currency), RefundReason::WrongAmount, now).await
}

/// The provider's sum of what went back, whoever asked for it.
async fn refunded_in_all(
    connection: &mut PgConnection,
    locked: &Locked,
    total: Minor,
    currency: Currency,
    now: WallMs,
) -> Result<()> {
    let ours = refunds::counted(connection, &locked.id()).await?;
    if total == ours {
        refunds::all_succeeded(connection, locked, now).await
    } else if total > ours && locked.captured == Some(total.0) && locked.view.state == PaymentState::Succeeded {
        // The whole rest was given back in the provider's own console: the seats follow the money.
        let seats = refunds::end_bookings(connection, &locked.id(), None, now).await?;
        let amount = Minor(total.0 - ours.0);
        let refund = NewRefund { amount, currency, reason: RefundReason::AtProvider, seats: Some(seats) };
        refunds::set_state(connection, locked, PaymentFact::FullRefundRequested).await?;
        refunds::owe(connection, locked, &refund, now).await?;
        refunds::all_succeeded(connection, locked, now).await
    } else if total > ours {
        let detail = json!({"at_provider": total.display(currency), "ours": ours.display(currency)});
        notices::raise(connection, "refunded_at_provider", &locked.id(), &detail, now).await
    } else {
        // Less than we owe: some of ours are not finished, and each will be reported by itself.
        Ok(())
    }
}

async fn one_refund(
    connection: &mut PgConnection,
    locked: &Locked,
    (refund, reference): (Option<RefundId>, &str),
    report: RefundReport,
    amount: Minor,
    now: WallMs,
) -> Result<()> {
    let row = sqlx::query("SELECT id, amount_minor FROM refunds WHERE payment_id = $1 AND (id = $2 OR reference = $3)")
        .bind(locked.id())
        .bind(refund.map(|refund| refund.to_string()))
        .bind(reference)
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    match row {
        Some(row) if get::<i64>(&row, "amount_minor")? == amount.0 => {
            let refund: RefundId = parsed(&row, "id")?;
            refunds::reported(connection, locked, refund, reference, report, now).await
        }
        // A failed attempt that is not ours moved no money.
        _ if report == RefundReport::Failed => Ok(()),
        _ => {
            let detail = json!({"refund": reference, "amount": amount, "payment": locked.view.id});
            notices::raise(connection, "foreign_refund", reference, &detail, now).await
        }
    }
}
