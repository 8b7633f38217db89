//! Reading a request: JSON bodies and queries, with errors that name the field. An object must be written as an object.

use crate::error::HttpError;
use crate::plain::plain;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use futures::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

/// A body of `application/json` that is a `T` and nothing besides.
#[derive(Debug)]
pub struct Parsed<T>(pub T);

impl<T: DeserializeOwned + Serialize, S: Send + Sync> FromRequest<S> for Parsed<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, state: &S) -> Result<Self, HttpError> {
        if !is_json(request.headers()) {
            return Err(HttpError::unsupported_media_type());
        }
        let Raw(bytes) = Raw::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// The body as it came.
#[derive(Debug)]
pub struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = HttpError;

    async fn from_request(request: Request, _: &S) -> Result<Self, HttpError> {
        let limit = request.extensions().get::<BodyLimit>().map_or(0, |limit| limit.0);
        let mut read = Vec::new();
        let mut passed_over = 0_usize;
        let mut body = request.into_body().into_data_stream();
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|_| {
                HttpError::new(StatusCode::BAD_REQUEST, "BODY_UNREADABLE", "The body broke off before its end.")
            })?;
            if read.len() + chunk.len() <= limit && passed_over == 0 {
                read.extend_from_slice(&chunk);
                continue;
            }
            // Most clients read an answer only once they have sent everything: what is a little too large is received
            // and thrown away, so that they learn why.
            passed_over += chunk.len();
            if passed_over > DRAINED {
                break;
            }
        }
        if passed_over > 0 { Err(HttpError::too_large(limit)) } else { Ok(Self(Bytes::from(read))) }
    }
}

/// How much of a body that is too large is received all the same.
const DRAINED: usize = 4 * 1024 * 1024;

/// How much of a body this plane reads; put on every request.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit(pub usize);

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn parse<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, HttpError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            Category::Data => {
                let (why, named) = plain(&inner.to_string());
                let path = path.trim_matches(['.', '?']);
                // A field that is missing, or there twice, is not on the path: its object is.
                let field = match named {
                    Some(name) if path.is_empty() => name,
                    Some(name) => format!("{path}.{name}"),
                    None => path.to_owned(),
                };
                HttpError::invalid_field(&field, why)
            }
            Category::Syntax | Category::Eof | Category::Io => HttpError::broken_json(inner),
        }
    })?;
    reader.end().map_err(HttpError::broken_json)?;
    let written: Value = serde_json::from_slice(bytes).map_err(HttpError::broken_json)?;
    let meant = serde_json::to_value(&value).expect("wire types always serialize");
    match listed("", &written, &meant) {
        Some(path) => Err(HttpError::invalid_field(&path, "this must be an object, and is a list")),
        None => Ok(value),
    }
}

/// Where a list stands for an object: to serde the values of a struct, in order and without their names, are the struct.
fn listed(path: &str, written: &Value, meant: &Value) -> Option<String> {
    match (written, meant) {
        (Value::Array(_), Value::Object(_)) => Some(path.to_owned()),
        (Value::Array(written), Value::Array(meant)) => {
            let mut each = written.iter().zip(meant).enumerate();
            each.find_map(|(index, (written, meant))| listed(&format!("{path}[{index}]"), written, meant))
        }
        (Value::Object(written), Value::Object(meant)) => meant.iter().find_map(|(name, meant)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            listed(&path, written.get(name)?, meant)
        }),
        _ => None,
    }
}

/// The query of the address as a `T`; unknown names are refused by `T` itself.
#[derive(Debug)]
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpError> {
        Query::<T>::try_from_uri(&parts.uri).map(|Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            // The parser puts the field before what is wrong with it, or within.
            let why = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, why)| why);
            let (field, why) = match why.split_once(": ") {
                Some((field, why)) if !field.contains(' ') => (field, why),
                _ => (why.split('`').nth(1).unwrap_or_default(), why),
            };
            let message = format!("The query of the address: {field}: {}.", plain(why).0);
            HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_QUERY", message).with("field", field)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::reservation::ReserveRequest;

    fn refused(body: &str) -> serde_json::Value {
        let error = parse::<ReserveRequest>(body.as_bytes()).expect_err("it was accepted");
        serde_json::json!({"status": error.status.as_u16(), "code": error.code(), "text": format!("{error:?}")})
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("", 400, "INVALID_JSON"),
            ("{", 400, "INVALID_JSON"),
            (r#"{"event_id":1,"seats":[]} x"#, 400, "INVALID_JSON"),
            ("[]", 422, "INVALID_FIELD"),
            (r#"{"seats":[]}"#, 422, "event_id"),
            (r#"{"event_id":"1"}"#, 422, "event_id"),
            (r#"{"event_id":-1}"#, 422, "event_id"),
            (r#"{"event_id":1.5}"#, 422, "event_id"),
            (r#"{"event_id":1,"setas":[]}"#, 422, "setas"),
            (r#"{"event_id":1,"seats":[{"section":"A","row":1,"seat":"1"}]}"#, 422, "seats[0].row"),
            (r#"{"event_id":1,"seats":[{"section":"A","row":"1","seat":"1","price":0}]}"#, 422, "seats[0].price"),
            (r#"{"event_id":1,"event_id":2}"#, 422, "event_id"),
            (r#"[1,[],[]]"#, 422, "INVALID_FIELD"),
            (r#"{"event_id":1,"seats":[{"section":"A","row":"1","seat":"1"},["A","1","2"]]}"#, 422, "seats[1]"),
            (r#"{"event_id":1,"places":[["Floor",2]]}"#, 422, "places[0]"),
        ];
        for (body, status, named) in cases {
            let error = refused(body);
            assert_eq!(error["status"], status, "{body}: {error}");
            let text = error["text"].as_str().unwrap_or_default();
            assert!(text.contains(named), "{body}: {error}");
            assert!(!text.contains("u32") && !text.contains("struct") && !text.contains("invalid type"), "{error}");
        }
    }

    #[test]
    fn a_missing_field_is_the_field() {
        let field = |body: &str| {
            let error = parse::<ReserveRequest>(body.as_bytes()).expect_err("it was accepted");
            format!("{error:?}").contains("\"field\": String(\"seats[0].row\")")
        };
        assert!(field(r#"{"event_id":1,"seats":[{"section":"A","seat":"1"}]}"#));
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        assert_eq!(refused(&format!("{{\"event_id\":1,\"x\":{}", "[".repeat(10_000)))["status"], 422);
    }
}
