//! The outbox relay. PostgreSQL itself is the carrier by default: see `ledger::outbox`.

use crate::step::Done;
use domain::time::WallMs;
use ledger::Ledger;

/// Facts published in one transaction.
const BATCH: u32 = 500;

/// Publish what is not published.
pub async fn relay<L: Ledger>(ledger: &L, now: WallMs) -> Done {
    Ok(ledger.relay(now, BATCH).await? as usize)
}
