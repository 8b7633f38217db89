//! The waiting room in Redis: each operation is one script, so that it happens whole or not at all.

use crate::config::Config;
use crate::connection::{Connection, RedisLost, call, script};
use crate::inventory::{EventGate, Mode};
use crate::keys::Keys;
use crate::leases::Leases;
use crate::pace::Pace;
use crate::store::{Dial, Text, Tick, TickOrder, VersionedDial, Visit};
use domain::ids::{EventId, ReservationId, UserId};
use domain::time::WallMs;
use redis::Script;
use std::sync::Arc;
use std::time::Duration;

/// Fans dropped, parked or drawn by one script at most: what keeps Redis responsive.
const DROPS_PER_TICK: u32 = 1_000;
/// How many lots one script draws.
const LOTS_PER_CALL: u32 = 5_000;
/// A lease bound to a reservation outlives the hold's deadline by this, if the store cannot be asked: longer than any
/// extension of a hold.
const BOUND_GRACE_MS: u64 = 600_000;
/// The keys of an event that is gone disappear after this.
const RETENTION_SECONDS: u64 = 7 * 86_400;

/// The waiting room of every event. Cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    leases: Leases,
    shared: Arc<Shared>,
}

struct Shared {
    visit: Script,
    draw: Script,
    admit: Script,
    elect: Script,
    turn: Script,
    silence_ms: u64,
    pass_ttl_seconds: u64,
    max_waiting: u64,
}

impl RedisStore {
    /// Nothing is sent yet; Redis need not be up.
    pub fn new(config: &Config) -> Result<Self, RedisLost> {
        let connection = Connection::new(&config.redis_url, Duration::from_millis(config.redis_timeout_ms))?;
        let shared = Shared {
            visit: script!("visit"),
            draw: script!("draw"),
            admit: script!("admit"),
            elect: Script::new(include_str!("scripts/elect.lua")),
            turn: script!("turn"),
            silence_ms: config.silence_ms,
            pass_ttl_seconds: config.pass_ttl_seconds.clamp(1, domain::pass::MAX_TTL_SECONDS),
            max_waiting: config.max_waiting,
        };
        let leases = Leases::over(connection.clone());
        Ok(Self { connection, leases, shared: Arc::new(shared) })
    }

    /// The buy plane's view over the same connection.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// `user` comes by: to join, or (`joining` false) only to look. Either is a heartbeat of one who waits.
    pub async fn visit(&self, gate: &EventGate, user: &UserId, joining: bool) -> Result<Visit, RedisLost> {
        let mut ask = call(&self.shared.visit, &Keys::of(gate.event));
        ask.arg(user.as_str())
            .arg(u8::from(joining))
            .arg(gate.on_sale_at.0)
            .arg(u8::from(gate.mode == Mode::Lottery))
            .arg(self.shared.max_waiting);
        Visit::read(&self.connection.script(&ask).await?)
    }

    /// One tick of `event`. Only the first of a second does anything.
    pub async fn admit(&self, event: EventId, order: TickOrder) -> Result<Tick, RedisLost> {
        // A new one for each tick keeps pass ids unique, also over a Redis that forgot its counter.
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let mut ask = call(&self.shared.admit, &Keys::of(event));
        ask.arg(order.capacity)
            .arg(order.batch)
            .arg(self.shared.silence_ms)
            .arg(DROPS_PER_TICK)
            .arg(self.shared.pass_ttl_seconds)
            .arg(nonce)
            .arg(order.on_sale_at.0)
            .arg(BOUND_GRACE_MS)
            .arg(RETENTION_SECONDS);
        Tick::read(&self.connection.script(&ask).await?)
    }

    /// Draw lots for those who joined before the sale, if it has started. `seed` counts only if no draw has begun.
    /// Answers how many wait for their lots still.
    pub async fn draw(&self, gate: &EventGate, seed: &str) -> Result<u64, RedisLost> {
        let mut ask = call(&self.shared.draw, &Keys::of(gate.event));
        self.connection.script(ask.arg(seed).arg(gate.on_sale_at.0).arg(LOTS_PER_CALL)).await
    }

    /// Whether `me` is the event's admitter for the next `lease`; once elected, repeating this keeps it.
    pub async fn elect(&self, event: EventId, me: &str, lease: Duration) -> Result<bool, RedisLost> {
        let mut ask = self.shared.elect.key(format!("encore:{{e{event}}}:admitter"));
        let elected: i64 = self.connection.script(ask.arg(me).arg(lease.as_millis() as u64)).await?;
        Ok(elected == 1)
    }

    /// Give the office back, so that another admitter need not wait for the lease to end.
    pub async fn resign(&self, event: EventId, me: &str) -> Result<(), RedisLost> {
        let mut ask = self.shared.elect.key(format!("encore:{{e{event}}}:admitter"));
        let _elected: i64 = self.connection.script(ask.arg(me).arg(0)).await?;
        Ok(())
    }

    /// Fans inside who hold seats, with their reservations.
    pub async fn bound(&self, event: EventId) -> Result<Vec<(UserId, ReservationId)>, RedisLost> {
        let keys = Keys::of(event);
        let all: Vec<(String, String)> =
            self.connection.command(redis::cmd("HGETALL").arg(keys.named("bound"))).await?;
        // What cannot be read was not written by us and holds no slot of ours; the lease's own end frees it.
        Ok(all.into_iter().filter_map(|(user, id)| Some((user.parse().ok()?, id.parse().ok()?))).collect())
    }

    /// Fans let in after the news item `since`, at most 1,000, and the last item's id.
    pub async fn news(&self, event: EventId, since: &str) -> Result<(Vec<UserId>, Option<String>), RedisLost> {
        let keys = Keys::of(event);
        let mut ask = redis::cmd("XRANGE");
        ask.arg(keys.named("news")).arg(format!("({since}")).arg("+").arg("COUNT").arg(1_000);
        let items: Vec<(String, Vec<String>)> = self.connection.command(&ask).await?;
        let last = items.last().map(|(id, _)| id.clone());
        let users = items.into_iter().filter_map(|(_, fields)| fields.get(1)?.parse().ok()).collect();
        Ok((users, last))
    }

    /// Redis's own clock.
    pub async fn now(&self) -> Result<WallMs, RedisLost> {
        let (seconds, micros): (u64, u64) = self.connection.command(&redis::cmd("TIME")).await?;
        Ok(WallMs(seconds * 1_000 + micros / 1_000))
    }

    /// Whether Redis answers now.
    pub async fn ping(&self) -> Result<(), RedisLost> {
        self.leases.ping().await
    }

    /// The operator's dial for `event`; version 0 if it was never turned, or if Redis forgot.
    pub(crate) async fn dial(&self, event: EventId) -> Result<VersionedDial, RedisLost> {
        let keys = Keys::of(event);
        let mut ask = redis::cmd("HMGET");
        ask.arg(keys.named("dial")).arg("version").arg("dial");
        let (version, dial): (Option<u64>, Option<String>) = self.connection.command(&ask).await?;
        let (Some(version), Some(text)) = (version, dial) else { return Ok(VersionedDial::default()) };
        let dial: Dial = serde_json::from_str(&text).map_err(|_| RedisLost::Garbled(text))?;
        Ok(VersionedDial { version, dial })
    }

    /// Turn the dial, from at least version `from`. Answers the new version.
    pub(crate) async fn turn_dial(&self, event: EventId, from: u64, dial: Dial) -> Result<u64, RedisLost> {
        let text = serde_json::to_string(&dial).expect("numbers and booleans always serialise");
        let mut ask = call(&self.shared.turn, &Keys::of(event));
        self.connection.script(ask.arg(from).arg(text)).await
    }

    /// The adapted pace, as whoever was admitter last left it.
    pub(crate) async fn pace(&self, event: EventId) -> Result<Option<Pace>, RedisLost> {
        let keys = Keys::of(event);
        let text: Option<String> =
            self.connection.command(redis::cmd("HGET").arg(keys.named("meta")).arg("pace")).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Leave the pace for whoever is admitter next.
    pub(crate) async fn keep_pace(&self, event: EventId, pace: &Pace) -> Result<(), RedisLost> {
        let text = serde_json::to_string(pace).expect("numbers always serialise");
        let keys = Keys::of(event);
        let _new: Text =
            self.connection.command(redis::cmd("HSET").arg(keys.named("meta")).arg("pace").arg(text)).await?;
        Ok(())
    }

    /// How many wait and how many are inside, for processes that are not the admitter.
    pub(crate) async fn counts(&self, event: EventId) -> Result<(u64, u64), RedisLost> {
        let keys = Keys::of(event);
        let line: u64 = self.connection.command(redis::cmd("ZCARD").arg(keys.named("line"))).await?;
        let draw: u64 = self.connection.command(redis::cmd("ZCARD").arg(keys.named("draw"))).await?;
        let inside: u64 = self.connection.command(redis::cmd("ZCARD").arg(keys.named("inside"))).await?;
        Ok((line + draw, inside))
    }
}
