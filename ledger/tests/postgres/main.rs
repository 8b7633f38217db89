//! The ledger over a real PostgreSQL, each test with a server of its own.

mod contract;
mod roles;
mod support;
