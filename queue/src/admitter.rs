//! The admitter: once a second and event, one process of all lets fans in, as many as there is room for.
//!
//! Who it is, a short lease in Redis decides; that a second admitter could do no harm, the script `admit` sees to.

use crate::config::Config;
use crate::connection::RedisLost;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::redis::RedisStore;
use crate::rooms::{Phase, Room, Rooms, View};
use crate::server::Context;
use crate::store::{Dial, Tick, TickOrder, VersionedDial};
use domain::ids::{EventId, ReservationId, UserId};
use domain::time::WallMs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Reservations asked about in one tick; the next tick asks about the next ones.
const ASK_PER_TICK: usize = 1_000;
/// The most that one tick lets in, whatever the dial says: one script must not keep Redis busy for long.
const MOST_PER_TICK: u32 = 10_000;
/// How long to wait for the store's answer about them.
const PATIENCE: Duration = Duration::from_secs(1);

/// This process's candidate for admitter of every event.
pub(crate) struct Admitter<I> {
    store: RedisStore,
    rooms: Arc<Rooms>,
    inventory: Arc<I>,
    metrics: Metrics,
    dials: Arc<Dials>,
    /// Unlike any other process.
    me: String,
    batch: u32,
    every: Duration,
}

/// The dials as this process last saw them, so that a Redis that forgot them is reminded.
#[derive(Default)]
pub(crate) struct Dials(Mutex<BTreeMap<EventId, VersionedDial>>);

impl Dials {
    /// The dial of `event`, put back first if Redis forgot it.
    pub(crate) async fn read(&self, store: &RedisStore, event: EventId) -> Result<Dial, RedisLost> {
        let seen = store.dial(event).await?;
        let known = self.known(event);
        if seen.version >= known.version {
            self.remember(event, seen);
            return Ok(seen.dial);
        }
        tracing::warn!(event = event.0, "Redis forgot the operator's dial: putting it back");
        self.turn(store, event, known.dial).await?;
        Ok(known.dial)
    }

    /// Turn it.
    pub(crate) async fn turn(&self, store: &RedisStore, event: EventId, dial: Dial) -> Result<(), RedisLost> {
        let version = store.turn_dial(event, self.known(event).version, dial).await?;
        self.remember(event, VersionedDial { version, dial });
        Ok(())
    }

    fn known(&self, event: EventId) -> VersionedDial {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&event).copied().unwrap_or_default()
    }

    fn remember(&self, event: EventId, dial: VersionedDial) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(event, dial);
    }
}

impl<I: Inventory> Admitter<I> {
    pub(crate) fn new(config: &Config, inventory: Arc<I>, context: &Context) -> Self {
        Self {
            store: context.store.clone(),
            rooms: context.rooms.clone(),
            inventory,
            metrics: context.metrics.clone(),
            dials: context.dials.clone(),
            me: uuid::Uuid::new_v4().simple().to_string(),
            batch: config.batch.max(1),
            every: Duration::from_millis(config.tick_every_ms.max(10)),
        }
    }

    /// Tick until told to stop, then give the office back.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut timer = tokio::time::interval(self.every);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0.. {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                _ = timer.tick() => {}
            }
            let rooms = self.rooms.all();
            let me = &self;
            let ticks = rooms.iter().map(|(event, room)| async move {
                if let Err(error) = me.tick(*event, room, round).await {
                    tracing::warn!(event = event.0, %error, "nobody is let in: the tick failed");
                }
            });
            futures::future::join_all(ticks).await;
        }
        for (event, _) in self.rooms.all() {
            // Whoever waits for the office gets it at the end of the lease if this fails.
            let _best_effort = self.store.resign(event, &self.me).await;
        }
    }

    /// One tick of one event.
    async fn tick(&self, event: EventId, room: &Room, round: usize) -> Result<(), RedisLost> {
        if !self.store.elect(event, &self.me, self.every * 3).await? {
            let (waiting, inside) = self.store.counts(event).await?;
            self.metrics.counts(event, waiting, inside);
            return Ok(());
        }
        self.free_ended(event, round).await?;
        let view = room.view();
        self.draw(&view).await?;
        let dial = self.dials.read(&self.store, event).await?;
        let now = self.store.now().await?;
        let pace = self.pace(event, now).await?;
        let order = order(&view, &dial, &pace, now);
        let tick: Tick = self.store.admit(event, order).await?;
        self.metrics.tick(event, &tick);
        if tick.counted && (tick.admitted > 0 || tick.dropped > 0) {
            let Tick { waiting, inside, admitted, dropped, expired, .. } = tick;
            tracing::debug!(event = event.0, waiting, inside, admitted, dropped, expired, "tick");
        }
        Ok(())
    }

    /// Free the slots of those whose reservation has ended. A store that does not answer frees none.
    async fn free_ended(&self, event: EventId, round: usize) -> Result<(), RedisLost> {
        let mut bound = self.store.bound(event).await?;
        if bound.is_empty() {
            return Ok(());
        }
        let start = round.wrapping_mul(ASK_PER_TICK) % bound.len();
        bound.rotate_left(start);
        bound.truncate(ASK_PER_TICK);
        let ids: Vec<ReservationId> = bound.iter().map(|(_, id)| *id).collect();
        let ended: BTreeSet<ReservationId> = match tokio::time::timeout(PATIENCE, self.inventory.ended(&ids)).await {
            Ok(Ok(ended)) => ended.into_iter().collect(),
            Ok(Err(error)) => {
                tracing::warn!(event = event.0, %error, "slots stay taken");
                return Ok(());
            }
            Err(_elapsed) => return Ok(()),
        };
        let over: Vec<(UserId, ReservationId)> = bound.into_iter().filter(|(_, id)| ended.contains(id)).collect();
        for (user, reservation) in over {
            self.store.leases().free(event, &user, reservation).await?;
        }
        Ok(())
    }

    /// Draw the lots, to the end: until then nobody enters. Also where the mode was changed to first come, first served
    /// meanwhile, or those who had joined the draw would wait for ever.
    async fn draw(&self, view: &View) -> Result<(), RedisLost> {
        let seed = uuid::Uuid::new_v4().simple().to_string();
        let mut before = u64::MAX;
        loop {
            let left = self.store.draw(&view.gate, &seed).await?;
            // Before the sale nothing is drawn, and the number stays.
            if left == 0 || left >= before {
                return Ok(());
            }
            before = left;
        }
    }

    /// The pace now, adapted if that is due and somebody measures.
    async fn pace(&self, event: EventId, now: WallMs) -> Result<Pace, RedisLost> {
        let kept = self.store.pace(event).await?;
        let pace = kept.unwrap_or_else(|| Pace::start(self.batch, now));
        if kept.is_some() && !pace.is_due(now) {
            return Ok(pace);
        }
        let load = tokio::time::timeout(PATIENCE, self.inventory.load()).await.ok().flatten();
        let next = pace.next(load.unwrap_or_default(), self.batch, now);
        self.store.keep_pace(event, &next).await?;
        Ok(next)
    }
}

/// What a tick may do, given everything that has a say.
fn order(view: &View, dial: &Dial, pace: &Pace, now: WallMs) -> TickOrder {
    // Without a free seat nobody is let in only to find none; and before the store has ever told, nobody knows of one.
    let free = view.stock.map_or(0, |stock| stock.free);
    let open = view.phase() == Phase::Open;
    TickOrder {
        capacity: dial.capacity.unwrap_or(view.gate.capacity),
        batch: if open { pace.allowed(dial, now).min(free).min(MOST_PER_TICK) } else { 0 },
        on_sale_at: view.gate.on_sale_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{EventGate, GateStatus, Mode, Stock};

    fn view(free: u32, held: u32, status: GateStatus) -> View {
        let gate = EventGate { event: EventId(1), on_sale_at: WallMs(7), capacity: 100, mode: Mode::Fifo, status };
        View { gate, stock: Some(Stock { free, held, total: 500 }) }
    }

    fn ordered(view: &View, dial: Dial) -> TickOrder {
        order(view, &dial, &Pace::start(50, WallMs(0)), WallMs(0))
    }

    #[test]
    fn nobody_is_let_in_without_a_seat_to_take() {
        assert_eq!(ordered(&view(500, 0, GateStatus::Open), Dial::default()).batch, 50);
        assert_eq!(ordered(&view(3, 9, GateStatus::Open), Dial::default()).batch, 3);
        assert_eq!(ordered(&view(0, 9, GateStatus::Open), Dial::default()).batch, 0);
        assert_eq!(ordered(&view(500, 0, GateStatus::Closed), Dial::default()).batch, 0);
        let unknown = View { stock: None, ..view(500, 0, GateStatus::Open) };
        assert_eq!(ordered(&unknown, Dial::default()).batch, 0);
    }

    #[test]
    fn the_dial_overrides_the_capacity_of_the_event() {
        let dial = Dial { capacity: Some(7), ..Dial::default() };
        assert_eq!(ordered(&view(500, 0, GateStatus::Open), dial).capacity, 7);
        assert_eq!(ordered(&view(500, 0, GateStatus::Open), Dial::default()).capacity, 100);
    }
}
