//! `cargo xtask …`: what a developer runs. Installs what is missing, builds, and starts or checks Encore. Few
//! dependencies, so that it is built in seconds on a fresh clone.

mod check;
mod install;
mod rounds;
mod shell;
mod simulation;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up and checks for people who work on Encore")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the demo needs, build, and run `encore demo` with the arguments given here
    Demo {
        /// Passed on, such as `--crowd 2000` or `--fresh`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Install what is missing, then run every check and every test; the last line is the sum
    Test {
        /// Only tests whose own name, binary or package contains this, such as `tidy`, `queue` or `sale::money`
        filter: Option<String>,
    },
    /// Run the simulation: one seed, or a few
    Sim {
        /// Replay this seed to the byte
        #[arg(long)]
        seed: Option<u64>,
        /// How many seeds, from 1, when none is named
        #[arg(long, default_value_t = 8)]
        seeds: u64,
        /// Write what happened, line by line, into this file
        #[arg(long, requires = "seed")]
        trace: Option<PathBuf>,
    },
    /// Kill the store's nodes in a storm, round after round, with moves and changes of members; then count what was
    /// acknowledged
    Rounds {
        /// How many; a thousand take well over half an hour
        #[arg(long, default_value_t = 1_000)]
        rounds: u32,
        /// Chooses blows, commands and carts; printed with the result
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let root = root();
    match task {
        Task::Demo { arguments } => {
            install::servers()?;
            shell::cargo(&root, &["build", "--package", "encore"])?;
            let encore = shell::target_dir(&root).join("debug/encore");
            shell::replace(encore, &root, "demo", &arguments)
        }
        Task::Test { filter } => check::everything(&root, filter.as_deref()),
        Task::Sim { seed, seeds, trace } => {
            let chosen = seed.map_or(1..=seeds, |seed| seed..=seed);
            let binary = simulation::build(&root)?;
            chosen.into_iter().try_for_each(|seed| simulation::seed(&binary, &root, seed, trace.as_deref()))?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Rounds { rounds, seed } => rounds::run(&root, rounds, seed),
    }
}

/// The workspace: this package's parent folder.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}
