//! The contract that both twins keep, as tests that take any ledger.
