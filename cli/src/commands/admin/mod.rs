//! `encore admin …`: what an operator does by hand, with the operator's own settings.

mod audit;
mod event;
mod manifest;
mod publish;
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
    },
    /// Make the sealed ticket list that gates work with
    Manifest(manifest::ManifestArguments),
    /// Check every rule against store, ledger, provider and gates; ends with 1 if one is broken
    Audit {
        /// How long differences may take to settle, in seconds
        #[arg(long, default_value_t = 10)]
        patience: u64,
    },
    /// Show nodes, groups, leaders, events and stock
    Status,
    /// Open, close or cancel an event
    Event {
        /// Its number
        event: EventId,
        /// What it becomes
        #[arg(value_enum)]
        status: event::Become,
    },
}

/// Run one task.
pub async fn run(arguments: AdminArguments) -> Result<ExitCode> {
    let Some(settings) = arguments.layers.start::<OperatorSettings>()? else { return Ok(ExitCode::SUCCESS) };
    let desk = Desk {
        store: Client::connect(settings.store.clone()),
        ledger: Postgres::new(&settings.ledger)?,
        http: reqwest::Client::new(),
        settings,
    };
    match arguments.task {
        Task::Publish { file, unless_published, hold_ttl_s, queue_capacity } => {
            publish::run(&desk, &file, unless_published, publish::Changes { hold_ttl_s, queue_capacity }).await?;
        }
        Task::Manifest(task) => manifest::run(&desk, task, arguments.layers.shutdown()).await?,
        Task::Audit { patience } => return audit::run(&desk, patience).await,
        Task::Status => status::run(&desk).await?,
        Task::Event { event, status } => event::run(&desk, event, status).await?,
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
