//! Outbox, messages and incidents, in memory.

use super::{Memory, Message, MessageState, State};
use crate::Result;
use crate::notices::{Incident, Notice, Notices, PAYMENT_FAILED, REFUND_ON_ITS_WAY, RETRY_AFTER_S};
use crate::outbox::{self, Backlog, MESSAGES, Outbox, OutboxMessage};
use domain::ids::{PaymentId, UserId};
use domain::limits;
use domain::order::payment::PaymentState;
use domain::order::refund::RefundState;
use domain::order::ticket_id;
use domain::time::WallMs;
use serde_json::Value;
use std::collections::BTreeSet;

impl Outbox for Memory {
    async fn relay(&self, now: WallMs, max: u32) -> Result<u32> {
        Ok(self.state().publish(max as usize, now))
    }

    async fn prune(&self, now: WallMs, max: u32) -> Result<u32> {
        let mut state = self.state();
        let before = |kept: u64| WallMs(now.0.saturating_sub(kept));
        let waiting: BTreeSet<u64> = state.deliveries.iter().map(|(_, id)| *id).collect();
        let published = |fact: &super::Fact| fact.published_at.filter(|_| !waiting.contains(&fact.message.id));
        let facts = oldest(state.outbox.iter(), published, before(limits::OUTBOX_KEPT_MS), max);
        let handled = oldest(state.inbox.iter(), |at| Some(*at), before(limits::INBOX_KEPT_MS), max);
        let webhooks = oldest(state.webhooks.iter(), |(_, at)| Some(*at), before(limits::WEBHOOKS_KEPT_MS), max);
        let count = facts.len() + handled.len() + webhooks.len();
        for id in facts {
            state.outbox.remove(&id);
        }
        for key in handled {
            state.inbox.remove(&key);
        }
        for id in webhooks {
            state.webhooks.remove(&id);
        }
        Ok(count as u32)
    }

    async fn deliveries(&self, consumer: &str, max: u32) -> Result<Vec<OutboxMessage>> {
        let state = self.state();
        let ids = state.deliveries.iter().filter(|(to, _)| to == consumer).take(max as usize);
        Ok(ids.filter_map(|(_, id)| state.fact(*id).cloned()).collect())
    }

    async fn backlog(&self, now: WallMs) -> Result<Backlog> {
        let state = self.state();
        let age =
            |moments: &mut dyn Iterator<Item = WallMs>| moments.min().map_or(0, |since| now.0.saturating_sub(since.0));
        let payments = |wanted| {
            let found = state.payments.values().filter(move |payment| payment.view.state == wanted);
            found.map(|payment| payment.view.created_at)
        };
        let unticketed = state.bookings.iter().filter(|(booking, booked)| {
            let missing = |seat| !state.tickets.contains_key(&ticket_id(**booking, seat));
            booked.seats.iter().any(|(seat, (_, live))| *live && missing(*seat))
        });
        let owed = |refund: &&super::Refund| matches!(refund.state, RefundState::Required | RefundState::Sent);
        Ok(Backlog {
            unpublished_ms: age(&mut state
                .outbox
                .values()
                .filter(|f| f.published_at.is_none())
                .map(|f| f.message.created_at)),
            undelivered_ms: age(&mut state
                .deliveries
                .iter()
                .filter_map(|(_, id)| state.fact(*id).map(|fact| fact.created_at))),
            initializing_ms: age(&mut payments(PaymentState::Initializing)),
            captured_ms: age(&mut payments(PaymentState::Captured)),
            unticketed_ms: age(&mut unticketed.map(|(_, booked)| booked.created_at)),
            refunding_ms: age(&mut state.refunds.values().filter(owed).map(|refund| refund.created_at)),
            dead_letters: state.notices.iter().filter(|message| message.state == MessageState::Dead).count() as u64,
            incidents: state.open_incidents(now).count() as u64,
        })
    }
}

/// Keys of up to `max` entries from before a moment, the oldest first.
fn oldest<'a, K: Ord + Clone + 'a, V: 'a>(
    entries: impl Iterator<Item = (&'a K, &'a V)>,
    moment: impl Fn(&V) -> Option<WallMs>,
    before: WallMs,
    max: u32,
) -> Vec<K> {
    let mut found: Vec<_> =
        entries.filter_map(|(key, value)| Some((moment(value).filter(|at| *at < before)?, key.clone()))).collect();
    found.sort();
    found.into_iter().take(max as usize).map(|(_, key)| key).collect()
}

impl State {
    fn fact(&self, id: u64) -> Option<&OutboxMessage> {
        self.outbox.get(&id).map(|fact| &fact.message)
    }

    fn open_incidents(&self, now: WallMs) -> impl Iterator<Item = &Incident> {
        let open = self.incidents.iter().filter(move |(incident, open)| *open && incident.opened_at <= now);
        open.map(|(incident, _)| incident)
    }

    fn message(&mut self, id: u64) -> Option<&mut Message> {
        self.notices.get_mut(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    fn tell_of(&mut self, message: u64, now: WallMs) {
        let Some(fact) = self.fact(message).cloned() else { return };
        let Ok(id) = fact.key.parse::<PaymentId>() else { return };
        let Some(payment) = self.payments.get(&id) else { return };
        let mut payload = fact.payload;
        payload["event"] = payment.view.reservation.event.0.into();
        let (kind, subject) = match fact.topic.as_str() {
            outbox::PAYMENT_FAILED => (PAYMENT_FAILED, id.to_string()),
            outbox::REFUND_REQUIRED => (REFUND_ON_ITS_WAY, payload["refund"].as_str().unwrap_or_default().to_owned()),
            _ => return,
        };
        let notice = Notice {
            id: 0,
            user: payment.view.user.clone(),
            email: payment.email.clone(),
            kind: kind.into(),
            payload,
            tries: 0,
            created_at: now,
        };
        self.tell(format!("{kind}:{subject}"), notice, now);
    }
}

impl Notices for Memory {
    async fn consume_message(&self, message: u64, now: WallMs) -> Result<()> {
        let mut state = self.state();
        if state.consume(MESSAGES, message, now) {
            state.tell_of(message, now);
        }
        Ok(())
    }

    async fn notices_due(&self, now: WallMs, max: u32) -> Result<Vec<Notice>> {
        let state = self.state();
        let due = |message: &&Message| message.state == MessageState::Pending && message.due_at <= now;
        let mut found: Vec<_> = state.notices.iter().filter(due).collect();
        found.sort_by_key(|message| (message.due_at, message.notice.id));
        Ok(found.into_iter().take(max as usize).map(|message| message.notice.clone()).collect())
    }

    async fn notice_sent(&self, notice: u64, _now: WallMs) -> Result<()> {
        if let Some(message) = self.state().message(notice) {
            message.state = MessageState::Sent;
        }
        Ok(())
    }

    async fn notice_failed(&self, notice: u64, _error: &str, now: WallMs) -> Result<()> {
        if let Some(message) = self.state().message(notice) {
            match RETRY_AFTER_S.get(message.notice.tries as usize) {
                Some(seconds) => message.due_at = WallMs(now.0 + seconds * 1_000),
                None => message.state = MessageState::Dead,
            }
            message.notice.tries += 1;
        }
        Ok(())
    }

    async fn dead_letters(&self) -> Result<Vec<Notice>> {
        let state = self.state();
        let dead = state.notices.iter().filter(|message| message.state == MessageState::Dead);
        Ok(dead.map(|message| message.notice.clone()).collect())
    }

    async fn replay(&self, notice: u64, now: WallMs) -> Result<bool> {
        let mut state = self.state();
        let Some(message) = state.message(notice).filter(|message| message.state == MessageState::Dead) else {
            return Ok(false);
        };
        message.state = MessageState::Pending;
        message.notice.tries = 0;
        message.due_at = now;
        Ok(true)
    }

    async fn notices_of(&self, user: &UserId) -> Result<Vec<Notice>> {
        let state = self.state();
        let of_user = state.notices.iter().rev().filter(|message| message.notice.user == *user);
        Ok(of_user.take(100).map(|message| message.notice.clone()).collect())
    }

    async fn raise(&self, kind: &str, subject: &str, detail: &Value, now: WallMs) -> Result<()> {
        self.state().raise(kind, subject, detail.clone(), now);
        Ok(())
    }

    async fn incidents(&self, now: WallMs) -> Result<Vec<Incident>> {
        Ok(self.state().open_incidents(now).cloned().collect())
    }

    async fn close_incident(&self, incident: u64, _now: WallMs) -> Result<bool> {
        let mut state = self.state();
        let open = state.incidents.iter_mut().find(|(known, open)| known.id == incident && *open);
        Ok(open.map(|(_, open)| *open = false).is_some())
    }
}
