//! Bookings and tickets in SQL.

use super::rows::{self, minor, ms, parsed};
use super::{Postgres, error, notices, outbox, transaction};
use crate::outbox::TICKETS;
use crate::tickets::{Booking, Ticket, Tickets};
use crate::{LedgerError, Result};
use domain::ids::{BookingId, EventId, SeatRef, TicketId, UserId};
use domain::order::ticket_id;
use domain::time::WallMs;
use serde_json::json;
use sqlx::PgConnection;

impl Tickets for Postgres {
    async fn booking(&self, booking: BookingId) -> Result<Option<Booking>> {
        let rows = sqlx::query(
            "SELECT b.reservation, b.payment_id, b.user_id, b.amount_minor, b.currency, s.*
             FROM bookings b JOIN booking_seats s ON s.booking_id = b.id
             WHERE b.id = $1 ORDER BY s.section_id, s.seat_id",
        )
        .bind(booking.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Booking {
            id: booking,
            reservation: parsed(row, "reservation")?,
            payment: parsed(row, "payment_id")?,
            user: parsed(row, "user_id")?,
            amount: minor(row, "amount_minor")?,
            currency: parsed(row, "currency")?,
            seats: rows.iter().map(rows::line).collect::<Result<_>>()?,
        }))
    }

    async fn issue_tickets(
        &self,
        message: u64,
        booking: BookingId,
        secrets: &[(SeatRef, Vec<u8>)],
        now: WallMs,
    ) -> Result<()> {
        let secrets = secrets.to_vec();
        transaction!(self, |connection| {
            if outbox::consume(connection, TICKETS, message, now).await? {
                issue(connection, booking, &secrets, now).await?;
            }
        })
    }

    async fn tickets_of_user(&self, user: &UserId) -> Result<Vec<Ticket>> {
        let found = sqlx::query(
            "SELECT t.*, b.reservation, b.event_id, b.currency, s.section, s.row_label, s.label, s.price_minor
             FROM tickets t JOIN bookings b ON b.id = t.booking_id
                 JOIN booking_seats s USING (booking_id, section_id, seat_id)
             WHERE t.user_id = $1 ORDER BY t.issued_at_ms DESC, t.section_id, t.seat_id LIMIT 1000",
        )
        .bind(user.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        found.iter().map(rows::ticket).collect()
    }

    async fn ticket(&self, ticket: TicketId) -> Result<Option<Ticket>> {
        let found = sqlx::query(
            "SELECT t.*, b.reservation, b.event_id, b.currency, s.section, s.row_label, s.label, s.price_minor
             FROM tickets t JOIN bookings b ON b.id = t.booking_id
                 JOIN booking_seats s USING (booking_id, section_id, seat_id)
             WHERE t.id = $1",
        )
        .bind(ticket.to_string())
        .fetch_optional(&self.pool)
        .await
        .map_err(error)?;
        found.as_ref().map(rows::ticket).transpose()
    }

    async fn tickets_of_booking(&self, booking: BookingId) -> Result<Vec<Ticket>> {
        let found = sqlx::query(
            "SELECT t.*, b.reservation, b.event_id, b.currency, s.section, s.row_label, s.label, s.price_minor
             FROM tickets t JOIN bookings b ON b.id = t.booking_id
                 JOIN booking_seats s USING (booking_id, section_id, seat_id)
             WHERE t.booking_id = $1 ORDER BY t.section_id, t.seat_id",
        )
        .bind(booking.to_string())
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        found.iter().map(rows::ticket).collect()
    }

    async fn tickets_of_event(&self, event: EventId) -> Result<Vec<Ticket>> {
        let found = sqlx::query(
            "SELECT t.*, b.reservation, b.event_id, b.currency, s.section, s.row_label, s.label, s.price_minor
             FROM tickets t JOIN bookings b ON b.id = t.booking_id
                 JOIN booking_seats s USING (booking_id, section_id, seat_id)
             WHERE b.event_id = $1 ORDER BY t.section_id, t.seat_id, t.id",
        )
        .bind(i64::from(event.0))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        found.iter().map(rows::ticket).collect()
    }
}

async fn issue(
    connection: &mut PgConnection,
    booking: BookingId,
    secrets: &[(SeatRef, Vec<u8>)],
    now: WallMs,
) -> Result<()> {
    let found = sqlx::query(
        "SELECT s.*, b.user_id FROM bookings b JOIN booking_seats s ON s.booking_id = b.id
         WHERE b.id = $1 AND s.live ORDER BY s.section_id, s.seat_id FOR UPDATE OF s",
    )
    .bind(booking.to_string())
    .fetch_all(&mut *connection)
    .await
    .map_err(error)?;
    for row in &found {
        let line = rows::line(row)?;
        let Some((_, secret)) = secrets.iter().find(|(seat, _)| *seat == line.seat) else {
            return Err(LedgerError::Inconsistent(format!("{booking}: a booked seat came without a secret")));
        };
        sqlx::query(
            "INSERT INTO tickets (id, booking_id, section_id, seat_id, user_id, sealed_secret, issued_at_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        )
        .bind(ticket_id(booking, line.seat).to_string())
        .bind(booking.to_string())
        .bind(i32::from(line.seat.section.0))
        .bind(i64::from(line.seat.seat.0))
        .bind(rows::get::<String>(row, "user_id")?)
        .bind(secret)
        .bind(ms(now))
        .execute(&mut *connection)
        .await
        .map_err(error)?;
    }
    confirm(connection, booking, found.is_empty(), now).await
}

/// Tell the fan, unless everything was refunded before the tickets were made.
async fn confirm(connection: &mut PgConnection, booking: BookingId, nothing_left: bool, now: WallMs) -> Result<()> {
    if nothing_left {
        return Ok(());
    }
    let row = sqlx::query("SELECT b.*, p.email FROM bookings b JOIN payments p ON p.id = b.payment_id WHERE b.id = $1")
        .bind(booking.to_string())
        .fetch_one(&mut *connection)
        .await
        .map_err(error)?;
    let user: String = rows::get(&row, "user_id")?;
    let email: Option<String> = rows::get(&row, "email")?;
    let payload = json!({
        "booking": booking,
        "reservation": rows::get::<String>(&row, "reservation")?,
        "event": rows::get::<i64>(&row, "event_id")?,
        "amount_minor": rows::get::<i64>(&row, "amount_minor")?,
        "currency": rows::get::<String>(&row, "currency")?,
    });
    let message = notices::NewNotice {
        dedupe: &format!("order_confirmed:{booking}"),
        user: &user,
        email: email.as_deref(),
        kind: crate::notices::ORDER_CONFIRMED,
        payload: &payload,
    };
    notices::write(connection, &message, now).await
}
