//! What a client must be told: where some nodes are, and how long it may try.

use crate::tls::TlsFiles;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Settings of a [`super::Client`]. Every time-out is explicit; none is infinite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// Some nodes of the store, as `host:port`; the others are learnt from them.
    pub endpoints: Vec<String>,
    /// How long one call may take over all its attempts, redirects and elections.
    pub request_timeout_ms: u64,
    /// How long one attempt may wait for an answer before another node is asked.
    pub attempt_timeout_ms: u64,
    /// How long opening a connection may take.
    pub connect_timeout_ms: u64,
    /// Requests to one node that may wait for their answers; past it a call is refused as overloaded, at once.
    pub in_flight: usize,
    /// This client's certificate; `None` for nodes that ask for none, on loopback.
    pub tls: Option<TlsFiles>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            endpoints: vec!["127.0.0.1:7001".into(), "127.0.0.1:7002".into(), "127.0.0.1:7003".into()],
            request_timeout_ms: 5_000,
            attempt_timeout_ms: 2_000,
            connect_timeout_ms: 2_000,
            in_flight: 8_192,
            tls: None,
        }
    }
}

impl ClientConfig {
    /// The defaults, with these nodes.
    pub fn with_endpoints(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { endpoints: endpoints.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) fn attempt_timeout(&self) -> Duration {
        Duration::from_millis(self.attempt_timeout_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }
}
