//! `encore migrate`: brings the ledger's schema, roles and grants up to date. Safe to repeat.

use super::operator::OperatorSettings;
use crate::config::Layers;
use anyhow::{Context, Result};

/// Migrate, and give the roles their passwords where they are configured.
pub async fn run(layers: &Layers) -> Result<()> {
    let Some(settings) = layers.start::<OperatorSettings>()? else { return Ok(()) };
    ledger::migrate(&settings.ledger.url).await.context("the ledger could not be migrated")?;
    if !settings.role_passwords.is_empty() {
        ledger::postgres::set_passwords(&settings.ledger.url, &settings.role_passwords)
            .await
            .context("the roles could not be given their passwords")?;
    }
    println!("The ledger is up to date.");
    Ok(())
}
