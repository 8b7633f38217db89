//! Catalogue and audit reads, in memory.

use super::Memory;
use crate::Result;
use crate::audit::{Audit, Balance, LiveSeat};
use crate::catalogue::{Catalogue, Publication, PublishOutcome};
use crate::payments::SeatLine;
use crate::tickets::TicketState;
use domain::ids::{EventId, SeatRef};
use domain::inventory::EventRecord;
use domain::inventory::rebuild::Sale;
use domain::inventory::record::QuotedSeat;
use domain::money::Minor;
use domain::order::refund::RefundState;
use domain::order::{booking_id, ticket_id};

impl Catalogue for Memory {
    async fn publish(&self, publication: &Publication) -> Result<PublishOutcome> {
        let mut state = self.state();
        let id = publication.event.id;
        match state.catalogue.get(&id).map(|known| known.event.version) {
            Some(current) if current == publication.event.version => Ok(PublishOutcome::Unchanged),
            Some(current) if current > publication.event.version => Ok(PublishOutcome::Older { current }),
            _ => {
                state.catalogue.insert(id, publication.clone());
                Ok(PublishOutcome::Published)
            }
        }
    }

    async fn events(&self) -> Result<Vec<EventRecord>> {
        Ok(self.state().catalogue.values().map(|publication| publication.event.clone()).collect())
    }

    async fn publication(&self, event: EventId) -> Result<Option<Publication>> {
        Ok(self.state().catalogue.get(&event).cloned())
    }
}

impl Audit for Memory {
    async fn live_seats(&self, event: EventId) -> Result<Vec<LiveSeat>> {
        let state = self.state();
        let mut found = Vec::new();
        for (booking, booked) in &state.bookings {
            let reservation = state.payments[&booked.payment].view.reservation;
            let live = booked.seats.iter().filter(|(_, (_, live))| *live && reservation.event == event);
            found.extend(live.map(|(seat, _)| LiveSeat { seat: *seat, reservation, booking: *booking }));
        }
        found.sort_by_key(|live| live.seat);
        Ok(found)
    }

    async fn sales(&self, event: EventId) -> Result<Vec<Sale>> {
        let state = self.state();
        let mut sales = Vec::new();
        for booked in state.bookings.values() {
            let view = &state.payments[&booked.payment].view;
            if view.reservation.event != event {
                continue;
            }
            let quoted = |(seat, (line, _)): (&SeatRef, &(SeatLine, bool))| QuotedSeat {
                seat: *seat,
                gross: line.price,
                discount: Minor(0),
            };
            sales.push(Sale {
                reservation: view.reservation,
                user: view.user.clone(),
                payment: view.id,
                currency: view.currency,
                seats: booked.seats.iter().map(quoted).collect(),
                returned: booked.seats.iter().filter(|(_, (_, live))| !live).map(|(seat, _)| *seat).collect(),
                at: view.created_at,
            });
        }
        sales.sort_by_key(|sale| sale.reservation);
        Ok(sales)
    }

    async fn balances(&self, event: Option<EventId>) -> Result<Vec<Balance>> {
        let state = self.state();
        let wanted = state.in_order(|payment| event.is_none_or(|event| payment.view.reservation.event == event));
        let balance = |payment: &super::Payment| {
            let booking = booking_id(payment.view.id);
            let live = || {
                let seats = state.bookings.get(&booking).into_iter().flat_map(|booked| &booked.seats);
                seats.filter(|(_, (_, live))| *live)
            };
            let valid = |seat| {
                let ticket = state.tickets.get(&ticket_id(booking, seat));
                ticket.is_some_and(|ticket| ticket.state == TicketState::Valid)
            };
            let refunds = |done: bool| {
                let of_it = state.refunds.values().filter(|refund| refund.payment == payment.view.id);
                let wanted = of_it.filter(|refund| (refund.state == RefundState::Succeeded) == done);
                Minor(wanted.map(|refund| refund.amount.0).sum())
            };
            Balance {
                payment: payment.view.id,
                reservation: payment.view.reservation,
                state: payment.view.state,
                currency: payment.view.currency,
                captured: payment.captured.map_or(Minor(0), |(amount, _)| amount),
                booked: Minor(live().map(|(_, (line, _))| line.price.0).sum()),
                ticketed: Minor(live().filter(|(seat, _)| valid(**seat)).map(|(_, (line, _))| line.price.0).sum()),
                refunded: refunds(true),
                refunding: refunds(false),
                created_at: payment.view.created_at,
            }
        };
        Ok(wanted.into_iter().map(balance).collect())
    }
}
