//! The audit finds what no code of ours would do: a row of the ledger that somebody changed by hand.

use anyhow::{Result, ensure};
use encore_tests::{Event, Sale, binary};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// `encore admin audit`, as an operator calls it.
async fn audit(sale: &Sale) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(["admin", "audit", "--patience", "2", "--config"]).arg(sale.stack.operator_config());
    Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
}

async fn sql(sale: &Sale, statement: &str) -> Result<()> {
    let mut psql = Command::new("psql");
    psql.arg(sale.stack.postgres()?.url()).args(["--quiet", "--set", "ON_ERROR_STOP=1", "--command", statement]);
    let done = psql.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    ensure!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_changed_is_found_and_the_command_fails() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 4)).start().await?;
    let held = sale.buys(&sale.fan("alice"), &sale.row("Block 1", "1", 1..=2)).await?;
    sale.audit().await?;
    let clean = audit(&sale).await?;
    ensure!(clean.status.code() == Some(0), "{clean:?}");

    // A cent more than was quoted, as if it had always been so.
    let of_order = format!("WHERE reservation = '{}'", held["reservation_id"].as_str().unwrap_or_default());
    let change = |by: &str| {
        format!("UPDATE payments SET amount_minor = amount_minor {by}, captured_minor = captured_minor {by} {of_order}")
    };
    sql(&sale, &change("+ 1")).await?;
    let found = audit(&sale).await?;
    let said = String::from_utf8_lossy(&found.stdout);
    ensure!(found.status.code() == Some(1), "{}\n{said}", found.status);
    ensure!(said.contains('✗'), "{said}");

    sql(&sale, &change("- 1")).await?;
    let clean = audit(&sale).await?;
    ensure!(clean.status.code() == Some(0), "{clean:?}");
    Ok(())
}
