//! Every rule of Encore: pure, synchronous and replayable from its inputs.
//!
//! Nothing here does I/O, reads a clock or draws a random number. The inventory machines are applied by the replicated
//! store; the order machines by the ledger; passes, plans and ticket codes by whoever holds one.

pub mod ids;
pub mod inventory;
pub mod limits;
pub mod money;
pub mod order;
pub mod pass;
pub mod plan;
pub mod ticket_code;
pub mod time;
