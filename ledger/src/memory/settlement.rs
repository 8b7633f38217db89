//! Settlement and tickets, in memory.

use super::{Booked, Memory, State};
use crate::notices::{HOLD_EXPIRED, Notice, ORDER_CONFIRMED};
use crate::outbox::{ORDER_PAID, TICKETS};
use crate::payments::line_of;
use crate::settlement::{CapturedPayment, Ending, FeedNote, ReleaseTask, SettleOutcome, Settlement};
use crate::tickets::{Booking, Ticket, TicketState, Tickets};
use crate::{LedgerError, Result};
use domain::ids::{BookingId, EventId, PaymentId, SeatRef, TicketId, UserId};
use domain::inventory::record::QuotedSeat;
use domain::order::payment::{PaymentFact, PaymentState, Step};
use domain::order::refund::RefundReason;
use domain::order::{booking_id, ticket_id};
use domain::time::WallMs;
use serde_json::json;
use std::cmp::Reverse;

impl Settlement for Memory {
    async fn captured(&self, max: u32) -> Result<Vec<CapturedPayment>> {
        let state = self.state();
        let found = state.in_order(|payment| payment.view.state == PaymentState::Captured);
        let captured = found.into_iter().filter_map(|payment| {
            let (amount, currency) = payment.captured?;
            Some(CapturedPayment { payment: payment.view.id, reservation: payment.view.reservation, amount, currency })
        });
        Ok(captured.take(max as usize).collect())
    }

    async fn settle_paid(&self, payment: PaymentId, seats: &[QuotedSeat], now: WallMs) -> Result<SettleOutcome> {
        Ok(self.state().settle_paid(payment, seats, now))
    }

    async fn settle_refund(&self, payment: PaymentId, reason: RefundReason, now: WallMs) -> Result<SettleOutcome> {
        Ok(self.state().settle_refund(payment, reason, now))
    }

    async fn releases_due(&self, max: u32) -> Result<Vec<ReleaseTask>> {
        let state = self.state();
        let due = state.in_order(|payment| payment.release_due).into_iter().take(max as usize);
        Ok(due.map(|p| ReleaseTask { payment: p.view.id, reservation: p.view.reservation }).collect())
    }

    async fn mark_released(&self, payment: PaymentId) -> Result<()> {
        self.state().payments.entry(payment).and_modify(|payment| payment.release_due = false);
        Ok(())
    }

    async fn record_ending(&self, note: &FeedNote, now: WallMs) -> Result<()> {
        let mut state = self.state();
        let fresh = state.remember(&format!("feed:{}", note.partition), note.position, now);
        if fresh && note.ending == Ending::Expired {
            let notice = Notice {
                id: 0,
                user: note.user.clone(),
                email: None,
                kind: HOLD_EXPIRED.into(),
                payload: json!({"reservation": note.reservation, "event": note.event, "at_ms": note.at}),
                tries: 0,
                created_at: now,
            };
            state.tell(format!("hold_expired:{}", note.reservation), notice, now);
        }
        Ok(())
    }

    async fn is_settled(&self, payment: PaymentId) -> Result<bool> {
        Ok(self.state().outcomes.contains_key(&payment))
    }
}

impl State {
    fn decided(&self, payment: PaymentId) -> SettleOutcome {
        match self.outcomes.get(&payment) {
            Some(true) => SettleOutcome::Booked(booking_id(payment)),
            Some(false) => SettleOutcome::Refunding,
            None => SettleOutcome::NotCaptured,
        }
    }

    fn settle_paid(&mut self, id: PaymentId, seats: &[QuotedSeat], now: WallMs) -> SettleOutcome {
        let Some(payment) = self.payments.get(&id) else { return SettleOutcome::NotCaptured };
        match payment.view.state.on(PaymentFact::JudgedPaid) {
            Step::Impossible => return SettleOutcome::NotCaptured,
            Step::Stay => return self.decided(id),
            Step::To(_) => {}
        }
        let reservation = payment.view.reservation;
        let taken = |booked: &Booked| {
            let other = self.payments[&booked.payment].view.reservation;
            let live = |quoted: &QuotedSeat| booked.seats.get(&quoted.seat).is_some_and(|(_, live)| *live);
            other == reservation || (other.event == reservation.event && seats.iter().any(live))
        };
        if self.outcomes.contains_key(&id) || self.bookings.values().any(taken) {
            self.raise("seat_sold_twice", &id.to_string(), json!({"payment": id}), now);
            return self.settle_refund(id, RefundReason::SeatTaken, now);
        }
        let lines = seats.iter().map(|quoted| (quoted.seat, (line_of(&payment.lines, quoted), true))).collect();
        let payload = json!({
            "payment": id, "booking": booking_id(id), "reservation": reservation, "event": reservation.event,
            "user": payment.view.user, "amount_minor": payment.view.amount, "currency": payment.view.currency,
        });
        self.step(id, PaymentFact::JudgedPaid);
        self.outcomes.insert(id, true);
        self.bookings.insert(booking_id(id), Booked { payment: id, seats: lines, created_at: now });
        self.write_fact(ORDER_PAID, id, payload, now);
        SettleOutcome::Booked(booking_id(id))
    }

    fn settle_refund(&mut self, id: PaymentId, reason: RefundReason, now: WallMs) -> SettleOutcome {
        let Some(payment) = self.payments.get(&id) else { return SettleOutcome::NotCaptured };
        match payment.view.state.on(PaymentFact::JudgedRefund) {
            Step::Impossible => SettleOutcome::NotCaptured,
            Step::Stay => self.decided(id),
            Step::To(_) => {
                let cancelled = self.cancellations.contains_key(&payment.view.reservation.event);
                let reason = if cancelled { RefundReason::EventCancelled } else { reason };
                self.step(id, PaymentFact::JudgedRefund);
                self.decide_refund(id, reason, now);
                SettleOutcome::Refunding
            }
        }
    }
}

impl Tickets for Memory {
    async fn booking(&self, booking: BookingId) -> Result<Option<Booking>> {
        let state = self.state();
        Ok(state.bookings.get(&booking).map(|booked| {
            let view = &state.payments[&booked.payment].view;
            Booking {
                id: booking,
                reservation: view.reservation,
                payment: view.id,
                user: view.user.clone(),
                amount: view.amount,
                currency: view.currency,
                seats: booked.seats.values().map(|(line, _)| line.clone()).collect(),
            }
        }))
    }

    async fn issue_tickets(
        &self,
        message: u64,
        booking: BookingId,
        secrets: &[(SeatRef, Vec<u8>)],
        now: WallMs,
    ) -> Result<()> {
        let mut state = self.state();
        let Some(booked) = state.bookings.get(&booking).cloned() else {
            state.consume(TICKETS, message, now);
            return Ok(());
        };
        let live: Vec<_> = booked.seats.values().filter(|(_, live)| *live).map(|(line, _)| line.clone()).collect();
        let secret = |seat| secrets.iter().find(|(of, _)| *of == seat).map(|(_, secret)| secret.clone());
        if live.iter().any(|line| secret(line.seat).is_none()) {
            return Err(LedgerError::Inconsistent(format!("{booking}: a booked seat came without a secret")));
        }
        if !state.consume(TICKETS, message, now) {
            return Ok(());
        }
        let payment = state.payments[&booked.payment].clone();
        for line in &live {
            let id = ticket_id(booking, line.seat);
            let ticket = Ticket {
                id,
                booking,
                reservation: payment.view.reservation,
                event: payment.view.reservation.event,
                user: payment.view.user.clone(),
                seat: line.clone(),
                currency: payment.view.currency,
                sealed_secret: secret(line.seat).unwrap_or_default(),
                secret_version: 1,
                state: TicketState::Valid,
                issued_at: now,
                revoked_at: None,
            };
            state.tickets.entry(id).or_insert(ticket);
        }
        if !live.is_empty() {
            let view = &payment.view;
            let notice = Notice {
                id: 0,
                user: view.user.clone(),
                email: payment.email,
                kind: ORDER_CONFIRMED.into(),
                payload: json!({
                    "booking": booking, "reservation": view.reservation, "event": view.reservation.event,
                    "amount_minor": view.amount, "currency": view.currency,
                }),
                tries: 0,
                created_at: now,
            };
            state.tell(format!("order_confirmed:{booking}"), notice, now);
        }
        Ok(())
    }

    async fn tickets_of_user(&self, user: &UserId) -> Result<Vec<Ticket>> {
        Ok(self.tickets(|ticket| ticket.user == *user, |ticket| (Reverse(ticket.issued_at), ticket.seat.seat)))
    }

    async fn ticket(&self, ticket: TicketId) -> Result<Option<Ticket>> {
        Ok(self.state().tickets.get(&ticket).cloned())
    }

    async fn tickets_of_booking(&self, booking: BookingId) -> Result<Vec<Ticket>> {
        Ok(self.tickets(|ticket| ticket.booking == booking, |ticket| ticket.seat.seat))
    }

    async fn tickets_of_event(&self, event: EventId) -> Result<Vec<Ticket>> {
        Ok(self.tickets(|ticket| ticket.event == event, |ticket| (ticket.seat.seat, ticket.id)))
    }
}

impl Memory {
    fn tickets<K: Ord>(&self, fits: impl Fn(&Ticket) -> bool, order: impl Fn(&Ticket) -> K) -> Vec<Ticket> {
        let mut found: Vec<_> = self.state().tickets.values().filter(|ticket| fits(ticket)).cloned().collect();
        found.sort_by_key(|ticket| order(ticket));
        found
    }
}
