//! The HTTP planes: parse, call, answer. No rule about seats or money is decided here.
//!
//! [`serve`] runs the planes of one process, [`serve_admin`] the operators' listener. Everything a request may say or be
//! answered is in [`wire`]; every error has the one shape of [`wire::problem::Problem`].

mod auth;
mod body;
mod cart;
mod catalogue;
mod config;
mod error;
mod fresh;
mod handlers;
mod holds;
mod http_cache;
mod idempotency;
mod limiter;
mod live;
mod metrics;
mod middleware;
mod plain;
mod planes;
mod ports;
mod pricing_hint;
mod readiness;
mod refusal;
mod render;
mod router;
mod server;
mod suggest;
#[cfg(test)]
mod tests;
pub mod wire;

pub use config::Config;
pub use planes::{Admin, Browse, Buy, Planes, Webhook};
pub use ports::{Books, FromLedger, FromStore, LeaseBook, LeasesDown, Store};

use axum::Router;
use metrics::Metrics;
use middleware::{Bounds, Origins, bounded};
use std::time::Duration;
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A listener that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A setting that cannot be used.
    #[error("the setting {setting} cannot be used: {why}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Serves these planes until `shutdown`, then lets requests finish for a while. `/healthz`, `/readyz` and `/metrics` of
/// `operations` are on the same listener; readiness follows the store and the ledger.
pub async fn serve(
    config: Config,
    planes: Planes,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), ApiError> {
    check(&config)?;
    let metrics = Metrics::new(&operations, "api");
    let router = public_router(&config, &planes, &operations, &metrics, &shutdown);
    let watch = readiness::watch(planes, operations.clone(), shutdown.clone());
    operations.set_ready("start");
    tokio::join!(server::serve(router, &config, &metrics, listener, shutdown.clone()), watch);
    Ok(())
}

/// Serves `/admin/…` until `shutdown`. Bind it where only operators reach it; every request needs an operator's token
/// besides.
pub async fn serve_admin(
    config: Config,
    admin: Admin,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), ApiError> {
    check(&config)?;
    let metrics = Metrics::new(&operations, "admin");
    let router = admin_router(&config, &admin, &operations, &metrics);
    operations.set_ready("start");
    server::serve(router, &config, &metrics, listener, shutdown).await;
    Ok(())
}

fn public_router(
    config: &Config,
    planes: &Planes,
    operations: &Operations,
    metrics: &Metrics,
    shutdown: &CancellationToken,
) -> Router {
    let bounds = |plane, max_body| Bounds {
        plane,
        max_body,
        timeout: Duration::from_millis(config.request_timeout_ms),
        origins: Origins::new(&config.allowed_origins),
    };
    let mut router = Router::new();
    // The pages answer whatever no plane does, so that the browse plane comes last.
    if let Some(plane) = &planes.webhook {
        router =
            router.merge(bounded(router::webhook(plane), bounds("webhook", config.max_webhook_bytes), metrics.clone()));
    }
    if let Some(plane) = &planes.buy {
        router = router.merge(bounded(
            router::buy(plane, config, metrics),
            bounds("buy", config.max_body_bytes),
            metrics.clone(),
        ));
    }
    let common = router::common().merge(operations.router());
    router = router.merge(bounded(common, bounds("common", config.max_body_bytes), metrics.clone()));
    match &planes.browse {
        Some(plane) => {
            let browse = router::browse(plane, config, metrics, shutdown.clone());
            router.merge(bounded(browse, bounds("browse", config.max_body_bytes), metrics.clone()))
        }
        None => router.merge(bounded(
            Router::new().fallback(middleware::no_such_address),
            bounds("other", config.max_body_bytes),
            metrics.clone(),
        )),
    }
}

fn admin_router(config: &Config, admin: &Admin, operations: &Operations, metrics: &Metrics) -> Router {
    let bounds = Bounds {
        plane: "admin",
        max_body: config.max_webhook_bytes,
        timeout: Duration::from_millis(config.request_timeout_ms),
        origins: Origins::new(&config.allowed_origins),
    };
    let router = router::admin(admin, config).merge(operations.router()).fallback(middleware::no_such_address);
    bounded(router, bounds, metrics.clone())
}

fn check(config: &Config) -> Result<(), ApiError> {
    let named = [("public.queue", &config.public.queue), ("public.buy", &config.public.buy)];
    for (setting, origin) in named {
        if !origin.is_empty() && !handlers::pages::is_origin(origin) {
            let why = format!("{origin:?} is not an origin such as http://127.0.0.1:7001");
            return Err(ApiError::Setting { setting, why });
        }
    }
    Ok(())
}
