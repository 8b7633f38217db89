//! What every request meets before its handler: an id, a span, metrics, a bound in time and size, CORS, and JSON also for
//! what no handler answers.

use crate::body::BodyLimit;
use crate::error::{Code, HttpError};
use crate::metrics::Metrics;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is taken over from a client.
const REQUEST_ID_LEN: usize = 64;

/// The bounds of one plane.
pub struct Bounds {
    /// Its name, for metrics and spans.
    pub plane: &'static str,
    /// Largest body.
    pub max_body: usize,
    /// Longest request.
    pub timeout: Duration,
    /// Origins whose pages may call it.
    pub origins: Origins,
}

/// Put the bounds around a plane.
pub fn bounded(router: Router, bounds: Bounds, metrics: Metrics) -> Router {
    let Bounds { plane, max_body, timeout, origins } = bounds;
    let origins = Arc::new(origins);
    router
        .method_not_allowed_fallback(|| async { HttpError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(max_body))
        .layer(Extension(BodyLimit(max_body)))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(move |request, next| in_time(timeout, request, next)))
        .layer(from_fn(move |request, next| cross_origin(origins.clone(), request, next)))
        .layer(from_fn(move |request, next| observed(plane, metrics.clone(), request, next)))
}

/// Without `fallback`, an address that nothing answers.
pub async fn no_such_address() -> HttpError {
    HttpError::no_such_address()
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("without a text"), "a handler panicked");
    HttpError::internal().into_response()
}

/// The bound is on the time to the head of the answer: a stream may then go on.
async fn in_time(timeout: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => HttpError::timed_out().into_response(),
    }
}

async fn observed(plane: &'static str, metrics: Metrics, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    // Templates and known methods only: what clients make up must not become a label.
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let method = method_word(request.method());
    let span = tracing::info_span!("request", plane, method, route, request_id = id.to_str().unwrap_or_default());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let started = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let took = started.elapsed();
    let status = response.status();
    metrics.answered(plane, method, &route, status.as_u16(), took);
    let code = response.extensions().get::<Code>().map(|code| code.0.clone());
    if let Some(code) = &code {
        metrics.refused(code);
    }
    span.in_scope(|| {
        let (status, took_ms) = (status.as_u16(), took.as_millis() as u64);
        if status >= 500 {
            tracing::warn!(status, code, took_ms, "answered");
        } else {
            tracing::debug!(status, code, took_ms, "answered");
        }
    });
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        (1..=REQUEST_ID_LEN).contains(&value.len())
            && value.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    };
    headers
        .get(REQUEST_ID)
        .filter(plain)
        .cloned()
        .unwrap_or_else(|| HeaderValue::from_str(&uuid::Uuid::now_v7().to_string()).expect("a UUID is plain ASCII"))
}

fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Origins whose pages may call a plane. Tokens travel in a header, never in a cookie, so that no credentials mode is
/// needed.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    any: bool,
    known: Vec<String>,
}

impl Origins {
    /// From the configuration; `*` allows every origin.
    pub fn new(allowed: &[String]) -> Self {
        let any = allowed.iter().any(|origin| origin == "*");
        Self { any, known: allowed.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect() }
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        self.any || origin.to_str().is_ok_and(|origin| self.known.iter().any(|known| known == origin))
    }
}

async fn cross_origin(origins: Arc<Origins>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).filter(|origin| origins.allows(origin)).cloned();
    let asks_first =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (asks_first, &origin) {
        (true, Some(_)) => preflight(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = "retry-after, x-request-id, x-seat-count, x-seat-order, x-seat-version, etag";
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
    }
    response
}

fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, x-queue-token, x-request-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers, Body::empty()).into_response()
}
