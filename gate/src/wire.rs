//! The gate's JSON: what scanners and the organiser send and get. Refusals are `{"error", "message", …}` like everywhere.

use crate::ledger::{Admission, Entry, EventStatus, ImportError, LedgerError};
use crate::manifest::OpenError;
use crate::scan::Refusal;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::ticket_code::{BadCode, CodeRefused};
use domain::time::WallMs;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

/// `POST /scan`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanRequest {
    /// What the camera read.
    pub code: String,
    /// Which gate asks.
    pub gate: String,
}

/// `GET /scans` and `GET /conflicts`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// The last sequence number that the caller has.
    #[serde(default)]
    pub since: u64,
    /// At most this many rows.
    #[serde(default = "page_rows")]
    pub limit: u32,
}

fn page_rows() -> u32 {
    1_000
}

/// A refusal that a person understands and a program can tell by its code.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    body: Value,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, body: json!({"error": code, "message": message.into()}) }
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body[field] = value.into();
        self
    }

    /// The label under which it is counted.
    pub(crate) fn code(&self) -> String {
        self.body["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Says outright that nobody comes in, so that a scanner need not know every code.
    pub(crate) fn not_admitted(self) -> Self {
        self.with("admitted", false)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        let message = format!("Do not admit: {error}.");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "LEDGER_UNAVAILABLE", message)
    }
}

impl From<BadCode> for Problem {
    fn from(error: BadCode) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "CODE_MALFORMED", sentence(&error.to_string()))
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        let (status, code) = match error {
            OpenError::Signature => (StatusCode::FORBIDDEN, "MANIFEST_NOT_AUTHENTIC"),
            OpenError::Format | OpenError::Sealed | OpenError::Content(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "MANIFEST_UNREADABLE")
            }
        };
        Self::new(status, code, sentence(&error.to_string()))
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            ImportError::Expired => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "MANIFEST_EXPIRED", message),
            ImportError::Older { current, .. } => {
                Self::new(StatusCode::CONFLICT, "MANIFEST_OLDER", message).with("sequence", current)
            }
            ImportError::Conflict(sequence) => {
                Self::new(StatusCode::CONFLICT, "MANIFEST_CONFLICT", message).with("sequence", sequence)
            }
            ImportError::Ledger(error) => error.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let problem = match refusal {
            Refusal::Unknown => {
                Self::new(StatusCode::NOT_FOUND, "TICKET_UNKNOWN", "No ticket of this venue has this code.")
            }
            Refusal::ManifestExpired => Self::new(
                StatusCode::CONFLICT,
                "MANIFEST_EXPIRED",
                "The list of tickets has expired; import a fresh one before anybody is admitted.",
            ),
            Refusal::Code(CodeRefused::Forged) => {
                Self::new(StatusCode::FORBIDDEN, "CODE_INVALID", sentence(&CodeRefused::Forged.to_string()))
            }
            Refusal::Code(CodeRefused::WrongTime) => {
                Self::new(StatusCode::FORBIDDEN, "CODE_EXPIRED", sentence(&CodeRefused::WrongTime.to_string()))
            }
            Refusal::Revoked => Self::new(StatusCode::GONE, "TICKET_REVOKED", "This ticket was refunded or withdrawn."),
            Refusal::AlreadyUsed(used) => {
                let message = format!("Already used, at gate {}, at {}.", used.gate, rfc3339(used.at));
                Self::new(StatusCode::CONFLICT, "ALREADY_USED", message)
                    .with("gate", used.gate)
                    .with("at", rfc3339(used.at))
                    .with("at_ms", used.at.0)
            }
        };
        problem.not_admitted()
    }
}

pub(crate) fn admission(of: &Admission) -> Value {
    json!({
        "admitted": true, "ticket": of.ticket, "seat": of.label, "title": of.title, "gate": of.gate,
        "at": rfc3339(of.at), "at_ms": of.at.0,
    })
}

pub(crate) fn entry(of: &Entry) -> Value {
    let mut row = json!({
        "sequence": of.sequence, "ticket": of.ticket, "event_id": of.event, "gate": of.gate,
        "at": rfc3339(of.at), "at_ms": of.at.0,
    });
    if let Some(kind) = &of.kind {
        row["kind"] = kind.as_str().into();
    }
    row
}

pub(crate) fn event_status(of: &EventStatus, now: WallMs) -> Value {
    json!({
        "event_id": of.event, "title": of.title, "sequence": of.sequence, "expires_at": rfc3339(of.expires_at),
        "expired": of.expires_at <= now, "tickets": of.tickets, "revoked": of.revoked, "admitted": of.admitted,
    })
}

/// For people, always with milliseconds; a clock past the year 9999 is shown as its number.
fn rfc3339(at: WallMs) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let nanos = i128::from(at.0) * 1_000_000;
    let date = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok().and_then(|date| date.format(format).ok());
    date.unwrap_or_else(|| at.0.to_string())
}

/// An error's text as a sentence.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| format!("{}{}.", first.to_uppercase(), rest.as_str())).unwrap_or_default()
}
