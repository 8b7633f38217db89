//! Audit reads in SQL.

use super::rows::{get, minor, parsed, seat, wall};
use super::{Postgres, error};
use crate::Result;
use crate::audit::{Audit, Balance, LiveSeat};
use domain::ids::{EventId, ReservationId};
use domain::inventory::rebuild::Sale;
use domain::inventory::record::QuotedSeat;
use domain::money::Minor;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

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

    async fn sales(&self, event: EventId) -> Result<Vec<Sale>> {
        let found = sqlx::query(
            "SELECT b.reservation, b.user_id, b.payment_id, b.currency, b.created_at_ms,
                 s.section_id, s.seat_id, s.price_minor, s.live
             FROM bookings b JOIN booking_seats s ON s.booking_id = b.id
             WHERE b.event_id = $1 ORDER BY b.id, s.section_id, s.seat_id",
        )
        .bind(i64::from(event.0))
        .fetch_all(&self.pool)
        .await
        .map_err(error)?;
        let mut sales: BTreeMap<ReservationId, Sale> = BTreeMap::new();
        for row in &found {
            let reservation = parsed(row, "reservation")?;
            let sale = match sales.entry(reservation) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Sale {
                    reservation,
                    user: parsed(row, "user_id")?,
                    payment: parsed(row, "payment_id")?,
                    currency: parsed(row, "currency")?,
                    seats: Vec::new(),
                    returned: BTreeSet::new(),
                    at: wall(row, "created_at_ms")?,
                }),
            };
            let seat = seat(row)?;
            sale.seats.push(QuotedSeat { seat, gross: minor(row, "price_minor")?, discount: Minor(0) });
            if !get::<bool>(row, "live")? {
                sale.returned.insert(seat);
            }
        }
        Ok(sales.into_values().collect())
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
