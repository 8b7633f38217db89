//! The process: reads the keys, starts the admitter and the two watchers, serves until told to stop, and then closes
//! every socket with a goodbye.

use crate::admitter::{Admitter, Dials};
use crate::config::Config;
use crate::connection::RedisLost;
use crate::connections::{Bounds, connections};
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::pass_issuer::PassIssuer;
use crate::redis::RedisStore;
use crate::rooms::Rooms;
use crate::server::{self, Context};
use crate::token::{KeyError, Verifier};
use domain::ids::EventId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often the store is looked at.
const REFRESH: Duration = Duration::from_secs(1);
/// How often Redis is asked who was let in.
const NEWS: Duration = Duration::from_millis(200);
/// How long open requests and sockets may take to end when the process stops.
const GRACE: Duration = Duration::from_secs(5);

/// Why the process does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A file of the configuration.
    #[error("{path} cannot be read: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A key in it.
    #[error("{path}: {source}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeyError,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(&'static str),
    /// The address of Redis.
    #[error(transparent)]
    Redis(#[from] RedisLost),
    /// A listener.
    #[error("cannot listen: {0}")]
    Listen(#[source] std::io::Error),
}

/// Run the waiting room until `shutdown`. Redis and the store need not be up yet: until they are, fans are asked to try
/// again.
pub async fn serve(
    config: Config,
    inventory: impl Inventory,
    listener: TcpListener,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), QueueError> {
    let admin = match config.admin_listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(QueueError::Listen)?),
        None => None,
    };
    serve_on(config, inventory, listener, admin, operations, shutdown).await
}

/// As [`serve`], with the operator's listener already bound.
pub async fn serve_on(
    config: Config,
    inventory: impl Inventory,
    listener: TcpListener,
    admin: Option<TcpListener>,
    operations: Operations,
    shutdown: CancellationToken,
) -> Result<(), QueueError> {
    let inventory = Arc::new(inventory);
    let context = Arc::new(build(&config, &operations, shutdown.clone())?);
    let background = TaskTracker::new();
    background.spawn(watch_inventory(inventory.clone(), context.rooms.clone(), operations.clone(), shutdown.clone()));
    background.spawn(watch_redis(context.clone(), operations.clone()));
    let admitter = Admitter::new(&config, inventory, &context);
    background.spawn(admitter.run(shutdown.clone()));
    operations.set_ready("start");

    let bounds = Bounds {
        connections: config.max_connections,
        head: Duration::from_millis(config.header_timeout_ms.max(1)),
        grace: GRACE,
    };
    let fans = server::router(context.clone(), &config.allowed_origins, operations.router());
    let fans = connections(fans, bounds, listener, shutdown.clone());
    let operators = async {
        if let Some(listener) = admin {
            connections(server::admin_router(context.clone()), bounds, listener, shutdown.clone()).await;
        }
    };
    let stopping = async {
        shutdown.cancelled().await;
        operations.set_unready("start", "stopping");
    };
    tokio::join!(fans, operators, stopping);
    context.sockets.close();
    background.close();
    let rest = async {
        context.sockets.wait().await;
        background.wait().await;
    };
    if tokio::time::timeout(GRACE, rest).await.is_err() {
        tracing::warn!("some sockets did not say goodbye in time");
    }
    Ok(())
}

fn build(config: &Config, operations: &Operations, shutdown: CancellationToken) -> Result<Context, QueueError> {
    if config.push_every_ms == 0 || config.tick_every_ms == 0 || config.redis_timeout_ms == 0 {
        return Err(QueueError::Setting("push_every_ms, tick_every_ms and redis_timeout_ms must be above 0"));
    }
    if !(1..=domain::pass::MAX_TTL_SECONDS).contains(&config.pass_ttl_seconds) {
        return Err(QueueError::Setting("pass_ttl_seconds must be 1 to 300"));
    }
    operations.set_unready("store", "not asked yet");
    operations.set_unready("redis", "not asked yet");
    let in_file = |path: &Path, source| QueueError::Key { path: path.to_owned(), source };
    let key_set = read(&config.fan_key_set_file)?;
    let fans = Verifier::new(&key_set, &config.fan_issuer, &config.fan_audience)
        .map_err(|source| in_file(&config.fan_key_set_file, source))?;
    let pem = read(&config.pass_key_file)?;
    let issuer = PassIssuer::new(&pem, config).map_err(|source| in_file(&config.pass_key_file, source))?;
    Ok(Context {
        store: RedisStore::new(config)?,
        rooms: Arc::new(Rooms::new(config.max_sockets, config.max_sockets_per_fan)),
        fans,
        issuer,
        metrics: Metrics::register(operations),
        dials: Arc::new(Dials::default()),
        push_every: Duration::from_millis(config.push_every_ms),
        sockets: TaskTracker::new(),
        shutdown,
    })
}

fn read(path: &Path) -> Result<String, QueueError> {
    std::fs::read_to_string(path).map_err(|source| QueueError::File { path: path.to_owned(), source })
}

/// Keep the rooms up to date. The store going away later does not make this process unready: it goes on with what it
/// knew.
async fn watch_inventory(
    inventory: Arc<impl Inventory>,
    rooms: Arc<Rooms>,
    operations: Operations,
    shutdown: CancellationToken,
) {
    let mut timer = tokio::time::interval(REFRESH);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fine = true;
    while tick(&mut timer, &shutdown).await {
        let result = rooms.refresh(&*inventory).await;
        if rooms.loaded() {
            operations.set_ready("store");
        }
        match result {
            Ok(()) => fine = true,
            Err(why) if fine => {
                fine = false;
                tracing::warn!(why, "going on with what was last known of the store");
            }
            Err(_) => {}
        }
    }
}

/// Pass on who was let in, by whichever process, to those who listen here; and know whether Redis is there.
async fn watch_redis(context: Arc<Context>, operations: Operations) {
    let mut timer = tokio::time::interval(NEWS);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: BTreeMap<EventId, String> = BTreeMap::new();
    while tick(&mut timer, &context.shutdown).await {
        let now = match context.store.now().await {
            Ok(now) => now,
            Err(error) => {
                operations.set_unready("redis", error.to_string());
                continue;
            }
        };
        operations.set_ready("redis");
        for (event, room) in context.rooms.all() {
            if !room.has_listeners() {
                seen.remove(&event);
                continue;
            }
            let since = seen.entry(event).or_insert_with(|| format!("{}-0", now.0.saturating_sub(2_000)));
            // What is missed here, the next push tells.
            let Ok((admitted, last)) = context.store.news(event, since).await else { break };
            if let Some(last) = last {
                *since = last;
                room.tell(&admitted);
            }
        }
    }
}

/// Wait for the next tick; false when it is time to stop.
async fn tick(timer: &mut tokio::time::Interval, shutdown: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => false,
        _ = timer.tick() => true,
    }
}
