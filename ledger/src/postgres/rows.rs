//! Reading rows: every stored text is parsed into the type it stands for, or the ledger is called inconsistent.

use crate::payments::{PaymentView, SeatLine};
use crate::tickets::{Ticket, TicketState};
use crate::{LedgerError, Result};
use domain::ids::{SeatIndex, SeatRef, SectionId};
use domain::money::Minor;
use domain::time::WallMs;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use std::str::FromStr;

/// A column as the driver reads it.
pub(super) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(super::error)
}

/// A text column that stands for something.
pub(super) fn parsed<T: FromStr>(row: &PgRow, column: &str) -> Result<T>
where
    T::Err: std::fmt::Display,
{
    let text: String = get(row, column)?;
    text.parse().map_err(|error| LedgerError::Inconsistent(format!("column {column}: {error}")))
}

/// A JSON column.
pub(super) fn json<T: DeserializeOwned + 'static>(row: &PgRow, column: &str) -> Result<T> {
    let Json(value) = get::<Json<T>>(row, column)?;
    Ok(value)
}

/// A value as JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(LedgerError::inconsistent)
}

/// An amount in minor units.
pub(super) fn minor(row: &PgRow, column: &str) -> Result<Minor> {
    get(row, column).map(Minor)
}

/// A moment.
pub(super) fn wall(row: &PgRow, column: &str) -> Result<WallMs> {
    get::<i64>(row, column).map(from_ms)
}

/// A moment as it is stored.
pub(super) fn ms(at: WallMs) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// A stored moment.
pub(super) fn from_ms(ms: i64) -> WallMs {
    WallMs(u64::try_from(ms).unwrap_or(0))
}

/// Columns `section_id` and `seat_id`.
pub(super) fn seat(row: &PgRow) -> Result<SeatRef> {
    let (section, seat): (i32, i64) = (get(row, "section_id")?, get(row, "seat_id")?);
    let section = u16::try_from(section).map_err(LedgerError::inconsistent)?;
    let seat = u32::try_from(seat).map_err(LedgerError::inconsistent)?;
    Ok(SeatRef { section: SectionId(section), seat: SeatIndex(seat) })
}

/// Columns of a booked seat.
pub(super) fn line(row: &PgRow) -> Result<SeatLine> {
    Ok(SeatLine {
        seat: seat(row)?,
        section: get(row, "section")?,
        row: get(row, "row_label")?,
        label: get(row, "label")?,
        price: minor(row, "price_minor")?,
    })
}

/// Columns of a payment.
pub(super) fn payment(row: &PgRow) -> Result<PaymentView> {
    Ok(PaymentView {
        id: parsed(row, "id")?,
        reservation: parsed(row, "reservation")?,
        user: parsed(row, "user_id")?,
        state: parsed(row, "state")?,
        amount: minor(row, "amount_minor")?,
        currency: parsed(row, "currency")?,
        reference: get(row, "reference")?,
        client_secret: get(row, "client_secret")?,
        failure: get(row, "failure")?,
        created_at: wall(row, "created_at_ms")?,
    })
}

/// Columns of a ticket joined with its booking and seat.
pub(super) fn ticket(row: &PgRow) -> Result<Ticket> {
    let revoked_at: Option<i64> = get(row, "revoked_at_ms")?;
    let event: i64 = get(row, "event_id")?;
    Ok(Ticket {
        id: parsed(row, "id")?,
        booking: parsed(row, "booking_id")?,
        reservation: parsed(row, "reservation")?,
        event: domain::ids::EventId(u32::try_from(event).map_err(LedgerError::inconsistent)?),
        user: parsed(row, "user_id")?,
        seat: line(row)?,
        currency: parsed(row, "currency")?,
        sealed_secret: get(row, "sealed_secret")?,
        secret_version: u32::try_from(get::<i32>(row, "secret_version")?).map_err(LedgerError::inconsistent)?,
        state: if revoked_at.is_some() { TicketState::Revoked } else { TicketState::Valid },
        issued_at: wall(row, "issued_at_ms")?,
        revoked_at: revoked_at.map(from_ms),
    })
}
