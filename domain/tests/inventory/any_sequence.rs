//! Participants that are told anything, in any order, by anybody: whatever comes, no seat has two owners, nothing goes from
//! free to sold, counters are what the sets say, and two replicas agree. (The world checks all that after each entry.)

use crate::fixture;
use crate::world::{EVENT, World};
use domain::ids::{Bucket, GroupId, Partition, ReservationId, SeatIndex, SectionId, UserId};
use domain::inventory::command::{BestAvailable, Command, Manage, Participate, Purpose, Request, Spec, Take};
use domain::inventory::{Answer, Query, SectionPlan};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn reservation() -> impl Strategy<Value = ReservationId> {
    (0..2_u16, 0..2_u16, 1..7_u64).prop_map(|(bucket, incarnation, sequence)| ReservationId {
        event: EVENT,
        bucket: Bucket(bucket),
        incarnation,
        sequence,
    })
}

fn take() -> impl Strategy<Value = Take> {
    let best = (1..4_u8, any::<bool>()).prop_map(|(count, contiguous)| {
        Take::Best(BestAvailable { sections: Vec::new(), count, contiguous, accessible: 0, max_price: None })
    });
    prop_oneof![
        4 => prop::collection::vec((0..9_u32).prop_map(SeatIndex), 0..4).prop_map(Take::Seats),
        2 => (0..4_u32).prop_map(Take::Places),
        2 => best,
        1 => Just(Take::Use),
    ]
}

fn participate() -> impl Strategy<Value = Participate> {
    let user = prop_oneof![Just("alice"), Just("bob"), Just("carol")];
    let purpose = prop_oneof![3 => Just(Purpose::Checkout), 1 => Just(Purpose::Block)];
    let seats = prop::collection::vec((0..8_u32).prop_map(SeatIndex), 0..3);
    prop_oneof![
        5 => (reservation(), user, take(), purpose).prop_map(|(reservation, user, take, purpose)| {
            Participate::Prepare { reservation, user: user.parse::<UserId>().unwrap(), take, purpose }
        }),
        2 => reservation().prop_map(|reservation| Participate::Release { reservation }),
        2 => reservation().prop_map(|reservation| Participate::Sell { reservation }),
        2 => (reservation(), seats).prop_map(|(reservation, seats)| Participate::Return { reservation, seats }),
        1 => (0..2_u16, 0..2_u16, 0..7_u64).prop_map(|(bucket, incarnation, below)| {
            Participate::Watermark { bucket: Bucket(bucket), incarnation, below }
        }),
    ]
}

fn world() -> (World, Vec<Partition>) {
    let mut world = World::new(2);
    let plans: BTreeMap<u16, SectionPlan> = [(1, fixture::hall(1, &[4, 4])), (2, fixture::floor(2, 3))].into();
    let mut partitions = Vec::new();
    let code = "EARLY".parse().unwrap();
    for (section, plan) in plans {
        partitions.push(Partition::Seats { event: EVENT, section: SectionId(section) });
        let spec = Spec::Seats { plan, price: fixture::price(5_000) };
        world.manage(GroupId(1), &partitions[partitions.len() - 1], Manage::Create(Box::new(spec)));
    }
    partitions.push(Partition::Promotion { event: EVENT, code });
    let spec = Spec::Promotion { discount_bps: 1_000, cap: 2 };
    world.manage(GroupId(1), &partitions[2], Manage::Create(Box::new(spec)));
    (world, partitions)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn participants_never_break_a_rule(commands in prop::collection::vec((0..3_usize, participate()), 0..60)) {
        let (mut world, partitions) = world();
        // A seat goes to another owner only over being free, and is sold only after it was held by the same.
        let mut owners = BTreeMap::new();
        for (at, command) in commands {
            let partition = partitions[at].clone();
            world.apply(GroupId(1), vec![Request { partition, command: Command::Participate(command) }]);
            for partition in &partitions[..2] {
                let Answer::Owners(now) = world.query(partition, &Query::Owners) else { panic!("no owners") };
                for owner in &now {
                    let before = owners.get(&(partition.clone(), owner.seat));
                    let sold = owner.state == domain::inventory::query::SeatState::Sold;
                    prop_assert!(before.is_none_or(|before| *before == owner.reservation), "{owner:?}, {before:?} before");
                    prop_assert!(before.is_some() || !sold, "{owner:?} was free before");
                }
                owners.retain(|(other, _), _| other != partition);
                owners.extend(now.iter().map(|owner| ((partition.clone(), owner.seat), owner.reservation)));
            }
            let Answer::PromotionUses(uses) = world.query(&partitions[2], &Query::PromotionUses) else { panic!("no uses") };
            prop_assert!(uses.len() <= 2, "{uses:?}");
        }
    }
}
