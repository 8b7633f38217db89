//! Steps: each does what is due now, is safe to repeat and safe to stop anywhere, and says how much it did.

use crate::provider::ProviderError;
use futures::StreamExt;
use ledger::LedgerError;
use raft_store::client::ClientError;
use std::future::Future;

/// Why a step could not do all that was due. What is left is still due.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The store.
    #[error(transparent)]
    Store(#[from] ClientError),
    /// The provider.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Something that must not be.
    #[error("{0}")]
    Impossible(String),
}

/// How much a step did, or the first thing that stopped part of it.
pub type Done = Result<usize, StepError>;

/// At most this many items of one step at once: the ledger's pool and the store's streams are shared.
const AT_ONCE: usize = 16;

/// Do `work` for each item, a few at once; one that fails does not stop the others. Nothing is spawned, so that a
/// simulation can run it on its own executor.
pub(crate) async fn each<T, F>(items: Vec<T>, work: impl FnMut(T) -> F) -> Done
where
    F: Future<Output = Result<(), StepError>>,
{
    let (mut done, mut failed) = (0, None);
    let mut ended = futures::stream::iter(items).map(work).buffer_unordered(AT_ONCE);
    while let Some(one) = ended.next().await {
        match one {
            Ok(()) => done += 1,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(done), Err)
}
