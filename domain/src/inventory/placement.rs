//! The meta partition: the catalogue that browsing reads, and where every partition lives. It numbers the attempts to move
//! one, and its MoveCommit is the commit point of a move.

use super::command::Meta;
use super::outcome::Outcome;
use super::query::{EventPlacement, Move, MoveStage, Placement};
use super::record::{EventRecord, EventStatus};
use crate::ids::{Attempt, Bucket, Epoch, EventId, GroupId, NodeId, Partition, PromotionCode};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The meta machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    version: u64,
    events: BTreeMap<EventId, Listed>,
    placement: Placement,
    /// The last attempt of each partition that was ever to be moved.
    attempts: BTreeMap<Partition, Attempt>,
    /// Moves that are not done.
    moves: BTreeMap<Partition, BTreeMap<Attempt, Move>>,
    /// Which life each node leads.
    lives: BTreeMap<NodeId, u128>,
    /// Groups that are to be: their numbers are taken, and nothing can live there yet.
    reserved: BTreeMap<GroupId, BTreeMap<NodeId, String>>,
}

/// A record's version rises with each change here; publications are compared among themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    published: u64,
    record: EventRecord,
}

impl Catalogue {
    /// Rises with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Every event.
    pub fn events(&self) -> Vec<EventRecord> {
        self.events.values().map(|listed| listed.record.clone()).collect()
    }

    /// Where everything lives.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Moves that are not done.
    pub fn moves(&self) -> Vec<Move> {
        self.moves.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Which life each node leads.
    pub fn lives(&self) -> &BTreeMap<NodeId, u128> {
        &self.lives
    }

    /// Groups that are to be, and their members.
    pub fn reserved(&self) -> &BTreeMap<GroupId, BTreeMap<NodeId, String>> {
        &self.reserved
    }

    /// How many events.
    pub fn size(&self) -> u64 {
        self.events.len() as u64
    }

    pub(super) fn apply(&mut self, command: &Meta) -> Outcome {
        // Meta commands are rare, and the catalogue is small: comparing is simpler than remembering to count.
        let before = (self.events.clone(), self.placement.clone());
        let outcome = match command {
            Meta::Publish { event, promotions, groups } => self.publish(event, promotions, groups),
            Meta::SetStatus { event, status } => self.set_status(*event, *status),
            Meta::RegisterGroup { group, nodes } => self.register(*group, nodes),
            Meta::MoveBegin { partition, to } => self.begin_move(partition, *to),
            Meta::MoveCommit { partition, attempt } => self.decide_move(partition, *attempt, MoveStage::Committed),
            Meta::MoveAbort { partition, attempt } => self.decide_move(partition, *attempt, MoveStage::Aborted),
            Meta::MoveDone { partition, attempt } => self.forget_move(partition, *attempt),
            Meta::RegisterNode { node, life } => self.register_node(*node, *life),
            Meta::ReserveGroup { group, nodes } => self.reserve(*group, nodes),
        };
        if before.0 != self.events || before.1 != self.placement {
            self.version += 1;
        }
        outcome
    }

    fn publish(&mut self, event: &EventRecord, promotions: &[PromotionCode], groups: &[GroupId]) -> Outcome {
        if let Err(text) = check(event) {
            return Outcome::Invalid(text);
        }
        if let Some(unknown) = groups.iter().find(|group| !self.placement.groups.contains_key(group)) {
            return Outcome::Invalid(format!("there is no group {unknown}"));
        }
        let known = self.events.get(&event.id);
        match known.map(|known| known.published.cmp(&event.version)) {
            Some(Ordering::Equal) => return Outcome::Done,
            Some(Ordering::Greater) => {
                return Outcome::Invalid(format!(
                    "publication {} of event {} is not the newest",
                    event.version, event.id
                ));
            }
            Some(Ordering::Less) | None => {}
        }
        if known.is_some_and(|known| known.record.buckets != event.buckets) {
            return Outcome::Invalid("the number of buckets is fixed: records live where it says".into());
        }
        let version = known.map_or(event.version, |known| event.version.max(known.record.version + 1));
        // Publishing changes what is sold, not whether: who closed the sale, or called the event off, did so for a reason.
        let status = known.map_or(event.status, |known| known.record.status);
        let record = EventRecord { version, status, ..event.clone() };
        match self.placement.events.get_mut(&event.id) {
            Some(placed) => {
                placed.sections = record.sections.iter().map(|section| section.id).collect();
                let codes: BTreeSet<PromotionCode> = placed.promotions.iter().chain(promotions).cloned().collect();
                placed.promotions = codes.into_iter().collect();
            }
            None => {
                let placed = self.place(&record, promotions, groups);
                self.placement.events.insert(event.id, placed);
            }
        }
        self.events.insert(event.id, Listed { published: event.version, record });
        Outcome::Done
    }

    /// A new event goes to one group, the one with the fewest events; its sections and its buckets of users over several, if
    /// several are given.
    fn place(&self, event: &EventRecord, promotions: &[PromotionCode], groups: &[GroupId]) -> EventPlacement {
        let epoch = Epoch(1);
        let lodgers = |group: &GroupId| self.placement.events.values().filter(|e| e.home.0 == *group).count();
        let hosts = self.placement.groups.keys().filter(|group| **group != GroupId::META);
        let home = match groups.first() {
            Some(first) => *first,
            None => hosts.min_by_key(|group| (lodgers(group), **group)).copied().unwrap_or(GroupId::META),
        };
        let sections: Vec<_> = event.sections.iter().map(|section| section.id).collect();
        let seats = sections.iter().map(|section| Partition::Seats { event: event.id, section: *section });
        let fans = (0..event.buckets).map(|bucket| Partition::Checkouts { event: event.id, bucket: Bucket(bucket) });
        let moved = seats
            .enumerate()
            .chain(fans.enumerate())
            .filter_map(|(at, partition)| {
                let group = groups.get(at % groups.len().max(1)).filter(|group| **group != home)?;
                Some((partition, (*group, epoch)))
            })
            .collect();
        EventPlacement { home: (home, epoch), buckets: event.buckets, sections, promotions: promotions.to_vec(), moved }
    }

    fn set_status(&mut self, event: EventId, status: EventStatus) -> Outcome {
        let Some(listed) = self.events.get_mut(&event) else {
            return Outcome::Invalid(format!("there is no event {event}"));
        };
        if listed.record.status == EventStatus::Cancelled && status != EventStatus::Cancelled {
            return Outcome::Invalid(format!("event {event} is cancelled, for good"));
        }
        if listed.record.status != status {
            listed.record.status = status;
            listed.record.version += 1;
        }
        Outcome::Done
    }

    fn register(&mut self, group: GroupId, nodes: &BTreeMap<NodeId, String>) -> Outcome {
        self.placement.groups.insert(group, nodes.clone());
        self.reserved.remove(&group);
        Outcome::Done
    }

    fn register_node(&mut self, node: NodeId, life: u128) -> Outcome {
        if self.lives.len() >= limits::NODES && !self.lives.contains_key(&node) {
            let text = format!(
                "this store has had as many nodes as it ever may, {}; a new one restored from a backup",
                limits::NODES
            );
            return Outcome::Invalid(text + " begins to count anew");
        }
        match *self.lives.entry(node).or_insert(life) {
            known if known == life => Outcome::Done,
            _ => Outcome::AnotherLife,
        }
    }

    fn reserve(&mut self, group: GroupId, nodes: &BTreeMap<NodeId, String>) -> Outcome {
        if group.0 > limits::GROUPS {
            return Outcome::Invalid(format!("a store has at most {} groups", limits::GROUPS));
        }
        match self.placement.groups.get(&group).or_else(|| self.reserved.get(&group)) {
            Some(known) if !known.keys().eq(nodes.keys()) => {
                Outcome::Invalid(format!("group {group} exists, with other nodes"))
            }
            _ if self.placement.groups.contains_key(&group) => Outcome::Done,
            _ => {
                self.reserved.insert(group, nodes.clone());
                Outcome::Done
            }
        }
    }

    fn begin_move(&mut self, partition: &Partition, to: GroupId) -> Outcome {
        let Some(placed) = partition.event().and_then(|event| self.placement.events.get(&event)) else {
            return Outcome::Invalid(format!("{partition} has no placement to change"));
        };
        let known = partition.event().is_some_and(|event| placed.partitions(event).contains(partition));
        if !known || !self.placement.groups.contains_key(&to) {
            return Outcome::Invalid(format!("there is no {partition} or no group {to}"));
        }
        let (from, epoch) = placed.locate(partition);
        let mut open = self.moves.get(partition).into_iter().flat_map(BTreeMap::values);
        if let Some(open) = open.find(|open| open.stage == MoveStage::Begun) {
            return match open.to == to {
                true => Outcome::MoveBegun { attempt: open.attempt, from, epoch: open.epoch },
                false => Outcome::Invalid(format!("{partition} is being moved to group {}", open.to)),
            };
        }
        if from == to {
            return Outcome::Invalid(format!("{partition} is in group {to}"));
        }
        let last = self.attempts.entry(partition.clone()).or_default();
        let (attempt, epoch) = (Attempt(last.0 + 1), Epoch(epoch.0 + 1));
        *last = attempt;
        let stage = MoveStage::Begun;
        let begun = Move { partition: partition.clone(), attempt, from, to, epoch, stage };
        self.moves.entry(partition.clone()).or_default().insert(attempt, begun);
        Outcome::MoveBegun { attempt, from, epoch }
    }

    /// Commit or abort, whichever comes first; the other is refused for ever.
    fn decide_move(&mut self, partition: &Partition, attempt: Attempt, stage: MoveStage) -> Outcome {
        let found = self.moves.get_mut(partition).and_then(|moves| moves.get_mut(&attempt));
        let Some(open) = found else { return Outcome::Invalid(format!("no attempt {attempt} of {partition} is open")) };
        if open.stage == stage {
            return Outcome::Done;
        }
        if open.stage != MoveStage::Begun {
            return Outcome::Invalid(format!("attempt {attempt} of {partition} is {:?}", open.stage));
        }
        open.stage = stage;
        let (to, epoch) = (open.to, open.epoch);
        if stage == MoveStage::Committed
            && let Some(placed) = partition.event().and_then(|event| self.placement.events.get_mut(&event))
        {
            placed.moved.insert(partition.clone(), (to, epoch));
        }
        Outcome::Done
    }

    fn forget_move(&mut self, partition: &Partition, attempt: Attempt) -> Outcome {
        let Some(moves) = self.moves.get_mut(partition) else { return Outcome::Done };
        if moves.get(&attempt).is_some_and(|open| open.stage == MoveStage::Begun) {
            return Outcome::Invalid(format!("attempt {attempt} of {partition} is not decided"));
        }
        moves.remove(&attempt);
        if moves.is_empty() {
            self.moves.remove(partition);
        }
        Outcome::Done
    }
}

fn check(event: &EventRecord) -> Result<(), String> {
    let ids: BTreeSet<_> = event.sections.iter().map(|section| section.id).collect();
    let names: BTreeSet<_> = event.sections.iter().map(|section| &section.name).collect();
    let seats: u64 = event.sections.iter().map(|section| u64::from(section.capacity)).sum();
    if ids.len() != event.sections.len() || names.len() != ids.len() || ids.len() > limits::SECTIONS {
        return Err("sections need ids and names of their own".into());
    }
    if seats > limits::EVENT_SEATS as u64 {
        return Err(format!("{seats} seats are more than an event may have"));
    }
    if event.buckets == 0 || event.buckets > limits::BUCKETS {
        return Err(format!("an event has 1 to {} buckets", limits::BUCKETS));
    }
    if event.sections.iter().any(|section| usize::from(section.tier) >= event.tiers.len()) {
        return Err("a section has a tier that does not exist".into());
    }
    Ok(())
}

impl super::invariants::Sound for Catalogue {
    fn sound(&self) -> Result<(), String> {
        if !self.events.keys().eq(self.placement.events.keys()) {
            return Err("events and placement differ".into());
        }
        let begun = |moves: &BTreeMap<Attempt, Move>| moves.values().filter(|m| m.stage == MoveStage::Begun).count();
        match self.moves.iter().find(|(_, moves)| moves.is_empty() || begun(moves) > 1) {
            Some((partition, _)) => Err(format!("{partition} has several open moves, or an empty list of them")),
            None => Ok(()),
        }
    }
}
