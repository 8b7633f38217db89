//! Which life each node leads, as the meta group has registered it and this node has applied it. A node whose data folder
//! was lost has forgotten its votes and its entries: under its old id it could elect a second leader for a term, or help
//! to commit what a majority does not have. So its folder carries a life, the first word of a node id to the meta group
//! stands, and nodes neither listen to another life nor count its answers.

use crate::state_machine::{AppliedEntry, Observer};
use crate::types::LogId;
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use domain::inventory::command::Meta;
use domain::inventory::{Command, Group};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The registered lives. Clones share them.
#[derive(Clone, Default)]
pub struct Lives(Arc<RwLock<BTreeMap<NodeId, u128>>>);

impl Lives {
    /// The life that a node leads, if it has registered.
    pub fn of(&self, node: NodeId) -> Option<u128> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// Whether whoever says this may be that node. Before a node has registered, everybody may.
    pub fn may_be(&self, node: NodeId, life: &[u8]) -> bool {
        self.of(node).is_none_or(|known| life.is_empty() || known.to_be_bytes() == life)
    }

    fn learn(&self, machine: &Group) {
        if let Some(lives) = machine.lives() {
            self.0.write().unwrap_or_else(PoisonError::into_inner).clone_from(lives);
        }
    }
}

/// A life as frames carry it.
pub fn to_wire(life: Option<u128>) -> Bytes {
    life.map_or_else(Bytes::new, |life| Bytes::copy_from_slice(&life.to_be_bytes()))
}

impl Observer for Lives {
    fn applied(&self, applied: &AppliedEntry<'_>) {
        let registers =
            |request: &domain::inventory::Request| matches!(request.command, Command::Meta(Meta::RegisterNode { .. }));
        if applied.group == GroupId::META && applied.entry.requests.iter().any(registers) {
            self.learn(applied.machine);
        }
    }

    fn installed(&self, group: GroupId, _last: Option<LogId>, machine: &Group) {
        if group == GroupId::META {
            self.learn(machine);
        }
    }
}
