//! A provider's word: signature first, then the ledger, then the answer.
//!
//! Rules kept here: nothing unsigned is stored; 2xx only once it is recorded; what is not known yet is answered so that
//! the provider tries again.

use super::At;
use crate::body::Raw;
use crate::error::HttpError;
use crate::planes::Webhook;
use crate::wire::payment::WebhookReceipt;
use crate::wire::problem::Problem;
use crate::wire::wall_now;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use domain::order::webhook::{self, ProviderFact};
use ledger::payments::WebhookOutcome;
use std::sync::Arc;

/// The header of the signature over the raw body.
const SIGNATURE: &str = "stripe-signature";

/// Record what a provider says about money.
#[utoipa::path(
    post, path = "/api/v1/webhooks/payments/{provider}", tag = "webhook",
    request_body(content = String, content_type = "application/json", description = "The provider's event"),
    params(
        ("provider" = String, Path, description = "Such as `stripe`"),
        ("Stripe-Signature" = String, Header, description = "`t=<seconds>,v1=<hex HMAC-SHA256 of \"t.body\">`")
    ),
    responses(
        (status = 200, description = "Recorded, now or before", body = WebhookReceipt),
        (status = 400, description = "SIGNATURE_INVALID, EVENT_INVALID: nothing is stored", body = Problem),
        (status = 404, description = "No such provider", body = Problem),
        (status = 409, description = "EVENT_CONFLICT: the id came before with other content", body = Problem),
        (status = 413, body = Problem),
        (status = 503, description = "PAYMENT_UNKNOWN, LEDGER_UNAVAILABLE: deliver it again", body = Problem)
    )
)]
pub async fn payment_event(
    State(state): State<Arc<Webhook>>,
    At(provider): At<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Json<WebhookReceipt>, HttpError> {
    let secrets = state.secrets.get(&provider).ok_or_else(|| HttpError::not_found("provider"))?;
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    webhook::verify(signature, &body, secrets, wall_now()).map_err(|error| {
        // Logged without the body: whoever sent it may have wanted to fill the log.
        tracing::warn!(%error, provider, "a webhook was not the provider's");
        HttpError::new(StatusCode::BAD_REQUEST, "SIGNATURE_INVALID", format!("Not accepted: {error}."))
    })?;
    let event = webhook::parse(&body).map_err(|error| {
        tracing::warn!(%error, provider, "a signed webhook cannot be read");
        HttpError::new(StatusCode::BAD_REQUEST, "EVENT_INVALID", format!("Signed, but {error}."))
    })?;
    let concerns_money = event.fact != ProviderFact::Other;
    let (id, kind) = (event.id.clone(), event.kind.clone());
    let outcome = state.ledger.record_event(event, wall_now()).await?;
    tracing::info!(provider, event = id, kind, ?outcome, "a webhook was handled");
    let result = match outcome {
        WebhookOutcome::Recorded if concerns_money => "recorded",
        WebhookOutcome::Recorded => "ignored",
        WebhookOutcome::Mismatch => "recorded",
        WebhookOutcome::Duplicate => "duplicate",
        WebhookOutcome::ConflictingDuplicate => {
            let message = "An event of this id was recorded before with other content.";
            return Err(HttpError::new(StatusCode::CONFLICT, "EVENT_CONFLICT", message));
        }
        WebhookOutcome::UnknownReference => {
            let message = "This payment is not known yet. Deliver the event again.";
            return Err(HttpError::unavailable("PAYMENT_UNKNOWN", message, 5));
        }
    };
    Ok(Json(WebhookReceipt { result: result.to_owned() }))
}
