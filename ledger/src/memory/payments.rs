//! Payments before settlement, in memory.

use super::{Memory, Payment, State};
use crate::notices::{PAYMENT_LOST, PAYMENT_UNRESOLVED};
use crate::payments::{
    AttachOutcome, BeginOutcome, BeginPayment, FIRST_ASK_MS, InitializeTask, LOST_FOR_MS, LostPayment, OpenPayment,
    PaymentView, Payments, WebhookOutcome,
};
use crate::{LedgerError, Result, outbox};
use domain::ids::{IdempotencyKey, PaymentId, ReservationId, UserId};
use domain::order::payment::{PaymentFact, PaymentState, Step};
use domain::order::webhook::ProviderEvent;
use domain::time::WallMs;
use serde_json::json;
use std::cmp::Reverse;

impl Payments for Memory {
    async fn begin_payment(&self, request: &BeginPayment) -> Result<BeginOutcome> {
        Ok(self.state().begin(request))
    }

    async fn begun(&self, user: &UserId, key: &IdempotencyKey, fingerprint: &str) -> Result<Option<BeginOutcome>> {
        Ok(self.state().begun(user, key, fingerprint))
    }

    async fn payment(&self, payment: PaymentId) -> Result<Option<PaymentView>> {
        Ok(self.state().payments.get(&payment).map(|payment| payment.view.clone()))
    }

    async fn payment_of(&self, reservation: ReservationId) -> Result<Option<PaymentView>> {
        let state = self.state();
        let of_it = state.payments.values().map(|payment| &payment.view).filter(|view| view.reservation == reservation);
        let order = |view: &&PaymentView| (view.state == PaymentState::Failed, Reverse(view.created_at), view.id);
        Ok(of_it.min_by_key(order).cloned())
    }

    async fn to_initialize(&self, now: WallMs, max: u32) -> Result<Vec<InitializeTask>> {
        let state = self.state();
        let due = state.in_order(|payment| payment.view.state == PaymentState::Initializing && payment.due_at <= now);
        let task = |payment: &Payment| InitializeTask {
            payment: payment.view.id,
            reservation: payment.view.reservation,
            amount: payment.view.amount,
            currency: payment.view.currency,
            method: payment.method.clone(),
            token: payment.token.clone(),
            tries: payment.tries,
            created_at: payment.view.created_at,
        };
        Ok(due.into_iter().take(max as usize).map(task).collect())
    }

    async fn delay_initialize(&self, payment: PaymentId, retry_at: WallMs, sent: bool) -> Result<()> {
        let mut state = self.state();
        let waiting = state.payments.get_mut(&payment).filter(|p| p.view.state == PaymentState::Initializing);
        if let Some(payment) = waiting {
            payment.tries += u32::from(sent);
            payment.due_at = retry_at;
        }
        Ok(())
    }

    async fn attach_reference(
        &self,
        payment: PaymentId,
        reference: &str,
        client_secret: Option<&str>,
        now: WallMs,
    ) -> Result<AttachOutcome> {
        let mut state = self.state();
        let owner = state.by_reference(reference);
        let Some(found) = state.payments.get_mut(&payment) else {
            return Err(LedgerError::Inconsistent(format!("{payment} is not a payment")));
        };
        match (&found.view.reference, owner) {
            (Some(known), _) if known == reference => return Ok(AttachOutcome::Known),
            (None, None) => {}
            (known, owner) => {
                let detail = json!({"reference": reference, "has": known, "owner": owner});
                state.raise("reference_conflict", &payment.to_string(), detail, now);
                return Ok(AttachOutcome::Conflict);
            }
        }
        found.view.reference = Some(reference.to_owned());
        found.view.client_secret = client_secret.map(str::to_owned);
        found.due_at = WallMs(now.0 + FIRST_ASK_MS);
        found.tries = 0;
        found.lost_since = None;
        state.step(payment, PaymentFact::ReferenceSaved);
        state.close_watch("unknown_reference", reference);
        Ok(AttachOutcome::Saved)
    }

    async fn fail_payment(&self, payment: PaymentId, reason: &str, now: WallMs) -> Result<()> {
        self.state().fail(payment, reason, true, now);
        Ok(())
    }

    async fn give_up(&self, payment: PaymentId, reason: &str, now: WallMs) -> Result<()> {
        let mut state = self.state();
        state.fail(payment, reason, true, now);
        let fits = |p: &&mut Payment| {
            p.view.state == PaymentState::Failed && p.view.reference.is_none() && p.lost_since.is_none()
        };
        if let Some(payment) = state.payments.get_mut(&payment).filter(fits) {
            payment.lost_since = Some(now);
            payment.due_at = WallMs(now.0 + FIRST_ASK_MS);
        }
        Ok(())
    }

    async fn lost_payments(&self, now: WallMs, max: u32) -> Result<Vec<LostPayment>> {
        let state = self.state();
        let after = WallMs(now.0.saturating_sub(LOST_FOR_MS));
        let due = state.payments.values().filter(|payment| payment.due_at <= now);
        let lost = |p: &Payment| p.lost_since.map(|since| LostPayment { payment: p.view.id, since });
        let mut found: Vec<_> = due.filter_map(lost).filter(|lost| lost.since > after).collect();
        found.sort_by_key(|lost| (lost.since, lost.payment));
        found.truncate(max as usize);
        Ok(found)
    }

    async fn end_lost(&self, now: WallMs, max: u32) -> Result<u32> {
        let mut state = self.state();
        let until = WallMs(now.0.saturating_sub(LOST_FOR_MS));
        let lost = state.payments.values().filter_map(|p| Some((p.lost_since.filter(|at| *at <= until)?, p.view.id)));
        let mut ended: Vec<_> = lost.collect();
        ended.sort();
        ended.truncate(max as usize);
        for (_, payment) in &ended {
            state.payments.entry(*payment).and_modify(|payment| payment.lost_since = None);
            state.raise(PAYMENT_LOST, &payment.to_string(), json!({"payment": payment}), now);
        }
        Ok(ended.len() as u32)
    }

    async fn open_payments(&self, max: u32) -> Result<Vec<OpenPayment>> {
        let state = self.state();
        let open =
            state.in_order(|payment| matches!(payment.view.state, PaymentState::Initializing | PaymentState::Pending));
        let view = |payment: &Payment| OpenPayment {
            payment: payment.view.id,
            reservation: payment.view.reservation,
            reference: payment.view.reference.clone(),
            created_at: payment.view.created_at,
            ask_at: payment.due_at,
        };
        Ok(open.into_iter().take(max as usize).map(view).collect())
    }

    async fn ask_again(&self, payment: PaymentId, ask_at: WallMs) -> Result<()> {
        let mut state = self.state();
        let asked = |p: &&mut Payment| p.view.state == PaymentState::Pending || p.lost_since.is_some();
        if let Some(payment) = state.payments.get_mut(&payment).filter(asked) {
            payment.due_at = ask_at;
        }
        Ok(())
    }

    async fn record_event(&self, event: &ProviderEvent, now: WallMs) -> Result<WebhookOutcome> {
        Ok(self.state().record(event, now))
    }
}

impl State {
    fn begun(&self, user: &UserId, key: &IdempotencyKey, fingerprint: &str) -> Option<BeginOutcome> {
        let known = self.payments.values().find(|p| p.view.user == *user && p.key == key.as_str())?;
        let same = known.fingerprint == fingerprint;
        Some(if same { BeginOutcome::Repeated(known.view.clone()) } else { BeginOutcome::KeyReused })
    }

    fn begin(&mut self, request: &BeginPayment) -> BeginOutcome {
        if let Some(known) = self.begun(&request.user, &request.key, &request.fingerprint) {
            return known;
        }
        let open = |p: &&Payment| p.view.reservation == request.reservation && p.view.state.is_open();
        if let Some(open) = self.payments.values().find(open) {
            return BeginOutcome::AlreadyOpen(open.view.clone());
        }
        let ends = |p: &Payment| p.released || (p.view.state == PaymentState::Failed && !p.retry_declined);
        if self.payments.values().any(|p| p.view.reservation == request.reservation && ends(p)) {
            return BeginOutcome::Released;
        }
        let view = PaymentView {
            id: request.payment,
            reservation: request.reservation,
            user: request.user.clone(),
            state: PaymentState::Initializing,
            amount: request.amount,
            currency: request.currency,
            reference: None,
            client_secret: None,
            failure: None,
            created_at: request.now,
        };
        let payment = Payment {
            view: view.clone(),
            email: request.email.clone(),
            key: request.key.to_string(),
            fingerprint: request.fingerprint.clone(),
            method: request.method.clone(),
            token: request.token.clone(),
            lines: request.seats.clone(),
            retry_declined: request.retry_declined,
            captured: None,
            tries: 0,
            due_at: request.now,
            release_due: false,
            released: false,
            lost_since: None,
        };
        self.payments.insert(request.payment, payment);
        let payload = json!({"payment": request.payment, "reservation": request.reservation});
        self.write_fact(outbox::PAYMENT_INITIALIZE, request.payment, payload, request.now);
        BeginOutcome::Begun(view)
    }

    /// Payments that fit, oldest first.
    pub(super) fn in_order(&self, fits: impl Fn(&Payment) -> bool) -> Vec<&Payment> {
        let mut found: Vec<_> = self.payments.values().filter(|payment| fits(payment)).collect();
        found.sort_by_key(|payment| (payment.view.created_at, payment.view.id));
        found
    }

    pub(super) fn by_reference(&self, reference: &str) -> Option<PaymentId> {
        let owns = |payment: &&Payment| payment.view.reference.as_deref() == Some(reference);
        self.payments.values().find(owns).map(|payment| payment.view.id)
    }

    /// What an incident was about has explained itself.
    pub(super) fn close_watch(&mut self, kind: &str, subject: &str) {
        for (incident, open) in &mut self.incidents {
            *open &= !(incident.kind == kind && incident.subject == subject);
        }
    }

    /// Move a payment by a fact, if the fact moves it; whether it did.
    pub(super) fn step(&mut self, payment: PaymentId, fact: PaymentFact) -> bool {
        let Some(payment) = self.payments.get_mut(&payment) else { return false };
        let Step::To(next) = payment.view.state.on(fact) else { return false };
        payment.view.state = next;
        true
    }

    pub(super) fn fail(&mut self, payment: PaymentId, reason: &str, release: bool, now: WallMs) {
        if !self.step(payment, PaymentFact::Declined) {
            return;
        }
        self.close_watch(PAYMENT_UNRESOLVED, &payment.to_string());
        let Some(failed) = self.payments.get_mut(&payment) else { return };
        failed.view.failure = Some(reason.to_owned());
        failed.release_due = release;
        failed.released |= release;
        let reservation = failed.view.reservation;
        let payload = json!({
            "payment": payment, "reservation": reservation, "reason": reason, "released": release,
        });
        self.write_fact(outbox::PAYMENT_FAILED, payment, payload, now);
    }
}
