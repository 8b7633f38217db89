//! A refund that is refused leaves nothing behind: every replica goes on from the very state it had.

use crate::fixture::{self, begin, chosen};
use crate::world::{EVENT, World};
use domain::ids::{Bucket, GroupId, Partition, PaymentId, RefundId, ReservationId, SeatIndex, SeatRef, SectionId};
use domain::inventory::Outcome;
use domain::inventory::command::{Checkout, Manage, Spec};
use domain::money::{Currency, Minor};

const BUCKET: Bucket = Bucket(0);

#[test]
fn it_leaves_the_state_as_it_was() {
    let mut world = World::new(2);
    let section = Partition::Seats { event: EVENT, section: SectionId(2) };
    let seats = Spec::Seats { plan: fixture::hall(2, &[4]), price: fixture::price(5_000) };
    world.manage(GroupId(1), &section, Manage::Create(Box::new(seats)));
    let judge = Partition::Checkouts { event: EVENT, bucket: BUCKET };
    world.manage(GroupId(1), &judge, Manage::Create(Box::new(Spec::Checkouts(fixture::rules()))));
    let begin = begin("alice", "k", chosen(&[(2, 0)]), world.wall);
    world.checkout(BUCKET, Checkout::Begin(Box::new(begin)));
    let reservation = ReservationId { event: EVENT, bucket: BUCKET, incarnation: 0, sequence: 1 };
    let (amount, currency) = (Minor(5_000), Currency::EUR);
    let paid = world.checkout(BUCKET, Checkout::Pay { reservation, payment: PaymentId(1), amount, currency });
    assert!(matches!(paid, Outcome::Reservation(_)), "{paid:?}");
    let bytes = |world: &World| postcard::to_stdvec(&world.groups[&GroupId(1)]).unwrap();
    let before = bytes(&world);
    let foreign = SeatRef { section: SectionId(2), seat: SeatIndex(3) };
    for seats in [vec![], vec![foreign]] {
        let refused = world.checkout(BUCKET, Checkout::Refund { refund: RefundId(1), reservation, seats });
        assert!(matches!(refused, Outcome::Invalid(_)), "{refused:?}");
        assert_eq!(bytes(&world), before, "a refusal changes nothing");
    }
}
