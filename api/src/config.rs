//! What can be set about the HTTP planes. Limits that the contract fixes are not here.

use crate::wire::catalogue::PageConfig;
use serde::{Deserialize, Serialize};

/// Settings of the three planes and the operators' listener. Every time-out and bound is explicit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Origins of the other planes, as a browser sees them: told to the pages and allowed by their content policy.
    pub public: PageConfig,
    /// Origins whose pages may call this plane (CORS), such as `http://127.0.0.1:7100`. `*` allows every origin.
    pub allowed_origins: Vec<String>,
    /// How long one request may take before it is answered 504.
    pub request_timeout_ms: u64,
    /// How long a connection may take to send the head of a request, and to stay idle between two.
    pub header_timeout_ms: u64,
    /// Connections of one plane at a time; past it, new ones wait in the listen queue.
    pub max_connections: usize,
    /// Largest request body, in bytes.
    pub max_body_bytes: usize,
    /// Largest webhook body, in bytes.
    pub max_webhook_bytes: usize,
    /// How long a client may use a seat map before it asks again, in seconds.
    pub seats_max_age_s: u64,
    /// How long this process uses a seat map without asking the store, in milliseconds.
    pub seats_refresh_ms: u64,
    /// How long this process uses the catalogue without asking the store, in milliseconds.
    pub catalogue_refresh_ms: u64,
    /// Viewers of one process that may hold a stream open.
    pub max_viewers: usize,
    /// Changes are gathered this long before viewers are told.
    pub push_interval_ms: u64,
    /// Whether viewers are told of changes at all; off is the second step of the overload ladder.
    pub push: bool,
    /// Mutations of one user: this many at once, and again this many within a minute.
    pub user_mutations_per_minute: u32,
    /// How long paying waits for the provider's client secret before it answers without, in milliseconds.
    pub client_secret_wait_ms: u64,
    /// How long a stopping process lets requests finish, in milliseconds.
    pub shutdown_grace_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            public: PageConfig::default(),
            allowed_origins: Vec::new(),
            request_timeout_ms: 15_000,
            header_timeout_ms: 75_000,
            max_connections: 10_000,
            max_body_bytes: 16 * 1024,
            max_webhook_bytes: 64 * 1024,
            seats_max_age_s: 2,
            seats_refresh_ms: 1_000,
            catalogue_refresh_ms: 1_000,
            max_viewers: 100_000,
            push_interval_ms: 100,
            push: true,
            user_mutations_per_minute: 120,
            client_secret_wait_ms: 5_000,
            shutdown_grace_ms: 5_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_is_refused() {
        assert!(serde_json::from_str::<Config>("{}").is_ok());
        assert!(serde_json::from_str::<Config>(r#"{"max_viewer": 1}"#).is_err());
    }
}
