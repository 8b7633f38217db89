//! Cancellations, in memory.

use super::{Booked, Memory, State};
use crate::Result;
use crate::cancellations::{Cancellation, Cancellations, CancelledOrder, Progress, Tally};
use domain::ids::{EventId, PaymentId, UserId};
use domain::money::Minor;
use domain::order::refund::{RefundReason, RefundState};
use domain::time::WallMs;
use std::collections::BTreeMap;

impl Cancellations for Memory {
    async fn cancel_event(&self, event: EventId, by: &UserId, now: WallMs) -> Result<()> {
        let fresh = || Cancellation { event, by: by.clone(), at: now, holds_ended: false };
        self.state().cancellations.entry(event).or_insert_with(fresh);
        Ok(())
    }

    async fn cancellation(&self, event: EventId) -> Result<Progress> {
        let state = self.state();
        let sold = state.bookings.values().filter(|booked| state.event_of(booked.payment) == event);
        let sold = sold.map(|booked| (booked.payment, worth(booked))).filter(|(_, worth)| worth.is_some());
        let refunds = |wanted: &[RefundState]| {
            let ours = state.refunds.values().filter(|refund| {
                refund.reason == RefundReason::EventCancelled
                    && wanted.contains(&refund.state)
                    && state.event_of(refund.payment) == event
            });
            tally(ours.map(|refund| (refund.payment, refund.amount)))
        };
        Ok(Progress {
            cancellation: state.cancellations.get(&event).cloned(),
            sold: tally(sold.map(|(payment, worth)| (payment, worth.unwrap_or_default()))),
            refunding: refunds(&[RefundState::Required, RefundState::Sent]),
            refunded: refunds(&[RefundState::Succeeded]),
            failed: refunds(&[RefundState::Failed]),
        })
    }

    async fn cancelled_events(&self) -> Result<Vec<EventId>> {
        Ok(self.state().cancellations.keys().copied().collect())
    }

    async fn cancelled_orders(&self, max: u32) -> Result<Vec<CancelledOrder>> {
        let state = self.state();
        let mut due: Vec<_> = state.bookings.iter().filter(|(_, booked)| worth(booked).is_some()).collect();
        due.sort_by_key(|(id, booked)| (booked.created_at, **id));
        let order = |booked: &Booked| {
            let reservation = state.payments[&booked.payment].view.reservation;
            let by = state.cancellations.get(&reservation.event)?.by.clone();
            Some(CancelledOrder { reservation, by })
        };
        Ok(due.into_iter().filter_map(|(_, booked)| order(booked)).take(max as usize).collect())
    }

    async fn with_holds(&self) -> Result<Vec<Cancellation>> {
        let mut found: Vec<_> = self.state().cancellations.values().filter(|one| !one.holds_ended).cloned().collect();
        found.sort_by_key(|cancellation| (cancellation.at, cancellation.event));
        Ok(found)
    }

    async fn holds_ended(&self, event: EventId) -> Result<()> {
        self.state().cancellations.entry(event).and_modify(|cancellation| cancellation.holds_ended = true);
        Ok(())
    }
}

impl State {
    fn event_of(&self, payment: PaymentId) -> EventId {
        self.payments[&payment].view.reservation.event
    }
}

/// What the seats of a booking that are live were sold for; none if none is.
fn worth(booked: &Booked) -> Option<Minor> {
    let live = booked.seats.values().filter(|(_, live)| *live).map(|(line, _)| line.price.0);
    live.reduce(|sum, price| sum + price).map(Minor)
}

fn tally(amounts: impl Iterator<Item = (PaymentId, Minor)>) -> Tally {
    let mut orders: BTreeMap<PaymentId, i64> = BTreeMap::new();
    for (payment, amount) in amounts {
        *orders.entry(payment).or_default() += amount.0;
    }
    Tally { orders: orders.len() as u64, amount: Minor(orders.values().sum()) }
}
