//! Fulfilment over a real PostgreSQL and the provider's simulator, each test with a shop of its own.

mod cancelling;
mod isolation;
mod money;
mod serve;
mod support;
mod unresolved;
