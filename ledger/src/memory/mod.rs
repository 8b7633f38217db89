//! The memory twin of the ledger, for simulation: the same promises, kept by one lock. No clock, no randomness, no I/O,
//! so that a run is replayed by its seed.

mod cancellations;
mod effects;
mod money;
mod payments;
mod reads;
mod recoveries;
mod settlement;
mod wallets;

use crate::cancellations::Cancellation;
use crate::catalogue::Publication;
use crate::notices::{Incident, Notice};
use crate::outbox::{OutboxMessage, consumers_of};
use crate::payments::{PaymentView, SeatLine};
use crate::tickets::Ticket;
use domain::ids::{BookingId, EventId, IdempotencyKey, PaymentId, RefundId, SeatRef, TicketId, UserId};
use domain::money::{Currency, Minor};
use domain::order::refund::{RefundReason, RefundState};
use domain::time::WallMs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A ledger in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held is a failed test; what it guards is still the only ledger there is.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct State {
    payments: BTreeMap<PaymentId, Payment>,
    /// Fingerprint and arrival of each event of the provider.
    webhooks: BTreeMap<String, (String, WallMs)>,
    /// True for PAID, false for REFUND; the first one stands.
    outcomes: BTreeMap<PaymentId, bool>,
    bookings: BTreeMap<BookingId, Booked>,
    tickets: BTreeMap<TicketId, Ticket>,
    devices: BTreeMap<TicketId, BTreeMap<String, wallets::Device>>,
    refunds: BTreeMap<RefundId, Refund>,
    cancellations: BTreeMap<EventId, Cancellation>,
    outbox: BTreeMap<u64, Fact>,
    facts: u64,
    deliveries: BTreeSet<(String, u64)>,
    /// What each consumer handled, and when.
    inbox: BTreeMap<(String, u64), WallMs>,
    notices: Vec<Message>,
    incidents: Vec<(Incident, bool)>,
    catalogue: BTreeMap<EventId, Publication>,
    /// By incarnation, from what.
    recoveries: BTreeMap<u16, [u8; 32]>,
}

#[derive(Clone, Debug)]
struct Payment {
    view: PaymentView,
    email: Option<String>,
    key: String,
    fingerprint: String,
    method: String,
    token: Option<String>,
    lines: Vec<SeatLine>,
    retry_declined: bool,
    captured: Option<(Minor, Currency)>,
    tries: u32,
    due_at: WallMs,
    release_due: bool,
    /// Its reservation went with it, or is about to: a fact that stays.
    released: bool,
    lost_since: Option<WallMs>,
}

#[derive(Clone, Debug)]
struct Booked {
    payment: PaymentId,
    seats: BTreeMap<SeatRef, (SeatLine, bool)>,
    created_at: WallMs,
}

#[derive(Clone, Debug)]
struct Refund {
    payment: PaymentId,
    sequence: u32,
    amount: Minor,
    currency: Currency,
    reason: RefundReason,
    state: RefundState,
    reference: Option<String>,
    seats: Option<Vec<SeatRef>>,
    return_due: bool,
    tries: u32,
    due_at: WallMs,
    created_at: WallMs,
    /// By whom it was asked for, under which key, and the digest of the request.
    request: Option<(UserId, IdempotencyKey, String)>,
}

#[derive(Clone, Debug)]
struct Fact {
    message: OutboxMessage,
    published_at: Option<WallMs>,
}

#[derive(Clone, Debug)]
struct Message {
    notice: Notice,
    dedupe: String,
    state: MessageState,
    due_at: WallMs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageState {
    Pending,
    Sent,
    Dead,
}

impl State {
    fn write_fact(&mut self, topic: &str, key: PaymentId, payload: Value, now: WallMs) {
        self.facts += 1;
        let id = self.facts;
        let message = OutboxMessage { id, topic: topic.into(), key: key.to_string(), payload, created_at: now };
        self.outbox.insert(id, Fact { message, published_at: None });
    }

    fn publish(&mut self, max: usize, now: WallMs) -> u32 {
        let mut published = 0;
        for fact in self.outbox.values_mut().filter(|fact| fact.published_at.is_none()).take(max) {
            for consumer in consumers_of(&fact.message.topic) {
                self.deliveries.insert(((*consumer).to_owned(), fact.message.id));
            }
            fact.published_at = Some(now);
            published += 1;
        }
        published
    }

    /// Take a message off a consumer's queue; whether it is the first time.
    fn consume(&mut self, consumer: &str, message: u64, now: WallMs) -> bool {
        self.deliveries.remove(&(consumer.to_owned(), message));
        self.remember(consumer, message, now)
    }

    /// Remember that a consumer handles a message; false if it did before.
    fn remember(&mut self, consumer: &str, message: u64, now: WallMs) -> bool {
        let key = (consumer.to_owned(), message);
        let fresh = !self.inbox.contains_key(&key);
        self.inbox.entry(key).or_insert(now);
        fresh
    }

    fn raise(&mut self, kind: &str, subject: &str, detail: Value, opens: WallMs) {
        let same = |(incident, open): &(Incident, bool)| *open && incident.kind == kind && incident.subject == subject;
        if !self.incidents.iter().any(same) {
            let id = self.incidents.len() as u64 + 1;
            let incident = Incident { id, kind: kind.into(), subject: subject.into(), detail, opened_at: opens };
            self.incidents.push((incident, true));
        }
    }

    fn tell(&mut self, dedupe: String, notice: Notice, now: WallMs) {
        if !self.notices.iter().any(|message| message.dedupe == dedupe) {
            let notice = Notice { id: self.notices.len() as u64 + 1, ..notice };
            self.notices.push(Message { notice, dedupe, state: MessageState::Pending, due_at: now });
        }
    }
}
