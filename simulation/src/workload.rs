//! Fans who hold, pay, cancel, refund, give up and come back, through the store's own client. Each remembers what it was
//! promised, and complains when a promise is broken.

use crate::checkers::Witness;
use crate::cluster::Cluster;
use crate::trace::{Trace, now_us};
use domain::ids::{EventId, NodeId, PaymentId, RefundId, ReservationId, SeatIndex, SeatRef, SectionId, UserId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::outcome::RefundReason;
use domain::inventory::record::{EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionSummary, Tier};
use domain::inventory::{EventRecord, Outcome, Refusal, ReservationView, SectionPlan, Status};
use domain::money::Minor;
use domain::time::WallMs;
use madsim::rand::{Rng, thread_rng};
use madsim::runtime::{Handle, NodeHandle};
use raft_store::client::{Client, ClientError};
use raft_store::runtime::wall_now;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The event on sale.
pub const EVENT: EventId = EventId(1);
/// Its sections.
pub const SECTIONS: [SectionId; 2] = [SectionId(1), SectionId(2)];
/// Seats of each.
const SEATS: u32 = 20;
/// How long a hold lasts.
pub const HOLD_TTL_MS: u32 = 4_000;
/// A clock may run fast by so much; a hold must last nearly its time by any of them.
const EARLIEST_END_US: u64 = HOLD_TTL_MS as u64 * 800;

/// What fans were told.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The record as it was answered.
    pub view: ReservationView,
    /// The payment that was answered to have bought it.
    pub paid: bool,
    /// Whether a refund of its seats was asked for.
    pub refunded: bool,
}

/// What happened to all fans. Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    /// Promises by reservation.
    pub promises: Arc<Mutex<std::collections::BTreeMap<ReservationId, Promise>>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    held: AtomicU64,
    paid: AtomicU64,
    refused: AtomicU64,
    late: AtomicU64,
    unknown: AtomicU64,
}

impl Memory {
    /// For people: holds, sales, refusals, payments that came too late, answers that stayed unknown for a while.
    pub fn summary(&self) -> String {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { held, paid, refused, late, unknown } = &*self.counts;
        format!(
            "held {}, paid {}, refused {}, too late {}, unknown {}",
            get(held),
            get(paid),
            get(refused),
            get(late),
            get(unknown)
        )
    }

    /// Holds and sales that were acknowledged.
    pub fn acknowledged(&self) -> (u64, u64) {
        (self.counts.held.load(Ordering::Relaxed), self.counts.paid.load(Ordering::Relaxed))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The catalogue's record.
pub fn event() -> EventRecord {
    EventRecord {
        id: EVENT,
        version: 1,
        title: "Simulated".into(),
        venue: "Nowhere".into(),
        starts_at: WallMs(4_000_000_000_000),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: "EUR".parse().expect("a currency"),
        plan_version: 1,
        hold_ttl_ms: HOLD_TTL_MS,
        user_limit: 1_000,
        buckets: 2,
        dynamic_pricing: true,
        retry_declined: false,
        queue_capacity: 100,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "All".into(), base: Minor(5_000) }],
        sections: SECTIONS
            .map(|id| SectionSummary { id, name: id.to_string(), kind: SectionKind::Seated, tier: 0, capacity: SEATS })
            .to_vec(),
    }
}

/// A section: rows of ten.
pub fn plan(section: SectionId) -> SectionPlan {
    let seat = |row: u32, seat: u32| PlanSeat {
        label: seat.to_string(),
        at: Point { x: seat as i32 * 100, y: row as i32 * 100 },
        accessible: false,
        aisle_after: false,
    };
    let rows = (0..SEATS / 10)
        .map(|row| PlanRow { label: row.to_string(), seats: (0..10).map(|number| seat(row, number)).collect() });
    SectionPlan {
        section,
        name: section.to_string(),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 500, y: -500 },
        rows: rows.collect(),
        capacity: SEATS,
    }
}

/// Asks until answered; commands are idempotent, so asking again is safe. `None` after two minutes.
pub async fn insist<T, F>(memory: &Memory, mut ask: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let deadline = now_us() + 120_000_000;
    while now_us() < deadline {
        match ask().await {
            Ok(answer) => return Some(answer),
            Err(error) => {
                if error.is_unknown() {
                    count(&memory.counts.unknown);
                }
                let ms = thread_rng().gen_range(20..200);
                madsim::time::sleep(Duration::from_millis(ms)).await;
            }
        }
    }
    None
}

/// One fan.
struct Fan {
    user: UserId,
    number: u64,
    client: Client,
    memory: Memory,
    witness: Witness,
    trace: Trace,
}

/// Starts fans on machines of their own; they go on until told to stop.
pub fn crowd(
    cluster: &Cluster,
    fans: u64,
    memory: &Memory,
    witness: &Witness,
    trace: &Trace,
    stop: &Arc<AtomicBool>,
) -> Vec<NodeHandle> {
    (0..fans)
        .map(|number| {
            let host = Handle::current().create_node().name(format!("fan-{number}")).build();
            let net = cluster.net.clone();
            let (memory, witness, trace, stop) = (memory.clone(), witness.clone(), trace.clone(), stop.clone());
            host.spawn(async move {
                let client = Client::over(crate::cluster::client_config(), net.dial(NodeId(100 + number)));
                let user = format!("fan-{number}").parse().expect("a user id");
                let fan = Fan { user, number, client, memory, witness, trace };
                let mut visit = 0;
                while !stop.load(Ordering::Relaxed) {
                    visit += 1;
                    fan.visit(visit).await;
                    let ms = thread_rng().gen_range(0..150);
                    madsim::time::sleep(Duration::from_millis(ms)).await;
                }
            });
            host
        })
        .collect()
}

impl Fan {
    async fn visit(&self, visit: u64) {
        let sent_us = now_us();
        let Some(view) = self.hold(visit).await else { return };
        match thread_rng().gen_range(0..10) {
            0..=3 => self.pay(&view, visit, sent_us).await,
            4..=5 => self.cancel(&view).await,
            6 => {
                // Too late on purpose: the money must go back.
                madsim::time::sleep(Duration::from_millis(u64::from(HOLD_TTL_MS) * 2)).await;
                self.pay(&view, visit, sent_us).await;
            }
            7 => self.look(&view, sent_us).await,
            _ => madsim::time::sleep(Duration::from_millis(u64::from(HOLD_TTL_MS))).await,
        }
    }

    fn cart(&self) -> Vec<SeatRef> {
        let mut random = thread_rng();
        let (first, section) = (random.gen_range(0..SEATS), random.gen_range(0..SECTIONS.len()));
        let across = random.gen_bool(0.4);
        let mut seats: Vec<_> = (0..random.gen_range(1..=3))
            .map(|offset| SeatRef {
                section: SECTIONS[if across { (section + offset) % SECTIONS.len() } else { section }],
                seat: SeatIndex((first + offset as u32) % SEATS),
            })
            .collect();
        seats.sort();
        seats
    }

    async fn hold(&self, visit: u64) -> Option<Box<ReservationView>> {
        let seats = self.cart();
        let begin = Begin {
            key: format!("key-{}-{visit}", self.number).parse().expect("a key"),
            fingerprint: [visit as u8; 16],
            user: self.user.clone(),
            cart: Cart::Chosen { seats: seats.clone(), places: Vec::new() },
            promotion: None,
            pass: None,
            sent_at: wall_now(),
            hold_ttl_ms: None,
            purpose: Purpose::Checkout,
            note: None,
        };
        let asked_us = now_us();
        let outcome = insist(&self.memory, || self.client.begin(EVENT, begin.clone())).await;
        let Some(outcome) = outcome else {
            self.trace.broken(format_args!("fan {} never got an answer to a hold", self.number));
            return None;
        };
        match outcome {
            Outcome::Reservation(view) => {
                let got: Vec<_> = view.seats.iter().map(|quoted| quoted.seat).collect();
                if view.user != self.user || (view.status == Status::Held && got != seats) {
                    self.trace.broken(format_args!("fan {} asked for {seats:?}, was given {view:?}", self.number));
                }
                self.trace.note(format_args!("fan {} reservation {} {:?} {got:?}", self.number, view.id, view.status));
                if view.status != Status::Held {
                    return None;
                }
                count(&self.memory.counts.held);
                let promise = Promise { view: (*view).clone(), paid: false, refunded: false };
                self.promises().insert(view.id, promise);
                Some(view)
            }
            Outcome::Refused(Refusal::CheckoutOpen(open)) => {
                // Left behind by an attempt whose answer was lost.
                insist(&self.memory, || self.client.cancel(open, Some(self.user.clone()))).await;
                None
            }
            Outcome::Refused(refusal) | Outcome::Advised(refusal) => {
                count(&self.memory.counts.refused);
                if let Refusal::SeatsTaken(taken) = &refusal
                    && !self.witness.conflict(taken, asked_us, now_us())
                {
                    self.trace.broken(format_args!("fan {} was refused seats that were free: {taken:?}", self.number));
                }
                None
            }
            other => {
                self.trace.broken(format_args!("fan {} was answered {other:?} to a hold", self.number));
                None
            }
        }
    }

    async fn pay(&self, view: &ReservationView, visit: u64, sent_us: u64) {
        let payment = PaymentId(u128::from(self.number) << 64 | u128::from(visit));
        let pay = || self.client.pay(view.id, payment, view.total, view.currency);
        let Some(outcome) = insist(&self.memory, pay).await else {
            return self.trace.broken(format_args!("fan {} never got an answer to a payment", self.number));
        };
        self.trace.note(format_args!("fan {} payment for {}: {}", self.number, view.id, short(&outcome)));
        match outcome {
            Outcome::Reservation(paid) if paid.status == Status::Paid => {
                count(&self.memory.counts.paid);
                if let Some(promise) = self.promises().get_mut(&view.id) {
                    promise.paid = true;
                }
                if thread_rng().gen_bool(0.7) {
                    self.refund(view, visit).await;
                }
            }
            Outcome::MustRefund(RefundReason::Expired) => {
                count(&self.memory.counts.late);
                self.ended(view, sent_us);
            }
            other => self.trace.broken(format_args!("fan {} paid for {} and got {other:?}", self.number, view.id)),
        }
    }

    async fn refund(&self, view: &ReservationView, visit: u64) {
        if let Some(promise) = self.promises().get_mut(&view.id) {
            promise.refunded = true;
        }
        let seats: Vec<_> = view.seats.iter().map(|quoted| quoted.seat).collect();
        let refund = RefundId(u128::from(self.number) << 64 | u128::from(visit));
        let outcome = insist(&self.memory, || self.client.refund(refund, view.id, seats.clone())).await;
        self.trace.note(format_args!("fan {} refund of {}: {:?}", self.number, view.id, outcome.as_ref().map(short)));
    }

    async fn cancel(&self, view: &ReservationView) {
        let cancel = || self.client.cancel(view.id, Some(self.user.clone()));
        let outcome = insist(&self.memory, cancel).await;
        self.trace.note(format_args!("fan {} cancels {}: {:?}", self.number, view.id, outcome.as_ref().map(short)));
    }

    async fn look(&self, view: &ReservationView, sent_us: u64) {
        let Some(found) = insist(&self.memory, || self.client.reservation(view.id)).await else { return };
        match found.map(|found| found.status) {
            Some(Status::Held) => {}
            Some(Status::Expired) => self.ended(view, sent_us),
            other => {
                let number = self.number;
                self.trace.broken(format_args!("fan {number}: hold {} was acknowledged and is now {other:?}", view.id));
            }
        }
    }

    /// A hold has run out: not before its time.
    fn ended(&self, view: &ReservationView, sent_us: u64) {
        if now_us() - sent_us < EARLIEST_END_US {
            self.trace.broken(format_args!("fan {}: hold {} ran out early", self.number, view.id));
        }
    }

    fn promises(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<ReservationId, Promise>> {
        self.memory.promises.lock().expect("no holder of this lock panics")
    }
}

fn short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Reservation(view) => format!("{:?}", view.status),
        other => format!("{other:?}"),
    }
}
