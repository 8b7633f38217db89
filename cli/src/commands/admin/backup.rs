//! `encore admin backup`: the store's groups into one file, while it works.

use super::{Desk, now};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use domain::ids::GroupId;
use raft_store::backup;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
    // Claimed at once: the name is not taken by somebody else while the groups are read.
    let opened = OpenOptions::new().create_new(true).write(true).mode(0o600).open(file);
    let mut opened = opened.with_context(|| format!("{} cannot be made", file.display()))?;
    let written = write(desk, &mut opened).await;
    if written.is_err() {
        let _half_a_backup_is_none = fs::remove_file(file);
    }
    let (groups, bytes) = written?;
    sync_folder(file)?;
    println!("{}: {groups} groups, {bytes} bytes.", file.display());
    Ok(())
}

async fn write(desk: &Desk, file: &mut fs::File) -> Result<(usize, usize)> {
    let made_at = now();
    let groups = copies(desk).await?;
    let bytes = backup::encode(made_at, &groups);
    // Read back before anybody relies on it.
    backup::decode(&bytes).context("the backup does not read back")?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).context("the backup cannot be written")?;
    Ok((groups.len(), bytes.len()))
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

fn sync_folder(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).context("the folder cannot be synced")
}
