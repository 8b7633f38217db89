//! The provider's webhooks: signature over the raw body, and the facts in an event.
//!
//! Stripe's scheme: `Stripe-Signature: t=<seconds>,v1=<hex HMAC-SHA256 of "t.body">`, several `v1` and several active
//! secrets so that secrets can be rotated. Nothing is read from a body before its signature holds.

use super::refund::RefundReport;
use crate::ids::{PaymentId, RefundId};
use crate::money::{Currency, Minor};
use crate::time::WallMs;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How far the signed timestamp may lie from ours.
pub const TOLERANCE_S: u64 = 300;
/// Longest body that is looked at.
pub const BODY_LEN: usize = 256 * 1024;
/// Longest signature header that is looked at.
pub const HEADER_LEN: usize = 2_048;

/// Why a webhook is not the provider's. None of them says more than a forger may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No header, or not of the form `t=…,v1=…`.
    #[error("the signature header is missing or malformed")]
    Malformed,
    /// Header or body is longer than any real one.
    #[error("the signature header or the body is too long")]
    TooLong,
    /// Signed too long ago, or in the future.
    #[error("the signature's timestamp is more than {TOLERANCE_S} s away")]
    OutsideTolerance,
    /// No active secret made it.
    #[error("no active secret made this signature")]
    Forged,
}

/// The header value for `body` at `timestamp_s`.
pub fn sign(secret: &[u8], timestamp_s: u64, body: &[u8]) -> String {
    format!("t={timestamp_s},v1={}", hex::encode(mac(secret, &timestamp_s.to_string(), body)))
}

/// Whether one of `secrets` signed exactly these bytes within the tolerance around `now`.
/// Every secret is tried against every signature, so that the time taken tells nothing about which fits.
pub fn verify<S: AsRef<[u8]>>(header: &str, body: &[u8], secrets: &[S], now: WallMs) -> Result<(), SignatureError> {
    if header.len() > HEADER_LEN || body.len() > BODY_LEN {
        return Err(SignatureError::TooLong);
    }
    let mut timestamp = None;
    let mut signatures = Vec::new();
    for item in header.split(',') {
        match item.trim().split_once('=') {
            Some(("t", text)) if timestamp.is_none() => timestamp = Some(text),
            Some(("t", _)) | None => return Err(SignatureError::Malformed),
            Some(("v1", text)) => signatures.extend(hex::decode(text).ok().filter(|bytes| bytes.len() == 32)),
            Some(_) => {}
        }
    }
    // The MAC covers the text as sent; reading it as a number must not accept two texts for one moment.
    let text = timestamp.ok_or(SignatureError::Malformed)?;
    let seconds: u64 = text.parse().map_err(|_| SignatureError::Malformed)?;
    if signatures.is_empty() {
        return Err(SignatureError::Malformed);
    }
    let mut genuine = subtle::Choice::from(0);
    for secret in secrets {
        let expected = mac(secret.as_ref(), text, body);
        for signature in &signatures {
            genuine |= expected.as_slice().ct_eq(signature.as_slice());
        }
    }
    if !bool::from(genuine) {
        return Err(SignatureError::Forged);
    }
    if (now.0 / 1000).abs_diff(seconds) > TOLERANCE_S {
        return Err(SignatureError::OutsideTolerance);
    }
    Ok(())
}

fn mac(secret: &[u8], timestamp: &str, body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.finalize().into_bytes().into()
}

/// What the provider says happened. References are the provider's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderFact {
    /// Money was taken.
    Captured {
        /// The payment intent.
        reference: String,
        /// What was taken.
        amount: Minor,
        /// In this currency.
        currency: Currency,
        /// The payment it says it is for.
        payment: Option<PaymentId>,
    },
    /// Declined or cancelled: nothing was taken.
    Declined {
        /// The payment intent.
        reference: String,
        /// The provider's word for the reason.
        reason: String,
        /// The payment it says it is for.
        payment: Option<PaymentId>,
    },
    /// Neither outcome yet.
    Processing {
        /// The payment intent.
        reference: String,
    },
    /// How much of a payment has been given back by now, in all.
    RefundedInAll {
        /// The payment intent.
        reference: String,
        /// The sum so far.
        total: Minor,
        /// In this currency.
        currency: Currency,
    },
    /// One refund's state.
    Refund {
        /// The payment intent.
        reference: String,
        /// The provider's id of the refund.
        refund_reference: String,
        /// Ours, if it carries one.
        refund: Option<RefundId>,
        /// What became of it.
        report: RefundReport,
        /// How much.
        amount: Minor,
        /// In this currency.
        currency: Currency,
    },
    /// Nothing that concerns money.
    Other,
}

impl ProviderFact {
    /// The payment intent it is about.
    pub fn reference(&self) -> Option<&str> {
        match self {
            Self::Captured { reference, .. }
            | Self::Declined { reference, .. }
            | Self::Processing { reference }
            | Self::RefundedInAll { reference, .. }
            | Self::Refund { reference, .. } => Some(reference),
            Self::Other => None,
        }
    }
}

/// One verified event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id of the event: delivered again under the same id.
    pub id: String,
    /// Its type, such as `payment_intent.succeeded`.
    pub kind: String,
    /// When the provider made it.
    pub created: WallMs,
    /// Digest of what it says, without what changes from one delivery to the next.
    pub fingerprint: String,
    /// What it means here.
    pub fact: ProviderFact,
}

/// A body that is signed but not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an event: {0}")]
pub struct NotAnEvent(pub String);

/// Read a verified body.
pub fn parse(body: &[u8]) -> Result<ProviderEvent, NotAnEvent> {
    let event: Value = serde_json::from_slice(body).map_err(|error| NotAnEvent(error.to_string()))?;
    let id = text(&event, "id")?;
    let kind = text(&event, "type")?;
    if id.len() > 255 || kind.len() > 255 {
        return Err(NotAnEvent("its id or type is too long".into()));
    }
    let created = event.get("created").and_then(Value::as_u64).ok_or_else(|| NotAnEvent("no created".into()))?;
    let data = event.get("data").ok_or_else(|| NotAnEvent("no data".into()))?;
    let object = data.get("object").ok_or_else(|| NotAnEvent("no data.object".into()))?;
    let fact = match kind.as_str() {
        "charge.refunded" => ProviderFact::RefundedInAll {
            reference: text(object, "payment_intent")?,
            total: amount(object, "amount_refunded")?,
            currency: currency(object)?,
        },
        kind if kind.starts_with("payment_intent.") => intent(object, kind)?,
        kind if kind.starts_with("refund.") || kind == "charge.refund.updated" => refund(object)?,
        _ => ProviderFact::Other,
    };
    let mut content = Sha256::new();
    content.update(kind.as_bytes());
    content.update(created.to_be_bytes());
    digest(&mut content, data);
    let fingerprint = hex::encode(content.finalize());
    Ok(ProviderEvent { id, kind, created: WallMs(created.saturating_mul(1000)), fingerprint, fact })
}

/// The fact in the answer to our own authenticated query for a payment intent.
pub fn fact_of_intent(intent_json: &Value) -> Result<ProviderFact, NotAnEvent> {
    let kind = match text(intent_json, "status")?.as_str() {
        "succeeded" => "payment_intent.succeeded",
        "canceled" => "payment_intent.canceled",
        "requires_payment_method" if intent_json.get("last_payment_error").is_some_and(|error| !error.is_null()) => {
            "payment_intent.payment_failed"
        }
        _ => "payment_intent.processing",
    };
    intent(intent_json, kind)
}

/// The fact in the answer to our own authenticated query for a refund.
pub fn fact_of_refund(refund_json: &Value) -> Result<ProviderFact, NotAnEvent> {
    refund(refund_json)
}

fn intent(object: &Value, kind: &str) -> Result<ProviderFact, NotAnEvent> {
    let reference = text(object, "id")?;
    let payment = metadata(object, "payment_id").and_then(|id| id.parse().ok());
    Ok(match kind {
        "payment_intent.succeeded" => ProviderFact::Captured {
            reference,
            amount: amount(object, "amount_received")?,
            currency: currency(object)?,
            payment,
        },
        "payment_intent.payment_failed" | "payment_intent.canceled" => {
            let error = object.get("last_payment_error");
            let word = |field| error.and_then(|error| error.get(field)).and_then(Value::as_str);
            let fallback = if kind.ends_with("canceled") { "canceled" } else { "declined" };
            let reason = word("decline_code").or_else(|| word("code")).unwrap_or(fallback);
            ProviderFact::Declined {
                reference,
                reason: reason.chars().filter(|c| !c.is_control()).take(80).collect(),
                payment,
            }
        }
        _ => ProviderFact::Processing { reference },
    })
}

fn refund(object: &Value) -> Result<ProviderFact, NotAnEvent> {
    let report = match text(object, "status")?.as_str() {
        "succeeded" => RefundReport::Succeeded,
        "failed" | "canceled" => RefundReport::Failed,
        _ => RefundReport::Pending,
    };
    Ok(ProviderFact::Refund {
        reference: text(object, "payment_intent")?,
        refund_reference: text(object, "id")?,
        refund: metadata(object, "refund_id").and_then(|id| id.parse().ok()),
        report,
        amount: amount(object, "amount")?,
        currency: currency(object)?,
    })
}

fn text(object: &Value, field: &str) -> Result<String, NotAnEvent> {
    let found = object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let found = found.ok_or_else(|| NotAnEvent(format!("no {field}")))?;
    // Identifiers have none, and a ledger cannot store every one of them.
    if found.chars().any(char::is_control) {
        return Err(NotAnEvent(format!("its {field} contains control characters")));
    }
    Ok(found.to_owned())
}

fn metadata<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get("metadata")?.get(field)?.as_str()
}

fn amount(object: &Value, field: &str) -> Result<Minor, NotAnEvent> {
    let found = object.get(field).and_then(Value::as_i64).filter(|amount| *amount >= 0);
    found.map(Minor).ok_or_else(|| NotAnEvent(format!("no {field} in minor units")))
}

fn currency(object: &Value) -> Result<Currency, NotAnEvent> {
    text(object, "currency")?.parse().map_err(|_| NotAnEvent("currency is not one".into()))
}

/// Digest of a JSON value that does not depend on the order of its keys.
fn digest(content: &mut Sha256, value: &Value) {
    match value {
        Value::Array(items) => {
            content.update(format!("[{}", items.len()));
            items.iter().for_each(|item| digest(content, item));
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            content.update(format!("{{{}", sorted.len()));
            for (name, field) in sorted {
                content.update(format!("{}:{name}", name.len()));
                digest(content, field);
            }
        }
        Value::String(text) => content.update(format!("\"{}:{text}", text.len())),
        Value::Number(_) | Value::Bool(_) | Value::Null => content.update(format!("={value};")),
    }
}

#[cfg(test)]
mod tests;
