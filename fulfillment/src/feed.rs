//! The store's feeds: how each reservation ended is written down in the ledger, then acknowledged to the store, in order
//! and at least once.

use crate::step::{Done, StepError, each};
use crate::store::Store;
use domain::ids::{Partition, ReservationId};
use domain::inventory::{Fact, FeedEntry, ReservationView};
use domain::time::WallMs;
use ledger::Ledger;
use ledger::settlement::{Ending, FeedNote};
use std::collections::BTreeMap;

/// Facts of one partition that one pass takes on.
const BATCH: u32 = 256;
/// Only every so many passes look at partitions other than `checkouts`: they say little.
const OTHERS_EVERY: u64 = 10;
/// Only every so many passes look for new events.
const CATALOGUE_EVERY: u64 = 10;

/// Where the consumer stands. Lost with the process: then it starts from what the store still keeps.
#[derive(Debug, Default)]
pub struct Feed {
    passes: u64,
    partitions: Vec<Partition>,
    positions: BTreeMap<Partition, u64>,
}

impl Feed {
    /// Consume what is there.
    pub async fn consume<S: Store, L: Ledger>(&mut self, store: &S, ledger: &L, now: WallMs) -> Done {
        if self.passes.is_multiple_of(CATALOGUE_EVERY) {
            let mut partitions = Vec::new();
            for event in store.events().await? {
                partitions.extend(store.partitions(event.id).await?);
            }
            self.partitions = partitions;
        }
        let others = self.passes.is_multiple_of(OTHERS_EVERY);
        self.passes += 1;
        let (mut done, mut failed) = (0, None);
        for partition in &self.partitions {
            if !others && !matches!(partition, Partition::Checkouts { .. }) {
                continue;
            }
            let after = self.positions.get(partition).copied().unwrap_or(0);
            match consume_one(store, ledger, partition, after, now).await {
                Ok((position, count)) => {
                    self.positions.insert(partition.clone(), position);
                    done += count;
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(done), Err)
    }
}

/// Consume one partition's facts after a position; where it stands then, and how many that were.
async fn consume_one<S: Store, L: Ledger>(
    store: &S,
    ledger: &L,
    partition: &Partition,
    after: u64,
    now: WallMs,
) -> Result<(u64, usize), StepError> {
    let facts = store.feed(partition.clone(), after, BATCH).await?;
    let (mut position, mut ended) = (after, Vec::new());
    for FeedEntry { position: at, fact, at: wall } in &facts {
        let note = |view: &ReservationView, ending| FeedNote {
            partition: partition.clone(),
            position: *at,
            event: view.id.event,
            reservation: view.id,
            user: view.user.clone(),
            ending,
            at: *wall,
        };
        match fact {
            Fact::Expired(view) => {
                ledger.record_ending(&note(view, Ending::Expired), now).await?;
                ended.push(view.id);
            }
            Fact::Cancelled(view) => {
                ledger.record_ending(&note(view, Ending::Cancelled), now).await?;
                ended.push(view.id);
            }
            Fact::Paid(view) => {
                let Some(payment) = view.payment else {
                    return Err(StepError::Impossible(format!("{} is paid by nothing", view.id)));
                };
                // Settlement has not written it down yet: come back, so that the record is not collected before.
                if !ledger.is_settled(payment).await? {
                    break;
                }
                ended.push(view.id);
            }
            Fact::Held(_) | Fact::Offered(_) | Fact::Released { .. } | Fact::SoldOut { .. } => {}
        }
        position = *at;
    }
    if position > after {
        each(ended, |reservation| acknowledge(store.clone(), reservation)).await?;
        store.ack_feed(partition.clone(), position).await?;
    }
    Ok((position, facts.len()))
}

async fn acknowledge<S: Store>(store: S, reservation: ReservationId) -> Result<(), StepError> {
    store.ledger_ack(reservation).await?;
    Ok(())
}
