//! The provider's events and refunds, in memory.

use super::{Memory, Refund, State};
use crate::notices::{PAYMENT_LOST, PAYMENT_UNRESOLVED};
use crate::payments::{UNKNOWN_REFERENCE_MS, WebhookOutcome};
use crate::refunds::{ASK_AGAIN_MS, RefundOrder, RefundOutcome, RefundTask, RefundView, Refunds, ReturnTask, refused};
use crate::{Result, outbox};
use domain::ids::{PaymentId, RefundId, SeatRef};
use domain::money::{Currency, Minor};
use domain::order::payment::{PaymentFact, PaymentState};
use domain::order::refund::{RefundReason, RefundReport, RefundState};
use domain::order::webhook::{ProviderEvent, ProviderFact};
use domain::order::{booking_id, refund_id};
use domain::time::WallMs;
use serde_json::json;

impl State {
    pub(super) fn record(&mut self, event: &ProviderEvent, now: WallMs) -> WebhookOutcome {
        if let Some(known) = self.webhooks.get(&event.id) {
            if known.0 == event.fingerprint {
                return WebhookOutcome::Duplicate;
            }
            let detail = json!({"kind": event.kind, "fingerprint": event.fingerprint});
            self.raise("conflicting_webhook", &event.id, detail, now);
            return WebhookOutcome::ConflictingDuplicate;
        }
        let payment = event
            .fact
            .reference()
            .map(|reference| (reference, self.by_reference(reference).or_else(|| self.adopt(&event.fact, reference))));
        match payment {
            Some((reference, None)) => {
                let detail = json!({"event": event.id, "kind": event.kind});
                let opens = WallMs(event.created.0.min(now.0) + UNKNOWN_REFERENCE_MS);
                self.raise("unknown_reference", reference, detail, opens);
                WebhookOutcome::UnknownReference
            }
            Some((_, Some(payment))) => {
                self.webhooks.insert(event.id.clone(), (event.fingerprint.clone(), now));
                self.apply(payment, &event.fact, now)
            }
            None => {
                self.webhooks.insert(event.id.clone(), (event.fingerprint.clone(), now));
                WebhookOutcome::Recorded
            }
        }
    }

    /// A payment that was given up takes the reference of the event that says what became of it.
    fn adopt(&mut self, fact: &ProviderFact, reference: &str) -> Option<PaymentId> {
        let (ProviderFact::Captured { payment: Some(named), .. } | ProviderFact::Declined { payment: Some(named), .. }) =
            fact
        else {
            return None;
        };
        let payment = self.payments.get_mut(named)?;
        if payment.view.state != PaymentState::Failed || payment.view.reference.is_some() {
            return None;
        }
        payment.view.reference = Some(reference.to_owned());
        payment.lost_since = None;
        self.close_watch("unknown_reference", reference);
        self.close_watch(PAYMENT_LOST, &named.to_string());
        Some(*named)
    }

    fn apply(&mut self, id: PaymentId, fact: &ProviderFact, now: WallMs) -> WebhookOutcome {
        let payment = &self.payments[&id];
        match fact {
            ProviderFact::Captured { amount, currency, payment: named, .. } => {
                let matches = *amount == payment.view.amount
                    && *currency == payment.view.currency
                    && named.is_none_or(|named| named == id);
                if matches {
                    if self.step(id, PaymentFact::Captured) {
                        self.keep_capture(id, *amount, *currency);
                    }
                    return WebhookOutcome::Recorded;
                }
                let detail = json!({"captured": amount.display(*currency)});
                self.raise("capture_mismatch", &id.to_string(), detail, now);
                if self.step(id, PaymentFact::CapturedOther) {
                    self.keep_capture(id, *amount, *currency);
                    self.payments
                        .entry(id)
                        .and_modify(|payment| (payment.release_due, payment.released) = (true, true));
                    self.decide_refund(id, RefundReason::WrongAmount, now);
                }
                return WebhookOutcome::Mismatch;
            }
            ProviderFact::Declined { reason, .. } => {
                let release = !payment.retry_declined;
                self.fail(id, reason, release, now);
            }
            ProviderFact::RefundedInAll { total, currency, .. } => self.refunded_in_all(id, *total, *currency, now),
            ProviderFact::Refund { refund_reference, refund, report, amount, .. } => {
                self.one_refund(id, (*refund, refund_reference), *report, *amount, now);
            }
            ProviderFact::Processing { .. } | ProviderFact::Other => {}
        }
        WebhookOutcome::Recorded
    }

    fn keep_capture(&mut self, id: PaymentId, amount: Minor, currency: Currency) {
        self.close_watch(PAYMENT_UNRESOLVED, &id.to_string());
        self.payments.entry(id).and_modify(|payment| payment.captured = Some((amount, currency)));
    }

    fn counted(&self, id: PaymentId) -> Minor {
        let ours = self.refunds.values().filter(|refund| refund.payment == id && refund.state.counts());
        Minor(ours.map(|refund| refund.amount.0).sum())
    }

    fn refunded_in_all(&mut self, id: PaymentId, total: Minor, currency: Currency, now: WallMs) {
        let ours = self.counted(id);
        let payment = &self.payments[&id];
        let all = payment.captured.is_some_and(|(captured, _)| captured == total);
        if total == ours {
            self.all_succeeded(id);
        } else if total > ours && all && payment.view.state == PaymentState::Succeeded {
            let seats = self.end_bookings(id, None, now);
            self.step(id, PaymentFact::FullRefundRequested);
            self.owe(id, (Minor(total.0 - ours.0), currency), RefundReason::AtProvider, Some(seats), now);
            self.all_succeeded(id);
        } else if total > ours {
            let detail = json!({"at_provider": total.display(currency), "ours": ours.display(currency)});
            self.raise("refunded_at_provider", &id.to_string(), detail, now);
        }
    }

    fn one_refund(
        &mut self,
        id: PaymentId,
        (refund, reference): (Option<RefundId>, &str),
        report: RefundReport,
        amount: Minor,
        now: WallMs,
    ) {
        let ours = self.refunds.iter().find(|(known, row)| {
            row.payment == id && (Some(**known) == refund || row.reference.as_deref() == Some(reference))
        });
        match ours.map(|(known, row)| (*known, row.amount)) {
            Some((known, owed)) if owed == amount => self.reported(known, reference, report, now),
            _ if report == RefundReport::Failed => {}
            _ => {
                let detail = json!({"refund": reference, "amount": amount, "payment": id});
                self.raise("foreign_refund", reference, detail, now);
            }
        }
    }

    fn reported(&mut self, refund: RefundId, reference: &str, report: RefundReport, now: WallMs) {
        let Some(row) = self.refunds.get_mut(&refund) else { return };
        let (before, payment) = (row.state, row.payment);
        row.state = before.on(report);
        row.reference.get_or_insert_with(|| reference.to_owned());
        row.due_at = WallMs(now.0 + ASK_AGAIN_MS);
        if row.state == RefundState::Failed && before != RefundState::Failed {
            let detail = json!({"payment": payment, "reference": reference});
            self.raise("refund_failed", &refund.to_string(), detail, now);
        }
        self.finish(payment);
    }

    fn all_succeeded(&mut self, id: PaymentId) {
        for refund in self.refunds.values_mut().filter(|refund| refund.payment == id && refund.state.counts()) {
            refund.state = RefundState::Succeeded;
        }
        self.finish(id);
    }

    fn finish(&mut self, id: PaymentId) {
        let back = self.refunds.values().filter(|r| r.payment == id && r.state == RefundState::Succeeded);
        let back = Minor(back.map(|refund| refund.amount.0).sum());
        if self.payments[&id].view.state == PaymentState::RefundRequired
            && self.payments[&id].captured.is_some_and(|(captured, _)| captured == back)
        {
            self.step(id, PaymentFact::AllRefunded);
        }
    }

    /// The outcome is a refund of all that was captured, unless an outcome stands.
    pub(super) fn decide_refund(&mut self, id: PaymentId, reason: RefundReason, now: WallMs) {
        if self.outcomes.contains_key(&id) {
            return;
        }
        self.outcomes.insert(id, false);
        if let Some(captured) = self.payments[&id].captured {
            self.owe(id, captured, reason, None, now);
        }
    }

    fn owe(
        &mut self,
        id: PaymentId,
        (amount, currency): (Minor, Currency),
        reason: RefundReason,
        seats: Option<Vec<SeatRef>>,
        now: WallMs,
    ) -> RefundId {
        let sequence = 1 + self.refunds.values().filter(|refund| refund.payment == id).count() as u32;
        let refund = refund_id(id, sequence);
        let state = if amount == Minor(0) { RefundState::Succeeded } else { RefundState::Required };
        let row = Refund {
            payment: id,
            sequence,
            amount,
            currency,
            reason,
            state,
            reference: None,
            return_due: seats.is_some(),
            seats,
            tries: 0,
            due_at: now,
            created_at: now,
            request: None,
        };
        self.refunds.insert(refund, row);
        let payload = json!({
            "payment": id, "refund": refund, "reservation": self.payments[&id].view.reservation, "reason": reason,
            "amount_minor": amount, "currency": currency,
        });
        self.write_fact(outbox::REFUND_REQUIRED, id, payload, now);
        self.finish(id);
        refund
    }

    fn end_bookings(&mut self, id: PaymentId, only: Option<&[SeatRef]>, now: WallMs) -> Vec<SeatRef> {
        let booking = booking_id(id);
        let mut ended = Vec::new();
        for (seat, (_, live)) in self.bookings.get_mut(&booking).into_iter().flat_map(|booked| &mut booked.seats) {
            if *live && only.is_none_or(|only| only.contains(seat)) {
                *live = false;
                ended.push(*seat);
            }
        }
        for ticket in self.tickets.values_mut().filter(|t| t.booking == booking && ended.contains(&t.seat.seat)) {
            ticket.state = crate::tickets::TicketState::Revoked;
            ticket.revoked_at.get_or_insert(now);
        }
        ended
    }

    fn request(&mut self, order: &RefundOrder) -> RefundOutcome {
        let RefundOrder { reservation, seats, reason, operator, key, fingerprint, now } = order.clone();
        for (id, refund) in &self.refunds {
            if let Some((by, under, content)) = &refund.request
                && (by, under) == (&operator, &key)
            {
                return if *content == fingerprint { RefundOutcome::Requested(*id) } else { RefundOutcome::KeyReused };
            }
        }
        let of_it = |payment: &PaymentId| self.payments[payment].view.reservation == reservation;
        let Some(id) = self.bookings.values().map(|booked| booked.payment).find(of_it) else {
            return RefundOutcome::NotBooked;
        };
        let booked = self.bookings[&booking_id(id)].seats.iter();
        let live: Vec<SeatRef> = booked.filter(|(_, (_, live))| *live).map(|(seat, _)| *seat).collect();
        if let Some(refused) = refused(seats.as_deref(), &live) {
            return refused;
        }
        let ended = self.end_bookings(id, seats.as_deref(), now);
        let booked = &self.bookings[&booking_id(id)];
        let amount = Minor(ended.iter().map(|seat| booked.seats[seat].0.price.0).sum());
        if booked.seats.values().all(|(_, live)| !live) {
            self.step(id, PaymentFact::FullRefundRequested);
        }
        let currency = self.payments[&id].view.currency;
        let refund = self.owe(id, (amount, currency), reason, Some(ended), now);
        self.refunds.entry(refund).and_modify(|row| row.request = Some((operator, key, fingerprint)));
        RefundOutcome::Requested(refund)
    }
}

impl Refunds for Memory {
    async fn request_refund(&self, order: &RefundOrder) -> Result<RefundOutcome> {
        Ok(self.state().request(order))
    }

    async fn refunds_due(&self, now: WallMs, max: u32) -> Result<Vec<RefundTask>> {
        let state = self.state();
        let mut due: Vec<_> = state
            .refunds
            .iter()
            .filter(|(_, row)| matches!(row.state, RefundState::Required | RefundState::Sent) && row.due_at <= now)
            .filter_map(|(id, row)| Some((row.due_at, *id, row, state.payments[&row.payment].view.reference.clone()?)))
            .collect();
        due.sort_by_key(|(due_at, id, ..)| (*due_at, *id));
        let task = |(_, refund, row, reference): (WallMs, RefundId, &Refund, String)| RefundTask {
            refund,
            payment: row.payment,
            sequence: row.sequence,
            reference,
            refund_reference: row.reference.clone(),
            amount: row.amount,
            currency: row.currency,
            state: row.state,
            tries: row.tries,
        };
        Ok(due.into_iter().take(max as usize).map(task).collect())
    }

    async fn delay_refund(&self, refund: RefundId, retry_at: WallMs) -> Result<()> {
        if let Some(row) = self.state().refunds.get_mut(&refund) {
            row.tries += 1;
            row.due_at = retry_at;
        }
        Ok(())
    }

    async fn refund_reported(
        &self,
        refund: RefundId,
        refund_reference: &str,
        report: RefundReport,
        now: WallMs,
    ) -> Result<()> {
        self.state().reported(refund, refund_reference, report, now);
        Ok(())
    }

    async fn returns_due(&self, max: u32) -> Result<Vec<ReturnTask>> {
        let state = self.state();
        let mut due: Vec<_> = state.refunds.iter().filter(|(_, row)| row.return_due).collect();
        due.sort_by_key(|(id, row)| (row.created_at, **id));
        let task = |(refund, row): (&RefundId, &Refund)| ReturnTask {
            refund: *refund,
            reservation: state.payments[&row.payment].view.reservation,
            seats: row.seats.clone().unwrap_or_default(),
        };
        Ok(due.into_iter().take(max as usize).map(task).collect())
    }

    async fn mark_returned(&self, refund: RefundId) -> Result<()> {
        if let Some(row) = self.state().refunds.get_mut(&refund) {
            row.return_due = false;
        }
        Ok(())
    }

    async fn refunds_of(&self, payment: PaymentId) -> Result<Vec<RefundView>> {
        let state = self.state();
        let mut found: Vec<_> = state.refunds.iter().filter(|(_, row)| row.payment == payment).collect();
        found.sort_by_key(|(_, row)| row.sequence);
        let view = |(id, row): (&RefundId, &Refund)| RefundView {
            id: *id,
            payment,
            amount: row.amount,
            currency: row.currency,
            state: row.state,
            reason: row.reason.as_str().to_owned(),
        };
        Ok(found.into_iter().map(view).collect())
    }
}
