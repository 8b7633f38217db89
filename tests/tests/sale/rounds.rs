//! Real nodes killed in a storm, round after round, while an operator moves partitions and changes members. A hundred rounds
//! here; more, or another seed, by `cargo xtask rounds`.

use anyhow::{Context, Result};
use encore_tests::rounds::{Rounds, run};
use std::str::FromStr;

/// As many as fit into the time of the whole suite.
const ROUNDS: u32 = 100;
const SEED: u64 = 1;

fn setting<T: FromStr>(name: &str, otherwise: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text.parse().ok().with_context(|| format!("{name} is no number: {text}")),
        Err(_) => Ok(otherwise),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_any_number_of_blows() -> Result<()> {
    run(Rounds { rounds: setting("ENCORE_ROUNDS", ROUNDS)?, seed: setting("ENCORE_SEED", SEED)? }).await
}
