//! `cargo xtask rounds`: the test that kills nodes in a storm, with more rounds or another seed than the suite has time for.

use crate::shell;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// The test, by its name in the program of process-level tests.
const TEST: &str = "package(encore-tests) and test(=rounds::what_was_acknowledged_survives_any_number_of_blows)";

/// Build what `cargo xtask test` builds, and run the one test without the suite's limit of time.
pub fn run(root: &Path, rounds: u32, seed: u64) -> Result<ExitCode> {
    shell::cargo(root, &["build", "--workspace", "--all-targets"])?;
    let mut nextest = shell::cargo_command(root);
    nextest.args(["nextest", "run", "--workspace", "--profile", "rounds", "--no-capture", "--filterset", TEST]);
    nextest.env("ENCORE_BINARY", std::path::absolute(shell::target_dir(root).join("debug/encore"))?);
    nextest.env("ENCORE_ROUNDS", rounds.to_string()).env("ENCORE_SEED", seed.to_string());
    shell::run(&mut nextest)?;
    Ok(ExitCode::SUCCESS)
}
