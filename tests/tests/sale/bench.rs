//! `encore bench`: every figure of a small run is there, beside every peer that is installed, and nothing is left behind.

use anyhow::{Context, Result, ensure};
use encore_tests::binary;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_bench_of_the_store_writes_down_its_figures() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("figures.json");
    let small = ["--runs", "1", "--seconds", "1", "--fans", "8", "--groups", "1", "--seats", "8000"];
    let rest = ["--expiring", "200", "--no-fail-over", "--json"];
    let mut command = Command::new(binary()?);
    command.args(["bench", "store"]).args(small).args(rest).arg(&json).kill_on_drop(true).stdin(Stdio::null());
    let output = timeout(Duration::from_secs(400), command.output()).await.context("the bench did not end")??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let figures: Vec<Value> = serde_json::from_slice(&std::fs::read(&json)?)?;
    let find = |name: &str, peer: Option<&str>| {
        let found = figures.iter().find(|figure| {
            figure["name"].as_str().is_some_and(|text| text.starts_with(name)) && figure["peer_name"].as_str() == peer
        });
        found.with_context(|| format!("no {name:?} beside {peer:?} in:\n{said}"))
    };
    for crowd in ["holds, cold", "holds, hot", "refusals", "holds, two sections"] {
        let figure = find(crowd, Some("PostgreSQL row locks"))?;
        for field in ["ours", "peer", "ratio"] {
            ensure!(figure[field].as_f64().is_some_and(|value| value > 0.0), "{crowd} has no {field}:\n{said}");
        }
    }
    find("200 holds expire at once", None)?;
    ensure!(!said.contains("attempts failed"), "{said}");
    let etcd = figures.iter().any(|figure| figure["peer_name"] == "etcd, 3 members");
    ensure!(etcd != said.contains("etcd is not installed"), "etcd is neither measured nor said to be missing:\n{said}");
    Ok(())
}
