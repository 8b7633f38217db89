//! A small client of Stripe's wire contract: form-encoded requests, `Idempotency-Key`, JSON answers.

use super::{Intent, IntentRequest, Provider, ProviderError, ProviderRefund, RefundRequest};
use domain::ids::PaymentId;
use domain::order::webhook::{ProviderFact, fact_of_intent, fact_of_refund};
use reqwest::RequestBuilder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Where the provider is and how to speak to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StripeConfig {
    /// Such as `https://api.stripe.com`; a simulator or a mock otherwise.
    pub base_url: String,
    /// The secret key.
    pub api_key: String,
    /// Sent as `Stripe-Version`, so that an upgrade of the account changes nothing here.
    pub api_version: String,
    /// How long an answer may take; after that it is unknown.
    pub timeout_ms: u64,
}

impl Default for StripeConfig {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1:7600".into(),
            api_key: "sk_test_encore".into(),
            api_version: "2025-03-31.basil".into(),
            timeout_ms: 8_000,
        }
    }
}

/// The client; clones share its connections.
#[derive(Clone, Debug)]
pub struct Stripe {
    config: StripeConfig,
    http: reqwest::Client,
}

impl Stripe {
    /// A client of this provider. Nothing is connected yet.
    pub fn new(config: StripeConfig) -> Result<Self, ProviderError> {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_millis(config.timeout_ms))
            .connect_timeout(Duration::from_secs(2))
            .build()
            .map_err(|error| ProviderError::Unexpected(error.to_string()))?;
        Ok(Self { config, http })
    }

    fn post(&self, path: &str, key: &str, form: &[(&str, String)]) -> RequestBuilder {
        let url = format!("{}{path}", self.config.base_url);
        self.http.post(url).header("Idempotency-Key", key).form(form)
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.config.base_url))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Value, ProviderError> {
        let request = request.bearer_auth(&self.config.api_key).header("Stripe-Version", &self.config.api_version);
        let answer = request.send().await.map_err(transport)?;
        let status = answer.status();
        match status.as_u16() {
            // The same key is at work right now: what it does is not known yet.
            409 => return Err(ProviderError::TimedOut),
            // Our own key or our haste, not the fan's card: nothing is decided by it.
            code @ (401 | 403 | 429 | 500..) => return Err(ProviderError::Failed(code)),
            _ => {}
        }
        let body: Value = answer.json().await.map_err(transport)?;
        if status.is_success() {
            return Ok(body);
        }
        let error = &body["error"];
        let word = |field: &str| error[field].as_str().map(str::to_owned);
        Err(ProviderError::Refused {
            code: word("decline_code").or_else(|| word("code")).or_else(|| word("type")).unwrap_or_default(),
            message: word("message").unwrap_or_default(),
            intent: intent(&error["payment_intent"]).ok().map(Box::new),
        })
    }
}

fn transport(error: reqwest::Error) -> ProviderError {
    if error.is_connect() {
        ProviderError::Unreachable(error.to_string())
    } else if error.is_decode() {
        ProviderError::Unexpected(error.to_string())
    } else {
        // Whatever happened after the request may have been sent leaves open what it did.
        ProviderError::TimedOut
    }
}

fn intent(body: &Value) -> Result<Intent, ProviderError> {
    let fact = fact_of_intent(body).map_err(|error| ProviderError::Unexpected(error.to_string()))?;
    let text = |field: &str| body[field].as_str().map(str::to_owned);
    Ok(Intent {
        reference: text("id").unwrap_or_default(),
        client_secret: text("client_secret"),
        status: text("status").unwrap_or_default(),
        fact,
    })
}

fn refund(body: &Value) -> Result<ProviderRefund, ProviderError> {
    match fact_of_refund(body) {
        Ok(ProviderFact::Refund { refund_reference, report, .. }) => {
            Ok(ProviderRefund { reference: refund_reference, report })
        }
        Ok(_) => Err(ProviderError::Unexpected("not a refund".into())),
        Err(error) => Err(ProviderError::Unexpected(error.to_string())),
    }
}

impl Provider for Stripe {
    async fn create_intent(&self, request: &IntentRequest) -> Result<Intent, ProviderError> {
        let payment = request.payment.to_string();
        let mut form = vec![
            ("amount", request.amount.0.to_string()),
            ("currency", request.currency.code().to_ascii_lowercase()),
            ("payment_method_types[]", request.method.clone()),
            ("metadata[payment_id]", payment.clone()),
        ];
        if let Some(token) = &request.token {
            form.push(("payment_method", token.clone()));
            form.push(("confirm", "true".into()));
        }
        intent(&self.send(self.post("/v1/payment_intents", &payment, &form)).await?)
    }

    async fn intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        intent(&self.send(self.get(&format!("/v1/payment_intents/{reference}"))).await?)
    }

    async fn find_intent(&self, payment: PaymentId) -> Result<Option<Intent>, ProviderError> {
        // `metadata["payment_id"]:"…"`, percent-encoded; a payment id needs no encoding.
        let query = format!("metadata%5B%22payment_id%22%5D%3A%22{payment}%22");
        let found = self.send(self.get(&format!("/v1/payment_intents/search?limit=1&query={query}"))).await?;
        found["data"].get(0).map(intent).transpose()
    }

    async fn cancel_intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        let path = format!("/v1/payment_intents/{reference}/cancel");
        intent(&self.send(self.post(&path, &format!("{reference}-cancel"), &[])).await?)
    }

    async fn create_refund(&self, request: &RefundRequest) -> Result<ProviderRefund, ProviderError> {
        let form = [
            ("payment_intent", request.reference.clone()),
            ("amount", request.amount.0.to_string()),
            ("metadata[refund_id]", request.refund.to_string()),
        ];
        refund(&self.send(self.post("/v1/refunds", &request.key, &form)).await?)
    }

    async fn refund(&self, reference: &str) -> Result<ProviderRefund, ProviderError> {
        refund(&self.send(self.get(&format!("/v1/refunds/{reference}"))).await?)
    }
}
