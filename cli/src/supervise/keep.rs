//! `encore keep`: runs a program that knows nothing of us, such as PostgreSQL, and ends it when we are asked to end or
//! when our standard input closes, which is how we learn that our parent was killed.

use crate::config::shutdown;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long the program may take to end: a database writes everything down first, and the disk may be busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// Which signal asks the program to end at once and in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StopSignal {
    /// `SIGTERM`.
    #[default]
    Term,
    /// `SIGINT`: what PostgreSQL calls a fast shutdown.
    Int,
}

/// Arguments of `encore keep`.
#[derive(clap::Args, Debug)]
pub struct KeepArguments {
    /// Which signal ends the program.
    #[arg(long, value_enum, default_value_t)]
    stop_signal: StopSignal,
    /// Run the program as this user and group (numbers); only root can
    #[arg(long, value_name = "UID:GID", value_parser = user_and_group)]
    user: Option<(u32, u32)>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

fn user_and_group(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once(':').ok_or_else(|| "UID:GID is expected".to_owned())?;
    let number = |part: &str| part.parse::<u32>().map_err(|error| error.to_string());
    Ok((number(parts.0)?, number(parts.1)?))
}

/// Run the program until it ends or we are asked to.
pub async fn keep(arguments: KeepArguments) -> Result<ExitCode> {
    let (program, rest) = arguments.program.split_first().context("a program is required")?;
    let mut command = std::process::Command::new(program);
    command.args(rest).stdin(Stdio::null());
    if let Some((user, group)) = arguments.user {
        // A folder that only root may enter is no place for another user's program.
        command.gid(group).uid(user).current_dir("/");
    }
    // From here on: a signal that comes while the program starts ends it too.
    let asked = shutdown::token(true);
    let mut child =
        Command::from(command).spawn().with_context(|| format!("{} did not start", program.to_string_lossy()))?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("a new child has an id")?;
    tokio::select! {
        biased;
        ended = child.wait() => return Ok(exit_code(ended?)),
        () = asked.cancelled() => {}
    }
    let signal = match arguments.stop_signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
    };
    let _gone_already = kill_process(pid, signal);
    match timeout(PATIENCE, child.wait()).await {
        Ok(ended) => Ok(exit_code(ended?)),
        Err(_) => {
            child.kill().await?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
