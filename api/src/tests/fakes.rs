//! A whole shop in memory: the real inventory machine behind the store's port, the ledger's memory twin, and leases in a
//! map. What is not real is only the distance between them.

use crate::config::Config;
use crate::metrics::Metrics;
use crate::planes::{Admin, Browse, Buy, Planes, Webhook};
use crate::ports::{FromStore, LeaseBook, LeasesDown, Store};
use crate::wire::wall_now;
use axum::Router;
use domain::ids::{
    Bucket, Epoch, EventId, GroupId, IdempotencyKey, Partition, PassId, PromotionCode, ReservationId, SectionId, UserId,
};
use domain::inventory::command::{Begin, Checkout, CheckoutRules, Entry, Manage, PriceRule, Request, Spec};
use domain::inventory::group::Group;
use domain::inventory::query::{EventPlacement, Placement, SeatMap};
use domain::inventory::record::{EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionSummary, Tier};
use domain::inventory::{Answer, Command, EventRecord, Outcome, Query, ReservationView, SectionPlan};
use domain::money::{Currency, Minor};
use domain::pass::PassClaims;
use domain::time::{Stamp, WallMs};
use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use ledger::{Memory, Sealer};
use queue::leases::Lease;
use queue::token::{Fan, Signer, Verifier, generate_key_pem};
use raft_store::client::{ClientError, ClusterStatus, PublishError, WatchItem};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use telemetry::Operations;
use tokio::sync::broadcast;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;

pub const EVENT: EventId = EventId(1);
pub const SECRET: &[u8] = b"whsec_test";

/// The store: one group, one event.
pub struct FakeStore {
    group: Mutex<Group>,
    event: Mutex<EventRecord>,
    pub down: Mutex<bool>,
    pub changes: broadcast::Sender<WatchItem>,
}

impl FakeStore {
    fn new() -> Self {
        let store = Self {
            group: Mutex::new(Group::new(GroupId(1))),
            event: Mutex::new(event()),
            down: Mutex::default(),
            changes: broadcast::channel(1_024).0,
        };
        for plan in [seated(), standing()] {
            let price = PriceRule { base: Minor(5_000), dynamic: false, event_starts_at: WallMs(u64::MAX) };
            store.create(Partition::Seats { event: EVENT, section: plan.section }, Spec::Seats { plan, price });
        }
        let code = "EARLY".parse().expect("a code");
        store.create(Partition::Promotion { event: EVENT, code }, Spec::Promotion { discount_bps: 1_000, cap: 1 });
        store.write_rules();
        store
    }

    fn write_rules(&self) {
        let event = self.event.lock().expect("a lock").clone();
        let rules = CheckoutRules::of(&event);
        for bucket in [Bucket(0), Bucket(1), Bucket::BOX_OFFICE] {
            self.create(Partition::Checkouts { event: EVENT, bucket }, Spec::Checkouts(rules));
        }
    }

    fn create(&self, partition: Partition, spec: Spec) {
        let outcome = self.apply(partition, Command::Manage(Manage::Create(Box::new(spec))));
        assert_eq!(outcome, Outcome::Done);
    }

    fn apply(&self, partition: Partition, command: Command) -> Outcome {
        let mut group = self.group.lock().expect("a lock");
        let stamp = Stamp { elapsed_ms: 1, wall: wall_now() };
        let entry = Entry { stamp, requests: vec![Request { partition, command }] };
        let outcome = group.apply(&entry).remove(0);
        for (partition, version) in group.drain_changed() {
            let _nobody = self.changes.send(WatchItem::Changed { partition, version });
        }
        outcome
    }

    /// Let service time pass.
    pub fn pass(&self, ms: u32) {
        let mut group = self.group.lock().expect("a lock");
        for _ in 0..ms.div_ceil(1_000) {
            group.apply(&Entry { stamp: Stamp { elapsed_ms: 1_000, wall: wall_now() }, requests: Vec::new() });
        }
    }

    fn ask(&self, partition: &Partition, query: &Query) -> Answer {
        self.group.lock().expect("a lock").query(partition, query, 0)
    }

    fn answer<T: Send + 'static>(&self, answer: T) -> FromStore<'_, T> {
        let down = *self.down.lock().expect("a lock");
        let answer = if down { Err(ClientError::Unavailable("stopped".into())) } else { Ok(answer) };
        Box::pin(ready(answer))
    }
}

impl Store for FakeStore {
    fn events(&self) -> FromStore<'_, Vec<EventRecord>> {
        self.answer(vec![self.event.lock().expect("a lock").clone()])
    }
    fn plan(&self, _: EventId, section: SectionId) -> FromStore<'_, SectionPlan> {
        self.answer(if section == SectionId(0) { seated() } else { standing() })
    }
    fn seat_map(&self, event: EventId, section: SectionId, _: u64) -> FromStore<'_, SeatMap> {
        match self.ask(&Partition::Seats { event, section }, &Query::SeatMap) {
            Answer::SeatMap(map) => self.answer(map),
            other => panic!("{other:?}"),
        }
    }
    fn watch(&self, _: EventId) -> BoxStream<'static, WatchItem> {
        Box::pin(BroadcastStream::new(self.changes.subscribe()).filter_map(Result::ok))
    }
    fn begin(&self, event: EventId, begin: Begin) -> FromStore<'_, Outcome> {
        if *self.down.lock().expect("a lock") {
            return self.answer(Outcome::Done);
        }
        let partition = Partition::Checkouts { event, bucket: begin.bucket(2) };
        let outcome = self.apply(partition, Command::Checkout(Checkout::Begin(Box::new(begin))));
        self.answer(outcome)
    }
    fn answered(
        &self,
        event: EventId,
        user: UserId,
        key: IdempotencyKey,
        fingerprint: [u8; 16],
    ) -> FromStore<'_, Option<Outcome>> {
        let partition = Partition::Checkouts { event, bucket: user.bucket(2) };
        match self.ask(&partition, &Query::Answered { user, key, fingerprint }) {
            Answer::Answered(outcome) => self.answer(outcome.map(|outcome| *outcome)),
            other => panic!("{other:?}"),
        }
    }
    fn cancel(&self, reservation: ReservationId, user: Option<UserId>) -> FromStore<'_, Outcome> {
        let cancel = Checkout::Cancel { reservation, user };
        let outcome = self.apply(reservation.partition(), Command::Checkout(cancel));
        self.answer(outcome)
    }
    fn reservation(&self, id: ReservationId) -> FromStore<'_, Option<ReservationView>> {
        match self.ask(&id.partition(), &Query::Reservation(id)) {
            Answer::Reservation(view) => self.answer(view.map(|view| *view)),
            _ => self.answer(None),
        }
    }
    fn promotion_uses(&self, event: EventId, code: PromotionCode) -> FromStore<'_, Vec<ReservationId>> {
        match self.ask(&Partition::Promotion { event, code }, &Query::PromotionUses) {
            Answer::PromotionUses(uses) => self.answer(uses),
            other => panic!("{other:?}"),
        }
    }
    fn set_status(&self, _: EventId, status: EventStatus) -> BoxFuture<'_, Result<(), PublishError>> {
        let mut event = self.event.lock().expect("a lock");
        if event.status == EventStatus::Cancelled && status != EventStatus::Cancelled {
            let reason = "event 1 is cancelled, for good".to_owned();
            return Box::pin(ready(Err(PublishError::Refused { partition: Partition::Meta, reason })));
        }
        (event.status, event.version) = (status, event.version + 1);
        drop(event);
        self.write_rules();
        Box::pin(ready(Ok(())))
    }
    fn placement(&self) -> FromStore<'_, Placement> {
        let placed = EventPlacement {
            home: (GroupId(1), Epoch(0)),
            buckets: 2,
            sections: vec![SectionId(0), SectionId(1)],
            promotions: vec!["EARLY".parse().expect("a code")],
            moved: BTreeMap::new(),
        };
        self.answer(Placement { events: BTreeMap::from([(EVENT, placed)]), ..Placement::default() })
    }
    fn status(&self) -> BoxFuture<'_, ClusterStatus> {
        Box::pin(ready(ClusterStatus::default()))
    }
}

fn event() -> EventRecord {
    EventRecord {
        id: EVENT,
        version: 1,
        title: "An evening".into(),
        venue: "The hall".into(),
        starts_at: WallMs(4_000_000_000_000),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 3,
        hold_ttl_ms: 60_000,
        user_limit: 8,
        buckets: 2,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 10,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "Stalls".into(), base: Minor(5_000) }],
        sections: vec![
            SectionSummary { id: SectionId(0), name: "A".into(), kind: SectionKind::Seated, tier: 0, capacity: 20 },
            SectionSummary {
                id: SectionId(1),
                name: "Floor".into(),
                kind: SectionKind::Standing,
                tier: 0,
                capacity: 5,
            },
        ],
    }
}

fn seated() -> SectionPlan {
    let seat = |row: i32, seat: i32| PlanSeat {
        label: seat.to_string(),
        at: Point { x: seat * 50, y: row * 100 },
        accessible: false,
        aisle_after: false,
    };
    let row = |row: i32| PlanRow { label: row.to_string(), seats: (1..=10).map(|n| seat(row, n)).collect() };
    SectionPlan {
        section: SectionId(0),
        name: "A".into(),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 275, y: 0 },
        rows: vec![row(1), row(2)],
        capacity: 20,
    }
}

fn standing() -> SectionPlan {
    SectionPlan {
        section: SectionId(1),
        name: "Floor".into(),
        kind: SectionKind::Standing,
        tier: 0,
        focal: Point::default(),
        rows: Vec::new(),
        capacity: 5,
    }
}

/// Leases in a map.
#[derive(Default)]
pub struct FakeLeases {
    pub down: Mutex<bool>,
    inside: Mutex<BTreeSet<(UserId, PassId)>>,
}

impl FakeLeases {
    /// Nobody is inside any more.
    pub fn forget(&self) {
        self.inside.lock().expect("a lock").clear();
    }

    fn if_up<T: Send + 'static>(&self, answer: T) -> BoxFuture<'_, Result<T, LeasesDown>> {
        let down = *self.down.lock().expect("a lock");
        Box::pin(ready(if down { Err(LeasesDown("stopped".into())) } else { Ok(answer) }))
    }
}

impl LeaseBook for FakeLeases {
    fn check(&self, _: EventId, user: UserId, pass: PassId) -> BoxFuture<'_, Result<Lease, LeasesDown>> {
        let live = self.inside.lock().expect("a lock").contains(&(user, pass));
        self.if_up(if live { Lease::Live } else { Lease::None })
    }
    fn extend(&self, _: EventId, _: UserId, _: ReservationId, _: u64) -> BoxFuture<'_, Result<(), LeasesDown>> {
        self.if_up(())
    }
    fn free(&self, _: EventId, user: UserId, _: ReservationId) -> BoxFuture<'_, Result<(), LeasesDown>> {
        self.inside.lock().expect("a lock").retain(|(inside, _)| *inside != user);
        self.if_up(())
    }
}

/// The address of each fan but one, who has none.
fn address_of(user: &UserId) -> Option<String> {
    (user.as_str() != "nomail").then(|| format!("{user}@example.org"))
}

/// A shop and the keys to it.
pub struct Shop {
    pub router: Router,
    pub admin: Router,
    pub store: Arc<FakeStore>,
    pub leases: Arc<FakeLeases>,
    pub ledger: Memory,
    pub sealer: Arc<Sealer>,
    fans: Signer,
    passes: Signer,
    passes_given: std::sync::atomic::AtomicU32,
}

impl Shop {
    pub fn open() -> Self {
        Self::with(Config { client_secret_wait_ms: 1, ..Config::default() })
    }

    pub fn with(config: Config) -> Self {
        let store = Arc::new(FakeStore::new());
        let leases = Arc::new(FakeLeases::default());
        let ledger = Memory::default();
        let sealer = Arc::new(Sealer::new([7; 32]));
        let fans = Signer::from_pem(&generate_key_pem()).expect("a key");
        let passes = Signer::from_pem(&generate_key_pem()).expect("a key");
        let fan_verifier = Arc::new(Verifier::new(&fans.key_set(), "idp", "encore").expect("a key set"));
        let planes = Planes {
            browse: Some(Browse { store: store.clone() }),
            buy: Some(Buy {
                store: store.clone(),
                fans: fan_verifier.clone(),
                passes: Arc::new(Verifier::new(&passes.key_set(), "queue", "buy").expect("a key set")),
                leases: leases.clone(),
                ledger: Arc::new(ledger.clone()),
                sealer: sealer.clone(),
            }),
            webhook: Some(Webhook {
                ledger: Arc::new(ledger.clone()),
                secrets: BTreeMap::from([("stripe".to_owned(), vec![b"older".to_vec(), SECRET.to_vec()])]),
            }),
        };
        let operations = Operations::new("api");
        let metrics = Metrics::new(&operations, "api");
        let router = crate::public_router(&config, &planes, &operations, &metrics, &CancellationToken::new());
        let office = Admin { store: store.clone(), operators: fan_verifier, ledger: Some(Arc::new(ledger.clone())) };
        let admin = crate::admin_router(&config, &office, &operations, &metrics);
        Self { router, admin, store, leases, ledger, sealer, fans, passes, passes_given: Default::default() }
    }

    /// A token of this fan.
    pub fn token(&self, user: &str) -> String {
        self.sign_in(user, false)
    }

    /// A token of an operator.
    pub fn operator(&self) -> String {
        self.sign_in("olga", true)
    }

    fn sign_in(&self, user: &str, operator: bool) -> String {
        let user = user.parse().expect("a user");
        let expires = WallMs(wall_now().0 + 600_000);
        self.fans.sign_fan("idp", "encore", &Fan { email: address_of(&user), user, operator, expires })
    }

    /// Let a fan in, and give them a fresh pass.
    pub fn admit(&self, user: &str) -> String {
        let number = self.passes_given.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let jti: PassId = format!("pass-{number}").parse().expect("a pass id");
        let user: UserId = user.parse().expect("a user");
        self.leases.inside.lock().expect("a lock").insert((user.clone(), jti.clone()));
        self.pass(user, jti, EVENT, 0)
    }

    /// As if the waiting room believed that the fan is inside with this pass.
    pub fn readmit(&self, user: &str, pass: PassId) {
        let user = user.parse().expect("a user");
        self.leases.inside.lock().expect("a lock").insert((user, pass));
    }

    /// A signed pass, `age_s` seconds old, of a fan who may not be inside.
    pub fn pass(&self, sub: UserId, jti: PassId, event: EventId, age_s: u64) -> String {
        let iat = wall_now().0 / 1_000 - age_s;
        let claims = PassClaims { iss: "queue".into(), aud: "buy".into(), sub, event, jti, iat, exp: iat + 300 };
        self.passes.sign_pass(&claims)
    }
}
