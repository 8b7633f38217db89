//! Why an operation of the ledger failed. Outcomes are not errors: those are answers.

/// The surroundings failed. A caller that sees one does not know whether its step was written, and repeats it.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Not reachable, restarting, or too busy to answer in time: try again later.
    #[error("the ledger is unavailable: {0}")]
    Unavailable(String),
    /// The role may not do this.
    #[error("the ledger refused: {0}")]
    Forbidden(String),
    /// A stored value cannot be read, or a constraint stopped what should have been impossible.
    #[error("the ledger is inconsistent: {0}")]
    Inconsistent(String),
}

impl LedgerError {
    /// Whether trying again later may help.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    pub(crate) fn inconsistent(what: impl std::fmt::Display) -> Self {
        Self::Inconsistent(what.to_string())
    }
}
