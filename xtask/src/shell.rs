//! Running other programs: each is shown before it runs, and a failure names it.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Run and insist on success.
pub fn run(command: &mut Command) -> Result<()> {
    show(command);
    let status = command.status().with_context(|| format!("{:?} did not start", command.get_program()))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Run `cargo` in the workspace and insist on success.
pub fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    run(cargo_command(root).args(arguments))
}

/// `cargo`, as it was called to build this program.
pub fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Run, showing standard error as it comes and keeping it. Returns whether it succeeded, and the text.
pub fn run_and_keep_stderr(command: &mut Command) -> Result<(bool, String)> {
    show(command);
    let mut child =
        command.stderr(Stdio::piped()).spawn().with_context(|| format!("{:?} did not start", command.get_program()))?;
    let stderr = child.stderr.take().context("standard error was asked for")?;
    let mut kept = String::new();
    for text in BufReader::new(stderr).split(b'\n') {
        let text = String::from_utf8_lossy(&text?).into_owned();
        eprintln!("{text}");
        kept.push_str(&text);
        kept.push('\n');
    }
    Ok((child.wait()?.success(), kept))
}

/// What a program prints, or `None` when it is missing or fails.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Become another program, so that Ctrl-C and its exit code are its own.
pub fn replace(program: PathBuf, root: &Path, first: &str, arguments: &[String]) -> Result<ExitCode> {
    let error = Command::new(&program).current_dir(root).arg(first).args(arguments).exec();
    Err(error).with_context(|| format!("{} did not start", program.display()))
}

/// Where cargo puts what it builds.
pub fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

fn show(command: &Command) {
    eprintln!("» {}", line(command));
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
