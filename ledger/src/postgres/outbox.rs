//! Outbox, deliveries and inbox in SQL.

use super::rows::{from_ms, get, json, ms, wall};
use super::{Postgres, error, transaction};
use crate::outbox::{Backlog, Outbox, OutboxMessage, consumers_of};
use crate::{LedgerError, Result};
use domain::limits;
use domain::time::WallMs;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

/// One relay at a time: the key of its transaction-scoped lock. Any number will do that nothing else uses.
const RELAY_LOCK: i64 = 0x454e_434f_5245;

/// What removes the rows of each table that are older than a moment, and how long they are kept.
const PRUNE: [(&str, u64); 3] = [
    (
        "DELETE FROM outbox WHERE id IN (
             SELECT id FROM outbox o WHERE published_at_ms < $1
                 AND NOT EXISTS (SELECT FROM deliveries d WHERE d.outbox_id = o.id)
             ORDER BY published_at_ms LIMIT $2)",
        limits::OUTBOX_KEPT_MS,
    ),
    (
        "DELETE FROM inbox WHERE (consumer, message_id) IN (
             SELECT consumer, message_id FROM inbox WHERE handled_at_ms < $1 ORDER BY handled_at_ms LIMIT $2)",
        limits::INBOX_KEPT_MS,
    ),
    (
        "DELETE FROM processed_webhooks WHERE event_id IN (
             SELECT event_id FROM processed_webhooks WHERE received_at_ms < $1 ORDER BY received_at_ms LIMIT $2)",
        limits::WEBHOOKS_KEPT_MS,
    ),
];

impl Outbox for Postgres {
    async fn relay(&self, now: WallMs, max: u32) -> Result<u32> {
        transaction!(self, |connection| relay(connection, now, max).await?)
    }

    async fn deliveries(&self, consumer: &str, max: u32) -> Result<Vec<OutboxMessage>> {
        let found = sqlx::query(
            "SELECT o.* FROM deliveries d JOIN outbox o ON o.id = d.outbox_id
             WHERE d.consumer = $1 ORDER BY d.outbox_id LIMIT $2",
        )
        .bind(consumer)
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        found.iter().map(message).collect()
    }

    async fn prune(&self, now: WallMs, max: u32) -> Result<u32> {
        let mut pruned = 0;
        for (statement, kept_ms) in PRUNE {
            let before = ms(WallMs(now.0.saturating_sub(kept_ms)));
            // One transaction each: a batch holds no lock longer than it takes.
            pruned += transaction!(self, |connection| {
                let query = sqlx::query(statement).bind(before).bind(i64::from(max));
                query.execute(connection).await.map_err(error)?.rows_affected()
            })?;
        }
        u32::try_from(pruned).map_err(LedgerError::inconsistent)
    }

    async fn backlog(&self, now: WallMs) -> Result<Backlog> {
        let row = sqlx::query(
            "SELECT (SELECT min(created_at_ms) FROM outbox WHERE published_at_ms IS NULL) AS unpublished,
                 (SELECT min(o.created_at_ms) FROM deliveries d JOIN outbox o ON o.id = d.outbox_id) AS undelivered,
                 (SELECT min(created_at_ms) FROM payments WHERE state = 'INITIALIZING') AS initializing,
                 (SELECT min(created_at_ms) FROM payments WHERE state = 'CAPTURED') AS captured,
                 (SELECT min(b.created_at_ms) FROM bookings b JOIN booking_seats s ON s.booking_id = b.id AND s.live
                      LEFT JOIN tickets t USING (booking_id, section_id, seat_id) WHERE t.id IS NULL) AS unticketed,
                 (SELECT min(created_at_ms) FROM refunds WHERE state IN ('REQUIRED', 'SENT')) AS refunding,
                 (SELECT count(*) FROM notifications WHERE state = 'DEAD') AS dead,
                 (SELECT count(*) FROM incidents WHERE closed_at_ms IS NULL AND opens_at_ms <= $1) AS incidents",
        )
        .bind(ms(now))
        .fetch_one(&self.pool)
        .await
        .map_err(error)?;
        let age = |column| {
            let since: Option<i64> = get(&row, column)?;
            Ok(since.map_or(0, |since| now.0.saturating_sub(from_ms(since).0)))
        };
        let count = |column| u64::try_from(get::<i64>(&row, column)?).map_err(LedgerError::inconsistent);
        Ok(Backlog {
            unpublished_ms: age("unpublished")?,
            undelivered_ms: age("undelivered")?,
            initializing_ms: age("initializing")?,
            captured_ms: age("captured")?,
            unticketed_ms: age("unticketed")?,
            refunding_ms: age("refunding")?,
            dead_letters: count("dead")?,
            incidents: count("incidents")?,
        })
    }
}

pub(super) fn message(row: &PgRow) -> Result<OutboxMessage> {
    Ok(OutboxMessage {
        id: u64::try_from(get::<i64>(row, "id")?).map_err(LedgerError::inconsistent)?,
        topic: get(row, "topic")?,
        key: get(row, "key")?,
        payload: json(row, "payload")?,
        created_at: wall(row, "created_at_ms")?,
    })
}

async fn relay(connection: &mut PgConnection, now: WallMs, max: u32) -> Result<u32> {
    let row = sqlx::query("SELECT pg_try_advisory_xact_lock($1) AS mine")
        .bind(RELAY_LOCK)
        .fetch_one(&mut *connection)
        .await
        .map_err(error)?;
    if !get::<bool>(&row, "mine")? {
        return Ok(0);
    }
    let found = sqlx::query("SELECT id, topic FROM outbox WHERE published_at_ms IS NULL ORDER BY id LIMIT $1")
        .bind(i64::from(max))
        .fetch_all(&mut *connection)
        .await
        .map_err(error)?;
    if found.is_empty() {
        return Ok(0);
    }
    let (mut ids, mut to, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for row in &found {
        let (id, topic): (i64, String) = (get(row, "id")?, get(row, "topic")?);
        ids.push(id);
        for consumer in consumers_of(&topic) {
            to.push((*consumer).to_owned());
            copies.push(id);
        }
    }
    sqlx::query("INSERT INTO deliveries (consumer, outbox_id) SELECT * FROM unnest($1::text[], $2::bigint[])")
        .bind(&to)
        .bind(&copies)
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    sqlx::query("UPDATE outbox SET published_at_ms = $2 WHERE id = ANY($1)")
        .bind(&ids)
        .bind(ms(now))
        .execute(connection)
        .await
        .map_err(error)?;
    u32::try_from(ids.len()).map_err(LedgerError::inconsistent)
}

/// Write a fact in the transaction that makes it true.
pub(super) async fn write(
    connection: &mut PgConnection,
    topic: &str,
    key: &str,
    payload: &Value,
    now: WallMs,
) -> Result<()> {
    sqlx::query("INSERT INTO outbox (topic, key, payload, created_at_ms) VALUES ($1, $2, $3, $4)")
        .bind(topic)
        .bind(key)
        .bind(Json(payload))
        .bind(ms(now))
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}

/// Remember that a consumer handles a message; false if it did before.
pub(super) async fn remember(connection: &mut PgConnection, consumer: &str, message: i64, now: WallMs) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO inbox (consumer, message_id, handled_at_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )
    .bind(consumer)
    .bind(message)
    .bind(ms(now))
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(inserted.rows_affected() == 1)
}

/// Take a handled message off a consumer's queue, in the transaction of its effect. Whether it is the first time.
pub(super) async fn consume(connection: &mut PgConnection, consumer: &str, message: u64, now: WallMs) -> Result<bool> {
    let id = i64::try_from(message).map_err(LedgerError::inconsistent)?;
    let fresh = remember(connection, consumer, id, now).await?;
    sqlx::query("DELETE FROM deliveries WHERE consumer = $1 AND outbox_id = $2")
        .bind(consumer)
        .bind(id)
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(fresh)
}
