//! Paying for a hold.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /reservations/{id}/payment`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PayRequest {
    /// The kind, such as `card`.
    #[schema(example = "card", max_length = 40)]
    pub payment_method: String,
    /// The provider's token of a payment method. With it the payment is confirmed at once; without it the page confirms
    /// with `client_secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255)]
    pub payment_token: Option<String>,
    /// What the fan was shown: must be the reservation's `total_cents`.
    pub amount_cents: i64,
    /// Must be the reservation's `currency`.
    pub currency: String,
}

/// 202: the payment is under way. Its outcome comes from the provider and is read at `poll_url`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentAccepted {
    /// The payment.
    #[schema(example = "pay_0123456789abcdef0123456789abcdef")]
    pub payment_id: String,
    /// `processing`, or already what became of it.
    pub status: String,
    /// What is paid for.
    pub reservation_id: String,
    /// To confirm at the provider from a page; `null` while the provider has not answered yet.
    pub client_secret: Option<String>,
    /// GET this for the outcome.
    pub poll_url: String,
}

/// `GET /payments/{id}/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaymentStatus {
    /// The payment.
    pub payment_id: String,
    /// What is paid for.
    pub reservation_id: String,
    /// `processing`, `succeeded`, `failed`, `refund_pending` or `refunded`.
    pub status: String,
    /// In minor units.
    pub amount_cents: i64,
    /// ISO 4217.
    pub currency: String,
    /// To confirm at the provider, while that is still possible.
    pub client_secret: Option<String>,
    /// Why it failed or went back, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a provider's webhook is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookReceipt {
    /// `recorded`, `duplicate` or `ignored`.
    pub result: String,
}
