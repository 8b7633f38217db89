//! Several groups over a network that delivers any message ever sent, at any time, any number of times, to any group; time
//! passes, partitions move, payments and refunds come twice. All invariants hold after each entry, an end stays that end, a
//! quote stays that quote; and once the network calms down everything ends and nothing is left behind.

use crate::fixture::{self, begin, chosen};
use crate::world::{EVENT, World};
use domain::ids::{Attempt, Bucket, GroupId, Partition, PaymentId, RefundId, ReservationId, SectionId};
use domain::inventory::command::{Begin, BestAvailable, Cart, Checkout, Command, Manage, Meta, Purpose, Request, Spec};
use domain::inventory::query::{MoveStage, SeatState};
use domain::inventory::record::{EventStatus, QueueMode, SectionSummary, Tier};
use domain::inventory::{Answer, EventRecord, Outcome, Query, ReservationView, SectionPlan, Status, reply};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use proptest::prelude::*;
use std::collections::BTreeMap;

const GROUPS: u32 = 3;
const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const BUCKETS: [Bucket; 3] = [Bucket(0), Bucket(1), Bucket::BOX_OFFICE];

/// What a message costs nothing to be sent again: where to, and what.
type Sent = (GroupId, Request);

struct Chaos {
    world: World,
    sent: Vec<Sent>,
    begins: Vec<Begin>,
    seen: BTreeMap<ReservationId, ReservationView>,
    partitions: Vec<Partition>,
}

pub fn plans() -> Vec<SectionPlan> {
    vec![fixture::hall(1, &[4]), fixture::hall(2, &[3, 3]), fixture::floor(3, 3)]
}

pub fn record(plans: &[SectionPlan]) -> EventRecord {
    let summary = |plan: &SectionPlan| SectionSummary {
        id: plan.section,
        name: plan.name.clone(),
        kind: plan.kind,
        tier: 0,
        capacity: plan.capacity,
    };
    EventRecord {
        id: EVENT,
        version: 1,
        title: "Any delivery".into(),
        venue: "Here".into(),
        starts_at: WallMs(1_000 * fixture::DAY),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 60_000,
        user_limit: 4,
        buckets: 2,
        dynamic_pricing: true,
        retry_declined: false,
        queue_capacity: 10,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "one".into(), base: Minor(5_000) }],
        sections: plans.iter().map(summary).collect(),
    }
}

impl Chaos {
    /// Sections over all groups, buckets and code in the first.
    fn new() -> Self {
        let mut world = World::new(GROUPS);
        let code = "EARLY".parse().unwrap();
        let plans = plans();
        for group in 0..GROUPS {
            let register = Meta::RegisterGroup { group: GroupId(group), nodes: BTreeMap::new() };
            world.command(Partition::Meta, Command::Meta(register));
        }
        let event = Box::new(record(&plans));
        let publish = Meta::Publish { event, promotions: vec![code], groups: vec![GroupId(1), GroupId(2)] };
        assert_eq!(world.command(Partition::Meta, Command::Meta(publish)), Outcome::Done);
        let Answer::Placement(placement) = world.query(&Partition::Meta, &Query::Placement) else {
            panic!("no placement")
        };
        let placed = &placement.events[&EVENT];
        let partitions = placed.partitions(EVENT);
        for partition in &partitions {
            let spec = match partition {
                Partition::Seats { section, .. } => Spec::Seats {
                    plan: plans.iter().find(|plan| plan.section == *section).unwrap().clone(),
                    price: domain::inventory::command::PriceRule { dynamic: true, ..fixture::price(5_000) },
                },
                Partition::Promotion { .. } => Spec::Promotion { discount_bps: 1_000, cap: 2 },
                _ => Spec::Checkouts(domain::inventory::command::CheckoutRules { user_limit: 4, ..fixture::rules() }),
            };
            let group = placed.locate(partition).0;
            assert_eq!(world.manage(group, partition, Manage::Create(Box::new(spec))), Outcome::Done);
        }
        let (sent, begins, seen) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { world, sent, begins, seen, partitions }
    }

    /// One step: what it is depends on `kind`, which of the possible ones on `a` and `b`.
    fn step(&mut self, kind: u8, a: u16, b: u16) {
        match kind {
            0..=3 => self.begin(a, b),
            4 => self.begin_again(a),
            5..=6 => self.about_one(
                a,
                |view, b| Checkout::Pay {
                    reservation: view.id,
                    payment: PaymentId(u128::from(b % 3)),
                    amount: Minor(view.total.0 + i64::from(b % 7 == 0)),
                    currency: view.currency,
                },
                b,
            ),
            7 => self.about_one(a, |view, _| Checkout::Cancel { reservation: view.id, user: None }, b),
            8 => self.about_one(a, |view, _| Checkout::Extend { reservation: view.id, payment: PaymentId(1) }, b),
            9 => self.about_one(a, |view, _| Checkout::Accept { reservation: view.id, user: view.user.clone() }, b),
            10 => self.about_one(a, |view, _| Checkout::LedgerAck { reservation: view.id }, b),
            11 => self.about_one(
                a,
                |view, b| {
                    let seats = view.seats.iter().map(|quoted| quoted.seat).take(1 + usize::from(b % 2));
                    Checkout::Refund {
                        refund: RefundId(u128::from(b % 4)),
                        reservation: view.id,
                        seats: seats.collect(),
                    }
                },
                b,
            ),
            12..=13 => self.owe(),
            14..=18 => self.deliver(a, b),
            19 => self.world.pass(u64::from(a % 4) * 2_500),
            20 => self.world.pass(if b.is_multiple_of(64) { fixture::DAY } else { 30_000 }),
            21 => self.begin_move(a, b),
            23 if b.is_multiple_of(8) => self.flood(a),
            _ => self.decide_move(a, b),
        }
        self.look();
    }

    fn begin(&mut self, a: u16, b: u16) {
        let user = USERS[usize::from(a) % USERS.len()];
        let seat = |at: u16| (1 + at % 2, u32::from(at / 2 % 4));
        let cart = match b % 6 {
            0 => chosen(&[seat(a / 5)]),
            1 => chosen(&[seat(a / 5), (2, u32::from(a / 50 % 6))]),
            2 => Cart::Chosen { seats: vec![], places: vec![(SectionId(3), 1 + u32::from(a / 5 % 2))] },
            3 => Cart::Best(BestAvailable {
                sections: vec![SectionId(1), SectionId(2), SectionId(3)],
                count: 1 + (a / 5 % 3) as u8,
                contiguous: a.is_multiple_of(2),
                accessible: 0,
                max_price: None,
            }),
            _ => chosen(&[(1, u32::from(a / 5 % 4)), (2, u32::from(a / 20 % 6))]),
        };
        let mut begin = begin(user, &format!("k{}", self.begins.len()), cart, self.world.wall);
        begin.promotion = (b / 6).is_multiple_of(3).then(|| "EARLY".parse().unwrap());
        begin.pass = Some(format!("pass-{}", b / 18 % 20).parse().unwrap());
        match b / 6 % 11 {
            9 => begin.purpose = Purpose::Offer,
            10 => {
                begin.purpose = Purpose::Block;
                begin.promotion = None;
                begin.cart = chosen(&[seat(a / 5)]);
            }
            _ => {}
        }
        self.begins.push(begin.clone());
        self.open(begin);
    }

    /// So many short reservations that the watermark would rise, if nothing older were open.
    fn flood(&mut self, a: u16) {
        self.world.watchful = false;
        for round in 0..70 {
            let mut begin = begin("frank", &format!("f{a}-{round}"), chosen(&[(1, 0)]), self.world.wall);
            begin.user = if a.is_multiple_of(2) { "frank" } else { "gina" }.parse().unwrap();
            let bucket = begin.bucket(2);
            let outcome = self.world.checkout(bucket, Checkout::Begin(Box::new(begin)));
            if let Outcome::Reservation(view) = outcome {
                self.world.checkout(bucket, Checkout::Cancel { reservation: view.id, user: None });
            }
        }
        self.world.watchful = true;
    }

    /// A client repeats a request, or the network does.
    fn begin_again(&mut self, a: u16) {
        if !self.begins.is_empty() {
            self.open(self.begins[usize::from(a) % self.begins.len()].clone());
        }
    }

    fn open(&mut self, begin: Begin) {
        let bucket = begin.bucket(2);
        self.world.checkout(bucket, Checkout::Begin(Box::new(begin)));
    }

    fn about_one(&mut self, a: u16, command: impl Fn(&ReservationView, u16) -> Checkout, b: u16) {
        if self.seen.is_empty() {
            return;
        }
        let view = self.seen.values().nth(usize::from(a) % self.seen.len()).unwrap().clone();
        let command = Command::Checkout(command(&view, b));
        let request = Request { partition: view.id.partition(), command };
        self.send(request);
    }

    /// To where it is now; the network keeps it.
    fn send(&mut self, request: Request) {
        let group = self.world.locate(&request.partition);
        self.sent.push((group, request));
        self.carry(self.sent.len() - 1);
    }

    fn owe(&mut self) {
        for message in self.world.pending() {
            let group = self.world.locate(&message.partition);
            if !self.sent.contains(&(group, message.clone())) {
                self.sent.push((group, message));
            }
        }
    }

    /// Any message ever sent, or a late one to where its partition is by now, or to where it never was.
    fn deliver(&mut self, a: u16, b: u16) {
        if self.sent.is_empty() {
            return;
        }
        // Newer ones more often: without answers nothing would ever be decided.
        let at = match a % 3 {
            0 => usize::from(b) % self.sent.len(),
            _ => self.sent.len() - 1 - usize::from(b) % self.sent.len().min(12),
        };
        if !matches!(self.sent[at].1.command, Command::Manage(_)) {
            let group = match a / 3 % 4 {
                0 => GroupId(u32::from(b) % GROUPS),
                _ => self.world.locate(&self.sent[at].1.partition),
            };
            self.sent[at].0 = group;
        }
        self.carry(at);
    }

    /// Delivers one message; what follows from its answer is sent, not delivered.
    fn carry(&mut self, at: usize) -> Outcome {
        let (group, request) = self.sent[at].clone();
        let outcome = self.world.apply(group, vec![request.clone()]).pop().unwrap();
        if let Some(answer) = reply(&request, &outcome) {
            let group = self.world.locate(&answer.partition);
            self.sent.push((group, answer));
        }
        self.drive_move(&request, &outcome);
        outcome
    }

    fn meta(&mut self, command: Meta) -> Outcome {
        self.world.command(Partition::Meta, Command::Meta(command))
    }

    fn manage(&mut self, group: GroupId, partition: &Partition, command: Manage) {
        self.sent.push((group, Request { partition: partition.clone(), command: Command::Manage(command) }));
    }

    fn begin_move(&mut self, a: u16, b: u16) {
        let partition = self.partitions[usize::from(a) % self.partitions.len()].clone();
        let to = GroupId(u32::from(b) % GROUPS);
        if let Outcome::MoveBegun { attempt, from, .. } =
            self.meta(Meta::MoveBegin { partition: partition.clone(), to })
        {
            self.manage(from, &partition, Manage::Freeze { attempt });
        }
    }

    /// The driver of the moves: each answer has one next message.
    fn drive_move(&mut self, request: &Request, outcome: &Outcome) {
        let Command::Manage(command) = &request.command else { return };
        let partition = request.partition.clone();
        let Some(open) = self
            .moves()
            .into_iter()
            .find(|open| open.partition == partition && Some(open.attempt) == attempt_of(command))
        else {
            return;
        };
        match (command, outcome) {
            (Manage::Freeze { attempt }, Outcome::Exported(exported)) => {
                let (attempt, epoch, exported) = (*attempt, open.epoch, exported.clone());
                self.manage(open.to, &partition, Manage::Install { attempt, epoch, exported });
            }
            (Manage::Install { attempt, .. }, Outcome::Done) => {
                let attempt = *attempt;
                self.meta(Meta::MoveCommit { partition: partition.clone(), attempt });
                self.finish_move(&partition, attempt);
            }
            _ => {}
        }
    }

    fn moves(&self) -> Vec<domain::inventory::query::Move> {
        match self.world.query(&Partition::Meta, &Query::Moves) {
            Answer::Moves(moves) => moves,
            other => panic!("{other:?}"),
        }
    }

    /// Sends what meta's decision asks for.
    fn finish_move(&mut self, partition: &Partition, attempt: Attempt) {
        let found = self.moves().into_iter().find(|open| open.partition == *partition && open.attempt == attempt);
        let Some(open) = found else { return };
        match open.stage {
            MoveStage::Begun => {}
            MoveStage::Committed => {
                self.manage(open.to, partition, Manage::Activate { attempt });
                self.manage(open.from, partition, Manage::Drop { attempt });
            }
            MoveStage::Aborted => self.manage(open.from, partition, Manage::Unfreeze { attempt }),
        }
    }

    /// Meta gives a move up, or a driver starts over what it finds.
    fn decide_move(&mut self, a: u16, b: u16) {
        let moves = self.moves();
        if moves.is_empty() {
            return;
        }
        let open = &moves[usize::from(a) % moves.len()];
        let (partition, attempt) = (open.partition.clone(), open.attempt);
        if b.is_multiple_of(3) {
            self.meta(Meta::MoveAbort { partition: partition.clone(), attempt });
        }
        self.settle_move(&partition, attempt);
    }

    /// Both ends do their part of what meta decided; then meta may forget it. The network does not.
    fn settle_move(&mut self, partition: &Partition, attempt: Attempt) {
        let from = self.sent.len();
        self.finish_move(partition, attempt);
        let outcomes: Vec<Outcome> = (from..self.sent.len()).map(|at| self.carry(at)).collect();
        if !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            self.meta(Meta::MoveDone { partition: partition.clone(), attempt });
        }
    }

    /// What everybody may see of every record: an end is final, a quote is frozen, nothing comes back.
    fn look(&mut self) {
        for bucket in BUCKETS {
            let partition = Partition::Checkouts { event: EVENT, bucket };
            let Answer::Records(views) = self.world.query(&partition, &Query::Records) else { continue };
            for view in views {
                if let Some(before) = self.seen.get(&view.id) {
                    let quoted = !matches!(before.status, Status::Preparing | Status::Aborted);
                    assert!(!before.status.is_terminal() || before.status == view.status, "{before:?} became {view:?}");
                    assert!(
                        !quoted || (before.total, &before.seats) == (view.total, &view.seats),
                        "{before:?}: {view:?}"
                    );
                }
                self.seen.insert(view.id, view);
            }
        }
    }

    /// The network calms down: moves are finished, messages arrive, time passes.
    fn calm(&mut self) {
        for round in 0..30 {
            for open in self.moves() {
                if open.stage == MoveStage::Begun {
                    self.meta(Meta::MoveAbort { partition: open.partition.clone(), attempt: open.attempt });
                }
                self.settle_move(&open.partition, open.attempt);
            }
            for message in self.world.pending() {
                self.world.deliver(message);
            }
            if round % 5 == 4 {
                self.world.pass(30_000);
            }
            self.look();
        }
        assert_eq!(self.world.pending(), [], "something is still owed");
        self.nothing_is_left();
    }

    fn nothing_is_left(&self) {
        let mut held = 0;
        for partition in &self.partitions {
            if let Partition::Seats { .. } = partition {
                let Answer::Owners(owners) = self.world.query(partition, &Query::Owners) else { panic!("{partition}") };
                held += owners.iter().filter(|owner| owner.state == SeatState::Held).count();
            }
        }
        assert_eq!(held, 0, "a seat is held and nobody's");
        let live = self.seen.values().filter(|view| !view.status.is_terminal() && view.id.bucket != Bucket::BOX_OFFICE);
        assert_eq!(live.count(), 0, "a reservation never ended");
    }
}

fn attempt_of(command: &Manage) -> Option<Attempt> {
    match command {
        Manage::Freeze { attempt } | Manage::Install { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_at_any_time_any_number_of_times(
        steps in prop::collection::vec((0..24_u8, any::<u16>(), any::<u16>()), 0..140)
    ) {
        let mut chaos = Chaos::new();
        for (kind, a, b) in steps {
            chaos.step(kind, a, b);
        }
        chaos.calm();
    }
}
