//! `cargo xtask test`: formatting, lints, dependencies, tests and simulation, all of them even when one fails, and the
//! sum as the last line.

use crate::{install, shell, simulation};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Seeds of every check; more by `cargo xtask sim`.
const SEEDS: u64 = 8;

/// Tests that ran, and checks beside them; a failed check counts as one failure.
#[derive(Default)]
struct Sum {
    passed: u64,
    failed: u64,
}

impl Sum {
    fn check(&mut self, what: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                eprintln!("xtask: {what}: {error:#}");
                self.failed += 1;
            }
        }
    }
}

/// Run everything.
pub fn everything(root: &Path, filter: Option<&str>) -> Result<ExitCode> {
    install::everything(root)?;
    let mut sum = Sum::default();
    if filter.is_none() {
        sum.check("formatting", shell::cargo(root, &["fmt", "--all", "--check"]));
        let lints = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        sum.check("lints", shell::cargo(root, &lints));
        sum.check("dependencies", dependencies(root));
    }
    // One build for all: the process-level tests run the binary that it makes, whose features are those of the whole
    // workspace, so that nothing is compiled twice.
    shell::cargo(root, &["build", "--workspace", "--all-targets"])?;
    tests(root, filter, &mut sum)?;
    if filter.is_none() {
        sum.check("pages' modules", pages(root));
        match simulation::build(root) {
            Ok(binary) => {
                sum.check("simulation is deterministic", simulation::deterministic(&binary, root));
                for seed in 1..=SEEDS {
                    sum.check("simulation", simulation::seed(&binary, root, seed, None));
                }
            }
            Err(error) => sum.check("simulation", Err(error)),
        }
    }
    println!("encore: {} passed, {} failed", sum.passed, sum.failed);
    Ok(if sum.failed == 0 && sum.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Licences, bans and sources always; known vulnerabilities when their database can be reached.
fn dependencies(root: &Path) -> Result<()> {
    let fetched = shell::cargo_command(root).args(["deny", "fetch", "db"]).output();
    if fetched.is_ok_and(|fetched| fetched.status.success()) {
        return shell::cargo(root, &["deny", "--log-level", "error", "check"]);
    }
    eprintln!("xtask: the advisory database cannot be reached from here: known vulnerabilities were NOT checked");
    shell::cargo(root, &["deny", "--log-level", "error", "check", "licenses", "bans", "sources"])
}

fn tests(root: &Path, filter: Option<&str>, sum: &mut Sum) -> Result<()> {
    let mut nextest = shell::cargo_command(root);
    nextest.args(["nextest", "run", "--workspace", "--color", "never"]);
    if let Some(filter) = filter {
        nextest.args(["--filterset", &chosen(filter)]);
    }
    // Just built; otherwise each process-level test would ask cargo whether it is.
    nextest.env("ENCORE_BINARY", std::path::absolute(shell::target_dir(root).join("debug/encore"))?);
    let (succeeded, said) = shell::run_and_keep_stderr(&mut nextest)?;
    let Some((passed, failed)) = said.lines().rev().find_map(summary) else {
        bail!("the tests did not run: no summary was printed");
    };
    sum.passed += passed;
    sum.failed += failed;
    if !succeeded && failed == 0 {
        bail!("the test runner failed, though it counted no failure");
    }
    Ok(())
}

/// Tests whose name, binary or package contains this word.
fn chosen(word: &str) -> String {
    let mut escaped = String::new();
    for letter in word.chars() {
        if matches!(letter, '\\' | ')' | ',' | '/') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    format!("test(~{escaped}) | binary(~{escaped}) | package(~{escaped})")
}

/// The pages' pure modules outside a browser; what they do in one is tested with the processes.
fn pages(root: &Path) -> Result<()> {
    shell::run(Command::new("node").current_dir(root).args(["--test", "tests/web/modules.test.mjs"]))
}

/// `     Summary [   1.5s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 3 skipped` → (10, 2).
fn summary(line: &str) -> Option<(u64, u64)> {
    let counts = line.trim_start().strip_prefix("Summary [")?.split_once("run: ")?.1;
    let mut sum = (0, 0);
    for count in counts.split(", ") {
        let (number, what) = count.trim().split_once(' ')?;
        // The parts in brackets, such as `(1 slow, 2 leaky)`, are counted in the part before them.
        let Ok(number) = number.parse::<u64>() else { continue };
        match what.split_whitespace().next() {
            Some("passed") => sum.0 += number,
            Some("failed") => sum.1 += number,
            Some("timed") => sum.1 += number,
            Some("exec") => sum.1 += number,
            _ => {}
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::{chosen, summary};

    #[test]
    fn a_word_chooses_tests_binaries_and_packages() {
        assert_eq!(chosen("tidy"), "test(~tidy) | binary(~tidy) | package(~tidy)");
        assert_eq!(chosen("a)b\\"), r"test(~a\)b\\) | binary(~a\)b\\) | package(~a\)b\\)");
    }

    #[test]
    fn reads_the_runners_summary() {
        let line = "     Summary [   1.540s] 12 tests run: 9 passed (1 slow), 1 failed, 2 timed out, 3 skipped";
        assert_eq!(summary(line), Some((9, 3)));
        assert_eq!(summary("     Summary [   0.540s] 2 tests run: 2 passed, 0 skipped"), Some((2, 0)));
        assert_eq!(summary("    Starting 2 tests across 1 binary"), None);
    }
}
