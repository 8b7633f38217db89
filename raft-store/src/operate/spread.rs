//! Plans that put an event into several groups: its sections by seats, and its buckets of users by number, because a hold
//! costs the group of its bucket as much as the group of its seats. What is in one of the groups already stays as far as the
//! balance allows, because each move freezes a partition for a moment. What is only one of its kind (the box office's bucket,
//! each promotion) stays too, and comes to the event's home if its group is none of them.

use super::plan::{Plan, Refusal, Step};
use domain::ids::{Bucket, EventId, GroupId, Partition};
use domain::inventory::EventRecord;
use domain::inventory::query::{EventPlacement, Placement};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// So many groups for an event: its home first, then those that host the fewest events' partitions.
pub fn choose_groups(placement: &Placement, event: EventId, wanted: usize) -> Result<Vec<GroupId>, Refusal> {
    if wanted == 0 {
        return Err(Refusal::Senseless("an event lives in at least one group".into()));
    }
    let home = placement.events.get(&event).map(|placed| placed.home.0);
    // What the event itself has elsewhere speaks for that group: a spread that was interrupted goes on to where it went.
    let own = |group: GroupId| {
        let placed = placement.events.get(&event);
        placed.map_or(0, |placed| placed.moved.values().filter(|at| at.0 == group).count())
    };
    let lodgers = |group: GroupId| {
        let others = placement.events.iter().filter(|(id, _)| **id != event).map(|(_, placed)| placed);
        let homes = others.clone().filter(|placed| placed.home.0 == group).count();
        homes + others.flat_map(|placed| placed.moved.values()).filter(|at| at.0 == group).count()
    };
    let mut groups: Vec<GroupId> = placement.groups.keys().copied().filter(|group| *group != GroupId::META).collect();
    groups.sort_by_key(|group| (Some(*group) != home, Reverse(own(*group)), lodgers(*group), *group));
    if groups.len() < wanted {
        return Err(Refusal::TooFewGroups { there: groups.len(), wanted });
    }
    groups.truncate(wanted);
    Ok(groups)
}

/// Puts an event into these groups, of which the first is its home.
pub fn spread(event: &EventRecord, placed: &EventPlacement, groups: &[GroupId]) -> Plan {
    let mut plan = Plan::default();
    let at = |partition: Partition, weight: u32| {
        let group = placed.locate(&partition).0;
        Part { partition, weight: u64::from(weight), group }
    };
    let id = event.id;
    let sections: Vec<Part> = event
        .sections
        .iter()
        .map(|section| at(Partition::Seats { event: id, section: section.id }, section.capacity))
        .collect();
    let buckets: Vec<Part> =
        (0..placed.buckets).map(|bucket| at(Partition::Checkouts { event: id, bucket: Bucket(bucket) }, 1)).collect();
    let seats = balance(sections, groups, &mut plan);
    let fans = balance(buckets, groups, &mut plan);
    if let Some(home) = groups.first() {
        let office = Partition::Checkouts { event: id, bucket: Bucket::BOX_OFFICE };
        let codes = placed.promotions.iter().map(|code| Partition::Promotion { event: id, code: code.clone() });
        for partition in std::iter::once(office).chain(codes) {
            let from = placed.locate(&partition).0;
            if !groups.contains(&from) {
                plan.push(Step::Move { partition, from, to: *home });
            }
        }
    }
    let sum = |load: &BTreeMap<GroupId, u64>| load.values().sum::<u64>();
    for group in groups {
        let of = |load: &BTreeMap<GroupId, u64>| load.get(group).copied().unwrap_or(0);
        let (all_seats, all_fans) = (sum(&seats), sum(&fans));
        plan.note(format!(
            "group {group} has {} of {all_seats} seats and {} of {all_fans} buckets",
            of(&seats),
            of(&fans)
        ));
    }
    plan
}

/// A partition, what it weighs and where it is.
struct Part {
    partition: Partition,
    weight: u64,
    group: GroupId,
}

/// About equal weights: the heaviest first, each where it is if that group has room left, otherwise into the emptiest one.
/// Gives what each group then has.
fn balance(mut parts: Vec<Part>, groups: &[GroupId], plan: &mut Plan) -> BTreeMap<GroupId, u64> {
    let total: u64 = parts.iter().map(|part| part.weight).sum();
    let share = total.div_ceil(groups.len().max(1) as u64);
    let mut load: BTreeMap<GroupId, u64> = groups.iter().map(|group| (*group, 0)).collect();
    parts.sort_by(|a, b| (Reverse(a.weight), &a.partition).cmp(&(Reverse(b.weight), &b.partition)));
    let mut rest = Vec::new();
    for part in parts {
        match load.get_mut(&part.group) {
            Some(load) if *load + part.weight <= share => *load += part.weight,
            _ => rest.push(part),
        }
    }
    for Part { partition, weight, group: from } in rest {
        let Some((to, load)) = load.iter_mut().min_by_key(|(group, load)| (**load, **group != from, **group)) else {
            break;
        };
        *load += weight;
        if *to != from {
            plan.push(Step::Move { partition, from, to: *to });
        }
    }
    load
}
