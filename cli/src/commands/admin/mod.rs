//! `encore admin …`: what an operator does by hand, with the operator's own settings.

mod audit;
mod backup;
mod certs;
mod event;
mod history;
mod manifest;
mod publish;
mod resize;
mod restore;
mod status;

use super::operator::OperatorSettings;
use crate::config::Layers;
use anyhow::Result;
use clap::Subcommand;
use domain::ids::EventId;
use domain::time::WallMs;
use ledger::Postgres;
use raft_store::client::Client;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `encore admin`.
#[derive(clap::Args, Debug)]
pub struct AdminArguments {
    #[command(flatten)]
    layers: Layers,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Publish an event file: to the ledger's catalogue, then to the store; repeat it freely
    Publish {
        /// The event file (JSON); plan files are looked up beside it
        file: PathBuf,
        /// Leave an event that is published already as it is, and only copy it to the store
        #[arg(long)]
        unless_published: bool,
        /// Another hold length than the file's, in seconds
        #[arg(long, value_name = "SECONDS")]
        hold_ttl_s: Option<u32>,
        /// Another capacity of the waiting room than the file's
        #[arg(long, value_name = "FANS")]
        queue_capacity: Option<u32>,
        /// Over another number of groups than the file says; only for an event that is new to the store
        #[arg(long, value_name = "GROUPS")]
        spread: Option<u16>,
    },
    /// Make the sealed ticket list that gates work with
    Manifest(manifest::ManifestArguments),
    /// Check every rule against store, ledger, provider and gates; ends with 1 if one is broken
    Audit {
        /// How long differences may take to settle, in seconds
        #[arg(long, default_value_t = 10)]
        patience: u64,
    },
    /// Show nodes, groups, leaders, members, logs, partitions, moves, events and stock
    Status(status::StatusArguments),
    #[command(flatten)]
    Resize(resize::ResizeTask),
    /// Tell who owned a seat, and since when
    History(history::HistoryArguments),
    /// Copy the store into a file, while it works
    Backup(backup::BackupArguments),
    /// Bring an empty store's events back from a backup and the ledger's sales
    Restore(restore::RestoreArguments),
    /// Bring an empty store's events back when there is no backup: what was sold is sold, nothing is held
    Rebuild(restore::RebuildArguments),
    /// Make a private authority and certificates for nodes and clients
    Certs(certs::CertsArguments),
    /// Open, close or cancel an event
    Event {
        /// Its number
        event: EventId,
        /// What it becomes
        #[arg(value_enum)]
        status: event::Become,
        /// Cancel it: refund every order, for good
        #[arg(long)]
        yes: bool,
    },
}

/// Run one task.
pub async fn run(arguments: AdminArguments) -> Result<ExitCode> {
    let Some(settings) = arguments.layers.start::<OperatorSettings>()? else { return Ok(ExitCode::SUCCESS) };
    // Before there is a store to ask.
    if let Task::Certs(task) = &arguments.task {
        certs::run(task)?;
        return Ok(ExitCode::SUCCESS);
    }
    let desk = Desk {
        store: Client::connect(settings.store.clone()),
        ledger: Postgres::new(&settings.ledger)?,
        http: reqwest::Client::new(),
        settings,
    };
    match arguments.task {
        Task::Publish { file, unless_published, hold_ttl_s, queue_capacity, spread } => {
            let changes = publish::Changes { hold_ttl_s, queue_capacity, spread };
            publish::run(&desk, &file, unless_published, changes).await?;
        }
        Task::Manifest(task) => manifest::run(&desk, task, arguments.layers.shutdown()).await?,
        Task::Audit { patience } => return audit::run(&desk, patience).await,
        Task::Status(how) => status::run(&desk, how).await?,
        Task::Resize(task) => resize::run(&desk, task).await?,
        Task::History(task) => history::run(&desk, &task).await?,
        Task::Backup(task) => backup::run(&desk, &task).await?,
        Task::Restore(task) => restore::restore(&desk, &task).await?,
        Task::Rebuild(task) => restore::from_ledger(&desk, &task).await?,
        Task::Certs(_) => {}
        Task::Event { event, status, yes } => return event::run(&desk, event, status, yes).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// What every task may use.
struct Desk {
    store: Client,
    ledger: Postgres,
    http: reqwest::Client,
    settings: OperatorSettings,
}

/// The wall clock, for people and versions.
fn now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
