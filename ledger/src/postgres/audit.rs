//! Audit reads in SQL.

use super::rows::{minor, parsed, seat, wall};
use super::{Postgres, error};
use crate::Result;
use crate::audit::{Audit, Balance, LiveSeat};
use domain::ids::EventId;

impl Audit for Postgres {
    async fn live_seats(&self, event: EventId) -> Result<Vec<LiveSeat>> {
        let found = sqlx::query(
            "SELECT s.section_id, s.seat_id, s.booking_id, b.reservation
             FROM booking_seats s JOIN bookings b ON b.id = s.booking_id
             WHERE s.event_id = $1 AND s.live ORDER BY s.section_id, s.seat_id",
        )
        .bind(i64::from(event.0))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let live = |row| {
            Ok(LiveSeat {
                seat: seat(row)?,
                reservation: parsed(row, "reservation")?,
                booking: parsed(row, "booking_id")?,
            })
        };
        found.iter().map(live).collect()
    }

    async fn balances(&self, event: Option<EventId>) -> Result<Vec<Balance>> {
        let found = sqlx::query(
            "SELECT p.id, p.reservation, p.state, p.currency, p.created_at_ms,
                 coalesce(p.captured_minor, 0) AS captured,
                 coalesce(s.booked, 0)::bigint AS booked, coalesce(s.ticketed, 0)::bigint AS ticketed,
                 coalesce(r.refunded, 0)::bigint AS refunded, coalesce(r.refunding, 0)::bigint AS refunding
             FROM payments p
             LEFT JOIN (
                 SELECT b.payment_id, sum(x.price_minor) AS booked,
                     sum(x.price_minor) FILTER (WHERE t.id IS NOT NULL AND t.revoked_at_ms IS NULL) AS ticketed
                 FROM bookings b JOIN booking_seats x ON x.booking_id = b.id AND x.live
                     LEFT JOIN tickets t USING (booking_id, section_id, seat_id)
                 GROUP BY b.payment_id) s ON s.payment_id = p.id
             LEFT JOIN (
                 SELECT payment_id, sum(amount_minor) FILTER (WHERE state = 'SUCCEEDED') AS refunded,
                     sum(amount_minor) FILTER (WHERE state <> 'SUCCEEDED') AS refunding
                 FROM refunds GROUP BY payment_id) r ON r.payment_id = p.id
             WHERE $1::bigint IS NULL OR p.event_id = $1
             ORDER BY p.created_at_ms, p.id",
        )
        .bind(event.map(|event| i64::from(event.0)))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let balance = |row| {
            Ok(Balance {
                payment: parsed(row, "id")?,
                reservation: parsed(row, "reservation")?,
                state: parsed(row, "state")?,
                currency: parsed(row, "currency")?,
                captured: minor(row, "captured")?,
                booked: minor(row, "booked")?,
                ticketed: minor(row, "ticketed")?,
                refunded: minor(row, "refunded")?,
                refunding: minor(row, "refunding")?,
                created_at: wall(row, "created_at_ms")?,
            })
        };
        found.iter().map(balance).collect()
    }
}
