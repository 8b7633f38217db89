//! Facts that fans are told: failed payments and refunds on their way.

use crate::step::Done;
use domain::time::WallMs;
use ledger::Ledger;
use ledger::outbox::MESSAGES;

/// Write down what fans are to be told.
pub async fn write<L: Ledger>(ledger: &L, now: WallMs) -> Done {
    let waiting = ledger.deliveries(MESSAGES, 100).await?;
    let (mut done, mut failed) = (0, None);
    for message in waiting {
        // One that cannot be written stops no other.
        match ledger.consume_message(message.id, now).await {
            Ok(()) => done += 1,
            Err(error) => failed = Some(error.into()),
        }
    }
    failed.map_or(Ok(done), Err)
}
