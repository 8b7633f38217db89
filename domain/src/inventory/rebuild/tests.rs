//! A small sale that is lost and comes back: from a backup, from a torn one with a younger ledger, from the ledger alone.

use super::*;
use crate::ids::{EventId, GroupId, SeatIndex, SectionId};
use crate::inventory::command::{Begin, Cart, Checkout, Manage, Participate, Purpose, Spec};
use crate::inventory::invariants::across;
use crate::inventory::record::{
    EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionSummary, Status, Tier,
};
use crate::inventory::{Answer, Command, Entry, Outcome, Query, Request, ReservationView};
use crate::money::Minor;
use crate::time::Stamp;

const EVENT: EventId = EventId(1);
const SECTION: SectionId = SectionId(0);
const CODE: &str = "EARLY";
const NOW: WallMs = WallMs(1_700_000_000_000);

fn plan() -> SectionPlan {
    let seat = |label: u32| PlanSeat {
        label: label.to_string(),
        at: Point { x: label.cast_signed() * 100, y: 0 },
        accessible: false,
        aisle_after: false,
    };
    SectionPlan {
        section: SECTION,
        name: "Stalls".into(),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point::default(),
        rows: vec![PlanRow { label: "1".into(), seats: (1..=20).map(seat).collect() }],
        capacity: 20,
    }
}

fn event() -> EventRecord {
    EventRecord {
        id: EVENT,
        version: 1,
        title: "A test".into(),
        venue: "Hall".into(),
        starts_at: NOW,
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 600_000,
        user_limit: 6,
        buckets: 2,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 100,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "A".into(), base: Minor(5_000) }],
        sections: vec![SectionSummary {
            id: SECTION,
            name: "Stalls".into(),
            kind: SectionKind::Seated,
            tier: 0,
            capacity: 20,
        }],
    }
}

fn ask(group: &mut Group, partition: Partition, command: Command) -> Outcome {
    let stamp = Stamp { elapsed_ms: 5, wall: NOW };
    group.apply(&Entry { stamp, requests: vec![Request { partition, command }] }).remove(0)
}

fn seats() -> Partition {
    Partition::Seats { event: EVENT, section: SECTION }
}

/// The event on sale in one group.
fn on_sale() -> Group {
    let mut group = Group::new(GroupId(1));
    let event = event();
    let price = PriceRule { base: Minor(5_000), dynamic: false, event_starts_at: NOW };
    let rules = CheckoutRules::of(&event);
    let mut create = |partition, spec| {
        let created = ask(&mut group, partition, Command::Manage(Manage::Create(Box::new(spec))));
        assert_eq!(created, Outcome::Done);
    };
    create(seats(), Spec::Seats { plan: plan(), price });
    let code = CODE.parse().unwrap();
    create(Partition::Promotion { event: EVENT, code }, Spec::Promotion { discount_bps: 1_000, cap: 5 });
    for bucket in [Bucket(0), Bucket(1), Bucket::BOX_OFFICE] {
        create(Partition::Checkouts { event: EVENT, bucket }, Spec::Checkouts(rules));
    }
    group
}

fn hold(group: &mut Group, user: &str, at: &[u32], purpose: Purpose) -> ReservationView {
    let seat = |seat: &u32| SeatRef { section: SECTION, seat: SeatIndex(*seat) };
    let begin = Begin {
        key: format!("key-{user}").parse().unwrap(),
        fingerprint: [0; 16],
        user: user.parse().unwrap(),
        cart: Cart::Chosen { seats: at.iter().map(seat).collect(), places: Vec::new() },
        promotion: (purpose == Purpose::Checkout && user == "alice").then(|| CODE.parse().unwrap()),
        pass: None,
        sent_at: NOW,
        hold_ttl_ms: None,
        purpose,
        note: None,
    };
    let partition = Partition::Checkouts { event: EVENT, bucket: begin.bucket(2) };
    match ask(group, partition, Command::Checkout(Checkout::Begin(Box::new(begin)))) {
        Outcome::Reservation(view) if view.status == Status::Held => *view,
        other => panic!("{user}: {other:?}"),
    }
}

fn pay(group: &mut Group, view: &ReservationView) -> Sale {
    let payment = PaymentId(u128::from(view.id.sequence) + 100 * u128::from(view.id.bucket.0));
    let command = Checkout::Pay { reservation: view.id, payment, amount: view.total, currency: view.currency };
    let paid = ask(group, view.id.partition(), Command::Checkout(command));
    assert!(matches!(paid, Outcome::Reservation(view) if view.status == Status::Paid));
    let (reservation, user, currency) = (view.id, view.user.clone(), view.currency);
    // The ledger knows what was paid, not how the price came about.
    let net = |quoted: &QuotedSeat| QuotedSeat { gross: quoted.net(), discount: Minor(0), ..*quoted };
    let seats = view.seats.iter().map(net).collect();
    Sale { reservation, user, payment, currency, seats, returned: BTreeSet::new(), at: NOW }
}

/// A new group with what was rebuilt.
fn brought_back(groups: &[Group], sales: &[Sale]) -> (Group, Rebuilt) {
    let (event, plans) = (event(), [plan()]);
    let promotions = [(CODE.parse().unwrap(), 1_000, 5)];
    let sources =
        Sources { event: &event, plans: &plans, promotions: &promotions, groups, sales, incarnation: 1, now: NOW };
    let rebuilt = rebuild(&sources).unwrap();
    let mut group = Group::new(GroupId(1));
    for (partition, state) in &rebuilt.partitions {
        for _ in 0..2 {
            let command = Command::Manage(Manage::Restore { state: state.clone() });
            assert_eq!(ask(&mut group, partition.clone(), command), Outcome::Done, "{partition}");
        }
    }
    across(&[&group]).unwrap();
    (group, rebuilt)
}

fn owners(group: &Group) -> BTreeMap<u32, (ReservationId, SeatState)> {
    let Answer::Owners(owners) = group.query(&seats(), &Query::Owners, 0) else { panic!("no owners") };
    owners.into_iter().map(|owner| (owner.seat.0, (owner.reservation, owner.state))).collect()
}

fn status(group: &Group, id: ReservationId) -> Option<Status> {
    match group.query(&id.partition(), &Query::Reservation(id), 0) {
        Answer::Reservation(view) => view.map(|view| view.status),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_brings_everything_back_and_ids_are_never_used_again() {
    let mut before = on_sale();
    let alice = hold(&mut before, "alice", &[0, 1], Purpose::Checkout);
    let sale = pay(&mut before, &alice);
    let bob = hold(&mut before, "bob", &[4], Purpose::Checkout);
    let blocked = hold(&mut before, "box", &[9], Purpose::Block);
    let (mut after, rebuilt) = brought_back(&[before.clone()], &[sale]);
    assert_eq!((rebuilt.sold, rebuilt.held, rebuilt.notes.len()), (2, 2, 0));
    assert_eq!(owners(&after), owners(&before));
    assert_eq!(status(&after, bob.id), Some(Status::Held));
    assert_eq!(status(&after, blocked.id), Some(Status::Held));
    // What was held can be paid, what is free can be held, under ids that nobody has had.
    pay(&mut after, &bob);
    let carol = hold(&mut after, "carol", &[6], Purpose::Checkout);
    assert_eq!(carol.id.incarnation, 1);
    let code = Partition::Promotion { event: EVENT, code: CODE.parse().unwrap() };
    assert_eq!(after.query(&code, &Query::PromotionUses, 0), Answer::PromotionUses(vec![alice.id]));
    across(&[&after]).unwrap();
}

#[test]
fn the_ledgers_word_stands_above_an_older_backup() {
    let mut now = on_sale();
    let alice = hold(&mut now, "alice", &[0, 1], Purpose::Checkout);
    let bob = hold(&mut now, "bob", &[2], Purpose::Checkout);
    let backup = now.clone();
    // After the backup: Alice pays and gives one seat back; Bob lets go, and Carol buys his seat.
    let mut sold = pay(&mut now, &alice);
    sold.returned.insert(SeatRef { section: SECTION, seat: SeatIndex(1) });
    ask(&mut now, bob.id.partition(), Command::Checkout(Checkout::Cancel { reservation: bob.id, user: None }));
    let carol = hold(&mut now, "carol", &[2], Purpose::Checkout);
    let carols = pay(&mut now, &carol);
    let (after, rebuilt) = brought_back(&[backup], &[sold, carols]);
    assert_eq!((rebuilt.sold, rebuilt.held), (2, 0));
    assert_eq!(rebuilt.notes.len(), 3, "{:?}", rebuilt.notes);
    let owned = owners(&after);
    assert_eq!(owned, BTreeMap::from([(0, (alice.id, SeatState::Sold)), (2, (carol.id, SeatState::Sold))]));
    assert_eq!(status(&after, bob.id), Some(Status::Expired));
    assert_eq!(status(&after, carol.id), Some(Status::Paid));
}

#[test]
fn participants_of_another_moment_are_not_believed() {
    let mut now = on_sale();
    let alice = hold(&mut now, "alice", &[0], Purpose::Checkout);
    let mut torn = now.clone();
    // The section was copied after Alice's hold was released and somebody unknown had taken seats.
    ask(&mut torn, seats(), Command::Participate(Participate::Release { reservation: alice.id }));
    let stranger = ReservationId { sequence: 77, ..alice.id };
    let take = crate::inventory::command::Take::Seats(vec![SeatIndex(5)]);
    let prepare = Participate::Prepare { reservation: stranger, user: alice.user, take, purpose: Purpose::Checkout };
    ask(&mut torn, seats(), Command::Participate(prepare));
    let (after, _) = brought_back(&[torn], &[]);
    assert_eq!(owners(&after), BTreeMap::from([(0, (alice.id, SeatState::Held))]));
}

#[test]
fn from_the_ledger_alone_what_was_sold_is_sold_and_the_rest_sells_again() {
    let mut before = on_sale();
    let alice = hold(&mut before, "alice", &[0, 1], Purpose::Checkout);
    let sale = pay(&mut before, &alice);
    hold(&mut before, "bob", &[4], Purpose::Checkout);
    let (mut after, rebuilt) = brought_back(&[], std::slice::from_ref(&sale));
    assert_eq!((rebuilt.sold, rebuilt.held), (2, 0));
    assert_eq!(owners(&after).keys().copied().collect::<Vec<_>>(), [0, 1]);
    // A repeated payment of it is known, and its refund goes through.
    pay(&mut after, &ReservationView { total: alice.total, ..alice.clone() });
    hold(&mut after, "bob", &[4], Purpose::Checkout);
    let refund = Checkout::Refund {
        refund: crate::ids::RefundId(1),
        reservation: alice.id,
        seats: vec![SeatRef { section: SECTION, seat: SeatIndex(0) }],
    };
    assert_eq!(ask(&mut after, alice.id.partition(), Command::Checkout(refund)), Outcome::Done);
    assert_eq!(owners(&after).keys().copied().collect::<Vec<_>>(), [1, 4]);
    across(&[&after]).unwrap();
    let twice = [sale.clone(), Sale { reservation: ReservationId { sequence: 9, ..sale.reservation }, ..sale }];
    let (event, plans) = (event(), [plan()]);
    let sources =
        Sources { event: &event, plans: &plans, promotions: &[], groups: &[], sales: &twice, incarnation: 1, now: NOW };
    assert!(rebuild(&sources).unwrap_err().contains("is sold to"));
}

#[test]
fn an_incarnation_that_was_used_and_a_backup_without_a_bucket_are_refused() {
    let mut before = on_sale();
    let alice = hold(&mut before, "alice", &[0, 1], Purpose::Checkout);
    let sale = pay(&mut before, &alice);
    let (mut after, _) = brought_back(&[before], std::slice::from_ref(&sale));
    let (event, plans) = (event(), [plan()]);
    let attempt = |groups: &[Group], incarnation| {
        let sales = std::slice::from_ref(&sale);
        rebuild(&Sources { event: &event, plans: &plans, promotions: &[], groups, sales, incarnation, now: NOW })
    };
    // The store is lost again: the backup may be the same old one, but the number is not.
    let groups = [after.clone()];
    assert_eq!(highest_incarnation(&groups, &[]), Some(1));
    assert!(attempt(&groups, 1).unwrap_err().contains("would mint ids again"));
    assert!(attempt(&groups, 2).is_ok());
    // A bucket that was being moved while the groups were copied.
    after.checkouts.remove(&(EVENT, Bucket(1)));
    let refused = attempt(&[after], 2).unwrap_err();
    assert!(refused.contains("bucket 1 is in no group of the backup"), "{refused}");
}
