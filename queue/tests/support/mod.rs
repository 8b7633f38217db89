//! A private Redis, a store that the test controls, and the waiting room between them, each stopped by its own handle.

#![allow(dead_code, missing_docs, reason = "each test file uses its part of this")]

use domain::ids::{EventId, ReservationId, UserId};
use domain::time::WallMs;
use queue::token::{Fan, Signer, Verifier, generate_key_pem};
use queue::{Config, EventGate, GateStatus, Inventory, InventoryUnavailable, Load, Mode, Stock};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::Operations;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const EVENT: EventId = EventId(1);
/// How long a test waits for what must come.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn now() -> WallMs {
    WallMs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// Try until it is so.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A Redis of its own, on a socket in a folder of its own.
pub struct RedisServer {
    folder: TempDir,
    child: Option<Child>,
}

impl RedisServer {
    pub async fn start() -> Self {
        let mut server = Self { folder: TempDir::new().unwrap(), child: None };
        server.run().await;
        server
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Start it (again); it remembers nothing.
    pub async fn run(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.child = Some(child);
        let socket = self.socket();
        until("Redis is up", || async { std::os::unix::net::UnixStream::connect(&socket).ok() }).await;
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stop it without closing its connections: it answers no more.
    pub fn freeze(&self, frozen: bool) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let signal = if frozen { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub async fn command(&self, words: &[&str]) -> redis::Value {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A store in the test's hand.
#[derive(Clone)]
pub struct Seats(Arc<Mutex<SeatsState>>);

pub struct SeatsState {
    pub gates: Vec<EventGate>,
    pub stock: Stock,
    pub ended: BTreeSet<ReservationId>,
    pub down: bool,
    pub load: Option<Load>,
}

impl Seats {
    pub fn with(gate: EventGate) -> Self {
        let stock = Stock { free: 100_000, held: 0, total: 100_000 };
        Self(Arc::new(Mutex::new(SeatsState {
            gates: vec![gate],
            stock,
            ended: BTreeSet::new(),
            down: false,
            load: None,
        })))
    }

    pub fn change(&self, change: impl FnOnce(&mut SeatsState)) {
        change(&mut self.0.lock().unwrap());
    }

    fn ask<T>(&self, ask: impl FnOnce(&SeatsState) -> T) -> Result<T, InventoryUnavailable> {
        let state = self.0.lock().unwrap();
        if state.down { Err(InventoryUnavailable("stopped by the test".into())) } else { Ok(ask(&state)) }
    }
}

impl Inventory for Seats {
    async fn events(&self) -> Result<Vec<EventGate>, InventoryUnavailable> {
        self.ask(|state| state.gates.clone())
    }

    async fn stock(&self, _event: EventId) -> Result<Stock, InventoryUnavailable> {
        self.ask(|state| state.stock)
    }

    async fn ended(&self, reservations: &[ReservationId]) -> Result<Vec<ReservationId>, InventoryUnavailable> {
        self.ask(|state| reservations.iter().copied().filter(|id| state.ended.contains(id)).collect())
    }

    async fn load(&self) -> Option<Load> {
        self.ask(|state| state.load).ok().flatten()
    }
}

/// An event on sale since a minute ago.
pub fn gate(capacity: u32) -> EventGate {
    EventGate {
        event: EVENT,
        on_sale_at: WallMs(now().0 - 60_000),
        capacity,
        mode: Mode::Fifo,
        status: GateStatus::Open,
    }
}

/// One running `queue` process.
pub struct Room {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub fans: Signer,
    pub passes: Verifier,
    pub config: Config,
    http: reqwest::Client,
    shutdown: CancellationToken,
    task: Option<JoinHandle<Result<(), queue::QueueError>>>,
    _folder: TempDir,
}

/// Settings for a test: everything quick.
pub fn config(redis: &RedisServer) -> Config {
    Config {
        redis_url: redis.url(),
        redis_timeout_ms: 300,
        pass_ttl_seconds: 60,
        silence_ms: 60_000,
        push_every_ms: 300,
        tick_every_ms: 100,
        ..Config::default()
    }
}

impl Room {
    pub async fn open(redis: &RedisServer, seats: &Seats) -> Self {
        Self::with(config(redis), seats).await
    }

    pub async fn with(config: Config, seats: &Seats) -> Self {
        Self::keyed(config, seats, &generate_key_pem(), &generate_key_pem()).await
    }

    /// With these private keys, as a second process of the same shop has them.
    pub async fn keyed(mut config: Config, seats: &Seats, fan_pem: &str, pass_pem: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let fans = Signer::from_pem(fan_pem).unwrap();
        let passes = Signer::from_pem(pass_pem).unwrap();
        config.fan_key_set_file = write(folder.path(), "fans.json", &fans.key_set());
        config.pass_key_file = write(folder.path(), "pass.pem", pass_pem);
        let passes = Verifier::new(&passes.key_set(), &config.pass_issuer, &config.pass_audience).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, admin_address) = (listener.local_addr().unwrap(), admin.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(queue::serve_on(
            config.clone(),
            seats.clone(),
            listener,
            Some(admin),
            Operations::new("queue"),
            shutdown.clone(),
        ));
        let http = reqwest::Client::new();
        let room = Self {
            address,
            admin: admin_address,
            fans,
            passes,
            config,
            http,
            shutdown,
            task: Some(task),
            _folder: folder,
        };
        until("the room knows its events", || async {
            let response = room.http.get(room.url("/readyz")).send().await.ok()?;
            let text = response.text().await.ok()?;
            (!text.contains("store")).then_some(())
        })
        .await;
        room
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn token(&self, name: &str) -> String {
        self.token_as(name, false)
    }

    pub fn token_as(&self, name: &str, operator: bool) -> String {
        let fan = Fan { user: user(name), operator, email: None, expires: WallMs(now().0 + 3_600_000) };
        self.fans.sign_fan(&self.config.fan_issuer, &self.config.fan_audience, &fan)
    }

    /// A request with what the test adds.
    pub async fn send(&self, request: impl FnOnce(&reqwest::Client) -> reqwest::RequestBuilder) -> Reply {
        let response = request(&self.http).send().await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.unwrap();
        Reply { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    pub async fn try_join(&self, name: &str) -> Reply {
        let url = self.url("/api/v1/events/1/queue/join");
        self.send(|http| http.post(url).bearer_auth(self.token(name))).await
    }

    pub async fn join(&self, name: &str) -> Value {
        let reply = self.try_join(name).await;
        assert_eq!(reply.status, 200, "{:?}", reply.body);
        reply.body
    }

    pub async fn status(&self, session: &str) -> Value {
        let url = self.url(&format!("/api/v1/events/1/queue/status?session={session}"));
        let reply = self.send(|http| http.get(url)).await;
        assert_eq!(reply.status, 200, "{:?}", reply.body);
        reply.body
    }

    /// Ask until the state is this one.
    pub async fn until_state(&self, session: &str, state: &str) -> Value {
        until(state, || async {
            let answer = self.status(session).await;
            (answer["state"] == state).then_some(answer)
        })
        .await
    }

    pub async fn metric(&self, line_start: &str) -> Option<f64> {
        let text = self.http.get(self.url("/metrics")).send().await.ok()?.text().await.ok()?;
        let line = text.lines().find(|line| line.starts_with(line_start))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    pub fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    pub async fn stop(mut self) {
        self.shutdown.cancel();
        let task = self.task.take().unwrap();
        tokio::time::timeout(DEADLINE, task).await.expect("stops in time").unwrap().unwrap();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// It is a refusal with this status and code, and says something.
    pub fn refuses(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["error"].as_str()), (status, Some(code)), "{:?}", self.body);
        assert!(self.body["message"].as_str().is_some_and(|message| message.len() > 10), "{:?}", self.body);
    }
}

fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub fn session(answer: &Value) -> String {
    answer["session"].as_str().unwrap().to_owned()
}
