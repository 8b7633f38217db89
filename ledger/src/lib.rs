//! The ledger: every line of SQL, behind traits with a memory twin for simulation.
//!
//! Payments, bookings, tickets, refunds, outbox and catalogue. The traits below are the whole door; [`Postgres`] and
//! [`Memory`] keep one contract ([`contract`]). Every mutation is idempotent: a step that is repeated, by a crash or by
//! a caller that never saw the answer, changes nothing and gives the same answer.

pub mod audit;
pub mod cancellations;
pub mod catalogue;
pub mod contract;
mod error;
pub mod memory;
pub mod notices;
pub mod outbox;
pub mod payments;
pub mod postgres;
pub mod recoveries;
pub mod refunds;
pub mod sealing;
pub mod settlement;
pub mod tickets;
pub mod wallets;

pub use audit::Audit;
pub use cancellations::Cancellations;
pub use catalogue::Catalogue;
pub use error::LedgerError;
pub use memory::Memory;
pub use notices::Notices;
pub use outbox::Outbox;
pub use payments::Payments;
pub use postgres::{Config, Postgres, migrate};
pub use recoveries::Recoveries;
pub use refunds::Refunds;
pub use sealing::Sealer;
pub use settlement::Settlement;
pub use tickets::Tickets;
pub use wallets::Wallets;

/// What an operation gives, or why its surroundings failed.
pub type Result<T, E = LedgerError> = std::result::Result<T, E>;

/// Everything a ledger does; cheap to clone.
pub trait Ledger:
    Payments
    + Settlement
    + Refunds
    + Cancellations
    + Tickets
    + Wallets
    + Outbox
    + Notices
    + Catalogue
    + Audit
    + Recoveries
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<L> Ledger for L where
    L: Payments
        + Settlement
        + Refunds
        + Cancellations
        + Tickets
        + Wallets
        + Outbox
        + Notices
        + Catalogue
        + Audit
        + Recoveries
        + Clone
        + Send
        + Sync
        + 'static
{
}
