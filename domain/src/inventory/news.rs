//! What the last entries changed, for the host alone: the watch stream and the seat history. No part of the replicated state.

use crate::ids::{EventId, Partition, ReservationId, SeatIndex, SectionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes that the host has not drained yet.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// Partitions with their newest version.
    pub(super) changed: BTreeMap<Partition, u64>,
    /// Owners changed by the last entry.
    pub(super) seats: Vec<SeatChange>,
}

impl News {
    /// A partition has a new version.
    pub(super) fn changed(&mut self, partition: Partition, version: u64) {
        self.changed.insert(partition, version);
    }
}

/// A change of a seat's owner, for the history index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatChange {
    /// The event.
    pub event: EventId,
    /// The section.
    pub section: SectionId,
    /// The seat.
    pub seat: SeatIndex,
    /// Whose claim it is, or was.
    pub reservation: ReservationId,
    /// What happened.
    pub kind: SeatChangeKind,
}

/// How a seat changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatChangeKind {
    /// Free → held.
    Held,
    /// Free → kept by the box office.
    Blocked,
    /// Held → sold.
    Sold,
    /// Held → free: the reservation ended unpaid.
    Released,
    /// Sold → free: refunded.
    Returned,
}
