//! Every error that a client can see: its status, its code and its sentence, in one place.
//!
//! Rules kept here: the shape is always [`Problem`]; 503 and 429 always say when to come back; 401 names the scheme;
//! no error is cached; nothing that failed inside is shown outside.

use crate::wire::problem::Problem;
use crate::wire::timestamp;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::time::WallMs;
use ledger::LedgerError;
use raft_store::client::ClientError;
use serde_json::{Map, Value};

/// An answer that is not what was asked for.
#[derive(Clone, Debug)]
pub struct HttpError {
    /// Its status.
    pub status: StatusCode,
    problem: Problem,
    retry_after_s: Option<u64>,
}

/// The code of an error, put on its response for the metrics.
#[derive(Clone, Debug)]
pub struct Code(pub String);

impl HttpError {
    /// An error of this status and code.
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let problem = Problem { error: code.to_owned(), message: message.into(), details: Map::new() };
        Self { status, problem, retry_after_s: None }
    }

    /// The same with one more field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.problem.details.insert(name.to_owned(), value.into());
        self
    }

    /// The same, not final: the same request may succeed later.
    pub fn advisory(self) -> Self {
        self.with("final", false)
    }

    /// The same, with the moment to come back.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self.with("retry_after_seconds", seconds.max(1))
    }

    /// Its code, such as `SEAT_UNAVAILABLE`.
    #[cfg(test)]
    pub fn code(&self) -> &str {
        &self.problem.error
    }

    /// 400: the body is not JSON.
    pub fn broken_json(why: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_JSON", format!("The body is not valid JSON: {why}."))
    }

    /// 422: a field is unknown, missing or has a value that it cannot have.
    pub fn invalid_field(field: &str, why: impl std::fmt::Display) -> Self {
        let message = if field.is_empty() {
            format!("The body is not as it should be: {why}.")
        } else {
            format!("{field}: {why}.")
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_FIELD", message).with("field", field)
    }

    /// 422: a value that names nothing, under a code of its own.
    pub fn invalid_field_as(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// 422: the seats asked for cannot be a cart.
    pub fn invalid_cart(why: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_CART", why)
    }

    /// 401: nobody is known to ask.
    pub fn unauthorized(why: impl std::fmt::Display) -> Self {
        let message = format!("You are not signed in: {why}. Send `Authorization: Bearer` with a valid token.");
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    /// 403: only operators may.
    pub fn operators_only() -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", "Only operators may do this.")
    }

    /// 403: the waiting room did not let this request in.
    pub fn pass_invalid(why: impl std::fmt::Display) -> Self {
        let message = format!("Your turn is not confirmed: {why}. Join the waiting room to get a new pass.");
        Self::new(StatusCode::FORBIDDEN, "QUEUE_TOKEN_INVALID", message)
    }

    /// 404: no such thing, or not yours.
    pub fn not_found(what: &str) -> Self {
        let code = format!("{}_NOT_FOUND", what.to_ascii_uppercase().replace(' ', "_"));
        Self::new(StatusCode::NOT_FOUND, &code, format!("There is no such {what}."))
    }

    /// 404: no such address.
    pub fn no_such_address() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", "There is nothing at this address.")
    }

    /// 405: the address exists, but not for this method.
    pub fn method_not_allowed() -> Self {
        let message = "This address does not take this method.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
    }

    /// 410: the hold ran out.
    pub fn hold_expired(at: WallMs) -> Self {
        let message = "The hold has run out and its seats are on sale again.";
        Self::new(StatusCode::GONE, "HOLD_EXPIRED", message).with("expired_at", timestamp(at))
    }

    /// 413: more than this plane reads.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("The body is larger than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", message).with("limit_bytes", limit)
    }

    /// 415: not JSON, by its own word.
    pub fn unsupported_media_type() -> Self {
        let message = "Send the body as JSON, with `Content-Type: application/json`.";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message)
    }

    /// 429: this user asks too often.
    pub fn too_many_requests(after_s: u64) -> Self {
        let message = "You are asking too often. Wait a moment and try again.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", message).retry_after(after_s)
    }

    /// 503: some part is away; nothing was decided, or it is not known what was.
    pub fn unavailable(code: &str, message: impl Into<String>, after_s: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).advisory().retry_after(after_s)
    }

    /// 503: who is inside cannot be asked, so nobody is let in.
    pub fn waiting_room_down() -> Self {
        let message = "The waiting room cannot be asked just now. Nothing was held; try again in a moment.";
        Self::unavailable("WAITING_ROOM_UNAVAILABLE", message, 2)
    }

    /// 504: this plane's own bound on one request.
    pub fn timed_out() -> Self {
        let message =
            "This took too long, and it is not known whether it was done. Repeat it with the same Idempotency-Key.";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "TIMEOUT", message).advisory().retry_after(1)
    }

    /// 500: our fault.
    pub fn internal() -> Self {
        let message = "Something went wrong on our side. Repeat the request with the same Idempotency-Key.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }
}

impl From<ClientError> for HttpError {
    fn from(error: ClientError) -> Self {
        let after_s = error.retry_after_ms().unwrap_or(1_000).div_ceil(1_000);
        match error {
            ClientError::NoSuchEvent(_) => Self::not_found("event"),
            ClientError::Overloaded { .. } => {
                let message = "More is being asked than can be answered just now. Nothing was decided; try again.";
                Self::unavailable("OVERLOADED", message, after_s)
            }
            ClientError::Timeout => {
                let message = "The answer did not come in time, and it is not known whether it was done. \
                    Repeat the request with the same Idempotency-Key.";
                Self::unavailable("OUTCOME_UNKNOWN", message, after_s)
            }
            ClientError::Unavailable(_) | ClientError::Moved { .. } => {
                let message = "The seats cannot be reached just now. Nothing was decided; try again.";
                Self::unavailable("STORE_UNAVAILABLE", message, after_s)
            }
            ClientError::Invalid(_) | ClientError::Denied(_) | ClientError::Protocol(_) => {
                tracing::error!(%error, "the store and this process do not understand each other");
                Self::internal()
            }
        }
    }
}

impl From<LedgerError> for HttpError {
    fn from(error: LedgerError) -> Self {
        if error.is_unavailable() {
            tracing::warn!(%error, "the ledger did not answer");
            let message =
                "Payments and tickets cannot be reached just now. Repeat the request with the same Idempotency-Key.";
            return Self::unavailable("LEDGER_UNAVAILABLE", message, 2);
        }
        tracing::error!(%error, "the ledger refused");
        Self::internal()
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self.problem)).into_response();
        response.extensions_mut().insert(Code(self.problem.error));
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
