//! Plans that put an event's sections into several groups. Sections that are in one of the groups already stay as far as
//! the balance allows, because each move freezes a section for a moment.

use super::plan::{Plan, Refusal, Step};
use domain::ids::{EventId, GroupId, Partition, SectionId};
use domain::inventory::query::Placement;
use std::collections::BTreeMap;

/// A section, how large it is and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionAt {
    /// Which.
    pub section: SectionId,
    /// Its seats.
    pub seats: u32,
    /// Its group.
    pub group: GroupId,
}

/// So many groups for an event: its home first, then those that host the fewest events' partitions.
pub fn choose_groups(placement: &Placement, event: EventId, wanted: usize) -> Result<Vec<GroupId>, Refusal> {
    if wanted == 0 {
        return Err(Refusal::Senseless("an event lives in at least one group".into()));
    }
    let home = placement.events.get(&event).map(|placed| placed.home.0);
    let lodgers = |group: GroupId| {
        let homes = placement.events.values().filter(|placed| placed.home.0 == group).count();
        homes + placement.events.values().flat_map(|placed| placed.moved.values()).filter(|at| at.0 == group).count()
    };
    let mut groups: Vec<GroupId> = placement.groups.keys().copied().filter(|group| *group != GroupId::META).collect();
    groups.sort_by_key(|group| (Some(*group) != home, lodgers(*group), *group));
    if groups.len() < wanted {
        return Err(Refusal::TooFewGroups { there: groups.len(), wanted });
    }
    groups.truncate(wanted);
    Ok(groups)
}

/// Puts the sections into these groups, about equally by seats: the largest first, each where it is if that group has room
/// left, otherwise into the emptiest group.
pub fn spread(event: EventId, sections: &[SectionAt], groups: &[GroupId]) -> Plan {
    let mut plan = Plan::default();
    let total: u64 = sections.iter().map(|section| u64::from(section.seats)).sum();
    let share = total.div_ceil(groups.len().max(1) as u64);
    let mut load: BTreeMap<GroupId, u64> = groups.iter().map(|group| (*group, 0)).collect();
    let mut largest: Vec<SectionAt> = sections.to_vec();
    largest.sort_by_key(|section| (std::cmp::Reverse(section.seats), section.section));
    let mut rest = Vec::new();
    for section in largest {
        match load.get_mut(&section.group) {
            Some(load) if *load + u64::from(section.seats) <= share => *load += u64::from(section.seats),
            _ => rest.push(section),
        }
    }
    for section in rest {
        let Some((to, load)) = load.iter_mut().min_by_key(|(group, load)| (**load, **group != section.group, **group))
        else {
            break;
        };
        *load += u64::from(section.seats);
        if *to != section.group {
            let partition = Partition::Seats { event, section: section.section };
            plan.push(Step::Move { partition, from: section.group, to: *to });
        }
    }
    for (group, load) in load {
        plan.note(format!("group {group} has {load} of {total} seats"));
    }
    plan
}
