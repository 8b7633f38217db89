//! The description of everything that fans and providers may ask, made from the handlers themselves.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;
use utoipa::openapi::info::InfoBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

/// The description of these routes.
pub fn described<S: Clone + Send + Sync + 'static>(title: &str, routes: OpenApiRouter<S>) -> OpenApi {
    let mut document = routes.into_openapi();
    document.info = InfoBuilder::new()
        .title(title)
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Numbered seats, sold in a flash sale. Errors are `{\"error\": \"CODE\", \"message\": \"…\"}` with the right \
             status; 429 and 503 say with Retry-After when to come back. Mutations need an `Idempotency-Key`, holds also \
             the waiting room's `X-Queue-Token`. Amounts are integers in minor units.",
        ))
        .build();
    let bearer =
        || SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("fan", bearer());
    components.add_security_scheme("operator", bearer());
    document
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "browse",
    responses((status = 200, description = "This document, in OpenAPI 3.1", content_type = "application/json"))
)]
pub async fn openapi_json() -> Response {
    document(crate::router::public_document())
}

/// The operators' document.
#[utoipa::path(
    get, path = "/admin/openapi.json", tag = "admin",
    responses((status = 200, description = "This document, in OpenAPI 3.1", content_type = "application/json"))
)]
pub async fn admin_json() -> Response {
    document(crate::router::admin_document())
}

fn document(document: &OpenApi) -> Response {
    let cache = HeaderValue::from_static("public, max-age=60");
    ([(header::CACHE_CONTROL, cache)], Json(document)).into_response()
}
