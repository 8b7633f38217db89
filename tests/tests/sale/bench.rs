//! `encore bench`: every figure of a small run is there, beside every peer that is installed, and nothing is left behind.

use anyhow::{Context, Result, ensure};
use encore_tests::binary;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Runs a bench with `--json`: its figures and what it printed.
async fn bench(arguments: &[&str]) -> Result<(Vec<Value>, String)> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("figures.json");
    let mut command = Command::new(binary()?);
    command.arg("bench").args(arguments).arg("--json").arg(&json).kill_on_drop(true).stdin(Stdio::null());
    let output = timeout(Duration::from_secs(400), command.output()).await.context("the bench did not end")??;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok((serde_json::from_slice(&std::fs::read(&json)?)?, said))
}

/// The first figure whose name begins so.
fn find<'a>(figures: &'a [Value], name: &str, peer: Option<&str>) -> Result<&'a Value> {
    let found = figures.iter().find(|figure| {
        figure["name"].as_str().is_some_and(|text| text.starts_with(name)) && figure["peer_name"].as_str() == peer
    });
    found.with_context(|| format!("no {name:?} beside {peer:?} in {figures:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_bench_of_the_store_writes_down_its_figures() -> Result<()> {
    let small = ["store", "--runs", "1", "--seconds", "1", "--fans", "8", "--groups", "1", "--seats", "8000"];
    let (figures, said) = bench(&[&small[..], &["--expiring", "200", "--no-fail-over"]].concat()).await?;
    for crowd in ["holds, cold", "holds, hot", "refusals", "holds, two sections"] {
        let figure = find(&figures, crowd, Some("PostgreSQL row locks"))?;
        for field in ["ours", "peer", "ratio"] {
            ensure!(figure[field].as_f64().is_some_and(|value| value > 0.0), "{crowd} has no {field}:\n{said}");
        }
    }
    find(&figures, "200 holds expire at once", None)?;
    ensure!(!said.contains("attempts failed"), "{said}");
    let etcd = figures.iter().any(|figure| figure["peer_name"] == "etcd, 3 members");
    ensure!(etcd != said.contains("etcd is not installed"), "etcd is neither measured nor said to be missing:\n{said}");
    Ok(())
}

/// What the bench counts cannot depend on how busy the machine is: nothing fails, nobody is forgotten, and a node that
/// restarts applies no more again than what its snapshots lack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_bench_of_what_a_node_keeps_writes_down_its_figures() -> Result<()> {
    const GROUPS: f64 = 9.0;
    const SNAPSHOT_EVERY: f64 = 100.0;
    let small = ["keep", "--seats", "2000", "--entries", "8000", "--groups", "8", "--snapshot-every", "100"];
    let (figures, said) = bench(&[&small[..], &["--crowd", "8192", "--seconds", "1"]].concat()).await?;
    for name in ["2000 seats in 500 partitions", "those told to come back", "holds of 256 fans right after it"] {
        let figure = find(&figures, name, None)?;
        ensure!(figure["ours"].as_f64().is_some_and(|value| value > 0.0), "{name}: {figure}\n{said}");
    }
    find(&figures, "a partition is frozen while it moves", None)?;
    let replayed = find(&figures, "the same: entries that were applied again", None)?["ours"].as_f64();
    // Snapshots are looked for twice a second, and what is written meanwhile is in none.
    ensure!(replayed.is_some_and(|entries| entries < 8_000.0 - GROUPS * SNAPSHOT_EVERY), "{replayed:?}\n{said}");
    ensure!(!said.contains("had no answer"), "{said}");
    Ok(())
}
