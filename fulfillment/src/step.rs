//! Steps: each does what is due now, is safe to repeat and safe to stop anywhere, and says how much it did.

use crate::provider::ProviderError;
use ledger::LedgerError;
use raft_store::client::ClientError;
use std::future::Future;
use tokio::task::JoinSet;

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
    /// A message could not be handed over.
    #[error("mail: {0}")]
    Mail(String),
    /// Something that must not be.
    #[error("{0}")]
    Impossible(String),
}

/// How much a step did, or the first thing that stopped part of it.
pub type Done = Result<usize, StepError>;

/// At most this many items of one step at once: the ledger's pool and the store's streams are shared.
const AT_ONCE: usize = 16;

/// Do `work` for each item, a few at once; one that fails does not stop the others.
pub(crate) async fn each<T, F>(items: Vec<T>, mut work: impl FnMut(T) -> F) -> Done
where
    F: Future<Output = Result<(), StepError>> + Send + 'static,
{
    let (mut done, mut failed) = (0, None);
    let mut running = JoinSet::new();
    let mut count = |ended: Option<Result<Result<(), StepError>, tokio::task::JoinError>>| match ended {
        Some(Ok(Ok(()))) => done += 1,
        Some(Ok(Err(error))) => failed = Some(error),
        Some(Err(stopped)) => failed = Some(StepError::Impossible(format!("a step stopped: {stopped}"))),
        None => {}
    };
    for item in items {
        if running.len() >= AT_ONCE {
            count(running.join_next().await);
        }
        running.spawn(work(item));
    }
    while let Some(ended) = running.join_next().await {
        count(Some(ended));
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(done),
    }
}
