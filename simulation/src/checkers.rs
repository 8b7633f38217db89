//! What must hold while it runs: replicas that applied the same entry have the same state, and no partition contradicts
//! itself or its judge, after any entry.

use crate::trace::Trace;
use domain::ids::{GroupId, NodeId};
use domain::inventory::{Group, invariants};
use raft_store::state_machine::{AppliedEntry, Observer};
use raft_store::types::LogId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// Sees every entry that any node applies. Clones share what was seen.
#[derive(Clone)]
pub struct Witness {
    trace: Trace,
    seen: Arc<Mutex<BTreeMap<(GroupId, u64), [u8; 32]>>>,
}

impl Witness {
    /// Tells the trace.
    pub fn new(trace: Trace) -> Self {
        Self { trace, seen: Arc::default() }
    }

    /// One node's eye.
    pub fn at(&self, node: NodeId) -> Arc<dyn Observer> {
        Arc::new(Eye { node, witness: self.clone() })
    }

    /// Entries that some node has applied.
    pub fn entries(&self) -> usize {
        self.seen.lock().expect("no holder of this lock panics").len()
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
        // All partitions of an event are in one group here, so its claims and records can be compared at any entry.
        if let Err(wrong) = invariants::across(&[machine]) {
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
