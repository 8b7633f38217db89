//! The payment provider, as far as fulfilment needs it: Stripe's wire contract, and a simulator that speaks the same
//! subset. Amounts are in minor units of their currency, which for some (JPY) are the units themselves.

pub(crate) mod counted;
pub mod simulator;
pub mod stripe;

use domain::ids::{PaymentId, RefundId};
use domain::money::{Currency, Minor};
use domain::order::refund::RefundReport;
use domain::order::webhook::ProviderFact;
use std::future::Future;

/// A payment to be opened. The payment id is the idempotency key: asked twice, it is one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRequest {
    /// Our payment.
    pub payment: PaymentId,
    /// What to charge.
    pub amount: Minor,
    /// Of `amount`.
    pub currency: Currency,
    /// Such as `card`.
    pub method: String,
    /// Present: confirm at once with this card.
    pub token: Option<String>,
}

/// A payment at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The provider's id.
    pub reference: String,
    /// What the browser needs to confirm it.
    pub client_secret: Option<String>,
    /// The provider's word for where it stands.
    pub status: String,
    /// What that means here.
    pub fact: ProviderFact,
}

/// Money to be given back. Its key is its own, never the payment's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundRequest {
    /// Our refund.
    pub refund: RefundId,
    /// The key under which it is one, however often it is asked for.
    pub key: String,
    /// The provider's id of the payment.
    pub reference: String,
    /// How much.
    pub amount: Minor,
}

/// A refund at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRefund {
    /// The provider's id.
    pub reference: String,
    /// Where it stands.
    pub report: RefundReport,
}

/// Why the provider gave no proper answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It may have done what was asked.
    #[error("the provider did not answer in time")]
    TimedOut,
    /// It was not reached.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// It failed (5xx), or did not let us in (a wrong key, too many requests).
    #[error("the provider failed with {0}")]
    Failed(u16),
    /// It refused; it may nevertheless have a payment intent now, which failed.
    #[error("the provider refused: {code}: {message}")]
    Refused {
        /// Its code.
        code: String,
        /// For people.
        message: String,
        /// The intent, if it made one.
        intent: Option<Box<Intent>>,
    },
    /// It said something that cannot be read.
    #[error("the provider answered something unexpected: {0}")]
    Unexpected(String),
}

/// A payment provider; cheap to clone.
pub trait Provider: Clone + Send + Sync + 'static {
    /// Open a payment, or find it again by its key.
    fn create_intent(&self, request: &IntentRequest) -> impl Future<Output = Result<Intent, ProviderError>> + Send;

    /// Our authenticated query for one intent.
    fn intent(&self, reference: &str) -> impl Future<Output = Result<Intent, ProviderError>> + Send;

    /// The same by our payment id, for when an answer was lost.
    fn find_intent(&self, payment: PaymentId) -> impl Future<Output = Result<Option<Intent>, ProviderError>> + Send;

    /// Give an intent up that nobody confirmed.
    fn cancel_intent(&self, reference: &str) -> impl Future<Output = Result<Intent, ProviderError>> + Send;

    /// Give money back, or find the refund again by its key.
    fn create_refund(
        &self,
        request: &RefundRequest,
    ) -> impl Future<Output = Result<ProviderRefund, ProviderError>> + Send;

    /// Our authenticated query for one refund.
    fn refund(&self, reference: &str) -> impl Future<Output = Result<ProviderRefund, ProviderError>> + Send;
}
