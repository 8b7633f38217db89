//! Step 6 in SQL: what was captured becomes a booking or a refund, once.

use super::payments::{self, Locked};
use super::refunds;
use super::rows::{get, minor, ms, parsed};
use super::{Postgres, cancellations, error, notices, outbox, transaction};
use crate::settlement::{CapturedPayment, Ending, FeedNote, ReleaseTask, SettleOutcome, Settlement};
use crate::{LedgerError, Result, outbox as topics};
use domain::ids::PaymentId;
use domain::inventory::record::QuotedSeat;
use domain::money::Minor;
use domain::order::booking_id;
use domain::order::payment::{PaymentFact, PaymentState, Step};
use domain::order::refund::RefundReason;
use domain::time::WallMs;
use serde_json::json;
use sqlx::PgConnection;

impl Settlement for Postgres {
    async fn captured(&self, max: u32) -> Result<Vec<CapturedPayment>> {
        let found = sqlx::query("SELECT * FROM payments WHERE state = 'CAPTURED' ORDER BY created_at_ms LIMIT $1")
            .bind(i64::from(max))
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        let captured = |row| {
            Ok(CapturedPayment {
                payment: parsed(row, "id")?,
                reservation: parsed(row, "reservation")?,
                amount: minor(row, "captured_minor")?,
                currency: parsed(row, "captured_currency")?,
            })
        };
        found.iter().map(captured).collect()
    }

    async fn settle_paid(&self, payment: PaymentId, seats: &[QuotedSeat], now: WallMs) -> Result<SettleOutcome> {
        let seats = seats.to_vec();
        let booked = transaction!(self, |connection| match book(connection, payment, &seats, now).await? {
            Booked::Done(outcome) => Some(outcome),
            // Leaves without a commit: nothing of the half-made booking may stay.
            Booked::SeatTaken => return Ok(None),
        })?;
        if let Some(outcome) = booked {
            return Ok(outcome);
        }
        transaction!(self, |connection| {
            let detail = json!({"payment": payment});
            notices::raise(connection, "seat_sold_twice", &payment.to_string(), &detail, now).await?;
            settle_refund(connection, payment, RefundReason::SeatTaken, now).await?
        })
    }

    async fn settle_refund(&self, payment: PaymentId, reason: RefundReason, now: WallMs) -> Result<SettleOutcome> {
        transaction!(self, |connection| settle_refund(connection, payment, reason, now).await?)
    }

    async fn releases_due(&self, max: u32) -> Result<Vec<ReleaseTask>> {
        let found =
            sqlx::query("SELECT id, reservation FROM payments WHERE release_due ORDER BY created_at_ms LIMIT $1")
                .bind(i64::from(max))
                .fetch_all(&self.pool)
                .await
                .map_err(error)?;
        let task = |row| Ok(ReleaseTask { payment: parsed(row, "id")?, reservation: parsed(row, "reservation")? });
        found.iter().map(task).collect()
    }

    async fn mark_released(&self, payment: PaymentId) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE payments SET release_due = false WHERE id = $1")
                .bind(payment.to_string())
                .execute(connection)
                .await
                .map_err(error)?;
        })
    }

    async fn record_ending(&self, note: &FeedNote, now: WallMs) -> Result<()> {
        let note = note.clone();
        transaction!(self, |connection| {
            let position = i64::try_from(note.position).map_err(LedgerError::inconsistent)?;
            let fresh = outbox::remember(connection, &format!("feed:{}", note.partition), position, now).await?;
            if fresh && note.ending == Ending::Expired {
                let dedupe = format!("hold_expired:{}", note.reservation);
                let payload = json!({"reservation": note.reservation, "event": note.event, "at_ms": note.at});
                let message = notices::NewNotice {
                    dedupe: &dedupe,
                    user: note.user.as_str(),
                    email: None,
                    kind: crate::notices::HOLD_EXPIRED,
                    payload: &payload,
                };
                notices::write(connection, &message, now).await?;
            }
        })
    }

    async fn is_settled(&self, payment: PaymentId) -> Result<bool> {
        let row = sqlx::query("SELECT EXISTS (SELECT FROM payment_outcomes WHERE payment_id = $1) AS settled")
            .bind(payment.to_string())
            .fetch_one(&self.pool)
            .await
            .map_err(error)?;
        get(&row, "settled")
    }
}

enum Booked {
    Done(SettleOutcome),
    SeatTaken,
}

async fn book(connection: &mut PgConnection, payment: PaymentId, seats: &[QuotedSeat], now: WallMs) -> Result<Booked> {
    let Some(locked) = payments::lock(connection, payment).await? else {
        return Ok(Booked::Done(SettleOutcome::NotCaptured));
    };
    match locked.view.state.on(PaymentFact::JudgedPaid) {
        Step::Impossible => return Ok(Booked::Done(SettleOutcome::NotCaptured)),
        Step::Stay => return Ok(Booked::Done(decided(connection, payment).await?)),
        Step::To(next) => payments::set_state(connection, &locked.id(), next).await?,
    }
    let decided = sqlx::query(
        "INSERT INTO payment_outcomes (payment_id, outcome, decided_at_ms) VALUES ($1, 'PAID', $2)
         ON CONFLICT DO NOTHING",
    )
    .bind(locked.id())
    .bind(ms(now))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    if decided.rows_affected() == 0 || !insert_booking(connection, &locked, seats, now).await? {
        return Ok(Booked::SeatTaken);
    }
    let id = booking_id(payment);
    let payload = json!({
        "payment": payment, "booking": id, "reservation": locked.view.reservation,
        "event": locked.view.reservation.event, "user": locked.view.user, "amount_minor": locked.view.amount,
        "currency": locked.view.currency,
    });
    outbox::write(connection, topics::ORDER_PAID, &locked.id(), &payload, now).await?;
    Ok(Booked::Done(SettleOutcome::Booked(id)))
}

/// The outcome that stands.
async fn decided(connection: &mut PgConnection, payment: PaymentId) -> Result<SettleOutcome> {
    let row = sqlx::query("SELECT outcome FROM payment_outcomes WHERE payment_id = $1")
        .bind(payment.to_string())
        .fetch_one(connection)
        .await
        .map_err(error)?;
    let paid = get::<String>(&row, "outcome")? == "PAID";
    Ok(if paid { SettleOutcome::Booked(booking_id(payment)) } else { SettleOutcome::Refunding })
}

/// The booking with its seats; false if the reservation or one of the seats has a live booking already.
async fn insert_booking(
    connection: &mut PgConnection,
    locked: &Locked,
    seats: &[QuotedSeat],
    now: WallMs,
) -> Result<bool> {
    let booking = booking_id(locked.view.id).to_string();
    let inserted = sqlx::query(
        "INSERT INTO bookings (id, reservation, payment_id, event_id, user_id, amount_minor, currency, created_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
    )
    .bind(&booking)
    .bind(locked.view.reservation.to_string())
    .bind(locked.id())
    .bind(locked.event)
    .bind(locked.view.user.as_str())
    .bind(locked.view.amount.0)
    .bind(locked.view.currency.code())
    .bind(ms(now))
    .execute(&mut *connection)
    .await
    .map_err(error)?;
    let mut complete = inserted.rows_affected() == 1;
    for quoted in seats {
        if !complete {
            break;
        }
        let line = crate::payments::line_of(&locked.lines, quoted);
        let seat = sqlx::query(
            "INSERT INTO booking_seats (booking_id, event_id, section_id, seat_id, section, row_label, label, price_minor)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
        )
        .bind(&booking)
        .bind(locked.event)
        .bind(i32::from(line.seat.section.0))
        .bind(i64::from(line.seat.seat.0))
        .bind(&line.section)
        .bind(&line.row)
        .bind(&line.label)
        .bind(line.price.0)
        .execute(&mut *connection)
        .await
        .map_err(error)?;
        complete = seat.rows_affected() == 1;
    }
    Ok(complete)
}

async fn settle_refund(
    connection: &mut PgConnection,
    payment: PaymentId,
    reason: RefundReason,
    now: WallMs,
) -> Result<SettleOutcome> {
    let Some(locked) = payments::lock(connection, payment).await? else {
        return Ok(SettleOutcome::NotCaptured);
    };
    match locked.view.state.on(PaymentFact::JudgedRefund) {
        Step::Impossible => Ok(SettleOutcome::NotCaptured),
        Step::Stay => decided(connection, payment).await,
        Step::To(next) => {
            debug_assert_eq!(next, PaymentState::RefundRequired);
            payments::set_state(connection, &locked.id(), next).await?;
            let amount = Minor(locked.captured.unwrap_or_default());
            let currency = locked.captured_currency.as_deref().unwrap_or_default();
            let currency = currency.parse().map_err(LedgerError::inconsistent)?;
            let cancelled = cancellations::is_cancelled(connection, locked.event).await?;
            let reason = if cancelled { RefundReason::EventCancelled } else { reason };
            refunds::decide_refund(connection, &locked, (amount, currency), reason, now).await?;
            Ok(SettleOutcome::Refunding)
        }
    }
}
