//! `encore admin backup`: the store's groups into one file, while it works.

use super::{Desk, now};
use crate::draft::Draft;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use domain::ids::GroupId;
use raft_store::backup;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long to wait for a moment in which no partition moves.
const QUIET_WITHIN: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(1);

/// Arguments of `encore admin backup`.
#[derive(clap::Args, Debug)]
pub struct BackupArguments {
    /// The file; it must not exist
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub async fn run(desk: &Desk, arguments: &BackupArguments) -> Result<()> {
    let file = &arguments.out;
    // Said before the groups are read, which may take a while.
    ensure!(!file.try_exists()?, "{} exists already: choose another name", file.display());
    let draft = Draft::of(file)?;
    let made_at = now();
    let groups = copies(desk).await?;
    let bytes = backup::encode(made_at, &groups);
    // Read back before anybody relies on it.
    backup::decode(&bytes).context("the backup does not read back")?;
    draft.create(&bytes)?;
    println!("{}: {} groups, {} bytes.", file.display(), groups.len(), bytes.len());
    Ok(())
}

/// A copy of each group, between which no partition was on its way from one to another: it could be in neither.
async fn copies(desk: &Desk) -> Result<Vec<(GroupId, Bytes)>> {
    let begun = Instant::now();
    while begun.elapsed() < QUIET_WITHIN {
        // Placement has an epoch for each partition, which rises when it moves.
        let before = desk.store.placement().await.context("the store's placement")?;
        if desk.store.moves().await.context("the store's moves")?.is_empty() {
            let mut groups = Vec::new();
            for group in before.groups.keys() {
                let copy = desk.store.export(*group).await.with_context(|| format!("group {group}"))?;
                groups.push((*group, copy));
            }
            if desk.store.placement().await.context("the store's placement")? == before {
                return Ok(groups);
            }
        }
        println!("Partitions are moving; the backup begins again when none does.");
        tokio::time::sleep(LOOK).await;
    }
    bail!("partitions kept moving: take the backup when `encore admin status` shows no open move")
}
