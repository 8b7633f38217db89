//! What the simulator knows: intents, refunds, answers bound to keys, and events that are not delivered yet.

use super::journal::{Journal, Line};
use super::now_ms;
use super::trouble::Trouble;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A payment intent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    pub id: String,
    pub amount: i64,
    pub currency: String,
    pub status: String,
    pub received: i64,
    pub refunded: i64,
    pub client_secret: String,
    pub error: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub created: u64,
    pub trouble: Trouble,
    /// When a late one is charged.
    pub charge_at: Option<u64>,
}

/// A refund.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Refund {
    pub id: String,
    pub intent: String,
    pub amount: i64,
    pub currency: String,
    pub status: String,
    pub metadata: BTreeMap<String, String>,
    pub created: u64,
}

/// The answer that an idempotency key is bound to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub key: String,
    pub request: String,
    pub status: u16,
    pub body: Value,
}

/// An event to be delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Event {
    pub id: String,
    pub body: String,
    pub due: u64,
    pub tries: u32,
    /// Sent so many times at once.
    pub copies: u32,
    /// Signed with a secret that is not ours, and never sent again.
    pub forged: bool,
}

/// Everything, with the file that remembers it.
#[derive(Debug)]
pub(super) struct Books {
    pub intents: BTreeMap<String, Intent>,
    pub refunds: BTreeMap<String, Refund>,
    pub answers: BTreeMap<String, Answered>,
    pub events: BTreeMap<String, Event>,
    /// How often a key was answered 500 by an unavailable card.
    pub failures: BTreeMap<String, u32>,
    journal: Journal,
}

impl Books {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let (mut intents, mut refunds) = (BTreeMap::new(), BTreeMap::new());
        let (mut answers, mut events) = (BTreeMap::new(), BTreeMap::new());
        let journal = Journal::open(path, |line| match line {
            Line::Intent(intent) => drop(intents.insert(intent.id.clone(), intent)),
            Line::Refund(refund) => drop(refunds.insert(refund.id.clone(), refund)),
            Line::Answered(answer) => drop(answers.insert(answer.key.clone(), answer)),
            Line::Event(event) => drop(events.insert(event.id.clone(), event)),
            Line::Delivered(id) => drop(events.remove(&id)),
        })?;
        Ok(Self { intents, refunds, answers, events, failures: BTreeMap::new(), journal })
    }

    pub(super) fn fresh_id(prefix: &str) -> String {
        format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
    }

    pub(super) fn keep_intent(&mut self, intent: Intent) {
        self.journal.write(&Line::Intent(intent.clone()));
        self.intents.insert(intent.id.clone(), intent);
    }

    pub(super) fn keep_refund(&mut self, refund: Refund) {
        self.journal.write(&Line::Refund(refund.clone()));
        self.refunds.insert(refund.id.clone(), refund);
    }

    pub(super) fn keep_answer(&mut self, answer: Answered) {
        self.journal.write(&Line::Answered(answer.clone()));
        self.answers.insert(answer.key.clone(), answer);
    }

    pub(super) fn delivered(&mut self, id: &str) {
        if self.events.remove(id).is_some() {
            self.journal.write(&Line::Delivered(id.to_owned()));
        }
    }

    /// Queue an event about `object`.
    pub(super) fn announce(&mut self, kind: &str, object: &Value, delay_ms: u64, trouble: Trouble) {
        if trouble == Trouble::Never {
            return;
        }
        let (id, now) = (Self::fresh_id("evt"), now_ms());
        let body = json!({
            "id": id, "object": "event", "type": kind, "created": now / 1000, "livemode": false,
            "data": {"object": object},
        });
        let copies = if trouble == Trouble::Duplicate { 8 } else { 1 };
        let forged = trouble == Trouble::Forged;
        let event = Event { id: id.clone(), body: body.to_string(), due: now + delay_ms, tries: 0, copies, forged };
        self.journal.write(&Line::Event(event.clone()));
        self.events.insert(id, event);
    }

    /// The card is charged now.
    pub(super) fn charge(&mut self, id: &str, delay_ms: u64) {
        let Some(mut intent) = self.intents.get(id).cloned() else { return };
        if !matches!(intent.status.as_str(), "requires_payment_method" | "processing") {
            return;
        }
        intent.status = "succeeded".into();
        intent.error = None;
        intent.charge_at = None;
        intent.received = intent.amount;
        if intent.trouble == Trouble::WrongAmount {
            intent.received -= intent.amount.min(100);
        }
        let object = intent_json(&intent);
        let trouble = intent.trouble;
        self.keep_intent(intent);
        self.announce("payment_intent.succeeded", &object, delay_ms, trouble);
        if trouble == Trouble::OutOfOrder {
            self.announce("payment_intent.processing", &object, delay_ms + 400, trouble);
        }
    }

    /// The card is declined now.
    pub(super) fn decline(&mut self, id: &str, reason: &str, delay_ms: u64) {
        let Some(mut intent) = self.intents.get(id).cloned() else { return };
        if !matches!(intent.status.as_str(), "requires_payment_method" | "processing") {
            return;
        }
        intent.status = "requires_payment_method".into();
        intent.error = Some(reason.to_owned());
        intent.charge_at = None;
        let (object, trouble) = (intent_json(&intent), intent.trouble);
        self.keep_intent(intent);
        self.announce("payment_intent.payment_failed", &object, delay_ms, trouble);
    }

    /// A refund has ended; the charge's sum changes with a success.
    pub(super) fn finish_refund(&mut self, id: &str, status: &str, delay_ms: u64) -> bool {
        let Some(mut refund) = self.refunds.get(id).cloned().filter(|refund| refund.status == "pending") else {
            return false;
        };
        refund.status = status.to_owned();
        let Some(mut intent) = self.intents.get(&refund.intent).cloned() else { return false };
        if status == "failed" {
            intent.refunded -= refund.amount;
        }
        let trouble = if intent.trouble == Trouble::Duplicate { Trouble::Duplicate } else { Trouble::Smooth };
        let (object, charge) = (refund_json(&refund), charge_json(&intent));
        self.keep_refund(refund);
        self.keep_intent(intent);
        self.announce("refund.updated", &object, delay_ms, trouble);
        if status == "succeeded" {
            self.announce("charge.refunded", &charge, delay_ms, trouble);
        }
        true
    }
}

/// An intent as Stripe shows it.
pub(super) fn intent_json(intent: &Intent) -> Value {
    let error = intent.error.as_ref().map(|reason| {
        json!({"type": "card_error", "code": "card_declined", "decline_code": reason,
            "message": "Your card was declined."})
    });
    json!({
        "id": intent.id, "object": "payment_intent", "amount": intent.amount, "amount_received": intent.received,
        "currency": intent.currency, "status": intent.status, "client_secret": intent.client_secret,
        "last_payment_error": error, "metadata": intent.metadata, "created": intent.created / 1000,
        "livemode": false,
    })
}

/// A refund as Stripe shows it.
pub(super) fn refund_json(refund: &Refund) -> Value {
    json!({
        "id": refund.id, "object": "refund", "amount": refund.amount, "currency": refund.currency,
        "payment_intent": refund.intent, "status": refund.status, "metadata": refund.metadata,
        "created": refund.created / 1000,
    })
}

/// The charge of an intent as Stripe shows it in `charge.refunded`.
fn charge_json(intent: &Intent) -> Value {
    json!({
        "id": intent.id.replacen("pi_", "ch_", 1), "object": "charge", "amount": intent.received,
        "amount_refunded": intent.refunded, "refunded": intent.refunded == intent.received,
        "currency": intent.currency, "payment_intent": intent.id, "metadata": intent.metadata,
    })
}
