//! Devices of tickets in SQL.

use super::rows::{self, ms};
use super::{Postgres, error, transaction};
use crate::Result;
use crate::wallets::{DeviceGrant, REPEAT_MS, Wallets};
use domain::ids::TicketId;
use domain::limits;
use domain::time::WallMs;
use sqlx::PgConnection;

impl Wallets for Postgres {
    async fn grant_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<DeviceGrant> {
        let (ticket, device) = (ticket.to_string(), device.to_owned());
        transaction!(self, |connection| grant(connection, &ticket, &device, now).await?)
    }

    async fn revoke_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<()> {
        let (ticket, device) = (ticket.to_string(), device.to_owned());
        transaction!(self, |connection| {
            sqlx::query(
                "INSERT INTO ticket_devices (ticket_id, device, given_at_ms, revoked_at_ms) VALUES ($1, $2, $3, $3)
                 ON CONFLICT (ticket_id, device) DO UPDATE
                 SET revoked_at_ms = COALESCE(ticket_devices.revoked_at_ms, EXCLUDED.revoked_at_ms)",
            )
            .bind(ticket)
            .bind(device)
            .bind(ms(now))
            .execute(&mut *connection)
            .await
            .map_err(error)?;
        })
    }
}

async fn grant(connection: &mut PgConnection, ticket: &str, device: &str, now: WallMs) -> Result<DeviceGrant> {
    // Two devices that ask at once must not both be the last one that fits.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 5))")
        .bind(ticket)
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    let found =
        sqlx::query("SELECT given_at_ms, revoked_at_ms FROM ticket_devices WHERE ticket_id = $1 AND device = $2")
            .bind(ticket)
            .bind(device)
            .fetch_optional(&mut *connection)
            .await
            .map_err(error)?;
    if let Some(row) = found {
        let (given, revoked): (i64, Option<i64>) = (rows::get(&row, "given_at_ms")?, rows::get(&row, "revoked_at_ms")?);
        return Ok(match revoked {
            Some(_) => DeviceGrant::Revoked,
            None if ms(now).saturating_sub(given) <= REPEAT_MS as i64 => DeviceGrant::Granted,
            None => DeviceGrant::GivenBefore,
        });
    }
    let carriers: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ticket_devices WHERE ticket_id = $1 AND revoked_at_ms IS NULL")
            .bind(ticket)
            .fetch_one(&mut *connection)
            .await
            .map_err(error)?;
    if carriers >= limits::TICKET_DEVICES as i64 {
        return Ok(DeviceGrant::TooMany);
    }
    sqlx::query("INSERT INTO ticket_devices (ticket_id, device, given_at_ms) VALUES ($1, $2, $3)")
        .bind(ticket)
        .bind(device)
        .bind(ms(now))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    Ok(DeviceGrant::Granted)
}
