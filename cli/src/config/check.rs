//! Settings that no process can work with are refused when they are read, by their names and in words, and not when
//! somebody first needs what they describe.

use super::LogSettings;
use anyhow::{Result, bail};
use ledger::postgres::Config as LedgerConfig;
use raft_store::client::ClientConfig;
use tracing_subscriber::EnvFilter;

pub(super) fn log(log: &LogSettings) -> Result<()> {
    match EnvFilter::try_new(&log.filter) {
        Ok(_) => Ok(()),
        Err(_) => {
            bail!("log.filter is {:?}: a level or levels such as \"info,raft_store=debug\" are expected", log.filter)
        }
    }
}

/// Where the store is.
pub fn store(store: &ClientConfig) -> Result<()> {
    if store.endpoints.is_empty() {
        bail!("store.endpoints is empty: at least one node of the store is needed, such as \"127.0.0.1:7001\"");
    }
    for endpoint in &store.endpoints {
        let port = endpoint.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
        if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
            bail!("store.endpoints has {endpoint:?}: host:port is expected, such as \"127.0.0.1:7001\"");
        }
    }
    let times = [
        ("request_timeout_ms", store.request_timeout_ms),
        ("attempt_timeout_ms", store.attempt_timeout_ms),
        ("connect_timeout_ms", store.connect_timeout_ms),
    ];
    for (name, ms) in times {
        if ms == 0 {
            bail!("store.{name} is 0: nothing can be answered in no time");
        }
    }
    if store.in_flight == 0 {
        bail!("store.in_flight is 0: no question could be asked");
    }
    Ok(())
}

/// A ledger, by the name of its settings.
pub fn ledger(name: &str, ledger: &LedgerConfig) -> Result<()> {
    let url = reqwest::Url::parse(&ledger.url).ok();
    if url.is_none_or(|url| !matches!(url.scheme(), "postgres" | "postgresql")) {
        // Not shown: it may hold a password.
        bail!("{name}.url is no address of a PostgreSQL, such as \"postgres://role:password@127.0.0.1:5432/encore\"");
    }
    if ledger.max_connections == 0 || ledger.acquire_timeout_ms == 0 {
        bail!("{name}.max_connections and {name}.acquire_timeout_ms must be at least 1");
    }
    Ok(())
}
