//! Plans are pure, so every situation can be made here.

use super::*;
use crate::client::{ClusterStatus, GroupStatus, NodeAnswer, NodeStatus, Role};
use domain::ids::{Bucket, Epoch, EventId, GroupId, NodeId, SectionId};
use domain::inventory::EventRecord;
use domain::inventory::query::{EventPlacement, Placement};
use domain::inventory::record::{EventStatus, QueueMode, SectionKind, SectionSummary};
use domain::money::Currency;
use domain::time::WallMs;
use std::collections::{BTreeMap, BTreeSet};

const ONE: GroupId = GroupId(1);

fn ids(nodes: &[u64]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

/// Nodes that are up, nodes that are down, and groups as (voters, leader).
fn cluster(up: &[u64], down: &[u64], groups: &[(&[u64], Option<u64>)]) -> Topology {
    let member = |id: &u64, up| (NodeId(*id), Member { address: format!("n{id}:1"), up });
    let nodes = up.iter().map(|id| member(id, true)).chain(down.iter().map(|id| member(id, false)));
    let shape = |(voters, leader): &(&[u64], Option<u64>)| Shape {
        voters: ids(voters),
        leader: leader.map(NodeId),
        ..Shape::default()
    };
    let groups = groups.iter().enumerate().map(|(at, group)| (GroupId(at as u32), shape(group)));
    Topology { nodes: nodes.collect(), groups: groups.collect() }
}

fn words(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(Step::to_string).collect()
}

#[test]
fn a_node_learns_before_it_votes() {
    let topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(2))]);
    let plan = add_node(&topology, ONE, NodeId(4)).unwrap();
    assert_eq!(words(&plan), ["group 1: node 4 learns", "group 1: nodes 1, 2, 3, 4 vote"]);
    // Interrupted after the first step: the command goes on from there.
    let mut topology = topology;
    topology.groups.get_mut(&ONE).unwrap().learners.insert(NodeId(4));
    assert_eq!(words(&add_node(&topology, ONE, NodeId(4)).unwrap()), ["group 1: nodes 1, 2, 3, 4 vote"]);
    // Interrupted in the middle of the change of voters: it is finished.
    let shape = topology.groups.get_mut(&ONE).unwrap();
    (shape.voters, shape.learners, shape.joint) = (ids(&[1, 2, 3, 4]), BTreeSet::new(), true);
    assert_eq!(words(&add_node(&topology, ONE, NodeId(4)).unwrap()), ["group 1: nodes 1, 2, 3, 4 vote"]);
    topology.groups.get_mut(&ONE).unwrap().joint = false;
    assert!(add_node(&topology, ONE, NodeId(4)).unwrap().steps.is_empty());
    assert_eq!(add_node(&topology, ONE, NodeId(9)), Err(Refusal::NoSuchNode(NodeId(9))));
    assert_eq!(add_node(&topology, GroupId(7), NodeId(4)), Err(Refusal::NoSuchGroup(GroupId(7))));
}

#[test]
fn what_would_lose_the_quorum_is_refused_with_the_reason() {
    // One of three is down: of the two that would be left, only one answers.
    let topology = cluster(&[1, 2], &[3], &[(&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(1))]);
    let refusal = remove_node(&topology, ONE, NodeId(2)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "group 1 would lose its quorum: of its voters 1, 3 only 1 answer, and 2 are needed"
    );
    // The one that is down may go.
    assert_eq!(words(&remove_node(&topology, ONE, NodeId(3)).unwrap()), ["group 1: nodes 1, 2 vote"]);
    let refusal = replace_node(&topology, None, NodeId(2), NodeId(3)).unwrap_err();
    assert_eq!(refusal, Refusal::NodeDown(NodeId(3)));
    let alone = cluster(&[1], &[], &[(&[1], Some(1)), (&[1], Some(1))]);
    assert_eq!(remove_node(&alone, ONE, NodeId(1)), Err(Refusal::LastVoter { group: ONE, node: NodeId(1) }));
    let silent = cluster(&[1], &[2, 3], &[(&[1, 2, 3], None), (&[1, 2, 3], None)]);
    assert_eq!(remove_node(&silent, ONE, NodeId(3)), Err(Refusal::NoLeader(ONE)));
    assert_eq!(transfer_leader(&topology, ONE, NodeId(3)), Err(Refusal::NodeDown(NodeId(3))));
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let topology = cluster(&[1, 2, 3], &[], &[(&[1, 2, 3], Some(2)), (&[1, 2, 3], Some(1))]);
    let plan = remove_node(&topology, ONE, NodeId(1)).unwrap();
    assert_eq!(words(&plan), ["group 1: node 3 takes the lead", "group 1: nodes 2, 3 vote"]);
    assert!(plan.notes[0].contains("will not survive"), "{:?}", plan.notes);
}

#[test]
fn a_dead_node_is_replaced_in_all_its_groups_in_one_change_each() {
    let topology = cluster(&[1, 2, 4], &[3], &[(&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(2)), (&[1, 2, 4], Some(4))]);
    let plan = replace_node(&topology, None, NodeId(3), NodeId(4)).unwrap();
    assert_eq!(
        words(&plan),
        [
            "group 0: node 4 learns",
            "group 0: nodes 1, 2, 4 vote",
            "group 1: node 4 learns",
            "group 1: nodes 1, 2, 4 vote"
        ]
    );
}

#[test]
fn a_group_that_cannot_be_seen_is_not_passed_over_in_silence() {
    // Of group 1 nobody answers: node 2 may be in it.
    let topology = cluster(&[1, 2, 4], &[], &[(&[1, 4], Some(1))]);
    let registered = [GroupId(0), ONE].map(|group| (group, BTreeMap::new())).into();
    assert_eq!(all_seen(&topology, &registered), Err(Refusal::Unseen(ONE)));
    assert_eq!(replace_node(&topology, Some(ONE), NodeId(2), NodeId(4)), Err(Refusal::NoSuchGroup(ONE)));
    let topology = cluster(&[1, 2, 4], &[], &[(&[1, 4], Some(1)), (&[1, 2], Some(2))]);
    assert_eq!(all_seen(&topology, &registered), Ok(()));
}

#[test]
fn a_leader_that_was_deposed_leads_nothing() {
    let members: BTreeMap<NodeId, String> = [1, 2, 3].map(|id| (NodeId(id), format!("n{id}:1"))).into();
    let replica = |role, leader, term| GroupStatus {
        group: ONE,
        role,
        leader,
        term,
        last_log: Some(9),
        applied: Some(9),
        snapshot: None,
        purged: None,
        voters: members.keys().copied().collect(),
        learners: Vec::new(),
        members: members.clone(),
        joint: false,
        queued: 0,
        partitions: Vec::new(),
        served: BTreeMap::new(),
    };
    let up = |id: u64, replica: GroupStatus| {
        let status = NodeStatus {
            node: NodeId(id),
            version: String::new(),
            groups: vec![replica],
            moves: Vec::new(),
            clock_ahead_ms: None,
        };
        (format!("n{id}:1"), NodeAnswer::Up(status))
    };
    let seen = |follower_term| {
        let old = up(1, replica(Role::Leader, Some(NodeId(1)), 4));
        let status = ClusterStatus { nodes: [old, up(2, replica(Role::Follower, None, follower_term))].into() };
        Topology::seen(&status).groups[&ONE].leader
    };
    assert_eq!(seen(4), Some(NodeId(1)));
    assert_eq!(seen(5), None, "node 3 leads, and does not answer");
}

#[test]
fn nobody_is_replaced_by_a_node_that_votes_already() {
    let topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3], Some(1)), (&[1, 2, 4], Some(1))]);
    let refused = replace_node(&topology, Some(ONE), NodeId(2), NodeId(4));
    assert_eq!(refused, Err(Refusal::Shrinks { group: ONE, old: NodeId(2), new: NodeId(4) }));
    let plan = replace_node(&topology, None, NodeId(2), NodeId(4)).unwrap();
    assert_eq!(words(&plan), ["group 0: node 4 learns", "group 0: nodes 1, 3, 4 vote"]);
    assert!(plan.unfinished && plan.notes[0].contains("group 1 is left as it is"), "{:?}", plan.notes);
    // Of four voters three are left.
    let topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3, 4], Some(1))]);
    assert_eq!(words(&replace_node(&topology, None, NodeId(2), NodeId(4)).unwrap()), ["group 0: nodes 1, 3, 4 vote"]);
    // In the middle of the change both are there.
    let mut topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3, 4], Some(1))]);
    topology.groups.get_mut(&GroupId(0)).unwrap().joint = true;
    assert!(replace_node(&topology, None, NodeId(2), NodeId(4)).is_ok());
}

#[test]
fn a_change_that_is_not_decided_yet_is_finished_before_the_node_is_gone() {
    let mut topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 4], Some(1)), (&[1, 2, 4], Some(1))]);
    assert!(replace_node(&topology, None, NodeId(3), NodeId(4)).unwrap().steps.is_empty());
    topology.groups.get_mut(&ONE).unwrap().joint = true;
    let plans =
        [replace_node(&topology, None, NodeId(3), NodeId(4)).unwrap(), remove_node(&topology, ONE, NodeId(3)).unwrap()];
    for plan in plans {
        assert_eq!(words(&plan), ["group 1: nodes 1, 2, 4 vote"]);
    }
}

#[test]
fn a_drained_node_gives_away_what_others_can_take() {
    let full = cluster(&[1, 2, 3], &[], &[(&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(2))]);
    let plan = drain(&full, NodeId(1)).unwrap();
    assert_eq!(words(&plan), ["group 0: node 3 takes the lead", "group 1: node 2 takes the lead"]);
    assert_eq!(plan.notes.len(), 3, "it keeps its replicas: {:?}", plan.notes);
    assert!(!plan.unfinished, "there is nothing left that could be done");
    let needed = cluster(&[1, 2], &[3], &[(&[1, 2, 3], Some(2))]);
    let plan = drain(&needed, NodeId(1)).unwrap();
    assert!(plan.steps.is_empty() && plan.unfinished, "whoever stops node 1 now stops group 0: {:?}", plan.notes);
    let alone = cluster(&[1], &[2, 3], &[(&[1, 2, 3], Some(1))]);
    let plan = drain(&alone, NodeId(1)).unwrap();
    assert!(plan.steps.is_empty() && plan.unfinished, "whoever stops node 1 now stops group 0: {:?}", plan.notes);
    let spare = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3], Some(1)), (&[2, 3, 4], Some(2))]);
    let plan = drain(&spare, NodeId(1)).unwrap();
    assert_eq!(
        words(&plan),
        ["group 0: node 4 learns", "group 0: node 3 takes the lead", "group 0: nodes 2, 3, 4 vote"]
    );
    assert_eq!(drain(&spare, NodeId(9)), Err(Refusal::NoSuchNode(NodeId(9))));
}

#[test]
fn a_group_that_cannot_be_changed_does_not_keep_the_others() {
    let topology = cluster(&[1, 2, 4], &[3], &[(&[1, 2, 3], None), (&[1, 2, 3], Some(2))]);
    let plan = replace_node(&topology, None, NodeId(3), NodeId(4)).unwrap();
    assert_eq!(words(&plan), ["group 1: node 4 learns", "group 1: nodes 1, 2, 4 vote"]);
    assert!(plan.unfinished, "whoever throws node 3 away now may throw away what group 0 needs");
    assert!(
        plan.notes[0].contains("group 0 is left as it is") && plan.notes[0].contains("no leader"),
        "{:?}",
        plan.notes
    );
    let plan = drain(&topology, NodeId(2)).unwrap();
    assert!(plan.notes[0].contains("group 0 keeps its replica on node 2"), "{:?}", plan.notes);
    assert!(plan.unfinished, "whoever stops node 2 now takes a replica from a group without a leader");
    assert_eq!(words(&plan).len(), 3, "{:?}", words(&plan));
    // Alone, it is refused.
    let none = replace_node(&topology, Some(GroupId(0)), NodeId(3), NodeId(4));
    assert_eq!(none, Err(Refusal::NoLeader(GroupId(0))));
}

#[test]
fn leaders_that_leave_are_shared_out() {
    let all: &[u64] = &[1, 2, 3];
    let topology = cluster(&[1, 2, 3, 4], &[], &[(all, Some(1)), (all, Some(1)), (all, Some(1)), (all, Some(1))]);
    let lead = |plan: &Plan| -> Vec<String> { words(plan).into_iter().filter(|step| step.contains("lead")).collect() };
    let shared = [2, 3, 2, 3].iter().enumerate().map(|(group, to)| format!("group {group}: node {to} takes the lead"));
    let shared: Vec<String> = shared.collect();
    assert_eq!(lead(&replace_node(&topology, None, NodeId(1), NodeId(4)).unwrap()), shared);
    assert_eq!(lead(&drain(&topology, NodeId(1)).unwrap()), shared);
}

#[test]
fn leaders_are_evened_out_with_the_fewest_transfers() {
    let all: &[u64] = &[1, 2, 3];
    let skewed = cluster(&[1, 2, 3], &[], &[(all, Some(1)), (all, Some(1)), (all, Some(1)), (all, Some(1))]);
    assert_eq!(words(&rebalance(&skewed)), ["group 0: node 2 takes the lead", "group 1: node 3 takes the lead"]);
    let even = cluster(&[1, 2, 3], &[], &[(all, Some(1)), (all, Some(2)), (all, Some(3)), (all, Some(1))]);
    assert_eq!(rebalance(&even), Plan::default());
    let down = cluster(&[1], &[2, 3], &[(all, Some(1)), (all, Some(1)), (all, None)]);
    assert!(rebalance(&down).steps.is_empty());
}

#[test]
fn a_new_group_goes_where_the_fewest_are_and_an_unfinished_one_is_finished() {
    let topology = cluster(&[1, 2, 3, 4], &[], &[(&[1, 2, 3], Some(1)), (&[1, 2, 3], Some(1))]);
    let registered = |groups: &[u32]| {
        let nodes: BTreeMap<_, _> = [1, 2, 4].map(|id| (NodeId(id), format!("n{id}:1"))).into();
        groups.iter().map(|group| (GroupId(*group), nodes.clone())).collect::<BTreeMap<_, _>>()
    };
    let plan = create_group(&topology, &registered(&[0, 1]), None, &[]).unwrap();
    assert_eq!(words(&plan), ["reserve group 2 for nodes 1, 2, 4", "form group 2 on nodes 1, 2, 4"]);
    // Group 2 was reserved and not formed: its number is not used again, and it can be finished by it.
    let next = create_group(&topology, &registered(&[0, 1, 2]), None, &[NodeId(3)]).unwrap();
    assert_eq!(words(&next)[0], "reserve group 3 for nodes 3");
    let again = create_group(&topology, &registered(&[0, 1, 2]), Some(GroupId(2)), &[]).unwrap();
    assert_eq!(words(&again)[1], "form group 2 on nodes 1, 2, 4");
    assert!(create_group(&topology, &registered(&[0, 1]), Some(ONE), &[]).unwrap().steps.is_empty());
    assert_eq!(create_group(&topology, &registered(&[0]), None, &[NodeId(7)]), Err(Refusal::NoSuchNode(NodeId(7))));
}

#[test]
fn a_group_that_would_be_less_than_it_seems_is_not_made() {
    let refusal = |topology: &Topology, wanted: Option<u32>, nodes: &[u64]| {
        let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        let registered = BTreeMap::from([(GroupId(0), BTreeMap::new())]);
        create_group(topology, &registered, wanted.map(GroupId), &nodes).map_err(|refusal| refusal.to_string())
    };
    let three = cluster(&[1, 2, 3], &[], &[(&[1, 2, 3], Some(1))]);
    assert!(refusal(&three, None, &[1, 1, 1]).unwrap_err().contains("node 1 is named twice"));
    assert!(refusal(&three, Some(7), &[]).unwrap_err().contains("never reserved"));
    let one_down = cluster(&[1, 2], &[3], &[(&[1, 2, 3], Some(1))]);
    assert!(refusal(&one_down, None, &[]).unwrap_err().contains("only 2 of 3 nodes answer"));
    assert_eq!(words(&refusal(&one_down, None, &[1]).unwrap()).len(), 2, "one that is asked for");
    let single = cluster(&[1], &[], &[(&[1], Some(1))]);
    assert_eq!(words(&refusal(&single, None, &[]).unwrap()).len(), 2, "there is no other node");
}

/// An event whose sections have so many seats, and whose partitions are at home in group 1, but for those named.
fn placed(sections: &[u32], buckets: u16, elsewhere: &[(&str, u32)]) -> (EventRecord, EventPlacement) {
    let ids = (0..).map(SectionId).zip(sections);
    let summary = |(id, capacity): (SectionId, &u32)| SectionSummary {
        id,
        name: id.to_string(),
        kind: SectionKind::Seated,
        tier: 0,
        capacity: *capacity,
    };
    let record = EventRecord {
        id: EventId(1),
        version: 1,
        title: "A test".into(),
        venue: "Hall".into(),
        starts_at: WallMs(0),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 60_000,
        user_limit: 6,
        buckets,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 1,
        queue_mode: QueueMode::Fifo,
        tiers: Vec::new(),
        sections: ids.map(summary).collect(),
    };
    let placement = EventPlacement {
        home: (ONE, Epoch(1)),
        buckets,
        sections: record.sections.iter().map(|section| section.id).collect(),
        promotions: vec!["EARLY".parse().unwrap()],
        moved: elsewhere.iter().map(|(part, at)| (part.parse().unwrap(), (GroupId(*at), Epoch(2)))).collect(),
    };
    (record, placement)
}

/// The placement after a plan.
fn after(placed: &EventPlacement, plan: &Plan) -> EventPlacement {
    let mut placed = placed.clone();
    for step in &plan.steps {
        let Step::Move { partition, from, to } = step else { panic!("{step}") };
        assert_eq!(placed.locate(partition).0, *from, "{step}");
        placed.moved.insert(partition.clone(), (*to, Epoch(3)));
    }
    placed
}

#[test]
fn sections_and_buckets_are_spread_and_stay_where_they_can() {
    let (record, home) = placed(&[100, 100, 100, 100, 400], 4, &[]);
    let both = [GroupId(1), GroupId(2)];
    let plan = spread(&record, &home, &both);
    assert_eq!(
        words(&plan),
        [
            "move seats/1/0 from group 1 to group 2",
            "move seats/1/1 from group 1 to group 2",
            "move seats/1/2 from group 1 to group 2",
            "move seats/1/3 from group 1 to group 2",
            "move checkouts/1/2 from group 1 to group 2",
            "move checkouts/1/3 from group 1 to group 2",
        ],
        "the largest section stays"
    );
    assert_eq!(
        plan.notes,
        ["group 1 has 400 of 800 seats and 2 of 4 buckets", "group 2 has 400 of 800 seats and 2 of 4 buckets"]
    );
    // Interrupted after any step, the command goes on from there and does nothing twice.
    for done in 0..=plan.steps.len() {
        let part = Plan { steps: plan.steps[..done].to_vec(), ..Plan::default() };
        let rest = spread(&record, &after(&home, &part), &both);
        assert_eq!(rest.steps, plan.steps[done..], "after {done} steps");
    }
    // And back together, with all that it has.
    let apart = after(&home, &plan);
    let together = spread(&record, &apart, &[ONE]);
    assert_eq!(together.steps.len(), plan.steps.len());
    assert!(after(&apart, &together).moved.values().all(|at| at.0 == ONE));
}

#[test]
fn what_is_one_of_its_kind_stays_within_the_chosen_groups() {
    let office = format!("checkouts/1/{}", Bucket::BOX_OFFICE.0);
    let (record, apart) = placed(&[10, 10], 2, &[("promotion/1/EARLY", 2), (&office, 3), ("seats/1/1", 2)]);
    let plan = spread(&record, &apart, &[GroupId(1), GroupId(2)]);
    let moves = words(&plan);
    assert_eq!(
        moves,
        ["move checkouts/1/1 from group 1 to group 2", &format!("move {office} from group 3 to group 1")]
    );
    let gathered = spread(&record, &apart, &[ONE]);
    assert!(after(&apart, &gathered).moved.values().all(|at| at.0 == ONE), "{:?}", words(&gathered));
}

#[test]
fn an_uneven_number_of_buckets_is_spread_by_one() {
    let (record, home) = placed(&[7], 8, &[]);
    let plan = spread(&record, &home, &[GroupId(1), GroupId(2), GroupId(3)]);
    let notes = ["1 has 7 of 7 seats and 3 of 8", "2 has 0 of 7 seats and 3 of 8", "3 has 0 of 7 seats and 2 of 8"];
    assert_eq!(plan.notes, notes.map(|note| format!("group {note} buckets")));
    assert_eq!(plan.steps.len(), 5);
}

#[test]
fn the_home_is_the_first_group_and_there_must_be_enough() {
    let nodes: BTreeMap<NodeId, String> = [(NodeId(1), "n1:1".to_owned())].into();
    let home = |group| EventPlacement {
        home: (GroupId(group), Epoch(1)),
        buckets: 4,
        sections: Vec::new(),
        promotions: Vec::new(),
        moved: BTreeMap::new(),
    };
    let placement = Placement {
        groups: (0..4).map(|group| (GroupId(group), nodes.clone())).collect(),
        events: [(EventId(1), home(3)), (EventId(2), home(1))].into(),
    };
    let mut begun = placement.clone();
    let moved = &mut begun.events.get_mut(&EventId(1)).unwrap().moved;
    moved.insert("checkouts/1/0".parse().unwrap(), (GroupId(1), Epoch(2)));
    assert_eq!(choose_groups(&begun, EventId(1), 2).unwrap(), [GroupId(3), GroupId(1)], "where it went before");
    assert_eq!(choose_groups(&placement, EventId(1), 2).unwrap(), [GroupId(3), GroupId(2)]);
    assert_eq!(
        choose_groups(&placement, EventId(1), 4).unwrap_err().to_string(),
        "there are 3 groups for events, not 4: make more with `encore admin group create`"
    );
}
