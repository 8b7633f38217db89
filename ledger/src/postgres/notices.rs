//! Messages and incidents in SQL.

use super::rows::{get, json, ms, parsed, wall};
use super::{Postgres, error, outbox, transaction};
use crate::notices::{Incident, Notice, Notices, PAYMENT_FAILED, REFUND_ON_ITS_WAY, RETRY_AFTER_S};
use crate::outbox::MESSAGES;
use crate::{LedgerError, Result, outbox as topics};
use domain::ids::UserId;
use domain::time::WallMs;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

impl Notices for Postgres {
    async fn consume_message(&self, message: u64, now: WallMs) -> Result<()> {
        transaction!(self, |connection| {
            if outbox::consume(connection, MESSAGES, message, now).await? {
                tell(connection, message, now).await?;
            }
        })
    }

    async fn notices_due(&self, now: WallMs, max: u32) -> Result<Vec<Notice>> {
        let found = sqlx::query(
            "SELECT * FROM notifications WHERE state = 'PENDING' AND due_at_ms <= $1 ORDER BY due_at_ms, id LIMIT $2",
        )
        .bind(ms(now))
        .bind(i64::from(max))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let mut due = Vec::new();
        for row in &found {
            match notice(row) {
                Ok(notice) => due.push(notice),
                // It must keep no other waiting: an operator's task, like one that cannot be sent.
                Err(unreadable) => {
                    let id = get::<i64>(row, "id")?;
                    tracing::error!(id, %unreadable, "a message cannot be read and is given up");
                    sqlx::query("UPDATE notifications SET state = 'DEAD', error = $2 WHERE id = $1")
                        .bind(id)
                        .bind(unreadable.to_string())
                        .execute(&self.pool)
                        .await
                        .map_err(error)?;
                }
            }
        }
        Ok(due)
    }

    async fn notice_sent(&self, notice: u64, now: WallMs) -> Result<()> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE notifications SET state = 'SENT', sent_at_ms = $2, error = NULL WHERE id = $1")
                .bind(stored(notice)?)
                .bind(ms(now))
                .execute(connection)
                .await
                .map_err(error)?;
        })
    }

    async fn notice_failed(&self, notice: u64, why: &str, now: WallMs) -> Result<()> {
        let why = why.chars().take(500).collect::<String>();
        transaction!(self, |connection| failed(connection, notice, &why, now).await?)
    }

    async fn dead_letters(&self) -> Result<Vec<Notice>> {
        let found = sqlx::query("SELECT * FROM notifications WHERE state = 'DEAD' ORDER BY id LIMIT 1000")
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        Ok(readable(&found))
    }

    async fn replay(&self, notice: u64, now: WallMs) -> Result<bool> {
        transaction!(self, |connection| {
            sqlx::query(
                "UPDATE notifications SET state = 'PENDING', tries = 0, due_at_ms = $2 WHERE id = $1 AND state = 'DEAD'",
            )
            .bind(stored(notice)?)
            .bind(ms(now))
            .execute(connection)
            .await
            .map_err(error)?
            .rows_affected()
                == 1
        })
    }

    async fn notices_of(&self, user: &UserId) -> Result<Vec<Notice>> {
        let found = sqlx::query("SELECT * FROM notifications WHERE user_id = $1 ORDER BY id DESC LIMIT 100")
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(error)?;
        Ok(readable(&found))
    }

    async fn raise(&self, kind: &str, subject: &str, detail: &Value, now: WallMs) -> Result<()> {
        let (kind, subject, detail) = (kind.to_owned(), subject.to_owned(), detail.clone());
        transaction!(self, |connection| raise(connection, &kind, &subject, &detail, now).await?)
    }

    async fn incidents(&self, now: WallMs) -> Result<Vec<Incident>> {
        let found = sqlx::query(
            "SELECT * FROM incidents WHERE closed_at_ms IS NULL AND opens_at_ms <= $1 ORDER BY id LIMIT 1000",
        )
        .bind(ms(now))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let incident = |row| {
            Ok(Incident {
                id: id(row)?,
                kind: get(row, "kind")?,
                subject: get(row, "subject")?,
                detail: json(row, "detail")?,
                opened_at: wall(row, "opens_at_ms")?,
            })
        };
        found.iter().map(incident).collect()
    }

    async fn close_incident(&self, incident: u64, now: WallMs) -> Result<bool> {
        transaction!(self, |connection| {
            sqlx::query("UPDATE incidents SET closed_at_ms = $2 WHERE id = $1 AND closed_at_ms IS NULL")
                .bind(stored(incident)?)
                .bind(ms(now))
                .execute(connection)
                .await
                .map_err(error)?
                .rows_affected()
                == 1
        })
    }
}

fn stored(id: u64) -> Result<i64> {
    i64::try_from(id).map_err(LedgerError::inconsistent)
}

fn id(row: &PgRow) -> Result<u64> {
    u64::try_from(get::<i64>(row, "id")?).map_err(LedgerError::inconsistent)
}

/// Those that can be read: one that cannot hides no other.
fn readable(rows: &[PgRow]) -> Vec<Notice> {
    rows.iter().filter_map(|row| notice(row).ok()).collect()
}

fn notice(row: &PgRow) -> Result<Notice> {
    Ok(Notice {
        id: id(row)?,
        user: parsed(row, "user_id")?,
        email: get(row, "email")?,
        kind: get(row, "kind")?,
        payload: json(row, "payload")?,
        tries: u32::try_from(get::<i32>(row, "tries")?).map_err(LedgerError::inconsistent)?,
        created_at: wall(row, "created_at_ms")?,
    })
}

async fn failed(connection: &mut PgConnection, notice: u64, why: &str, now: WallMs) -> Result<()> {
    let row = sqlx::query("SELECT tries FROM notifications WHERE id = $1 FOR UPDATE")
        .bind(stored(notice)?)
        .fetch_one(&mut *connection)
        .await
        .map_err(error)?;
    let tries = usize::try_from(get::<i32>(&row, "tries")?).map_err(LedgerError::inconsistent)?;
    let (state, due) = match RETRY_AFTER_S.get(tries) {
        Some(seconds) => ("PENDING", WallMs(now.0 + seconds * 1_000)),
        None => ("DEAD", now),
    };
    sqlx::query("UPDATE notifications SET state = $2, tries = tries + 1, due_at_ms = $3, error = $4 WHERE id = $1")
        .bind(stored(notice)?)
        .bind(state)
        .bind(ms(due))
        .bind(why)
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}

/// What a fact means to the fan.
async fn tell(connection: &mut PgConnection, message: u64, now: WallMs) -> Result<()> {
    let row = sqlx::query(
        "SELECT o.topic, o.payload, p.id, p.user_id, p.email, p.event_id FROM outbox o JOIN payments p ON p.id = o.key
         WHERE o.id = $1",
    )
    .bind(stored(message)?)
    .fetch_one(&mut *connection)
    .await
    .map_err(error)?;
    let topic: String = get(&row, "topic")?;
    let mut payload: Value = json(&row, "payload")?;
    payload["event"] = get::<i64>(&row, "event_id")?.into();
    let (kind, subject) = match topic.as_str() {
        topics::PAYMENT_FAILED => (PAYMENT_FAILED, get::<String>(&row, "id")?),
        topics::REFUND_REQUIRED => (REFUND_ON_ITS_WAY, payload["refund"].as_str().unwrap_or_default().to_owned()),
        _ => return Ok(()),
    };
    let (user, email): (String, Option<String>) = (get(&row, "user_id")?, get(&row, "email")?);
    let dedupe = format!("{kind}:{subject}");
    let message = NewNotice { dedupe: &dedupe, user: &user, email: email.as_deref(), kind, payload: &payload };
    write(connection, &message, now).await
}

/// A message to be written once.
pub(super) struct NewNotice<'a> {
    pub dedupe: &'a str,
    pub user: &'a str,
    pub email: Option<&'a str>,
    pub kind: &'a str,
    pub payload: &'a Value,
}

pub(super) async fn write(connection: &mut PgConnection, new: &NewNotice<'_>, now: WallMs) -> Result<()> {
    sqlx::query(
        "INSERT INTO notifications (dedupe, user_id, email, kind, payload, due_at_ms, created_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT DO NOTHING",
    )
    .bind(new.dedupe)
    .bind(new.user)
    .bind(new.email)
    .bind(new.kind)
    .bind(Json(new.payload))
    .bind(ms(now))
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}

/// Raise an incident from `opens` on; one per kind and subject stays open.
pub(super) async fn raise(
    connection: &mut PgConnection,
    kind: &str,
    subject: &str,
    detail: &Value,
    opens: WallMs,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO incidents (kind, subject, detail, opens_at_ms) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(kind)
    .bind(subject)
    .bind(Json(detail))
    .bind(ms(opens))
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(())
}

/// What was watched has explained itself.
pub(super) async fn close_watch(connection: &mut PgConnection, kind: &str, subject: &str, now: WallMs) -> Result<()> {
    sqlx::query("UPDATE incidents SET closed_at_ms = $3 WHERE kind = $1 AND subject = $2 AND closed_at_ms IS NULL")
        .bind(kind)
        .bind(subject)
        .bind(ms(now))
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}
