//! What this process knows of each event's door, refreshed each second from the store, and who listens for news of it.
//!
//! When the store does not answer, the last that was known stays: a door that is a little out of date delays fans, and
//! whoever is let in wrongly finds no seat, because the store decides.

use crate::inventory::{EventGate, GateStatus, Inventory, Stock};
use domain::ids::{EventId, UserId};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long to wait for one answer of the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// With this many listeners or fewer, all are told at once that the line has moved; more are told at their next push.
const FEW: usize = 1_000;

/// One event's door as last seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) gate: EventGate,
    /// Not known until the store has answered once.
    pub(crate) stock: Option<Stock>,
}

/// Whether waiting makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    SoldOut,
    Closed,
}

impl View {
    pub(crate) fn phase(&self) -> Phase {
        match (self.gate.status, self.stock) {
            (GateStatus::Closed, _) => Phase::Closed,
            (GateStatus::Open, Some(stock)) if stock.sold_out() => Phase::SoldOut,
            (GateStatus::Open, _) => Phase::Open,
        }
    }
}

/// One event in this process: its view, and the sockets and long polls that wait for news.
pub(crate) struct Room {
    view: RwLock<View>,
    phase: watch::Sender<Phase>,
    listeners: Mutex<HashMap<UserId, Vec<Arc<Notify>>>>,
}

impl Room {
    fn new(view: View) -> Self {
        let phase = watch::Sender::new(view.phase());
        Self { view: RwLock::new(view), phase, listeners: Mutex::default() }
    }

    pub(crate) fn view(&self) -> View {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells when the phase changes.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    fn see(&self, view: View) {
        let phase = view.phase();
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        self.phase.send_if_modified(|old| std::mem::replace(old, phase) != phase);
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<UserId, Vec<Arc<Notify>>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners().is_empty()
    }

    /// These were let in: tell them at once, and everybody if that is few.
    pub(crate) fn tell(&self, admitted: &[UserId]) {
        let listeners = self.listeners();
        if listeners.len() <= FEW {
            listeners.values().flatten().for_each(|listener| listener.notify_one());
        } else {
            admitted.iter().filter_map(|user| listeners.get(user)).flatten().for_each(|one| one.notify_one());
        }
    }
}

/// Why somebody cannot listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSeat {
    /// This process has as many sockets as it may.
    ProcessFull,
    /// This fan has.
    FanFull,
}

/// A place among the listeners of one event, given up when dropped.
pub(crate) struct Listening {
    rooms: Arc<Rooms>,
    room: Arc<Room>,
    user: UserId,
    news: Arc<Notify>,
}

impl Listening {
    /// Comes back when there is news for this fan.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.room.listeners();
        if let Some(own) = listeners.get_mut(&self.user) {
            own.retain(|one| !Arc::ptr_eq(one, &self.news));
            if own.is_empty() {
                listeners.remove(&self.user);
            }
        }
        self.rooms.listening.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Every event this process knows.
pub(crate) struct Rooms {
    rooms: RwLock<BTreeMap<EventId, Arc<Room>>>,
    /// Whether the store has ever listed its events: until then an unknown event is not known to be unknown.
    loaded: AtomicBool,
    listening: AtomicUsize,
    max_listening: usize,
    max_per_fan: usize,
}

impl Rooms {
    pub(crate) fn new(max_listening: usize, max_per_fan: usize) -> Self {
        Self {
            rooms: RwLock::default(),
            loaded: AtomicBool::new(false),
            listening: AtomicUsize::new(0),
            max_listening,
            max_per_fan,
        }
    }

    pub(crate) fn get(&self, event: EventId) -> Option<Arc<Room>> {
        self.rooms.read().unwrap_or_else(PoisonError::into_inner).get(&event).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(EventId, Arc<Room>)> {
        let rooms = self.rooms.read().unwrap_or_else(PoisonError::into_inner);
        rooms.iter().map(|(event, room)| (*event, room.clone())).collect()
    }

    pub(crate) fn loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// Listen for news of `room` as `user`.
    pub(crate) fn listen(self: &Arc<Self>, room: &Arc<Room>, user: &UserId) -> Result<Listening, NoSeat> {
        let news = Arc::new(Notify::new());
        let mut listeners = room.listeners();
        if listeners.get(user).is_some_and(|own| own.len() >= self.max_per_fan) {
            return Err(NoSeat::FanFull);
        }
        if self.listening.fetch_add(1, Ordering::Relaxed) >= self.max_listening {
            self.listening.fetch_sub(1, Ordering::Relaxed);
            return Err(NoSeat::ProcessFull);
        }
        listeners.entry(user.clone()).or_default().push(news.clone());
        drop(listeners);
        Ok(Listening { rooms: self.clone(), room: room.clone(), user: user.clone(), news })
    }

    /// Look at the store once. An error says what was not learnt; everything else was.
    pub(crate) async fn refresh(&self, inventory: &impl Inventory) -> Result<(), String> {
        let gates = match tokio::time::timeout(PATIENCE, inventory.events()).await {
            Ok(gates) => gates.map_err(|error| error.to_string())?,
            Err(_elapsed) => return Err("the store did not list its events in time".into()),
        };
        let stocks = gates.iter().map(|gate| tokio::time::timeout(PATIENCE, inventory.stock(gate.event)));
        let stocks = futures::future::join_all(stocks).await;
        let mut missing = Vec::new();
        let mut rooms = self.rooms.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<EventId> =
            rooms.keys().copied().filter(|event| gates.iter().all(|gate| gate.event != *event)).collect();
        for event in gone {
            let Some(room) = rooms.remove(&event) else { continue };
            let view = room.view();
            room.see(View { gate: EventGate { status: GateStatus::Closed, ..view.gate }, ..view });
        }
        for (gate, stock) in gates.into_iter().zip(stocks) {
            let event = gate.event;
            let known = rooms.get(&event).cloned();
            let stock = match stock {
                Ok(Ok(stock)) => Some(stock),
                Ok(Err(_)) | Err(_) => {
                    missing.push(event.to_string());
                    known.as_ref().and_then(|room| room.view().stock)
                }
            };
            match known {
                Some(room) => room.see(View { gate, stock }),
                None => {
                    rooms.insert(event, Arc::new(Room::new(View { gate, stock })));
                }
            }
        }
        self.loaded.store(true, Ordering::Release);
        if missing.is_empty() { Ok(()) } else { Err(format!("no stock of events {}", missing.join(", "))) }
    }
}
