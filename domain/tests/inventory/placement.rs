//! The meta partition: what is published, where it is put, and how a move is decided.

use crate::any_delivery::{plans, record};
use crate::world::{EVENT, World};
use domain::ids::{Attempt, Bucket, Epoch, GroupId, NodeId, Partition, SectionId};
use domain::inventory::command::{Command, Meta};
use domain::inventory::query::{EventPlacement, MoveStage, Placement};
use domain::inventory::record::EventStatus;
use domain::inventory::{Answer, EventRecord, Outcome, Query};
use std::collections::BTreeMap;

fn world() -> World {
    let mut world = World::new(4);
    for group in 0..4 {
        let register = Meta::RegisterGroup { group: GroupId(group), nodes: BTreeMap::new() };
        assert_eq!(ask(&mut world, register), Outcome::Done);
    }
    world
}

fn ask(world: &mut World, command: Meta) -> Outcome {
    world.command(Partition::Meta, Command::Meta(command))
}

fn publish(world: &mut World, event: EventRecord, groups: &[u32]) -> Outcome {
    let groups = groups.iter().map(|group| GroupId(*group)).collect();
    ask(world, Meta::Publish { event: Box::new(event), promotions: vec!["EARLY".parse().unwrap()], groups })
}

fn placement(world: &World) -> Placement {
    match world.query(&Partition::Meta, &Query::Placement) {
        Answer::Placement(placement) => placement,
        other => panic!("{other:?}"),
    }
}

fn placed(world: &World) -> EventPlacement {
    placement(world).events[&EVENT].clone()
}

fn published(world: &World) -> EventRecord {
    match world.query(&Partition::Meta, &Query::Events) {
        Answer::Events(events) => events.into_iter().find(|event| event.id == EVENT).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn section(section: u16) -> Partition {
    Partition::Seats { event: EVENT, section: SectionId(section) }
}

#[test]
fn an_event_lives_in_one_group_and_the_next_in_another() {
    let mut world = world();
    let first = record(&plans());
    assert_eq!(publish(&mut world, first.clone(), &[]), Outcome::Done);
    assert_eq!(publish(&mut world, EventRecord { id: domain::ids::EventId(2), ..first }, &[]), Outcome::Done);
    let homes: Vec<GroupId> = placement(&world).events.values().map(|event| event.home.0).collect();
    assert_eq!(homes, [GroupId(1), GroupId(2)], "the meta group takes none while others do");
    let partitions = placed(&world).partitions(EVENT);
    assert!(partitions.contains(&Partition::Checkouts { event: EVENT, bucket: Bucket::BOX_OFFICE }));
    assert_eq!(partitions.len(), 2 + 1 + 3 + 1, "{partitions:?}");
}

#[test]
fn sections_and_buckets_are_spread_over_the_groups_that_are_named() {
    let mut world = world();
    assert_eq!(publish(&mut world, record(&plans()), &[3, 1]), Outcome::Done);
    let placed = placed(&world);
    let groups: Vec<GroupId> = (1..4).map(|id| placed.locate(&section(id)).0).collect();
    assert_eq!(groups, [GroupId(3), GroupId(1), GroupId(3)]);
    let bucket = |bucket| placed.locate(&Partition::Checkouts { event: EVENT, bucket });
    assert_eq!([0, 1].map(|number| bucket(Bucket(number)).0), [GroupId(3), GroupId(1)]);
    assert_eq!(bucket(Bucket::BOX_OFFICE), (GroupId(3), Epoch(1)), "the box office has one, at home");
    assert!(matches!(publish(&mut world, record(&plans()), &[9]), Outcome::Invalid(_)), "there is no group 9");
}

#[test]
fn an_older_publication_changes_nothing_and_a_change_of_status_survives_it() {
    let mut world = world();
    let first = record(&plans());
    publish(&mut world, first.clone(), &[]);
    let closed = Meta::SetStatus { event: EVENT, status: EventStatus::Closed };
    assert_eq!(ask(&mut world, closed.clone()), Outcome::Done);
    assert_eq!(ask(&mut world, closed), Outcome::Done);
    assert_eq!((published(&world).status, published(&world).version), (EventStatus::Closed, 2));
    assert_eq!(publish(&mut world, EventRecord { title: "Old".into(), ..first.clone() }, &[]), Outcome::Done);
    assert_eq!(published(&world).title, first.title);
    assert_eq!(
        publish(&mut world, EventRecord { version: 2, title: "New".into(), ..first.clone() }, &[]),
        Outcome::Done
    );
    assert_eq!((published(&world).title.as_str(), published(&world).version), ("New", 3));
    let late = publish(&mut world, EventRecord { title: "Old".into(), ..first.clone() }, &[]);
    assert!(matches!(&late, Outcome::Invalid(why) if why.contains("not the newest")), "{late:?}");
    assert_eq!(published(&world).status, EventStatus::Closed, "a corrected title reopens nothing");
    let more_buckets = EventRecord { version: 9, buckets: 3, ..first };
    assert!(matches!(publish(&mut world, more_buckets, &[]), Outcome::Invalid(_)), "records live where the hash says");
}

#[test]
fn a_cancelled_event_stays_cancelled() {
    let mut world = world();
    let first = record(&plans());
    publish(&mut world, first.clone(), &[]);
    let becomes = |status| Meta::SetStatus { event: EVENT, status };
    assert_eq!(ask(&mut world, becomes(EventStatus::Cancelled)), Outcome::Done);
    for status in [EventStatus::Scheduled, EventStatus::Closed] {
        assert!(matches!(ask(&mut world, becomes(status)), Outcome::Invalid(why) if why.contains("for good")));
    }
    assert_eq!(ask(&mut world, becomes(EventStatus::Cancelled)), Outcome::Done, "repeated, it changes nothing");
    assert_eq!(publish(&mut world, EventRecord { version: 9, ..first }, &[]), Outcome::Done);
    assert_eq!((published(&world).status, published(&world).version), (EventStatus::Cancelled, 9));
}

#[test]
fn nonsense_is_not_published() {
    let mut world = world();
    let good = record(&plans());
    let mut twice = good.clone();
    twice.sections[1].name = twice.sections[0].name.clone();
    let mut no_tier = good.clone();
    no_tier.sections[0].tier = 7;
    let mut huge = good.clone();
    huge.sections[0].capacity = 200_001;
    for bad in [twice, no_tier, huge, EventRecord { buckets: 0, ..good.clone() }, EventRecord { buckets: 65, ..good }] {
        assert!(matches!(publish(&mut world, bad, &[]), Outcome::Invalid(_)));
    }
    assert_eq!(world.query(&Partition::Meta, &Query::Events), Answer::Events(Vec::new()));
}

#[test]
fn a_move_is_numbered_and_decided_once() {
    let mut world = world();
    publish(&mut world, record(&plans()), &[]);
    let partition = section(1);
    let begin = |to| Meta::MoveBegin { partition: section(1), to: GroupId(to) };
    let begun = Outcome::MoveBegun { attempt: Attempt(1), from: GroupId(1), epoch: Epoch(2) };
    assert_eq!(ask(&mut world, begin(2)), begun);
    assert_eq!(ask(&mut world, begin(2)), begun, "asked twice is one attempt");
    for nonsense in [begin(3), begin(9)] {
        assert!(matches!(ask(&mut world, nonsense), Outcome::Invalid(_)));
    }
    let abort = |attempt| Meta::MoveAbort { partition: section(1), attempt: Attempt(attempt) };
    let commit = |attempt| Meta::MoveCommit { partition: section(1), attempt: Attempt(attempt) };
    assert_eq!(ask(&mut world, abort(1)), Outcome::Done);
    assert_eq!(ask(&mut world, abort(1)), Outcome::Done);
    assert!(matches!(ask(&mut world, commit(1)), Outcome::Invalid(_)), "what was aborted is never committed");
    assert_eq!(placed(&world).locate(&partition), (GroupId(1), Epoch(1)));

    let again = Outcome::MoveBegun { attempt: Attempt(2), from: GroupId(1), epoch: Epoch(2) };
    assert_eq!(ask(&mut world, begin(2)), again);
    assert_eq!(ask(&mut world, commit(2)), Outcome::Done);
    assert_eq!(ask(&mut world, commit(2)), Outcome::Done);
    assert!(matches!(ask(&mut world, abort(2)), Outcome::Invalid(_)), "what was committed is never aborted");
    assert_eq!(placed(&world).locate(&partition), (GroupId(2), Epoch(2)));
    let Answer::Moves(open) = world.query(&Partition::Meta, &Query::Moves) else { panic!("no moves") };
    let stages: Vec<MoveStage> = open.iter().map(|open| open.stage).collect();
    assert_eq!(stages, [MoveStage::Aborted, MoveStage::Committed], "drivers finish both");
    for attempt in [1, 2] {
        let done = Meta::MoveDone { partition: partition.clone(), attempt: Attempt(attempt) };
        assert_eq!(ask(&mut world, done), Outcome::Done);
    }
    let third = Outcome::MoveBegun { attempt: Attempt(3), from: GroupId(2), epoch: Epoch(3) };
    assert_eq!(ask(&mut world, begin(1)), third, "numbers go on");
}

#[test]
fn the_number_of_a_group_belongs_to_those_who_reserved_it() {
    let mut world = world();
    let nodes = |ids: &[u64]| ids.iter().map(|id| (NodeId(*id), format!("n{id}:1"))).collect::<BTreeMap<_, _>>();
    let reserve = |group, ids: &[u64]| Meta::ReserveGroup { group: GroupId(group), nodes: nodes(ids) };
    assert_eq!(ask(&mut world, reserve(7, &[1, 2, 3])), Outcome::Done);
    assert_eq!(ask(&mut world, reserve(7, &[1, 2, 3])), Outcome::Done, "asked twice is one group");
    assert!(matches!(ask(&mut world, reserve(7, &[4, 5, 6])), Outcome::Invalid(_)));
    assert!(matches!(ask(&mut world, reserve(4_000_000, &[1])), Outcome::Invalid(_)));
    // Nothing can live there before somebody leads it.
    assert!(!placement(&world).groups.contains_key(&GroupId(7)));
    assert!(matches!(publish(&mut world, record(&plans()), &[7]), Outcome::Invalid(_)));
    let reserved = |world: &World| match world.query(&Partition::Meta, &Query::Reserved) {
        Answer::Reserved(groups) => groups,
        other => panic!("{other:?}"),
    };
    assert_eq!(reserved(&world), BTreeMap::from([(GroupId(7), nodes(&[1, 2, 3]))]));
    let register = Meta::RegisterGroup { group: GroupId(7), nodes: nodes(&[1, 2, 3]) };
    assert_eq!(ask(&mut world, register), Outcome::Done);
    assert_eq!(placement(&world).groups[&GroupId(7)], nodes(&[1, 2, 3]));
    assert_eq!(reserved(&world), BTreeMap::new());
    assert_eq!(ask(&mut world, reserve(7, &[1, 2, 3])), Outcome::Done, "it exists");
    assert!(matches!(ask(&mut world, reserve(7, &[4, 5, 6])), Outcome::Invalid(_)));
}

#[test]
fn an_id_is_one_lifes_for_ever_and_a_full_list_of_nodes_says_something_else() {
    let mut world = world();
    world.watchful = false;
    let register =
        |world: &mut World, node: usize, life| ask(world, Meta::RegisterNode { node: NodeId(node as u64), life });
    for node in 0..domain::limits::NODES {
        assert_eq!(register(&mut world, node, 7), Outcome::Done);
    }
    assert_eq!(register(&mut world, 3, 7), Outcome::Done, "again");
    assert_eq!(register(&mut world, 3, 8), Outcome::AnotherLife);
    let full = register(&mut world, domain::limits::NODES, 7);
    assert!(matches!(&full, Outcome::Invalid(text) if text.contains("as many nodes as it ever may")), "{full:?}");
}
