//! What Encore needs beside Rust, and how it gets here: Debian's packages when we are root, the exact line to run when
//! we are not, and two cargo tools for the checks.

use crate::shell;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest PostgreSQL that the migrations are written for.
const POSTGRESQL_AT_LEAST: u32 = 13;

/// PostgreSQL and Redis, for the demo and the tests.
pub fn servers() -> Result<()> {
    packages(missing_servers())
}

/// Everything that `cargo xtask test` uses.
pub fn everything(root: &Path) -> Result<()> {
    let mut missing = missing_servers();
    if !on_path("chromium") && !on_path("chromium-browser") && !on_path("google-chrome") {
        missing.push("chromium");
    }
    if !on_path("chromedriver") {
        missing.push("chromium-driver");
    }
    if !on_path("node") {
        missing.push("nodejs");
    }
    missing.extend(["curl", "openssl"].into_iter().filter(|program| !on_path(program)));
    packages(missing)?;
    cargo_tool(root, "cargo-nextest")?;
    cargo_tool(root, "cargo-deny")
}

fn missing_servers() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if postgresql().is_none_or(|version| version < POSTGRESQL_AT_LEAST) {
        missing.push("postgresql");
    }
    if !on_path("redis-server") {
        missing.push("redis-server");
    }
    missing
}

/// Major version of the newest PostgreSQL server here. Debian keeps the server outside the path.
fn postgresql() -> Option<u32> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders.into_iter().filter_map(|folder| version(&folder.join("postgres"))).max()
}

/// `postgres (PostgreSQL) 15.3 (Debian …)` → 15.
fn version(server: &Path) -> Option<u32> {
    let said = server.is_file().then(|| shell::output(&server.to_string_lossy(), &["--version"]))??;
    let number = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    number.split('.').next()?.parse().ok()
}

fn packages(missing: Vec<&str>) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let install = format!("apt-get install --yes --no-install-recommends {}", missing.join(" "));
    if !on_path("apt-get") {
        bail!("missing: {}. Install them with your system's package manager, then run this again", missing.join(", "));
    }
    if !root() {
        bail!("missing: {}. Run this, then try again:\n\n    sudo {install}\n", missing.join(", "));
    }
    eprintln!("Installing what is missing: {}", missing.join(", "));
    // Lists may be old or absent; a failed refresh shows itself in the install that follows.
    if let Err(error) = shell::run(&mut apt(&["update", "--quiet"])) {
        eprintln!("xtask: {error:#}; going on with the lists that are here");
    }
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(&missing);
    shell::run(&mut apt(&arguments))
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// A debug build: these tools run for seconds, and an optimised build takes minutes.
fn cargo_tool(root: &Path, name: &str) -> Result<()> {
    if on_path(name) {
        return Ok(());
    }
    eprintln!("Installing {name}");
    shell::run(
        shell::cargo_command(root)
            .args(["install", "--locked", "--debug", name])
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_PROFILE_DEV_DEBUG", "false"),
    )
}

fn on_path(program: &str) -> bool {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    if let Some(home) =
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| std::env::home_dir().map(|h| h.join(".cargo")))
    {
        folders.push(home.join("bin"));
    }
    folders.iter().any(|folder| folder.join(program).is_file())
}

fn root() -> bool {
    shell::output("id", &["-u"]).is_some_and(|uid| uid.trim() == "0")
}
