//! The gate over HTTP: `POST /manifests`, `POST /scan`, `GET /scans`, `GET /conflicts`, `GET /status`.
//!
//! A manifest proves itself by its signature, a scan by its code; so neither needs a login, and the service belongs on the
//! venue's own network. Whatever fails answers with a refusal: the gate fails closed.

use crate::desk::Desk;
use crate::ledger::{Ledger, LedgerError};
use crate::manifest::{BadKey, GateKey, MANIFEST_BYTES};
use crate::wire::{self, Page, Problem, ScanRequest};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::ticket_code::TicketCode;
use domain::time::WallMs;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A scan is a code and a gate's name.
const SCAN_BYTES: usize = 4 << 10;
/// Characters of a gate's name.
const GATE_LEN: usize = 64;
/// Rows of one page of entries.
const PAGE_ROWS: u32 = 10_000;

/// What time it is. Passed in, so that a test can say so.
pub type Clock = Arc<dyn Fn() -> WallMs + Send + Sync>;

/// How a gate is set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The SQLite file that all gates of the venue share.
    pub database: PathBuf,
    /// What opens manifests: `gate1.…`, from the organiser.
    pub manifest_key: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { database: PathBuf::from("gate.sqlite"), manifest_key: String::new() }
    }
}

/// Why a gate does not run.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The configured key.
    #[error("manifest_key: {0}")]
    Key(#[from] BadKey),
    /// The ledger's file.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Thread or socket.
    #[error("the gate cannot serve: {0}")]
    Io(#[from] std::io::Error),
}

/// The machine's wall clock.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    })
}

/// Serve until `shutdown`.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), GateError> {
    serve_with_clock(config, listener, operations, shutdown, system_clock()).await
}

/// [`serve`] with a clock of the caller's.
pub async fn serve_with_clock(
    config: Config,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
    clock: Clock,
) -> Result<(), GateError> {
    let key: GateKey = config.manifest_key.parse()?;
    let ledger = Ledger::open(&config.database, key.clone())?;
    let results = Family::<Vec<(&'static str, String)>, Counter>::default();
    operations.registry().register("gate_requests", "Scans and manifests by what came of them", results.clone());
    let gate = Gate { desk: Desk::start(ledger)?, key, clock, operations: operations.clone(), results };
    let app = router(gate).merge(operations.router());
    operations.set_ready("start");
    tracing::info!(address = ?listener.local_addr().ok(), database = %config.database.display(), "gate open");
    axum::serve(listener, app).with_graceful_shutdown(shutdown.cancelled_owned()).await?;
    Ok(())
}

#[derive(Clone)]
struct Gate {
    desk: Desk,
    key: GateKey,
    clock: Clock,
    operations: Operations,
    results: Family<Vec<(&'static str, String)>, Counter>,
}

fn router(gate: Gate) -> Router {
    Router::new()
        .route("/scan", post(scan).layer(DefaultBodyLimit::max(SCAN_BYTES)))
        .route("/manifests", post(import).layer(DefaultBodyLimit::max(MANIFEST_BYTES)))
        .route("/scans", get(scans))
        .route("/conflicts", get(conflicts))
        .route("/status", get(status))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", "The gate has nothing at this address.")
        })
        .method_not_allowed_fallback(|| async {
            let message = "This address does not answer this method.";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        })
        .with_state(gate)
}

async fn scan(State(gate): State<Gate>, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, Problem> {
    let answer = gate.scan(body).await.map_err(Problem::not_admitted);
    gate.count("scan", &answer);
    answer
}

async fn import(State(gate): State<Gate>, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, Problem> {
    let answer = gate.import(body).await;
    gate.count("manifest", &answer);
    answer
}

async fn scans(State(gate): State<Gate>, RawQuery(query): RawQuery) -> Result<Json<Value>, Problem> {
    let page = page(query)?;
    let rows = gate.watch(gate.desk.ask(move |ledger| ledger.scans(page.since, page.limit)).await)?;
    let next = rows.last().map_or(page.since, |row| row.sequence);
    Ok(Json(json!({"scans": rows.iter().map(wire::entry).collect::<Vec<_>>(), "next": next})))
}

async fn conflicts(State(gate): State<Gate>, RawQuery(query): RawQuery) -> Result<Json<Value>, Problem> {
    let page = page(query)?;
    let rows = gate.watch(gate.desk.ask(move |ledger| ledger.conflicts(page.since, page.limit)).await)?;
    let next = rows.last().map_or(page.since, |row| row.sequence);
    Ok(Json(json!({"conflicts": rows.iter().map(wire::entry).collect::<Vec<_>>(), "next": next})))
}

async fn status(State(gate): State<Gate>) -> Result<Json<Value>, Problem> {
    let events = gate.watch(gate.desk.ask(|ledger| ledger.status()).await)?;
    let now = (gate.clock)();
    Ok(Json(json!({"events": events.iter().map(|event| wire::event_status(event, now)).collect::<Vec<_>>()})))
}

impl Gate {
    async fn scan(&self, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, Problem> {
        let body = bytes(body)?;
        let expected = |why: String| {
            Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", format!("A code and a gate are expected: {why}."))
        };
        // To serde an array of the values would do as well.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(expected("this is a list and not an object".to_owned()));
        }
        let request: ScanRequest = serde_json::from_slice(&body).map_err(|error| expected(error.to_string()))?;
        let name = request.gate.trim().to_owned();
        if name.is_empty() || name.chars().count() > GATE_LEN || name.chars().any(char::is_control) {
            let message = format!("The gate's name is one line of 1 to {GATE_LEN} characters.");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "BAD_GATE", message));
        }
        let code: TicketCode = request.code.trim().parse()?;
        let clock = Arc::clone(&self.clock);
        // The clock is read on the ledger's thread: waiting in line must not make a code older or newer than it is.
        let judged = self.desk.ask(move |ledger| ledger.scan(&code, &name, clock())).await;
        Ok(Json(wire::admission(&self.watch(judged)??)))
    }

    async fn import(&self, body: Result<Bytes, BytesRejection>) -> Result<Json<Value>, Problem> {
        let (file, key) = (bytes(body)?, self.key.clone());
        let opened = tokio::task::spawn_blocking(move || key.open(&file)).await;
        let manifest = opened.map_err(|error| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "INTERNAL",
                format!("The manifest was not opened: {error}."),
            )
        })??;
        let clock = Arc::clone(&self.clock);
        let imported = self.desk.ask(move |ledger| ledger.import(&manifest, clock())).await?;
        tracing::info!(event = %imported.event, sequence = imported.sequence, tickets = imported.tickets, "manifest");
        Ok(Json(json!(imported)))
    }

    /// Readiness follows what the ledger last said.
    fn watch<T>(&self, answer: Result<T, LedgerError>) -> Result<T, LedgerError> {
        match &answer {
            Ok(_) => self.operations.set_ready("ledger"),
            Err(error) => {
                tracing::error!(%error, "the ledger failed; nobody is admitted");
                self.operations.set_unready("ledger", error.to_string());
            }
        }
        answer
    }

    fn count(&self, request: &'static str, answer: &Result<Json<Value>, Problem>) {
        let result = answer.as_ref().err().map_or_else(|| "OK".to_owned(), Problem::code);
        self.results.get_or_create(&vec![("request", request.to_owned()), ("result", result)]).inc();
    }
}

fn bytes(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Problem> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", "The request is larger than can be read.")
        }
        status => Problem::new(status, "BAD_REQUEST", "The request's body was cut off."),
    })
}

fn page(query: Option<String>) -> Result<Page, Problem> {
    let uri = format!("/?{}", query.unwrap_or_default());
    let parsed = uri.parse().ok().and_then(|uri| axum::extract::Query::<Page>::try_from_uri(&uri).ok());
    match parsed {
        Some(page) if (1..=PAGE_ROWS).contains(&page.limit) => Ok(page.0),
        _ => {
            let message = format!("Only `since` and `limit` (1 to {PAGE_ROWS}) are understood, as numbers.");
            Err(Problem::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message))
        }
    }
}
