//! The provider as a worker sees it that does not live to hear the answer.

use domain::ids::PaymentId;
use fulfillment::provider::{Intent, IntentRequest, Provider, ProviderError, ProviderRefund, RefundRequest};
use std::sync::Arc;
use tokio::sync::Notify;

/// Passes everything on; but the answer to a refund never reaches who asked for it.
#[derive(Clone)]
pub struct LosesRefundAnswers<P> {
    inner: P,
    answered: Arc<Notify>,
}

impl<P: Provider> LosesRefundAnswers<P> {
    pub fn new(inner: P) -> Self {
        Self { inner, answered: Arc::default() }
    }

    /// Until the provider has carried a refund out and answered.
    pub async fn answered(&self) {
        self.answered.notified().await;
    }
}

impl<P: Provider> Provider for LosesRefundAnswers<P> {
    async fn create_intent(&self, request: &IntentRequest) -> Result<Intent, ProviderError> {
        self.inner.create_intent(request).await
    }

    async fn intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        self.inner.intent(reference).await
    }

    async fn find_intent(&self, payment: PaymentId) -> Result<Option<Intent>, ProviderError> {
        self.inner.find_intent(payment).await
    }

    async fn cancel_intent(&self, reference: &str) -> Result<Intent, ProviderError> {
        self.inner.cancel_intent(reference).await
    }

    async fn create_refund(&self, request: &RefundRequest) -> Result<ProviderRefund, ProviderError> {
        self.inner.create_refund(request).await?;
        self.answered.notify_one();
        std::future::pending().await
    }

    async fn refund(&self, reference: &str) -> Result<ProviderRefund, ProviderError> {
        self.inner.refund(reference).await
    }
}
