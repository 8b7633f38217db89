//! What an operator's commands (`migrate`, `admin`) are told: the store, the ledger as its owner, and the keys they need.

use crate::config::{LogSettings, Settings, check};
use anyhow::Result;
use ledger::postgres::Config as LedgerConfig;
use raft_store::client::ClientConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of `encore migrate` and `encore admin`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatorSettings {
    /// Logs.
    pub log: LogSettings,
    /// Where the store is.
    pub store: ClientConfig,
    /// The ledger, as the role that owns it.
    pub ledger: LedgerConfig,
    /// Passwords that `migrate` gives to the roles, by name such as `encore_buy`; others are left as they are.
    pub role_passwords: BTreeMap<String, String>,
    /// File with the key that opens ticket secrets, for manifests.
    pub sealing_key_file: PathBuf,
    /// File with the key that signs and seals manifests.
    pub organiser_key_file: PathBuf,
    /// Where gates take manifests.
    pub gates: Vec<String>,
    /// Where the payment provider is, for audits.
    pub provider_url: Option<String>,
}

impl Default for OperatorSettings {
    fn default() -> Self {
        let ledger =
            LedgerConfig { url: "postgres://encore@127.0.0.1:5432/encore".to_owned(), ..LedgerConfig::default() };
        Self {
            log: LogSettings { filter: "warn".to_owned(), ..LogSettings::default() },
            store: ClientConfig::default(),
            ledger,
            role_passwords: BTreeMap::new(),
            sealing_key_file: "sealing.key".into(),
            organiser_key_file: "organiser.key".into(),
            gates: Vec::new(),
            provider_url: None,
        }
    }
}

impl Settings for OperatorSettings {
    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn check(&self) -> Result<()> {
        check::store(&self.store)?;
        check::ledger("ledger", &self.ledger)
    }
}
