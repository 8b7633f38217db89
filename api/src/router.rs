//! Which address is answered by which handler, on which plane, with which state.

use crate::auth::Verifies;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::error::HttpError;
use crate::handlers::{
    admin, best_available, blocks, config_json, events, layout, openapi, pages, payments, reservations, seats, stream,
    tickets, waiting_room, webhooks,
};
use crate::limiter::Limiter;
use crate::live::Hub;
use crate::metrics::Metrics;
use crate::planes::{Admin, Browse, Buy, Webhook};
use crate::wire::catalogue::PageConfig;
use axum::Router;
use axum::http::HeaderValue;
use domain::ids::UserId;
use queue::token::Verifier;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What browsing knows.
pub struct BrowseState {
    /// Events, geometry, maps.
    pub catalogue: Arc<Catalogue>,
    /// Viewers.
    pub hub: Hub,
    /// Whether viewers are told of changes.
    pub push: bool,
    /// Where the pages find the other planes.
    pub public: PageConfig,
    /// What the pages may load and whom they may ask.
    pub policy: HeaderValue,
    /// How long a client may use a seat map.
    pub seats_cache: HeaderValue,
}

/// What buying knows: what the plane was given, and what is made from it here.
pub struct BuyState {
    plane: Buy,
    /// Names for ids.
    pub catalogue: Arc<Catalogue>,
    /// How often a user may ask.
    pub limiter: Limiter,
    /// For the time that holds take.
    pub metrics: Metrics,
    /// How long paying waits for the client secret.
    pub client_secret_wait: Duration,
}

impl Deref for BuyState {
    type Target = Buy;

    fn deref(&self) -> &Buy {
        &self.plane
    }
}

impl BuyState {
    /// Count one mutation of this user, or refuse it.
    pub fn limit(&self, user: &UserId) -> Result<(), HttpError> {
        self.limiter.take(user).map_err(HttpError::too_many_requests)
    }
}

impl Verifies for Arc<BuyState> {
    fn verifier(&self) -> &Verifier {
        &self.fans
    }
}

/// What the operators' listener knows: what it was given, and names for ids.
pub struct AdminState {
    plane: Admin,
    /// Names for ids, and the store.
    pub catalogue: Arc<Catalogue>,
}

impl Deref for AdminState {
    type Target = Admin;

    fn deref(&self) -> &Admin {
        &self.plane
    }
}

impl Verifies for Arc<AdminState> {
    fn verifier(&self) -> &Verifier {
        &self.operators
    }
}

fn browse_routes() -> OpenApiRouter<Arc<BrowseState>> {
    OpenApiRouter::new()
        .routes(routes!(events::list))
        .routes(routes!(events::one))
        .routes(routes!(layout::layout))
        .routes(routes!(seats::seats))
        .routes(routes!(stream::stream))
        .routes(routes!(config_json::config_json))
}

fn buy_routes() -> OpenApiRouter<Arc<BuyState>> {
    OpenApiRouter::new()
        .routes(routes!(reservations::reserve))
        .routes(routes!(reservations::read, reservations::cancel))
        .routes(routes!(best_available::best_available))
        .routes(routes!(payments::pay))
        .routes(routes!(payments::status))
        .routes(routes!(tickets::mine))
        .routes(routes!(tickets::one))
        .routes(routes!(tickets::wallet, tickets::remove_device))
}

fn webhook_routes() -> OpenApiRouter<Arc<Webhook>> {
    OpenApiRouter::new().routes(routes!(webhooks::payment_event))
}

fn admin_routes() -> OpenApiRouter<Arc<AdminState>> {
    OpenApiRouter::new()
        .routes(routes!(admin::events))
        .routes(routes!(admin::set_status))
        .routes(routes!(admin::promotion_uses))
        .routes(routes!(admin::cluster))
        .routes(routes!(admin::refund))
        .routes(routes!(blocks::block))
        .routes(routes!(blocks::release))
        .routes(routes!(openapi::admin_json))
}

fn common_routes() -> OpenApiRouter {
    OpenApiRouter::new().routes(routes!(openapi::openapi_json))
}

/// The description of all public planes and of the waiting room, the same wherever it is asked for.
pub fn public_document() -> &'static OpenApi {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(|| {
        let mut document = openapi::described("Encore", browse_routes());
        document.merge(openapi::described("Encore", buy_routes()));
        document.merge(openapi::described("Encore", webhook_routes()));
        document.merge(openapi::described("Encore", common_routes()));
        document.merge(<waiting_room::WaitingRoom as utoipa::OpenApi>::openapi());
        document
    });
    &DOCUMENT
}

/// The description of the operators' listener.
pub fn admin_document() -> &'static OpenApi {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(|| openapi::described("Encore for operators", admin_routes()));
    &DOCUMENT
}

/// Addresses of every plane.
pub fn common() -> Router {
    Router::from(common_routes())
}

/// The browse plane, the pages included.
pub fn browse(plane: &Browse, config: &Config, metrics: &Metrics, shutdown: CancellationToken) -> Router {
    let catalogue = Arc::new(Catalogue::new(plane.store.clone(), config));
    let policy = pages::content_policy(&config.public);
    let state = Arc::new(BrowseState {
        hub: Hub::new(catalogue.clone(), metrics.clone(), config, shutdown),
        catalogue,
        push: config.push,
        public: config.public.clone(),
        policy: HeaderValue::from_str(&policy).expect("origins were checked to be plain"),
        seats_cache: HeaderValue::from_str(&format!("public, max-age={}", config.seats_max_age_s))
            .expect("a number is plain"),
    });
    let pages = Router::new().fallback(pages::page).with_state(state.clone());
    Router::from(browse_routes().with_state(state)).fallback_service(pages)
}

/// The buy plane.
pub fn buy(plane: &Buy, config: &Config, metrics: &Metrics) -> Router {
    let state = Arc::new(BuyState {
        plane: plane.clone(),
        catalogue: Arc::new(Catalogue::new(plane.store.clone(), config)),
        limiter: Limiter::new(config.user_mutations_per_minute),
        metrics: metrics.clone(),
        client_secret_wait: Duration::from_millis(config.client_secret_wait_ms),
    });
    Router::from(buy_routes().with_state(state))
}

/// The webhook plane.
pub fn webhook(plane: &Webhook) -> Router {
    Router::from(webhook_routes().with_state(Arc::new(plane.clone())))
}

/// The operators' listener.
pub fn admin(plane: &Admin, config: &Config) -> Router {
    let catalogue = Arc::new(Catalogue::new(plane.store.clone(), config));
    let state = Arc::new(AdminState { plane: plane.clone(), catalogue });
    Router::from(admin_routes().with_state(state))
}
