//! Devices of tickets in SQL.

use super::rows::{self, ms};
use super::{Postgres, error, transaction};
use crate::wallets::{DeviceGrant, DeviceRemoval, REPEAT_MS, Wallets};
use crate::{LedgerError, Result};
use domain::ids::TicketId;
use domain::limits;
use domain::time::WallMs;
use sqlx::{PgConnection, Row};

impl Wallets for Postgres {
    async fn grant_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<DeviceGrant> {
        let (ticket, device) = (ticket.to_string(), device.to_owned());
        transaction!(self, |connection| grant(connection, &ticket, &device, now).await?)
    }

    async fn revoke_device(
        &self,
        ticket: TicketId,
        device: &str,
        fresh_secret: &[u8],
        now: WallMs,
    ) -> Result<DeviceRemoval> {
        let (ticket, device, secret) = (ticket.to_string(), device.to_owned(), fresh_secret.to_vec());
        transaction!(self, |connection| remove(connection, &ticket, &device, &secret, now).await?)
    }
}

/// Two devices that ask at once must not both be the last one that fits, and none is given a secret that is being replaced.
async fn one_at_a_time(connection: &mut PgConnection, ticket: &str) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 5))")
        .bind(ticket)
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(())
}

async fn grant(connection: &mut PgConnection, ticket: &str, device: &str, now: WallMs) -> Result<DeviceGrant> {
    one_at_a_time(connection, ticket).await?;
    let found = sqlx::query(
        "SELECT t.sealed_secret, t.secret_version, d.given_at_ms, d.revoked_at_ms, d.secret_version AS given_version,
             (SELECT count(*) FROM ticket_devices c WHERE c.ticket_id = t.id AND c.revoked_at_ms IS NULL) AS carriers
         FROM tickets t LEFT JOIN ticket_devices d ON d.ticket_id = t.id AND d.device = $2 WHERE t.id = $1",
    )
    .bind(ticket)
    .bind(device)
    .fetch_one(&mut *connection)
    .await
    .map_err(error)?;
    let stored: i32 = rows::get(&found, "secret_version")?;
    let version = u32::try_from(stored).map_err(LedgerError::inconsistent)?;
    let again = DeviceGrant::Granted { sealed_secret: rows::get(&found, "sealed_secret")?, version };
    if let Some(given) = rows::get::<Option<i64>>(&found, "given_at_ms")? {
        if rows::get::<Option<i64>>(&found, "revoked_at_ms")?.is_some() {
            return Ok(DeviceGrant::Revoked);
        }
        if rows::get::<Option<i32>>(&found, "given_version")? == Some(stored) {
            let lost = ms(now).saturating_sub(given) <= REPEAT_MS as i64;
            return Ok(if lost { again } else { DeviceGrant::GivenBefore });
        }
    } else if rows::get::<i64>(&found, "carriers")? >= limits::TICKET_DEVICES as i64 {
        return Ok(DeviceGrant::TooMany);
    }
    sqlx::query(
        "INSERT INTO ticket_devices (ticket_id, device, given_at_ms, secret_version) VALUES ($1, $2, $3, $4)
         ON CONFLICT (ticket_id, device) DO UPDATE
         SET given_at_ms = EXCLUDED.given_at_ms, secret_version = EXCLUDED.secret_version",
    )
    .bind(ticket)
    .bind(device)
    .bind(ms(now))
    .bind(stored)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(again)
}

async fn remove(
    connection: &mut PgConnection,
    ticket: &str,
    device: &str,
    secret: &[u8],
    now: WallMs,
) -> Result<DeviceRemoval> {
    one_at_a_time(connection, ticket).await?;
    let known = sqlx::query("SELECT revoked_at_ms FROM ticket_devices WHERE ticket_id = $1 AND device = $2")
        .bind(ticket)
        .bind(device)
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    let Some(known) = known else { return Ok(DeviceRemoval::Unknown) };
    if known.try_get::<Option<i64>, _>("revoked_at_ms").map_err(error)?.is_some() {
        return Ok(DeviceRemoval::RemovedBefore);
    }
    sqlx::query("UPDATE ticket_devices SET revoked_at_ms = $3 WHERE ticket_id = $1 AND device = $2")
        .bind(ticket)
        .bind(device)
        .bind(ms(now))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    sqlx::query("UPDATE tickets SET sealed_secret = $2, secret_version = secret_version + 1 WHERE id = $1")
        .bind(ticket)
        .bind(secret)
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    sqlx::query(
        "DELETE FROM ticket_devices WHERE ticket_id = $1 AND device IN (
             SELECT device FROM ticket_devices WHERE ticket_id = $1 AND revoked_at_ms IS NOT NULL
             ORDER BY revoked_at_ms DESC, device OFFSET $2)",
    )
    .bind(ticket)
    .bind(limits::REMOVED_DEVICES as i64)
    .execute(connection)
    .await
    .map_err(error)?;
    Ok(DeviceRemoval::Removed)
}
