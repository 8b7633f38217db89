//! Cancellations in SQL.

use super::rows::{get, minor, ms, parsed, wall};
use super::{Postgres, error, transaction};
use crate::cancellations::{Cancellation, Cancellations, CancelledOrder, Progress, Tally};
use crate::{LedgerError, Result};
use domain::ids::{EventId, UserId};
use domain::order::refund::RefundReason;
use domain::time::WallMs;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;

impl Cancellations for Postgres {
    async fn cancel_event(&self, event: EventId, by: &UserId, now: WallMs) -> Result<()> {
        let by = by.clone();
        transaction!(self, |connection| {
            sqlx::query(
                "INSERT INTO cancellations (event_id, requested_by, requested_at_ms) VALUES ($1, $2, $3)
                 ON CONFLICT DO NOTHING",
            )
            .bind(i64::from(event.0))
            .bind(by.as_str())
            .bind(ms(now))
            .execute(connection)
            .await
            .map_err(error)?;
        })
    }

    async fn cancellation(&self, event: EventId) -> Result<Progress> {
        let recorded = sqlx::query("SELECT * FROM cancellations WHERE event_id = $1")
            .bind(i64::from(event.0))
            .fetch_optional(&self.pool)
            .await
            .map_err(error)?;
        let tallies = sqlx::query(
            "SELECT 'SOLD' AS state, count(DISTINCT booking_id) AS orders,
                 coalesce(sum(price_minor), 0)::bigint AS amount FROM booking_seats WHERE event_id = $1 AND live
             UNION ALL
             SELECT CASE r.state WHEN 'REQUIRED' THEN 'SENT' ELSE r.state END, count(DISTINCT r.payment_id),
                 sum(r.amount_minor)::bigint
             FROM refunds r JOIN payments p ON p.id = r.payment_id
             WHERE p.event_id = $1 AND r.reason = $2 GROUP BY 1",
        )
        .bind(i64::from(event.0))
        .bind(RefundReason::EventCancelled.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let mut progress =
            Progress { cancellation: recorded.as_ref().map(cancellation).transpose()?, ..Progress::default() };
        for row in &tallies {
            let orders = u64::try_from(get::<i64>(row, "orders")?).map_err(LedgerError::inconsistent)?;
            let tally = Tally { orders, amount: minor(row, "amount")? };
            match get::<String>(row, "state")?.as_str() {
                "SOLD" => progress.sold = tally,
                "SUCCEEDED" => progress.refunded = tally,
                "FAILED" => progress.failed = tally,
                _ => progress.refunding = tally,
            }
        }
        Ok(progress)
    }

    async fn cancelled_events(&self) -> Result<Vec<EventId>> {
        let found = sqlx::query("SELECT event_id FROM cancellations ORDER BY event_id")
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        found.iter().map(event_id).collect()
    }

    async fn cancelled_orders(&self, max: u32) -> Result<Vec<CancelledOrder>> {
        let found = sqlx::query(
            // From the live seats, of which an event that has been paid back has none: the index on them says so at once.
            "SELECT b.reservation, c.requested_by FROM cancellations c
             JOIN booking_seats s ON s.event_id = c.event_id AND s.live JOIN bookings b ON b.id = s.booking_id
             GROUP BY b.id, b.reservation, b.created_at_ms, c.requested_by ORDER BY b.created_at_ms, b.id LIMIT $1",
        )
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let order =
            |row| Ok(CancelledOrder { reservation: parsed(row, "reservation")?, by: parsed(row, "requested_by")? });
        found.iter().map(order).collect()
    }

    async fn with_holds(&self) -> Result<Vec<Cancellation>> {
        let found = sqlx::query("SELECT * FROM cancellations WHERE NOT holds_ended ORDER BY requested_at_ms, event_id")
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        found.iter().map(cancellation).collect()
    }

    async fn holds_ended(&self, event: EventId) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE cancellations SET holds_ended = true WHERE event_id = $1")
                .bind(i64::from(event.0))
                .execute(connection)
                .await
                .map_err(error)?;
        })
    }
}

fn event_id(row: &PgRow) -> Result<EventId> {
    u32::try_from(get::<i64>(row, "event_id")?).map(EventId).map_err(LedgerError::inconsistent)
}

fn cancellation(row: &PgRow) -> Result<Cancellation> {
    Ok(Cancellation {
        event: event_id(row)?,
        by: parsed(row, "requested_by")?,
        at: wall(row, "requested_at_ms")?,
        holds_ended: get(row, "holds_ended")?,
    })
}

/// Whether an event is called off.
pub(super) async fn is_cancelled(connection: &mut PgConnection, event: i64) -> Result<bool> {
    let row = sqlx::query("SELECT EXISTS (SELECT FROM cancellations WHERE event_id = $1) AS cancelled")
        .bind(event)
        .fetch_one(connection)
        .await
        .map_err(error)?;
    get(&row, "cancelled")
}
