//! Passwords of the ledger's roles, for a deployment that keeps them in its own configuration.

use super::error;
use crate::Result;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, raw_sql};
use std::collections::BTreeMap;
use std::time::Duration;

/// Give each of these roles its password. `owner_url` must be allowed to alter roles; safe to repeat.
pub async fn set_passwords(owner_url: &str, passwords: &BTreeMap<String, String>) -> Result<()> {
    let options = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(10));
    let pool = options.connect(owner_url).await.map_err(error)?;
    for (role, password) in passwords {
        // ALTER ROLE takes no parameters; the server itself quotes both.
        let quoted = sqlx::query_scalar("SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)");
        let statement: String = quoted.bind(role).bind(password).fetch_one(&pool).await.map_err(error)?;
        raw_sql(AssertSqlSafe(statement)).execute(&pool).await.map_err(error)?;
    }
    pool.close().await;
    Ok(())
}
