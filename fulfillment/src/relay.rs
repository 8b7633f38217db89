//! The outbox relay. PostgreSQL itself is the carrier by default: see `ledger::outbox`.

use crate::step::Done;
use domain::time::WallMs;
use ledger::Ledger;

/// Facts published in one transaction.
const BATCH: u32 = 500;

/// Rows of each table that are removed in one pass.
const PRUNED: u32 = 1_000;

/// Remove what was handled long ago, a little at a time, so that nobody waits for it.
pub async fn prune<L: Ledger>(ledger: &L, now: WallMs) -> Done {
    Ok(ledger.prune(now, PRUNED).await? as usize)
}

/// Publish what is not published.
pub async fn relay<L: Ledger>(ledger: &L, now: WallMs) -> Done {
    Ok(ledger.relay(now, BATCH).await? as usize)
}
