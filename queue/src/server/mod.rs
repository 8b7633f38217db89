//! The waiting room over HTTP and WebSocket.

mod admin;
mod answer;
mod auth;
mod cors;
mod error;
mod handlers;
mod socket;

use crate::admitter::Dials;
use crate::metrics::Metrics;
use crate::pass_issuer::PassIssuer;
use crate::redis::RedisStore;
use crate::rooms::Rooms;
use crate::token::Verifier;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use admin::router as admin_router;

/// What every handler needs.
pub(crate) struct Context {
    pub(crate) store: RedisStore,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) fans: Verifier,
    pub(crate) issuer: PassIssuer,
    pub(crate) metrics: Metrics,
    pub(crate) dials: Arc<Dials>,
    pub(crate) push_every: Duration,
    /// Open sockets, waited for when the process stops.
    pub(crate) sockets: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

/// The fans' routes.
pub(crate) fn router(context: Arc<Context>, allowed_origins: &[String], operations: Router) -> Router {
    let origins: cors::Origins = allowed_origins.into();
    Router::new()
        .route("/api/v1/events/{id}/queue/join", get(handlers::join).post(handlers::join))
        .route("/api/v1/events/{id}/queue/status", get(handlers::status))
        .route("/api/v1/events/{id}/queue/ws", get(handlers::websocket))
        .with_state(context)
        .merge(operations)
        .fallback(handlers::not_found)
        .method_not_allowed_fallback(handlers::wrong_method)
        .layer(DefaultBodyLimit::max(1_024))
        .layer(from_fn_with_state(origins, cors::cors))
}
