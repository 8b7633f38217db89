//! The one thread of this process that talks to SQLite. Requests queue up for it and never block the async workers; when it
//! is behind, or hangs with its disk, callers are told so and admit nobody.

use crate::ledger::{Ledger, LedgerError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait.
const WAITING: usize = 256;
/// How long a caller waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce(&mut Ledger) + Send>;

/// A way to ask the ledger's thread. The thread ends when the last clone is dropped.
#[derive(Clone)]
pub struct Desk {
    jobs: mpsc::Sender<Job>,
}

impl Desk {
    /// Hand the ledger to a thread of its own.
    pub fn start(mut ledger: Ledger) -> std::io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(WAITING);
        std::thread::Builder::new().name("gate-ledger".to_owned()).spawn(move || {
            while let Some(job) = waiting.blocking_recv() {
                job(&mut ledger);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Ask, and wait for the answer. An error means that it is unknown whether anything was done.
    pub async fn ask<T, E>(&self, job: impl FnOnce(&mut Ledger) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<LedgerError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |ledger| {
            // Nobody waits any more: what it would admit would be lost on the person at the door.
            if !answer.is_closed() {
                let _nobody_waits = answer.send(job(ledger));
            }
        });
        self.jobs.try_send(job).map_err(|_| LedgerError::Busy)?;
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(LedgerError::TimedOut.into()),
        }
    }
}
