//! Lets the pages of configured origins call, and tells every cache to keep nothing.
//!
//! No cookie is involved: whoever calls must show a token of their own, so an origin is no proof of anything.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Origins that may call; `*` for any.
pub(crate) type Origins = Arc<[String]>;

/// Answer preflights, and mark answers that the asking origin may read.
pub(crate) async fn cors(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed =
        origin.filter(|origin| origins.iter().any(|known| known == "*" || known.as_bytes() == origin.as_bytes()));
    let preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
        if preflight {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT"));
            let asked = HeaderValue::from_static("authorization, content-type");
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
    }
    response
}
