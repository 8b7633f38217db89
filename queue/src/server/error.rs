//! Every refusal of the waiting room over HTTP: a code for programs, a sentence for people, the right status.

use crate::connection::RedisLost;
use crate::rooms::NoSeat;
use crate::token::TokenError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Seconds after which trying again makes sense.
    pub(crate) retry_after: Option<u16>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    fn later(code: &'static str, message: impl Into<String>, seconds: u16) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message) }
    }

    /// Redis did not answer. What exactly happened is for the log, not for the fan.
    pub(crate) fn redis_lost(error: &RedisLost) -> Self {
        tracing::warn!(%error, "the waiting room is unavailable");
        Self::later("QUEUE_UNAVAILABLE", "The waiting room is briefly unavailable. Your place is kept; try again.", 2)
    }

    pub(crate) fn not_loaded() -> Self {
        Self::later("QUEUE_UNAVAILABLE", "The waiting room is starting. Try again in a moment.", 2)
    }

    pub(crate) fn stopping() -> Self {
        Self::later("QUEUE_UNAVAILABLE", "This server is stopping. Try again; another one answers.", 1)
    }

    pub(crate) fn full() -> Self {
        Self::later("QUEUE_FULL", "The waiting room is full. Try again later.", 30)
    }

    pub(crate) fn no_seat(why: NoSeat) -> Self {
        match why {
            NoSeat::ProcessFull => {
                Self::later("QUEUE_FULL", "Too many connections are open. Poll the status instead.", 10)
            }
            NoSeat::FanFull => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_CONNECTIONS",
                "You have too many connections to this waiting room open. Close one.",
            ),
        }
    }

    pub(crate) fn unknown_event(text: &str) -> Self {
        let short: String = text.chars().take(40).collect();
        Self::new(StatusCode::NOT_FOUND, "EVENT_NOT_FOUND", format!("There is no event {short}."))
    }

    pub(crate) fn login_needed() -> Self {
        let message = "Log in first: this needs an Authorization header with a Bearer token.";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    pub(crate) fn bad_token(error: TokenError) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", format!("Log in again: {error}."))
    }

    pub(crate) fn bad_session(error: TokenError) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "SESSION_INVALID", format!("Join the queue again: {error}."))
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    pub(crate) fn body(&self) -> serde_json::Value {
        let mut body = serde_json::json!({ "error": self.code, "message": self.message });
        if let Some(seconds) = self.retry_after {
            body["retry_after_seconds"] = seconds.into();
        }
        body
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
