//! Recoveries in SQL.

use super::rows::{get, ms};
use super::{Postgres, error, transaction};
use crate::recoveries::{Recoveries, Recovery, RecoveryOutcome, next};
use crate::{LedgerError, Result};
use sqlx::PgConnection;

impl Recoveries for Postgres {
    async fn begin_recovery(&self, recovery: &Recovery) -> Result<RecoveryOutcome> {
        let recovery = recovery.clone();
        transaction!(self, |connection| begin(connection, &recovery).await?)
    }
}

async fn begin(connection: &mut PgConnection, recovery: &Recovery) -> Result<RecoveryOutcome> {
    let last = sqlx::query("SELECT incarnation, source FROM recoveries ORDER BY incarnation DESC LIMIT 1")
        .fetch_optional(&mut *connection)
        .await
        .map_err(error)?;
    let incarnation = |row| u16::try_from(get::<i32>(row, "incarnation")?).map_err(LedgerError::inconsistent);
    let given = last.as_ref().map(incarnation).transpose()?;
    if recovery.resumes {
        let source = last.as_ref().map(|row| get::<Vec<u8>>(row, "source")).transpose()?;
        return Ok(match (given, source) {
            (Some(given), Some(source)) if source == recovery.source => RecoveryOutcome::Incarnation(given),
            (Some(_), _) => RecoveryOutcome::OtherSource,
            (None, _) => RecoveryOutcome::NothingToResume,
        });
    }
    let Some(next) = next(given, recovery.above) else { return Ok(RecoveryOutcome::UsedUp) };
    // Two that begin at once collide on the number: one of them fails and is repeated.
    sqlx::query("INSERT INTO recoveries (incarnation, source, begun_at_ms) VALUES ($1, $2, $3)")
        .bind(i32::from(next))
        .bind(&recovery.source[..])
        .bind(ms(recovery.now))
        .execute(connection)
        .await
        .map_err(error)?;
    Ok(RecoveryOutcome::Incarnation(next))
}
