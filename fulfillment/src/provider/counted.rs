//! A provider whose answers are counted: the waiting room lets nobody in while too many of them are errors.

use super::{Intent, IntentRequest, Provider, ProviderError, ProviderRefund, RefundRequest};
use crate::metrics::Metrics;
use domain::ids::PaymentId;

/// Passes everything on.
#[derive(Clone)]
pub(crate) struct Counted<P> {
    provider: P,
    metrics: Metrics,
}

impl<P> Counted<P> {
    pub(crate) fn new(provider: P, metrics: Metrics) -> Self {
        Self { provider, metrics }
    }

    /// A refusal is an answer: the card is at fault, not the provider.
    fn count<T>(&self, answer: Result<T, ProviderError>) -> Result<T, ProviderError> {
        self.metrics.provider_answered(matches!(answer, Ok(_) | Err(ProviderError::Refused { .. })));
        answer
    }
}

impl<P: Provider> Provider for Counted<P> {
    async fn create_intent(&self, request: &IntentRequest) -> Result<Intent, ProviderError> {
        self.count(self.provider.create_intent(request).await)
    }

    async fn intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        self.count(self.provider.intent(reference).await)
    }

    async fn find_intent(&self, payment: PaymentId) -> Result<Option<Intent>, ProviderError> {
        self.count(self.provider.find_intent(payment).await)
    }

    async fn cancel_intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        self.count(self.provider.cancel_intent(reference).await)
    }

    async fn create_refund(&self, request: &RefundRequest) -> Result<ProviderRefund, ProviderError> {
        self.count(self.provider.create_refund(request).await)
    }

    async fn refund(&self, reference: &str) -> Result<ProviderRefund, ProviderError> {
        self.count(self.provider.refund(reference).await)
    }
}
