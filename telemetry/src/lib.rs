//! What every process shows an operator: `/healthz`, `/readyz`, `/metrics` and structured logs.
//!
//! Alive means the process answers at all; ready means it can do its work now, or says in words why not.

mod logs;
mod operations;

pub use logs::{LogFormat, init_tracing};
pub use operations::Operations;
