//! Repeated requests: the key that makes them one, and the digest that tells a repetition from another request.
//!
//! Nothing is remembered here. The store keeps the answer under the key of a hold, the ledger under that of a payment, so
//! that two processes asked at once give the same answer.

use crate::error::HttpError;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use domain::ids::IdempotencyKey;
use domain::limits;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The header that carries the key.
pub const KEY_HEADER: &str = "idempotency-key";

/// The request's `Idempotency-Key`. As an argument of a handler it refuses a request without one.
#[derive(Clone, Debug)]
pub struct Keyed(pub IdempotencyKey);

impl<S: Send + Sync> FromRequestParts<S> for Keyed {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpError> {
        let value = parts.headers.get(KEY_HEADER).ok_or_else(|| {
            let message = "Send an Idempotency-Key header: a fresh one for each new wish, the same one to repeat it.";
            HttpError::new(StatusCode::BAD_REQUEST, "IDEMPOTENCY_KEY_REQUIRED", message)
        })?;
        value.to_str().ok().and_then(|text| text.parse().ok()).map(Self).ok_or_else(|| {
            let message = format!("The Idempotency-Key must be 1 to {} visible ASCII characters.", limits::KEY_LEN);
            HttpError::new(StatusCode::BAD_REQUEST, "IDEMPOTENCY_KEY_INVALID", message)
        })
    }
}

/// Digest of what was asked: method, path, and the body as this crate understood it, so that white space and the order of
/// fields do not matter.
pub fn fingerprint(method: &Method, path: &str, body: &impl Serialize) -> [u8; 16] {
    let body = serde_json::to_vec(body).expect("wire types always serialize");
    let mut digest = Sha256::new();
    for part in [method.as_str().as_bytes(), path.as_bytes(), &body] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let whole: [u8; 32] = digest.finalize().into();
    whole[..16].try_into().expect("half of a SHA-256 digest is 16 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::reservation::ReserveRequest;

    fn of(path: &str, body: &str) -> [u8; 16] {
        let body: ReserveRequest = serde_json::from_str(body).expect("a request");
        fingerprint(&Method::POST, path, &body)
    }

    #[test]
    fn the_same_wish_has_the_same_digest_however_it_is_written() {
        let a = of("/x", r#"{"event_id":1,"seats":[{"section":"A","row":"1","seat":"2"}]}"#);
        let b = of("/x", r#" {"seats":[{"seat":"2","row":"1","section":"A"}], "event_id":1, "places":[]} "#);
        assert_eq!(a, b);
        assert_ne!(a, of("/y", r#"{"event_id":1,"seats":[{"section":"A","row":"1","seat":"2"}]}"#));
        assert_ne!(a, of("/x", r#"{"event_id":1,"seats":[{"section":"A","row":"1","seat":"3"}]}"#));
    }
}
