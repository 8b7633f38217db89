//! What each plane needs, so that a process holds only what its plane uses: the browse plane has no ledger to lose, the
//! webhook plane no store to wait for.

use crate::ports::{Books, LeaseBook, Store};
use ledger::Sealer;
use queue::token::Verifier;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The planes of one process. The default deployment runs one a process; a small venue may run several in one.
#[derive(Clone, Default)]
pub struct Planes {
    /// Catalogue, geometry, seat maps, streams and the pages.
    pub browse: Option<Browse>,
    /// Holds, payments and tickets.
    pub buy: Option<Buy>,
    /// The payment providers' word.
    pub webhook: Option<Webhook>,
}

/// What browsing needs: reading the store.
#[derive(Clone)]
pub struct Browse {
    /// Read only here.
    pub store: Arc<dyn Store>,
}

/// What buying needs.
#[derive(Clone)]
pub struct Buy {
    /// The only judge of a hold.
    pub store: Arc<dyn Store>,
    /// Verifies fans' tokens.
    pub fans: Arc<Verifier>,
    /// Verifies the waiting room's passes.
    pub passes: Arc<Verifier>,
    /// Knows who is inside.
    pub leases: Arc<dyn LeaseBook>,
    /// Payments and tickets, with the role `buy`.
    pub ledger: Arc<dyn Books>,
    /// Opens the secrets of tickets for their owners' wallets.
    pub sealer: Arc<Sealer>,
}

/// What the providers' webhooks need: a ledger with its own pool and the role `webhook`.
#[derive(Clone)]
pub struct Webhook {
    /// Where the provider's word is recorded.
    pub ledger: Arc<dyn Books>,
    /// Active signing secrets by provider name, such as `stripe`; several of one while they are rotated.
    pub secrets: BTreeMap<String, Vec<Vec<u8>>>,
}

/// What the operators' listener needs.
#[derive(Clone)]
pub struct Admin {
    /// Blocks, releases, status.
    pub store: Arc<dyn Store>,
    /// Verifies operators' tokens.
    pub operators: Arc<Verifier>,
    /// For refunds; without it they are refused.
    pub ledger: Option<Arc<dyn Books>>,
}
