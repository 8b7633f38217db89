//! What must hold while it runs: replicas that applied the same entry have the same state, and no partition contradicts
//! itself or its judge, after any entry; a seat changes hands as it may; nobody is refused for a seat that was free.

use crate::cluster::NODES;
use crate::trace::{Trace, now_us};
use domain::ids::{GroupId, NodeId, ReservationId, SeatRef};
use domain::inventory::{Group, SeatChange, SeatChangeKind, invariants};
use raft_store::state_machine::{AppliedEntry, Observer};
use raft_store::types::LogId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// The state after each entry of each group.
type Hashes = BTreeMap<(GroupId, u64), [u8; 32]>;

/// Sees every entry that any node applies. Clones share what was seen.
#[derive(Clone)]
pub struct Witness {
    trace: Trace,
    seen: Arc<Mutex<Hashes>>,
    claims: Arc<Mutex<BTreeMap<SeatRef, Vec<Claim>>>>,
    machines: Arc<Mutex<BTreeMap<(NodeId, GroupId), Group>>>,
    /// All partitions of an event are in one group, so that its claims and records can be compared after any entry.
    together: bool,
}

/// From when to when a seat was somebody's, as the first replica to apply it saw it.
#[derive(Clone, Copy, Debug)]
struct Claim {
    reservation: ReservationId,
    from_us: u64,
    until_us: Option<u64>,
}

impl Witness {
    /// Tells the trace.
    pub fn new(trace: Trace, together: bool) -> Self {
        Self { trace, seen: Arc::default(), claims: Arc::default(), machines: Arc::default(), together }
    }

    /// One node's eye.
    pub fn at(&self, node: NodeId) -> Arc<dyn Observer> {
        Arc::new(Eye { node, witness: self.clone() })
    }

    /// In the end, when nothing is under way: claims and records over all groups, on every node.
    pub fn check_whole(&self) {
        let machines = self.machines.lock().expect("no holder of this lock panics");
        for node in NODES {
            let groups: Vec<_> = machines.iter().filter(|((at, _), _)| *at == node).map(|(_, group)| group).collect();
            if let Err(wrong) = invariants::across(&groups) {
                self.trace.broken(format_args!("node {node}, in the end: {wrong}"));
            }
        }
    }

    fn is_new(&self, group: GroupId, index: u64) -> bool {
        !self.seen.lock().expect("no holder of this lock panics").contains_key(&(group, index))
    }

    /// Entries that some node has applied.
    pub fn entries(&self) -> usize {
        self.seen.lock().expect("no holder of this lock panics").len()
    }

    /// A refusal is legal only if somebody else had one of these seats at some time during the call.
    pub fn conflict(&self, seats: &[SeatRef], from_us: u64, until_us: u64) -> bool {
        let claims = self.claims.lock().expect("no holder of this lock panics");
        let during = |claim: &Claim| claim.from_us <= until_us && claim.until_us.is_none_or(|until| until >= from_us);
        seats.iter().any(|seat| claims.get(seat).is_some_and(|claims| claims.iter().any(during)))
    }

    /// Notes who has which seat from now on; only for an entry that nobody has applied before.
    fn follow(&self, changes: &[SeatChange]) {
        let mut claims = self.claims.lock().expect("no holder of this lock panics");
        for change in changes {
            let seat = SeatRef { section: change.section, seat: change.seat };
            let claims = claims.entry(seat).or_default();
            let open = claims.last_mut().filter(|claim| claim.until_us.is_none());
            match (change.kind, open) {
                (SeatChangeKind::Held | SeatChangeKind::Blocked, None) => {
                    claims.push(Claim { reservation: change.reservation, from_us: now_us(), until_us: None });
                }
                (SeatChangeKind::Sold, Some(claim)) if claim.reservation == change.reservation => {}
                (SeatChangeKind::Released | SeatChangeKind::Returned, Some(claim))
                    if claim.reservation == change.reservation =>
                {
                    claim.until_us = Some(now_us());
                }
                (_, open) => self.trace.broken(format_args!("{change:?} while its claim is {open:?}")),
            }
        }
    }

    fn check(&self, node: NodeId, group: GroupId, last: Option<LogId>, machine: &Group) -> String {
        let hash = machine.state_hash();
        let short = short(&hash);
        let Some(log_id) = last else { return short };
        let index = log_id.index();
        let known = *self.seen.lock().expect("no holder of this lock panics").entry((group, index)).or_insert(hash);
        if known != hash {
            self.trace.broken(format_args!(
                "node {node} differs at entry {index} of group {group}: {short}, elsewhere {}",
                self::short(&known)
            ));
        }
        if !self.together {
            self.machines.lock().expect("no holder of this lock panics").insert((node, group), machine.clone());
        } else if let Err(wrong) = invariants::across(&[machine]) {
            self.trace.broken(format_args!("node {node}, entry {index} of group {group}: {wrong}"));
        }
        short
    }
}

fn short(hash: &[u8; 32]) -> String {
    hash[..6].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

struct Eye {
    node: NodeId,
    witness: Witness,
}

impl Observer for Eye {
    fn applied(&self, applied: &AppliedEntry<'_>) {
        let (node, group) = (self.node, applied.group);
        if self.witness.is_new(group, applied.log_id.index()) {
            self.witness.follow(applied.seats);
        }
        let hash = self.witness.check(node, group, Some(applied.log_id), applied.machine);
        let (requests, log_id) = (applied.entry.requests.len(), applied.log_id);
        self.witness.trace.note(format_args!("node {node} group {group} {log_id} requests {requests} state {hash}"));
    }

    fn installed(&self, group: GroupId, last: Option<LogId>, machine: &Group) {
        let node = self.node;
        let hash = self.witness.check(node, group, last, machine);
        let last = last.map(|log_id| log_id.to_string()).unwrap_or_default();
        self.witness.trace.note(format_args!("node {node} group {group} snapshot to {last} state {hash}"));
    }
}
