//! Structured logs to standard error: JSON for machines, plain lines for people.

use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For a terminal.
    #[default]
    Text,
}

/// Start logging for this process. `filter` is in the form of `RUST_LOG`, such as `info,raft_store=debug`.
/// A second call changes nothing.
pub fn init_tracing(format: LogFormat, filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means a subscriber is already set, by an earlier call or by a test.
    let _already_set = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.with_target(false).with_ansi(is_coloured()).try_init(),
    };
}

/// Colours are for a terminal, and only for whoever has not asked for none.
fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|none| none.is_empty())
}
