//! What every contender can do: put a fresh hall on sale, and hold two seats of it.

use crate::workload::{Attempt, Hall};
use futures::future::BoxFuture;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both seats are held, durably.
    Granted,
    /// Somebody has one of them; nothing was taken.
    Refused,
    /// Too many ask: nothing was done, and the fan was told to come back.
    Overloaded,
}

/// An attempt without a verdict, or a hall that could not be put on sale.
#[derive(Debug, thiserror::Error)]
#[error("{contender}: {reason}")]
pub struct Failure {
    /// Who failed.
    pub contender: &'static str,
    /// Why.
    pub reason: String,
}

/// A place where seats can be held.
pub trait Contender: Send + Sync {
    /// For people.
    fn name(&self) -> String;

    /// Puts a fresh hall on sale under this number. Not counted.
    fn open(&self, sale: u32, hall: Hall) -> BoxFuture<'_, Result<(), Failure>>;

    /// Holds two seats for the attempt's fan, or says that they are gone.
    fn hold(&self, sale: u32, attempt: Attempt) -> BoxFuture<'_, Result<Verdict, Failure>>;
}
