//! A store in one value: some groups, each with two replicas that must never differ, and a network that carries messages
//! when the test says so.

use domain::ids::{Bucket, EventId, GroupId, Partition, ReservationId, SectionId};
use domain::inventory::command::{Checkout, Command, Entry, Manage, Request};
use domain::inventory::{Answer, Group, Outcome, Query, SectionPlan, Stage, invariants, reply};
use domain::time::{Stamp, WallMs};
use std::collections::BTreeMap;

/// The event of all tests.
pub const EVENT: EventId = EventId(1);

/// Groups, their second replicas and the wall clock of whoever stamps.
pub struct World {
    pub groups: BTreeMap<GroupId, Group>,
    replicas: BTreeMap<GroupId, Group>,
    pub plans: BTreeMap<SectionId, SectionPlan>,
    pub wall: u64,
    /// Elapsed time that the next entry of each group will carry.
    elapsed: BTreeMap<GroupId, u32>,
    /// Check everything after each entry.
    pub watchful: bool,
    applied: u64,
}

impl World {
    pub fn new(groups: u32) -> Self {
        let fresh = || (0..groups).map(|id| (GroupId(id), Group::new(GroupId(id)))).collect();
        let (plans, elapsed) = (BTreeMap::new(), BTreeMap::new());
        let (groups, replicas) = (fresh(), fresh());
        Self { groups, replicas, plans, wall: 1_000_000_000, elapsed, watchful: true, applied: 0 }
    }

    /// Where a request goes: where the partition is active, else where a copy of it is, else group 1.
    pub fn locate(&self, partition: &Partition) -> GroupId {
        let hosted = |wanted: fn(Stage) -> bool| {
            self.groups.iter().find_map(|(id, group)| {
                let is_here = group.partitions().iter().any(|h| h.partition == *partition && wanted(h.stage));
                is_here.then_some(*id)
            })
        };
        hosted(|stage| stage == Stage::Active).or_else(|| hosted(|_| true)).unwrap_or(GroupId(1))
    }

    /// Applies one entry with these requests to a group, on both replicas, and checks all.
    pub fn apply(&mut self, group: GroupId, requests: Vec<Request>) -> Vec<Outcome> {
        let elapsed_ms = self.elapsed.remove(&group).unwrap_or(0);
        let entry = Entry { stamp: Stamp { elapsed_ms, wall: WallMs(self.wall) }, requests };
        let outcomes = self.groups.get_mut(&group).unwrap().apply(&entry);
        let replica = self.replicas.get_mut(&group).unwrap();
        self.applied += 1;
        if self.watchful && self.applied.is_multiple_of(7) {
            // The other replica goes on from its snapshot.
            let bytes = postcard::to_stdvec(replica).unwrap();
            let pieces = replica.clone().into_pieces().flat_map(|piece| postcard::to_stdvec(&piece).unwrap());
            assert_eq!(pieces.collect::<Vec<u8>>(), bytes, "the pieces are not the whole");
            *replica = postcard::from_bytes(&bytes).unwrap();
        }
        assert_eq!(replica.apply(&entry), outcomes, "two replicas answer differently");
        if self.watchful {
            assert_eq!(self.replicas[&group].state_hash(), self.groups[&group].state_hash(), "replicas differ");
            self.check();
        }
        outcomes
    }

    pub fn check(&self) {
        let groups: Vec<&Group> = self.groups.values().collect();
        if let Err(text) = invariants::across(&groups) {
            panic!("an invariant is broken: {text}");
        }
    }

    pub fn submit(&mut self, request: Request) -> Outcome {
        let group = self.locate(&request.partition);
        self.apply(group, vec![request]).pop().unwrap()
    }

    pub fn command(&mut self, partition: Partition, command: Command) -> Outcome {
        self.submit(Request { partition, command })
    }

    pub fn checkout(&mut self, bucket: Bucket, command: Checkout) -> Outcome {
        self.command(Partition::Checkouts { event: EVENT, bucket }, Command::Checkout(command))
    }

    pub fn manage(&mut self, group: GroupId, partition: &Partition, command: Manage) -> Outcome {
        let request = Request { partition: partition.clone(), command: Command::Manage(command) };
        self.apply(group, vec![request]).pop().unwrap()
    }

    /// Time passes for everybody, in steps that the clamp lets through; each step is an empty entry everywhere.
    pub fn pass(&mut self, ms: u64) {
        let (mut left, watchful) = (ms, self.watchful);
        while left > 0 {
            // A long time is watched at both its ends.
            self.watchful = watchful && (left <= 10_000 || left == ms);
            let step = left.min(5_000);
            left -= step;
            self.wall += step;
            for group in self.groups.keys().copied().collect::<Vec<_>>() {
                self.elapsed.insert(group, step as u32);
                self.apply(group, Vec::new());
            }
        }
        self.watchful = watchful;
    }

    /// Nobody serves for so long; the next entry of each group carries all of it.
    pub fn outage(&mut self, ms: u64) {
        self.wall += ms;
        for group in self.groups.keys().copied().collect::<Vec<_>>() {
            self.elapsed.insert(group, u32::try_from(ms).unwrap());
            self.apply(group, Vec::new());
        }
    }

    /// What every group owes.
    pub fn pending(&self) -> Vec<Request> {
        self.groups.values().flat_map(|group| group.pending(1_000)).collect()
    }

    /// Sends one message and what its answer calls for.
    pub fn deliver(&mut self, message: Request) -> Outcome {
        let outcome = self.submit(message.clone());
        if let Some(answer) = reply(&message, &outcome) {
            self.submit(answer);
        }
        outcome
    }

    pub fn query(&self, partition: &Partition, query: &Query) -> Answer {
        self.groups[&self.locate(partition)].query(partition, query, 0)
    }

    pub fn reservation(&self, id: ReservationId) -> Option<domain::inventory::ReservationView> {
        match self.query(&id.partition(), &Query::Reservation(id)) {
            Answer::Reservation(view) => view.map(|view| *view),
            other => panic!("{other:?}"),
        }
    }
}
