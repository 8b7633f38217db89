//! The payment provider's webhooks, made by hand: signed by Stripe's scheme as its documentation gives it, so that our
//! own signer is not its own witness.

use crate::{Answer, read};
use anyhow::Result;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The header `Stripe-Signature` for this body.
pub fn signature(secret: &str, at: u64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{at}.{body}").as_bytes());
    format!("t={at},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// `payment_intent.succeeded`.
pub fn succeeded(event: &str, intent: &str, amount: i64, currency: &str, payment: &str) -> Value {
    json!({
        "id": event, "object": "event", "type": "payment_intent.succeeded", "created": now_s(), "livemode": false,
        "data": {"object": {
            "id": intent, "object": "payment_intent", "amount": amount, "amount_received": amount,
            "currency": currency, "status": "succeeded", "metadata": {"payment_id": payment},
        }},
    })
}

/// Deliver a body with this signature to the webhook plane.
pub async fn deliver(http: &reqwest::Client, webhook: &str, body: &str, signature: &str) -> Result<Answer> {
    let url = format!("{webhook}/api/v1/webhooks/payments/stripe");
    let request = http.post(url).header("Stripe-Signature", signature).header("Content-Type", "application/json");
    read(request.body(body.to_owned()).send().await?).await
}
