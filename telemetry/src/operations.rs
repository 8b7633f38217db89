//! The operator's view of one process, shared by everything that runs in it.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Metrics and readiness of one process. Clones share one state.
#[derive(Clone)]
pub struct Operations(Arc<Shared>);

struct Shared {
    process: &'static str,
    registry: Mutex<Registry>,
    unready: Mutex<BTreeMap<&'static str, String>>,
}

impl Operations {
    /// A process of this name, such as `queue`. It is not ready until [`Operations::set_ready`] says so for `start`.
    pub fn new(process: &'static str) -> Self {
        let unready = BTreeMap::from([("start", "starting".to_owned())]);
        Self(Arc::new(Shared {
            process,
            registry: Mutex::new(Registry::with_prefix("encore")),
            unready: Mutex::new(unready),
        }))
    }

    /// Where metrics are registered.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// `part` (for instance `redis`) works.
    pub fn set_ready(&self, part: &'static str) {
        self.unready().remove(part);
    }

    /// `part` does not work; `why` is shown to the operator.
    pub fn set_unready(&self, part: &'static str, why: impl Into<String>) {
        self.unready().insert(part, why.into());
    }

    /// Whether every part works.
    pub fn is_ready(&self) -> bool {
        self.unready().is_empty()
    }

    /// `/healthz`, `/readyz` and `/metrics`.
    pub fn router(&self) -> Router {
        let (ready, metrics) = (self.clone(), self.clone());
        let process = self.0.process;
        Router::new()
            .route(
                "/healthz",
                get(move || async move { axum::Json(serde_json::json!({"process": process, "status": "alive"})) }),
            )
            .route("/readyz", get(move || async move { ready.readiness() }))
            .route("/metrics", get(move || async move { metrics.exposition() }))
    }

    fn unready(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.unready.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn readiness(&self) -> Response {
        let unready = self.unready().clone();
        let (status, word) =
            if unready.is_empty() { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
        let body = serde_json::json!({"process": self.0.process, "status": word, "waiting_for": unready});
        (status, axum::Json(body)).into_response()
    }

    fn exposition(&self) -> Response {
        let mut text = String::new();
        match encode(&mut text, &self.registry()) {
            Ok(()) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                ([(header::CONTENT_TYPE, kind)], text).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn get_path(operations: &Operations, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = operations.router().oneshot(request).await.expect("a router never fails");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing() {
        let operations = Operations::new("queue");
        operations.set_ready("start");
        assert_eq!(get_path(&operations, "/readyz").await.0, StatusCode::OK);
        operations.set_unready("redis", "connection refused");
        let (status, body) = get_path(&operations, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains("connection refused"), "{body}");
        assert_eq!(get_path(&operations, "/healthz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn metrics_end_with_the_end_marker() {
        let operations = Operations::new("queue");
        let (status, body) = get_path(&operations, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(body.ends_with("# EOF\n"), "{body}");
    }
}
