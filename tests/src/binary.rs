//! Where the binary `encore` is, built from the source as it stands.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The binary of this very source.
pub fn encore() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| find().map_err(|error| format!("{error:#}"))).clone().map_err(anyhow::Error::msg)
}

fn find() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("ENCORE_BINARY") {
        let binary = PathBuf::from(binary);
        if !binary.is_file() {
            bail!("ENCORE_BINARY is {}, which does not exist", binary.display());
        }
        return Ok(binary);
    }
    // target/debug/deps/topic-0123 → target/debug, so that test and binary are of one build.
    let test = std::env::current_exe().context("a test has a path")?;
    let folder = test.parent().and_then(Path::parent).context("a test stands in the target folder")?;
    let target = folder.parent().context("a profile's folder stands in the target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let mut build = Command::new(cargo);
    build.current_dir(root).args(["build", "--quiet", "--package", "encore"]).env("CARGO_TARGET_DIR", target);
    let built = build.output().context("cargo did not start")?;
    if !built.status.success() {
        bail!("the binary `encore` does not build:\n{}", String::from_utf8_lossy(&built.stderr));
    }
    Ok(folder.join("encore"))
}
