//! The inventory's own machine as the store: real judgements, service time that only moves when told, no cluster.

use domain::ids::{
    Bucket, EventId, Partition, PaymentId, RefundId, ReservationId, SeatIndex, SeatRef, SectionId, UserId,
};
use domain::inventory::command::{Begin, Cart, Checkout, CheckoutRules, Manage, Meta, PriceRule, Purpose, Spec};
use domain::inventory::group::Group;
use domain::inventory::query::Owner;
use domain::inventory::record::{EventStatus, Point, QueueMode, SectionKind, SectionSummary, Tier};
use domain::inventory::{
    Answer, Command, Entry, EventRecord, FeedEntry, Outcome, Query, Request, ReservationView, SectionPlan,
};
use domain::money::{Currency, Minor};
use domain::time::{Stamp, WallMs};
use fulfillment::store::{FromStore, Store};
use raft_store::client::ClientError;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

pub const PLACES: u32 = 40;
pub const PRICE: Minor = Minor(1_250);
pub const HOLD_MS: u32 = 60_000;

/// A store of one event with one standing area; clones share it.
#[derive(Clone)]
pub struct TestStore {
    group: Arc<Mutex<Group>>,
    /// Extensions of these are never answered.
    pub silent: Arc<Mutex<BTreeSet<ReservationId>>>,
    pub record: EventRecord,
}

fn section() -> Partition {
    Partition::Seats { event: EventId(1), section: SectionId(0) }
}

fn bucket() -> Partition {
    Partition::Checkouts { event: EventId(1), bucket: Bucket(0) }
}

pub fn plan() -> SectionPlan {
    SectionPlan {
        section: SectionId(0),
        name: "Floor".into(),
        kind: SectionKind::Standing,
        tier: 0,
        focal: Point::default(),
        rows: Vec::new(),
        capacity: PLACES,
    }
}

fn record(currency: Currency) -> EventRecord {
    let plan = plan();
    EventRecord {
        id: EventId(1),
        version: 1,
        title: "Night of the Tests".into(),
        venue: "Hall".into(),
        starts_at: WallMs(u64::MAX / 2),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency,
        plan_version: 1,
        hold_ttl_ms: HOLD_MS,
        user_limit: 6,
        buckets: 1,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 10,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "Floor".into(), base: PRICE }],
        sections: vec![SectionSummary {
            id: plan.section,
            name: plan.name,
            kind: plan.kind,
            tier: plan.tier,
            capacity: plan.capacity,
        }],
    }
}

fn rules(version: u64, currency: Currency, status: EventStatus) -> Spec {
    Spec::Checkouts(CheckoutRules {
        version,
        currency,
        hold_ttl_ms: HOLD_MS,
        user_limit: 6,
        on_sale_at: WallMs(0),
        status,
        incarnation: 0,
    })
}

impl TestStore {
    pub fn new(currency: Currency) -> Self {
        let record = record(currency);
        let store = Self { group: Arc::default(), silent: Arc::default(), record: record.clone() };
        let publish = Meta::Publish { event: Box::new(record.clone()), promotions: Vec::new(), groups: Vec::new() };
        store.apply(Partition::Meta, Command::Meta(publish));
        let price = PriceRule { base: PRICE, dynamic: false, event_starts_at: record.starts_at };
        let seats = Spec::Seats { plan: plan(), price };
        assert_eq!(store.apply(section(), Command::Manage(Manage::Create(Box::new(seats)))), Outcome::Done);
        let rules = rules(1, currency, EventStatus::Scheduled);
        assert_eq!(store.apply(bucket(), Command::Manage(Manage::Create(Box::new(rules)))), Outcome::Done);
        store
    }

    fn apply_after(&self, elapsed_ms: u32, requests: Vec<Request>) -> Vec<Outcome> {
        let stamp = Stamp { elapsed_ms, wall: WallMs(1_800_000_000_000) };
        self.group.lock().unwrap().apply(&Entry { stamp, requests })
    }

    fn apply(&self, partition: Partition, command: Command) -> Outcome {
        self.apply_after(0, vec![Request { partition, command }]).remove(0)
    }

    fn query(&self, partition: &Partition, query: &Query) -> Answer {
        self.group.lock().unwrap().query(partition, query, 0)
    }

    /// Let service time pass.
    pub fn pass(&self, ms: u32) {
        for _ in 0..ms / 1_000 {
            self.apply_after(1_000, Vec::new());
        }
        self.apply_after(ms % 1_000, Vec::new());
    }

    /// The operator's part of calling the event off.
    pub fn call_off(&self, event: EventId) {
        let cancel = Meta::SetStatus { event, status: EventStatus::Cancelled };
        assert_eq!(self.apply(Partition::Meta, Command::Meta(cancel)), Outcome::Done);
        let rules = rules(2, self.record.currency, EventStatus::Cancelled);
        assert_eq!(self.apply(bucket(), Command::Manage(Manage::Create(Box::new(rules)))), Outcome::Done);
    }

    /// Hold so many places.
    pub fn hold(&self, user: &UserId, count: u32) -> ReservationView {
        let begin = Begin {
            key: uuid::Uuid::new_v4().to_string().parse().unwrap(),
            fingerprint: [0; 16],
            user: user.clone(),
            cart: Cart::Chosen { seats: Vec::new(), places: vec![(SectionId(0), count)] },
            promotion: None,
            pass: None,
            sent_at: WallMs(1_800_000_000_000),
            hold_ttl_ms: None,
            purpose: Purpose::Checkout,
            note: None,
        };
        match self.apply(bucket(), Command::Checkout(Checkout::Begin(Box::new(begin)))) {
            Outcome::Reservation(view) => *view,
            other => panic!("no hold: {other:?}"),
        }
    }

    pub fn reservation(&self, id: ReservationId) -> ReservationView {
        match self.query(&bucket(), &Query::Reservation(id)) {
            Answer::Reservation(Some(view)) => *view,
            other => panic!("{other:?}"),
        }
    }

    pub fn owners(&self) -> Vec<(SeatIndex, ReservationId)> {
        match self.query(&section(), &Query::Owners) {
            Answer::Owners(owners) => {
                owners.into_iter().map(|Owner { seat, reservation, .. }| (seat, reservation)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn checkout(&self, command: Checkout) -> FromStore<Outcome> {
        Ok(self.apply(bucket(), Command::Checkout(command)))
    }
}

impl Store for TestStore {
    async fn pay(
        &self,
        reservation: ReservationId,
        payment: PaymentId,
        amount: Minor,
        currency: Currency,
    ) -> FromStore<Outcome> {
        self.checkout(Checkout::Pay { reservation, payment, amount, currency })
    }

    async fn cancel(&self, reservation: ReservationId) -> FromStore<Outcome> {
        self.checkout(Checkout::Cancel { reservation, user: None })
    }

    async fn extend(&self, reservation: ReservationId, payment: PaymentId) -> FromStore<Outcome> {
        if self.silent.lock().unwrap().contains(&reservation) {
            std::future::pending::<()>().await;
        }
        self.checkout(Checkout::Extend { reservation, payment })
    }

    async fn refund(&self, refund: RefundId, reservation: ReservationId, seats: Vec<SeatRef>) -> FromStore<Outcome> {
        self.checkout(Checkout::Refund { refund, reservation, seats })
    }

    async fn holds(&self, _event: EventId) -> FromStore<Vec<ReservationId>> {
        match self.query(&bucket(), &Query::Records) {
            Answer::Records(views) => Ok(views.iter().filter(|v| !v.status.is_terminal()).map(|v| v.id).collect()),
            other => Err(ClientError::Protocol(format!("{other:?}"))),
        }
    }

    async fn live(&self, reservations: &[ReservationId]) -> FromStore<Vec<ReservationId>> {
        match self.query(&bucket(), &Query::Live(reservations.to_vec())) {
            Answer::Live(live) => Ok(live),
            other => Err(ClientError::Protocol(format!("{other:?}"))),
        }
    }

    async fn ledger_ack(&self, reservation: ReservationId) -> FromStore<Outcome> {
        self.checkout(Checkout::LedgerAck { reservation })
    }

    async fn events(&self) -> FromStore<Vec<EventRecord>> {
        match self.query(&Partition::Meta, &Query::Events) {
            Answer::Events(records) => Ok(records),
            other => Err(ClientError::Protocol(format!("{other:?}"))),
        }
    }

    async fn partitions(&self, _event: EventId) -> FromStore<Vec<Partition>> {
        Ok(vec![bucket(), section()])
    }

    async fn feed(&self, partition: Partition, after: u64, max: u32) -> FromStore<Vec<FeedEntry>> {
        match self.query(&partition, &Query::Feed { after, max }) {
            Answer::Feed(facts) => Ok(facts),
            other => Err(ClientError::Protocol(format!("{other:?}"))),
        }
    }

    async fn ack_feed(&self, partition: Partition, upto: u64) -> FromStore<()> {
        self.apply(partition, Command::Manage(Manage::AckFeed { upto }));
        Ok(())
    }
}
