//! Time is service time: whatever leaders stamp, an entry adds what it says and at most five seconds, the wall clock decides
//! nothing about a hold, and a hold ends when its service time is over, neither earlier nor later.

use crate::fixture;
use domain::ids::{Bucket, EventId, GroupId, Partition, SeatIndex, SeatRef, SectionId};
use domain::inventory::command::{Cart, Checkout, CheckoutRules, Command, Entry, Manage, Request, Spec};
use domain::inventory::{Answer, Group, Outcome, Query, Refusal, ReservationView, Status};
use domain::time::{Stamp, WallMs};
use proptest::prelude::*;

const EVENT: EventId = EventId(1);
const HOLD_MS: u64 = 60_000;
const NOW: u64 = 1_790_000_000_000;

fn bucket() -> Partition {
    Partition::Checkouts { event: EVENT, bucket: Bucket(0) }
}

fn entry(elapsed_ms: u32, wall: u64, requests: Vec<Request>) -> Entry {
    Entry { stamp: Stamp { elapsed_ms, wall: WallMs(wall) }, requests }
}

fn look(group: &Group, elapsed_ms: u32) -> ReservationView {
    match group.query(&bucket(), &Query::Records, elapsed_ms) {
        Answer::Records(mut records) => records.pop().expect("one was made"),
        other => panic!("{other:?}"),
    }
}

/// A group with one hold, made by a leader with this wall clock.
fn held(wall: u64) -> Group {
    let seats = Partition::Seats { event: EVENT, section: SectionId(0) };
    let create =
        |partition: Partition, spec| Request { partition, command: Command::Manage(Manage::Create(Box::new(spec))) };
    let cart = Cart::Chosen { seats: vec![SeatRef { section: SectionId(0), seat: SeatIndex(0) }], places: Vec::new() };
    let begin = Box::new(fixture::begin("alice", "key-1", cart, NOW));
    let mut group = Group::new(GroupId(1));
    let outcomes = group.apply(&entry(
        0,
        wall,
        vec![
            create(seats, Spec::Seats { plan: fixture::hall(0, &[5]), price: fixture::price(5_000) }),
            create(bucket(), Spec::Checkouts(fixture::rules())),
            Request { partition: bucket(), command: Command::Checkout(Checkout::Begin(begin)) },
        ],
    ));
    assert!(matches!(&outcomes[2], Outcome::Reservation(view) if view.status == Status::Held), "{outcomes:?}");
    group
}

/// Stamps of leaders: ordinary ticks, pauses of any length, and wall clocks that are anything.
fn stamps() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let elapsed = prop_oneof![3 => 0_u32..2_000, 1 => 4_000_u32..8_000, 1 => any::<u32>()];
    let wall = prop_oneof![Just(NOW), Just(NOW + 3_600_000), Just(NOW - 3_600_000), any::<u64>()];
    proptest::collection::vec((elapsed, wall), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hold_ends_when_its_service_time_is_over(made_at in any::<u64>(), stamps in stamps(), glance in any::<u32>()) {
        let (mut group, mut right) = (held(made_at), held(NOW));
        let mut served = 0_u64;
        for (elapsed, wall) in stamps {
            group.apply(&entry(elapsed, wall, Vec::new()));
            right.apply(&entry(elapsed, NOW, Vec::new()));
            served += u64::from(elapsed.min(5_000));
            let (view, other) = (look(&group, 0), look(&right, 0));
            let status = if served < HOLD_MS { Status::Held } else { Status::Expired };
            prop_assert_eq!(view.status, status, "after {} ms", served);
            prop_assert_eq!((view.status, view.remaining_ms), (other.status, other.remaining_ms));
            prop_assert_eq!(view.remaining_ms, HOLD_MS.saturating_sub(served));
            // A leader that looks before its next entry sees at most what that entry could add.
            let ahead = look(&group, glance);
            prop_assert_eq!(ahead.remaining_ms, HOLD_MS.saturating_sub(served + u64::from(glance.min(5_000))));
            // That entry may never be, so that nothing has ended by it.
            prop_assert_eq!(ahead.status, status);
        }
    }
}

#[test]
fn only_the_opening_of_a_sale_goes_by_the_leaders_wall_clock() {
    let opens = NOW + 1_800_000;
    let ask = |wall: u64| {
        let mut group = held(NOW);
        let rules = CheckoutRules { version: 2, on_sale_at: WallMs(opens), ..fixture::rules() };
        let create = Command::Manage(Manage::Create(Box::new(Spec::Checkouts(rules))));
        let cart =
            Cart::Chosen { seats: vec![SeatRef { section: SectionId(0), seat: SeatIndex(3) }], places: Vec::new() };
        let begin = Command::Checkout(Checkout::Begin(Box::new(fixture::begin("bob", "key-2", cart, NOW))));
        let request = |command| Request { partition: bucket(), command };
        group.apply(&entry(0, wall, vec![request(create), request(begin)])).pop().unwrap()
    };
    assert!(matches!(ask(opens), Outcome::Reservation(_)));
    assert!(matches!(ask(NOW + 3_600_000), Outcome::Reservation(_)), "an hour ahead opens it early, and says so");
    for wall in [opens - 1, NOW - 3_600_000] {
        assert!(matches!(ask(wall), Outcome::Refused(Refusal::NotOnSale { .. })), "{:?}", ask(wall));
    }
}
