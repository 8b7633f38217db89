//! `cargo xtask sim`: seeds, each in a process of its own, built into a target folder of their own: the flag that turns
//! production code into simulated code would rebuild everything else.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Build the simulation, if it is stale, for any number of seeds.
pub fn build(root: &Path) -> Result<PathBuf> {
    let target = shell::target_dir(root).join("sim");
    let mut build = shell::cargo_command(root);
    build.args(["build", "--quiet", "--package", "simulation"]);
    shell::run(build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "--cfg madsim"))?;
    Ok(target.join("debug/simulation"))
}

/// Run one seed; what happened goes into the file `trace`.
pub fn seed(binary: &Path, root: &Path, seed: u64, trace: Option<&Path>) -> Result<()> {
    let mut run = Command::new(binary);
    run.current_dir(root).args(["--seed", &seed.to_string()]);
    if let Some(file) = trace {
        run.arg("--trace").arg(file);
    }
    if shell::run(&mut run).is_err() {
        bail!("seed {seed} failed; replay it with: cargo xtask sim --seed {seed}");
    }
    Ok(())
}

/// The same seed twice in one process and once more in another gives the same trace to the byte; another seed does not.
pub fn deterministic(binary: &Path, root: &Path) -> Result<()> {
    let folder = shell::target_dir(root).join("sim/traces");
    std::fs::create_dir_all(&folder)?;
    let trace = |name: &str, arguments: &[&str]| -> Result<Vec<u8>> {
        let file = folder.join(name);
        shell::run(Command::new(binary).current_dir(root).args(arguments).arg("--trace").arg(&file))?;
        std::fs::read(&file).with_context(|| format!("{} was not written", file.display()))
    };
    let first = trace("first", &["--seed", "1", "--twice"])?;
    if first.is_empty() || trace("again", &["--seed", "1"])? != first {
        bail!("seed 1 in another process gave another trace: compare the files in {}", folder.display());
    }
    if trace("other", &["--seed", "2"])? == first {
        bail!("seeds 1 and 2 gave the same trace");
    }
    Ok(())
}
