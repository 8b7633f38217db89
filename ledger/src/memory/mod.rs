//! The memory twin of the ledger, for simulation: the same promises, kept by one lock.

/// A ledger in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory;
