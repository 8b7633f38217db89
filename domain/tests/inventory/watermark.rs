//! The watermark waits for the least reservation that is not over, however many are over after it.

use crate::fixture::{self, begin, chosen};
use crate::world::{EVENT, World};
use domain::ids::{Bucket, GroupId, Partition, ReservationId, SectionId};
use domain::inventory::Outcome;
use domain::inventory::command::{Checkout, Command, Manage, Participate, Purpose, Request, Spec, Take, Vote};

const BUCKET: Bucket = Bucket(0);
const SECTION: Partition = Partition::Seats { event: EVENT, section: SectionId(2) };

/// A section and its judge in different groups.
fn world() -> World {
    let mut world = World::new(3);
    let seats = Spec::Seats { plan: fixture::hall(2, &[4]), price: fixture::price(5_000) };
    world.manage(GroupId(2), &SECTION, Manage::Create(Box::new(seats)));
    let judge = Partition::Checkouts { event: EVENT, bucket: BUCKET };
    world.manage(GroupId(1), &judge, Manage::Create(Box::new(Spec::Checkouts(fixture::rules()))));
    world
}

fn hold(world: &mut World, user: &str, key: &str, seat: u32) {
    let begin = begin(user, key, chosen(&[(2, seat)]), world.wall);
    world.checkout(BUCKET, Checkout::Begin(Box::new(begin)));
    deliver(world);
}

fn cancel(world: &mut World, sequence: u64) {
    world.checkout(BUCKET, Checkout::Cancel { reservation: id(sequence), user: None });
    deliver(world);
}

fn deliver(world: &mut World) {
    for _ in 0..3 {
        for message in world.pending() {
            world.deliver(message);
        }
    }
}

fn id(sequence: u64) -> ReservationId {
    ReservationId { event: EVENT, bucket: BUCKET, incarnation: 0, sequence }
}

/// Watermarks that are to be told now.
fn marks(world: &World) -> Vec<u64> {
    let mark = |request: Request| match request.command {
        Command::Participate(Participate::Watermark { below, .. }) => Some(below),
        _ => None,
    };
    world.pending().into_iter().filter_map(mark).collect()
}

fn late_prepare(world: &mut World, sequence: u64) -> Outcome {
    let (reservation, user) = (id(sequence), "late".parse().unwrap());
    let take = Take::Seats(vec![domain::ids::SeatIndex(3)]);
    let prepare = Participate::Prepare { reservation, user, take, purpose: Purpose::Checkout };
    world.command(SECTION, Command::Participate(prepare))
}

#[test]
fn it_waits_for_a_hold_and_passes_it_once_that_is_over() {
    let mut world = world();
    hold(&mut world, "alice", "first", 0);
    for round in 0..100 {
        hold(&mut world, "bob", &format!("k{round}"), 1);
        world.checkout(BUCKET, Checkout::Cancel { reservation: id(round + 2), user: None });
        assert!(marks(&world).iter().all(|below| *below <= 1), "alice's is open: {:?}", marks(&world));
        deliver(&mut world);
    }
    // Whether it is remembered or below the mark, what is over stays over.
    assert!(matches!(late_prepare(&mut world, 50), Outcome::Voted(Vote::No(_))));
    let remembering = postcard::to_stdvec(&world.groups[&GroupId(2)]).unwrap().len();
    cancel(&mut world, 1);
    assert!(matches!(late_prepare(&mut world, 50), Outcome::Voted(Vote::No(_))));
    assert!(matches!(late_prepare(&mut world, 1), Outcome::Voted(Vote::No(_))));
    let forgetting = postcard::to_stdvec(&world.groups[&GroupId(2)]).unwrap().len();
    assert!(forgetting + 500 < remembering, "the answers were kept: {remembering} bytes, then {forgetting}");
}

#[test]
fn new_geometry_forgets_nothing_that_is_over() {
    let mut world = world();
    let passed = Participate::Watermark { bucket: BUCKET, incarnation: 0, below: 51 };
    assert_eq!(world.command(SECTION, Command::Participate(passed)), Outcome::Done);
    let larger = Spec::Seats { plan: fixture::hall(2, &[6]), price: fixture::price(5_000) };
    let created = world.command(SECTION, Command::Manage(Manage::Create(Box::new(larger))));
    assert_eq!(created, Outcome::Done, "nothing was ever claimed");
    assert!(matches!(late_prepare(&mut world, 50), Outcome::Voted(Vote::No(_))), "nobody would ever give it back");
}
