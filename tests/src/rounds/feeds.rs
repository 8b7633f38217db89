//! The consumer of the feeds, as the ledger's side is one: it stores what it reads, then acknowledges it. Nothing may be
//! missing and nothing may come in another order, whatever moves or dies.

use super::checker::Said;
use super::history::Recorder;
use anyhow::Result;
use domain::ids::{EventId, Partition, ReservationId};
use domain::inventory::{Fact, FeedEntry};
use raft_store::client::{Client, ClientError};
use std::collections::BTreeMap;

const BATCH: u32 = 200;

/// What was read so far.
#[derive(Default)]
pub struct Feeds {
    positions: BTreeMap<Partition, u64>,
    said: BTreeMap<ReservationId, Vec<Said>>,
}

impl Feeds {
    /// What each reservation's feed told.
    pub fn said(&self) -> BTreeMap<ReservationId, Vec<Said>> {
        self.said.clone()
    }

    /// Reads on in all buckets of these events, as far as the store answers; true once nothing is left.
    pub async fn consume(&mut self, client: &Client, events: &[EventId], recorder: &Recorder) -> bool {
        let mut drained = true;
        for event in events {
            let Ok(partitions) = client.partitions(*event).await else { return false };
            for partition in partitions.into_iter().filter(|at| matches!(at, Partition::Checkouts { .. })) {
                drained &= self.consume_one(client, partition, recorder).await.unwrap_or(false);
            }
        }
        drained
    }

    async fn consume_one(
        &mut self,
        client: &Client,
        partition: Partition,
        recorder: &Recorder,
    ) -> Result<bool, ClientError> {
        let after = self.positions.get(&partition).copied().unwrap_or(0);
        let facts = client.feed(partition.clone(), after, BATCH).await?;
        if facts.is_empty() {
            return Ok(true);
        }
        let mut position = after;
        for FeedEntry { position: at, fact, .. } in facts {
            if at != position + 1 {
                recorder.complain(format!("the feed of {partition} goes from {position} to {at}"));
            }
            position = at;
            let (id, said) = match fact {
                Fact::Held(view) => (view.id, Said::Held),
                Fact::Paid(view) => (view.id, Said::Paid),
                Fact::Cancelled(view) => (view.id, Said::Cancelled),
                Fact::Expired(view) => (view.id, Said::Expired),
                Fact::Released { reservation, .. } => (reservation, Said::Released),
                Fact::Offered(_) | Fact::SoldOut { .. } => continue,
            };
            self.said.entry(id).or_default().push(said);
        }
        // Stored: an acknowledgement that gets lost is made up for by the next one.
        self.positions.insert(partition.clone(), position);
        client.ack_feed(partition, position).await?;
        Ok(false)
    }
}
