//! Consumers of the outbox: each writes its inbox row and its effect in one transaction of the ledger.

pub mod messages;
pub mod tickets;
