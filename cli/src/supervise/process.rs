//! One running program: in a process group of its own, its output in a log file, and gone when its handle is gone.
//!
//! The program's standard input is a pipe that only we hold open: ours end themselves when it closes, and
//! [`keep`](super::keep) does the same for programs that do not know this. So nothing outlives a killed parent.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// What to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// For people, such as `node-1`.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments. No secret stands here: everybody on the machine can read them.
    pub arguments: Vec<OsString>,
    /// Where its output goes; appended to.
    pub log: PathBuf,
    /// How long it may take to end when asked.
    pub grace: Duration,
}

/// A program that was started and can be started again.
pub struct Process {
    spec: Spec,
    running: Option<(Child, ChildStdin, Pid)>,
}

impl Process {
    /// Not started yet.
    pub fn new(spec: Spec) -> Self {
        Self { spec, running: None }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Start it. One that runs already is left alone.
    pub fn start(&mut self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let name = &self.spec.name;
        let log = OpenOptions::new().create(true).append(true).open(&self.spec.log);
        let log = log.with_context(|| format!("{} cannot be written", self.spec.log.display()))?;
        let mut command = std::process::Command::new(&self.spec.program);
        command
            .args(&self.spec.arguments)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("a log file can be opened twice")?)
            .stderr(log)
            .process_group(0);
        let mut child = Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name}: {} did not start", self.spec.program.display()))?;
        let stdin = child.stdin.take().context("a pipe was asked for")?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("a new child has an id")?;
        self.running = Some((child, stdin, pid));
        Ok(())
    }

    /// Whether it runs now.
    pub fn is_running(&mut self) -> bool {
        matches!(self.ended(), Ok(None)) && self.running.is_some()
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.running.as_ref().and_then(|(child, ..)| child.id())
    }

    /// How it ended by itself, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let Some((child, ..)) = &mut self.running else { return Ok(None) };
        Ok(child.try_wait()?)
    }

    /// Ask it to end, then insist. Returns when it is gone; an error says that it had to be killed.
    pub async fn stop(&mut self) -> Result<()> {
        let Some((mut child, stdin, pid)) = self.running.take() else { return Ok(()) };
        if child.try_wait()?.is_some() {
            // What it had started, and could not end, goes with it.
            let _gone_already = kill_process_group(pid, Signal::KILL);
            return Ok(());
        }
        let _gone_already = kill_process_group(pid, Signal::TERM);
        let ended = timeout(self.spec.grace, child.wait()).await;
        drop(stdin);
        if ended.is_err() {
            let _gone_already = kill_process_group(pid, Signal::KILL);
            child.wait().await?;
            bail!("{} did not end within {} s and was killed", self.spec.name, self.spec.grace.as_secs());
        }
        Ok(())
    }

    /// `kill -9`, as a crash would. Returns when it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        let Some((mut child, _stdin, pid)) = self.running.take() else { return Ok(()) };
        let _gone_already = kill_process_group(pid, Signal::KILL);
        child.wait().await?;
        Ok(())
    }

    /// Forget a process that has ended, and end what it may have left behind: a killed [`keep`](super::keep) leaves its
    /// program. One that runs is left alone.
    pub fn clear(&mut self) {
        if self.is_running() {
            return;
        }
        if let Some((.., pid)) = self.running.take() {
            let _nothing_was_left = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Stop the process where it stands, without its noticing: what a long pause looks like to the others.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Let a frozen process go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let (.., pid) = self.running.as_ref().with_context(|| format!("{} does not run", self.spec.name))?;
        kill_process_group(*pid, signal).with_context(|| format!("{} could not be signalled", self.spec.name))
    }

    /// The last lines that it wrote.
    pub fn last_words(&self) -> String {
        let text = std::fs::read(&self.spec.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(3_000)..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Where it writes.
    pub fn log(&self) -> &PathBuf {
        &self.spec.log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some((.., pid)) = &self.running {
            let _gone_already = kill_process_group(*pid, Signal::KILL);
        }
    }
}
