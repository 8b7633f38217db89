//! Refunds in SQL: owed, sent, reported, and their seats given back.

use super::payments::{self, Locked};
use super::rows::{self, get, minor, ms, parsed};
use super::{Postgres, error, notices, outbox, transaction};
use crate::refunds::{RefundOrder, RefundOutcome, RefundTask, RefundView, Refunds, ReturnTask, refused};
use crate::{LedgerError, Result, outbox as topics};
use domain::ids::{PaymentId, RefundId, SeatRef};
use domain::money::{Currency, Minor};
use domain::order::payment::{PaymentFact, Step};
use domain::order::refund::{RefundReason, RefundReport, RefundState};
use domain::order::refund_id;
use domain::time::WallMs;
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;

impl Refunds for Postgres {
    async fn request_refund(&self, order: &RefundOrder) -> Result<RefundOutcome> {
        let order = order.clone();
        transaction!(self, |connection| request(connection, &order).await?)
    }

    async fn refunds_due(&self, now: WallMs, max: u32) -> Result<Vec<RefundTask>> {
        let found = sqlx::query(
            "SELECT r.*, p.reference AS payment_reference FROM refunds r JOIN payments p ON p.id = r.payment_id
             WHERE r.state IN ('REQUIRED', 'SENT') AND r.due_at_ms <= $1 AND p.reference IS NOT NULL
             ORDER BY r.due_at_ms LIMIT $2",
        )
        .bind(ms(now))
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let task = |row| {
            Ok(RefundTask {
                refund: parsed(row, "id")?,
                payment: parsed(row, "payment_id")?,
                sequence: u32::try_from(get::<i32>(row, "sequence")?).map_err(LedgerError::inconsistent)?,
                reference: get(row, "payment_reference")?,
                refund_reference: get(row, "reference")?,
                amount: minor(row, "amount_minor")?,
                currency: parsed(row, "currency")?,
                state: parsed(row, "state")?,
                tries: u32::try_from(get::<i32>(row, "tries")?).map_err(LedgerError::inconsistent)?,
            })
        };
        found.iter().map(task).collect()
    }

    async fn delay_refund(&self, refund: RefundId, retry_at: WallMs) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE refunds SET tries = tries + 1, due_at_ms = $2 WHERE id = $1")
                .bind(refund.to_string())
                .bind(ms(retry_at))
                .execute(connection)
                .await
                .map_err(error)?;
        })
    }

    async fn refund_reported(
        &self,
        refund: RefundId,
        refund_reference: &str,
        report: RefundReport,
        now: WallMs,
    ) -> Result<()> {
        let reference = refund_reference.to_owned();
        transaction!(self, |connection| {
            let row = sqlx::query("SELECT payment_id FROM refunds WHERE id = $1")
                .bind(refund.to_string())
                .fetch_one(&mut *connection)
                .await
                .map_err(error)?;
            if let Some(locked) = payments::lock(connection, parsed(&row, "payment_id")?).await? {
                reported(connection, &locked, refund, &reference, report, now).await?;
            }
        })
    }

    async fn returns_due(&self, max: u32) -> Result<Vec<ReturnTask>> {
        let found = sqlx::query(
            "SELECT r.id, r.seats, p.reservation FROM refunds r JOIN payments p ON p.id = r.payment_id
             WHERE r.return_due ORDER BY r.created_at_ms LIMIT $1",
        )
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let task = |row| {
            Ok(ReturnTask {
                refund: parsed(row, "id")?,
                reservation: parsed(row, "reservation")?,
                seats: rows::json(row, "seats")?,
            })
        };
        found.iter().map(task).collect()
    }

    async fn mark_returned(&self, refund: RefundId) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE refunds SET return_due = false WHERE id = $1")
                .bind(refund.to_string())
                .execute(connection)
                .await
                .map_err(error)?;
        })
    }

    async fn refunds_of(&self, payment: PaymentId) -> Result<Vec<RefundView>> {
        let found = sqlx::query("SELECT * FROM refunds WHERE payment_id = $1 ORDER BY sequence")
            .bind(payment.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        let view = |row| {
            Ok(RefundView {
                id: parsed(row, "id")?,
                payment,
                amount: minor(row, "amount_minor")?,
                currency: parsed(row, "currency")?,
                state: parsed(row, "state")?,
                reason: get(row, "reason")?,
            })
        };
        found.iter().map(view).collect()
    }
}

/// Money that is to go back.
pub(super) struct NewRefund {
    pub amount: Minor,
    pub currency: Currency,
    pub reason: RefundReason,
    /// Seats whose bookings this ended; none if there never was one.
    pub seats: Option<Vec<SeatRef>>,
}

async fn request(connection: &mut PgConnection, order: &RefundOrder) -> Result<RefundOutcome> {
    if let Some(known) = known_answer(connection, order).await? {
        return Ok(known);
    }
    let now = order.now;
    let row = sqlx::query("SELECT payment_id FROM bookings WHERE reservation = $1")
        .bind(order.reservation.to_string())
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    let Some(row) = row else { return Ok(RefundOutcome::NotBooked) };
    let Some(locked) = payments::lock(connection, parsed(&row, "payment_id")?).await? else {
        return Ok(RefundOutcome::NotBooked);
    };
    let live = live_seats(connection, &locked.id()).await?;
    if let Some(refused) = refused(order.seats.as_deref(), &live) {
        return Ok(refused);
    }
    let ended = end_bookings(connection, &locked.id(), order.seats.as_deref(), now).await?;
    let prices = locked.lines.iter().filter(|line| ended.contains(&line.seat)).map(|line| line.price);
    let amount = Minor::checked_sum(prices).ok_or_else(|| LedgerError::inconsistent("a refund overflows"))?;
    let left = sqlx::query(
        "SELECT EXISTS (SELECT FROM booking_seats s JOIN bookings b ON b.id = s.booking_id
             WHERE b.payment_id = $1 AND s.live) AS any_live",
    )
    .bind(locked.id())
    .fetch_one(&mut *connection)
    .await
    .map_err(error)?;
    if !get::<bool>(&left, "any_live")? {
        set_state(connection, &locked, PaymentFact::FullRefundRequested).await?;
    }
    let currency = locked.view.currency;
    let refund = NewRefund { amount, currency, reason: order.reason, seats: Some(ended) };
    let id = owe(connection, &locked, &refund, now).await?;
    sqlx::query("UPDATE refunds SET requested_by = $2, request_key = $3, request_fingerprint = $4 WHERE id = $1")
        .bind(id.to_string())
        .bind(order.operator.as_str())
        .bind(order.key.as_str())
        .bind(&order.fingerprint)
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(RefundOutcome::Requested(id))
}

async fn live_seats(connection: &mut PgConnection, payment: &str) -> Result<Vec<SeatRef>> {
    let live = sqlx::query(
        "SELECT s.section_id, s.seat_id FROM booking_seats s JOIN bookings b ON b.id = s.booking_id
         WHERE b.payment_id = $1 AND s.live",
    )
    .bind(payment)
    .fetch_all(connection)
    .await
    .map_err(error)?;
    live.iter().map(rows::seat).collect()
}

/// What this operator's key was answered before. A twin of the request waits here until the first one has its answer.
async fn known_answer(connection: &mut PgConnection, order: &RefundOrder) -> Result<Option<RefundOutcome>> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7))")
        .bind(format!("{} {}", order.operator.as_str(), order.key.as_str()))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    let row = sqlx::query("SELECT id, request_fingerprint FROM refunds WHERE requested_by = $1 AND request_key = $2")
        .bind(order.operator.as_str())
        .bind(order.key.as_str())
        .fetch_optional(connection)
        .await
        .map_err(error)?;
    let Some(row) = row else { return Ok(None) };
    let same = get::<String>(&row, "request_fingerprint")? == order.fingerprint;
    Ok(Some(if same { RefundOutcome::Requested(parsed(&row, "id")?) } else { RefundOutcome::KeyReused }))
}

/// Move a payment by a fact, if the fact moves it.
pub(super) async fn set_state(connection: &mut PgConnection, locked: &Locked, fact: PaymentFact) -> Result<()> {
    if let Step::To(next) = locked.view.state.on(fact) {
        payments::set_state(connection, &locked.id(), next).await?;
    }
    Ok(())
}

/// The live seats of a payment's booking (or those of `only`) are no longer live and their tickets are revoked.
pub(super) async fn end_bookings(
    connection: &mut PgConnection,
    payment: &str,
    only: Option<&[SeatRef]>,
    now: WallMs,
) -> Result<Vec<SeatRef>> {
    let live = sqlx::query(
        "SELECT s.booking_id, s.section_id, s.seat_id FROM booking_seats s JOIN bookings b ON b.id = s.booking_id
         WHERE b.payment_id = $1 AND s.live ORDER BY s.section_id, s.seat_id",
    )
    .bind(payment)
    .fetch_all(&mut *connection)
    .await
    .map_err(error)?;
    let mut ended = Vec::new();
    for row in &live {
        let seat = rows::seat(row)?;
        if only.is_some_and(|only| !only.contains(&seat)) {
            continue;
        }
        let booking: String = get(row, "booking_id")?;
        let (section, index) = (i32::from(seat.section.0), i64::from(seat.seat.0));
        sqlx::query("UPDATE booking_seats SET live = false WHERE booking_id = $1 AND section_id = $2 AND seat_id = $3")
            .bind(&booking)
            .bind(section)
            .bind(index)
            .execute(&mut *connection)
            .await
            .map_err(error)?;
        sqlx::query(
            "UPDATE tickets SET revoked_at_ms = $4
             WHERE booking_id = $1 AND section_id = $2 AND seat_id = $3 AND revoked_at_ms IS NULL",
        )
        .bind(&booking)
        .bind(section)
        .bind(index)
        .bind(ms(now))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
        ended.push(seat);
    }
    Ok(ended)
}

/// The outcome of a captured payment is a refund of all of it. Says so once; the first outcome stands.
pub(super) async fn decide_refund(
    connection: &mut PgConnection,
    locked: &Locked,
    (amount, currency): (Minor, Currency),
    reason: RefundReason,
    now: WallMs,
) -> Result<()> {
    let decided = sqlx::query(
        "INSERT INTO payment_outcomes (payment_id, outcome, decided_at_ms) VALUES ($1, 'REFUND', $2)
         ON CONFLICT DO NOTHING",
    )
    .bind(locked.id())
    .bind(ms(now))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    if decided.rows_affected() == 1 {
        owe(connection, locked, &NewRefund { amount, currency, reason, seats: None }, now).await?;
    }
    Ok(())
}

/// Write a refund down, with the fact for the outbox. What costs nothing has gone back already.
pub(super) async fn owe(
    connection: &mut PgConnection,
    locked: &Locked,
    refund: &NewRefund,
    now: WallMs,
) -> Result<RefundId> {
    let row = sqlx::query("SELECT coalesce(max(sequence), 0) + 1 AS next FROM refunds WHERE payment_id = $1")
        .bind(locked.id())
        .fetch_one(&mut *connection)
        .await
        .map_err(error)?;
    let sequence: i32 = get(&row, "next")?;
    let id = refund_id(locked.view.id, u32::try_from(sequence).map_err(LedgerError::inconsistent)?);
    let state = if refund.amount == Minor(0) { RefundState::Succeeded } else { RefundState::Required };
    sqlx::query(
        "INSERT INTO refunds (id, payment_id, sequence, amount_minor, currency, reason, state, seats, return_due,
             due_at_ms, created_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)",
    )
    .bind(id.to_string())
    .bind(locked.id())
    .bind(sequence)
    .bind(refund.amount.0)
    .bind(refund.currency.code())
    .bind(refund.reason.as_str())
    .bind(state.as_str())
    .bind(refund.seats.as_ref().map(Json))
    .bind(refund.seats.is_some())
    .bind(ms(now))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    let payload = json!({
        "payment": locked.view.id, "refund": id, "reservation": locked.view.reservation, "reason": refund.reason,
        "amount_minor": refund.amount, "currency": refund.currency,
    });
    outbox::write(connection, topics::REFUND_REQUIRED, &locked.id(), &payload, now).await?;
    if state == RefundState::Succeeded {
        finish(connection, &locked.id()).await?;
    }
    Ok(id)
}

/// The provider's report about one refund.
pub(super) async fn reported(
    connection: &mut PgConnection,
    locked: &Locked,
    refund: RefundId,
    reference: &str,
    report: RefundReport,
    now: WallMs,
) -> Result<()> {
    let row = sqlx::query("SELECT state FROM refunds WHERE id = $1 FOR UPDATE")
        .bind(refund.to_string())
        .fetch_one(&mut *connection)
        .await
        .map_err(error)?;
    let before: RefundState = parsed(&row, "state")?;
    let next = before.on(report);
    sqlx::query("UPDATE refunds SET state = $2, reference = coalesce(reference, $3), due_at_ms = $4 WHERE id = $1")
        .bind(refund.to_string())
        .bind(next.as_str())
        .bind(reference)
        .bind(ms(WallMs(now.0 + crate::refunds::ASK_AGAIN_MS)))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    if next == RefundState::Failed && before != next {
        let detail = json!({"payment": locked.view.id, "reference": reference});
        notices::raise(connection, "refund_failed", &refund.to_string(), &detail, now).await?;
    }
    finish(connection, &locked.id()).await
}

/// The sum of what a payment's refunds give back or have given back.
pub(super) async fn counted(connection: &mut PgConnection, payment: &str) -> Result<Minor> {
    let row = sqlx::query(
        "SELECT coalesce(sum(amount_minor), 0)::bigint AS total FROM refunds WHERE payment_id = $1 AND state <> 'FAILED'",
    )
    .bind(payment)
    .fetch_one(connection)
    .await
    .map_err(error)?;
    minor(&row, "total")
}

/// The provider says that all we owe went back.
pub(super) async fn all_succeeded(connection: &mut PgConnection, locked: &Locked, now: WallMs) -> Result<()> {
    sqlx::query("UPDATE refunds SET state = 'SUCCEEDED', due_at_ms = $2 WHERE payment_id = $1 AND state <> 'FAILED'")
        .bind(locked.id())
        .bind(ms(now))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    finish(connection, &locked.id()).await
}

/// REFUNDED once everything that was captured went back.
async fn finish(connection: &mut PgConnection, payment: &str) -> Result<()> {
    sqlx::query(
        "UPDATE payments SET state = 'REFUNDED', changed_at = now()
         WHERE id = $1 AND state = 'REFUND_REQUIRED' AND captured_minor = (
             SELECT coalesce(sum(amount_minor), 0) FROM refunds WHERE payment_id = $1 AND state = 'SUCCEEDED')",
    )
    .bind(payment)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}
