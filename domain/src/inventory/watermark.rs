//! How far each bucket has come: below its mark every reservation is over and acknowledged, so that a participant may
//! forget its answers, and must refuse a Prepare that comes after all.

use crate::ids::{Bucket, EventId, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The marks that a participant has been told: incarnation and sequence, below which all is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks(BTreeMap<Bucket, (u16, u64)>);

impl Marks {
    /// Whether this reservation is over, whatever a late message says.
    pub fn is_below(&self, id: &ReservationId) -> bool {
        self.0.get(&id.bucket).is_some_and(|mark| (id.incarnation, id.sequence) < *mark)
    }

    /// Raises a mark; gives the ids that it passed (from, inclusive; to, exclusive), or `None` if it was not higher.
    pub fn raise(
        &mut self,
        event: EventId,
        bucket: Bucket,
        incarnation: u16,
        below: u64,
    ) -> Option<(ReservationId, ReservationId)> {
        let mark = self.0.entry(bucket).or_default();
        if (incarnation, below) <= *mark {
            return None;
        }
        let from = ReservationId { event, bucket, incarnation: mark.0, sequence: mark.1 };
        *mark = (incarnation, below);
        Some((from, ReservationId { event, bucket, incarnation, sequence: below }))
    }
}
