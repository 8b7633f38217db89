//! Payments before settlement, in SQL.

use super::rows::{self, get, minor, ms, parsed, wall};
use super::{Postgres, error, events, notices, outbox, transaction};
use crate::notices::{PAYMENT_LOST, PAYMENT_UNRESOLVED};
use crate::payments::{
    AttachOutcome, BeginOutcome, BeginPayment, FIRST_ASK_MS, InitializeTask, LOST_FOR_MS, LostPayment, OpenPayment,
    PaymentView, Payments, WebhookOutcome,
};
use crate::{LedgerError, Result, outbox as topics};
use domain::ids::{IdempotencyKey, PaymentId, ReservationId, UserId};
use domain::order::payment::{PaymentFact, PaymentState, Step};
use domain::order::webhook::ProviderEvent;
use domain::time::WallMs;
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

impl Payments for Postgres {
    async fn begin_payment(&self, request: &BeginPayment) -> Result<BeginOutcome> {
        let request = request.clone();
        transaction!(self, |connection| begin(connection, &request).await?)
    }

    async fn begun(&self, user: &UserId, key: &IdempotencyKey, fingerprint: &str) -> Result<Option<BeginOutcome>> {
        let row = sqlx::query("SELECT * FROM payments WHERE user_id = $1 AND idempotency_key = $2")
            .bind(user.as_str())
            .bind(key.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(error)?;
        row.as_ref().map(|row| repeated(row, fingerprint)).transpose()
    }

    async fn payment(&self, payment: PaymentId) -> Result<Option<PaymentView>> {
        let row = sqlx::query("SELECT * FROM payments WHERE id = $1")
            .bind(payment.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(error)?;
        row.as_ref().map(rows::payment).transpose()
    }

    async fn payment_of(&self, reservation: ReservationId) -> Result<Option<PaymentView>> {
        let row = sqlx::query(
            "SELECT * FROM payments WHERE reservation = $1 ORDER BY (state = 'FAILED'), created_at_ms DESC, id LIMIT 1",
        )
        .bind(reservation.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(error)?;
        row.as_ref().map(rows::payment).transpose()
    }

    async fn to_initialize(&self, now: WallMs, max: u32) -> Result<Vec<InitializeTask>> {
        let found = sqlx::query(
            "SELECT * FROM payments WHERE state = 'INITIALIZING' AND due_at_ms <= $1 ORDER BY created_at_ms LIMIT $2",
        )
        .bind(ms(now))
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let task = |row| {
            Ok(InitializeTask {
                payment: parsed(row, "id")?,
                reservation: parsed(row, "reservation")?,
                amount: minor(row, "amount_minor")?,
                currency: parsed(row, "currency")?,
                method: get(row, "method")?,
                token: get(row, "token")?,
                tries: u32::try_from(get::<i32>(row, "tries")?).map_err(LedgerError::inconsistent)?,
                created_at: wall(row, "created_at_ms")?,
            })
        };
        found.iter().map(task).collect()
    }

    async fn delay_initialize(&self, payment: PaymentId, retry_at: WallMs, sent: bool) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query(
                "UPDATE payments SET tries = tries + $3, due_at_ms = $2 WHERE id = $1 AND state = 'INITIALIZING'",
            )
            .bind(payment.to_string())
            .bind(ms(retry_at))
            .bind(i32::from(sent))
            .execute(connection)
            .await
            .map_err(error)?;
        })
    }

    async fn attach_reference(
        &self,
        payment: PaymentId,
        reference: &str,
        client_secret: Option<&str>,
        now: WallMs,
    ) -> Result<AttachOutcome> {
        let (reference, secret) = (reference.to_owned(), client_secret.map(str::to_owned));
        transaction!(self, |connection| attach(connection, payment, &reference, secret.as_deref(), now).await?)
    }

    async fn fail_payment(&self, payment: PaymentId, reason: &str, now: WallMs) -> Result<()> {
        let reason = reason.to_owned();
        transaction!(self, |connection| {
            if let Some(locked) = lock(connection, payment).await? {
                fail(connection, &locked, &reason, true, now).await?;
            }
        })
    }

    async fn give_up(&self, payment: PaymentId, reason: &str, now: WallMs) -> Result<()> {
        let reason = reason.to_owned();
        transaction!(self, |connection| {
            if let Some(locked) = lock(connection, payment).await? {
                fail(connection, &locked, &reason, true, now).await?;
                sqlx::query(
                    "UPDATE payments SET lost_since_ms = $2, due_at_ms = $3
                     WHERE id = $1 AND state = 'FAILED' AND reference IS NULL AND lost_since_ms IS NULL",
                )
                .bind(locked.id())
                .bind(ms(now))
                .bind(ms(WallMs(now.0 + FIRST_ASK_MS)))
                .execute(connection)
                .await
                .map_err(error)?;
            }
        })
    }

    async fn lost_payments(&self, now: WallMs, max: u32) -> Result<Vec<LostPayment>> {
        let found = sqlx::query(
            "SELECT id, lost_since_ms FROM payments WHERE lost_since_ms > $1 AND due_at_ms <= $2
             ORDER BY lost_since_ms LIMIT $3",
        )
        .bind(ms(WallMs(now.0.saturating_sub(LOST_FOR_MS))))
        .bind(ms(now))
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let lost = |row| Ok(LostPayment { payment: parsed(row, "id")?, since: wall(row, "lost_since_ms")? });
        found.iter().map(lost).collect()
    }

    async fn end_lost(&self, now: WallMs, max: u32) -> Result<u32> {
        transaction!(self, |connection| end_lost(connection, now, max).await?)
    }

    async fn open_payments(&self, max: u32) -> Result<Vec<OpenPayment>> {
        let found = sqlx::query(
            "SELECT * FROM payments WHERE state IN ('INITIALIZING', 'PENDING') ORDER BY created_at_ms LIMIT $1",
        )
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let open = |row| {
            Ok(OpenPayment {
                payment: parsed(row, "id")?,
                reservation: parsed(row, "reservation")?,
                reference: get(row, "reference")?,
                created_at: wall(row, "created_at_ms")?,
                ask_at: wall(row, "due_at_ms")?,
            })
        };
        found.iter().map(open).collect()
    }

    async fn ask_again(&self, payment: PaymentId, ask_at: WallMs) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query(
                "UPDATE payments SET due_at_ms = $2 WHERE id = $1 AND (state = 'PENDING' OR lost_since_ms IS NOT NULL)",
            )
            .bind(payment.to_string())
            .bind(ms(ask_at))
            .execute(connection)
            .await
            .map_err(error)?;
        })
    }

    async fn record_event(&self, event: &ProviderEvent, now: WallMs) -> Result<WebhookOutcome> {
        let event = event.clone();
        transaction!(self, |connection| events::record(connection, &event, now).await?)
    }
}

async fn end_lost(connection: &mut PgConnection, now: WallMs, max: u32) -> Result<u32> {
    let found = sqlx::query(
        "UPDATE payments SET lost_since_ms = NULL WHERE id IN (
             SELECT id FROM payments WHERE lost_since_ms <= $1 ORDER BY lost_since_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING id",
    )
    .bind(ms(WallMs(now.0.saturating_sub(LOST_FOR_MS))))
    .bind(i64::from(max))
    .fetch_all(&mut *connection)
    .await
    .map_err(error)?;
    for row in &found {
        let payment: String = get(row, "id")?;
        notices::raise(connection, PAYMENT_LOST, &payment, &json!({"payment": payment}), now).await?;
    }
    u32::try_from(found.len()).map_err(LedgerError::inconsistent)
}

/// A payment whose row is locked until the transaction ends.
pub(super) struct Locked {
    pub view: PaymentView,
    pub retry_declined: bool,
    pub captured: Option<i64>,
    pub captured_currency: Option<String>,
    pub event: i64,
    pub lines: Vec<crate::payments::SeatLine>,
}

impl Locked {
    pub(super) fn id(&self) -> String {
        self.view.id.to_string()
    }

    pub(super) fn read(row: &PgRow) -> Result<Self> {
        Ok(Self {
            view: rows::payment(row)?,
            retry_declined: get(row, "retry_declined")?,
            captured: get(row, "captured_minor")?,
            captured_currency: get(row, "captured_currency")?,
            event: get(row, "event_id")?,
            lines: rows::json(row, "lines")?,
        })
    }
}

/// Lock one payment. Every transaction that moves money locks its payment first.
pub(super) async fn lock(connection: &mut PgConnection, payment: PaymentId) -> Result<Option<Locked>> {
    let row = sqlx::query("SELECT * FROM payments WHERE id = $1 FOR UPDATE")
        .bind(payment.to_string())
        .fetch_optional(connection)
        .await
        .map_err(error)?;
    row.as_ref().map(Locked::read).transpose()
}

pub(super) async fn set_state(connection: &mut PgConnection, payment: &str, state: PaymentState) -> Result<()> {
    sqlx::query("UPDATE payments SET state = $2, changed_at = now() WHERE id = $1")
        .bind(payment)
        .bind(state.as_str())
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}

async fn begin(connection: &mut PgConnection, request: &BeginPayment) -> Result<BeginOutcome> {
    hold_still(connection, request.reservation).await?;
    // A twin with the same key may commit between the look and the insert; then the second look sees it.
    for _ in 0..3 {
        if let Some(known) = known_answer(connection, request).await? {
            return Ok(known);
        }
        if insert(connection, request).await? {
            let payload = json!({"payment": request.payment, "reservation": request.reservation});
            outbox::write(connection, topics::PAYMENT_INITIALIZE, &request.payment.to_string(), &payload, request.now)
                .await?;
            return Ok(BeginOutcome::Begun(PaymentView {
                id: request.payment,
                reservation: request.reservation,
                user: request.user.clone(),
                state: PaymentState::Initializing,
                amount: request.amount,
                currency: request.currency,
                reference: None,
                client_secret: None,
                failure: None,
                created_at: request.now,
            }));
        }
    }
    Err(LedgerError::Unavailable("too many payments for one reservation at once".into()))
}

/// The payment that the request repeats, or else the one that stands in its way. One statement, hence one snapshot: a twin
/// that commits between two looks would be found in the way, and not as the twin.
async fn known_answer(connection: &mut PgConnection, request: &BeginPayment) -> Result<Option<BeginOutcome>> {
    let found = sqlx::query(
        "SELECT *, (user_id = $1 AND idempotency_key = $2) AS same_key FROM payments
         WHERE (user_id = $1 AND idempotency_key = $2)
            OR (reservation = $3 AND (state IN ('INITIALIZING', 'PENDING', 'CAPTURED', 'SUCCEEDED')
                OR released OR (state = 'FAILED' AND NOT retry_declined)))
         ORDER BY same_key DESC, state IN ('INITIALIZING', 'PENDING', 'CAPTURED', 'SUCCEEDED') DESC LIMIT 1",
    )
    .bind(request.user.as_str())
    .bind(request.key.as_str())
    .bind(request.reservation.to_string())
    .fetch_optional(connection)
    .await
    .map_err(error)?;
    let Some(row) = found else { return Ok(None) };
    if get(&row, "same_key")? {
        return repeated(&row, &request.fingerprint).map(Some);
    }
    let payment = rows::payment(&row)?;
    Ok(Some(if payment.state.is_open() { BeginOutcome::AlreadyOpen(payment) } else { BeginOutcome::Released }))
}

/// The answer to a key that this payment was begun under.
fn repeated(row: &PgRow, fingerprint: &str) -> Result<BeginOutcome> {
    let same = get::<String>(row, "fingerprint")? == fingerprint;
    Ok(if same { BeginOutcome::Repeated(rows::payment(row)?) } else { BeginOutcome::KeyReused })
}

/// Until this transaction ends, no payment of the reservation begins, and none fails and has it released. A lock of its
/// own, because who begins payments may not lock their rows. Whoever locks a payment does that first.
pub(super) async fn hold_still(connection: &mut PgConnection, reservation: ReservationId) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 6))")
        .bind(reservation.to_string())
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}

async fn insert(connection: &mut PgConnection, request: &BeginPayment) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO payments (id, reservation, event_id, user_id, email, idempotency_key, fingerprint, method, token,
             amount_minor, currency, lines, retry_declined, state, due_at_ms, created_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'INITIALIZING', $14, $14)
         ON CONFLICT DO NOTHING",
    )
    .bind(request.payment.to_string())
    .bind(request.reservation.to_string())
    .bind(i64::from(request.reservation.event.0))
    .bind(request.user.as_str())
    .bind(request.email.as_deref())
    .bind(request.key.as_str())
    .bind(&request.fingerprint)
    .bind(&request.method)
    .bind(request.token.as_deref())
    .bind(request.amount.0)
    .bind(request.currency.code())
    .bind(Json(&request.seats))
    .bind(request.retry_declined)
    .bind(ms(request.now))
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(inserted.rows_affected() == 1)
}

async fn attach(
    connection: &mut PgConnection,
    payment: PaymentId,
    reference: &str,
    secret: Option<&str>,
    now: WallMs,
) -> Result<AttachOutcome> {
    let Some(locked) = lock(connection, payment).await? else {
        return Err(LedgerError::Inconsistent(format!("{payment} is not a payment")));
    };
    let owner = sqlx::query("SELECT id FROM payments WHERE reference = $1")
        .bind(reference)
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    let owner: Option<String> = owner.map(|row| row.try_get(0)).transpose().map_err(error)?;
    let outcome = match (&locked.view.reference, owner) {
        (Some(known), _) if known == reference => return Ok(AttachOutcome::Known),
        (None, None) => AttachOutcome::Saved,
        (known, owner) => {
            let detail = json!({"reference": reference, "has": known, "owner": owner});
            notices::raise(connection, "reference_conflict", &locked.id(), &detail, now).await?;
            return Ok(AttachOutcome::Conflict);
        }
    };
    let next = match locked.view.state.on(PaymentFact::ReferenceSaved) {
        Step::To(next) => next,
        Step::Stay | Step::Impossible => locked.view.state,
    };
    sqlx::query(
        "UPDATE payments SET reference = $2, client_secret = $3, state = $4, tries = 0, due_at_ms = $5, changed_at = now(),
             lost_since_ms = NULL WHERE id = $1",
    )
    .bind(locked.id())
    .bind(reference)
    .bind(secret)
    .bind(next.as_str())
    .bind(ms(WallMs(now.0 + FIRST_ASK_MS)))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    // Webhooks that came before the reference was saved were told to come again; nobody need look.
    notices::close_watch(connection, "unknown_reference", reference, now).await?;
    Ok(outcome)
}

/// FAILED, if nothing stronger is known: release the seats, tell the fan.
pub(super) async fn fail(
    connection: &mut PgConnection,
    locked: &Locked,
    reason: &str,
    release: bool,
    now: WallMs,
) -> Result<()> {
    let Step::To(next) = locked.view.state.on(PaymentFact::Declined) else { return Ok(()) };
    hold_still(connection, locked.view.reservation).await?;
    notices::close_watch(connection, PAYMENT_UNRESOLVED, &locked.id(), now).await?;
    sqlx::query(
        "UPDATE payments SET state = $2, failure = $3, release_due = $4, released = released OR $4, changed_at = now()
         WHERE id = $1",
    )
    .bind(locked.id())
    .bind(next.as_str())
    .bind(reason)
    .bind(release)
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    let payload = json!({
        "payment": locked.view.id, "reservation": locked.view.reservation, "reason": reason, "released": release,
    });
    outbox::write(connection, topics::PAYMENT_FAILED, &locked.id(), &payload, now).await
}
