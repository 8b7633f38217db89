//! The subcommands: each reads its settings, builds what its process needs, and hands over to the crate that serves.

pub mod admin;
pub mod api;
pub mod fulfillment;
pub mod gate;
pub mod inventory;
pub mod load;
pub mod migrate;
pub mod node;
pub mod operator;
pub mod process;
pub mod provider;
pub mod queue;

use crate::bench;
use crate::config::{Layers, ServerLayers};
use crate::demo;
use crate::supervise::keep::{KeepArguments, keep};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Encore sells numbered seats in a flash sale.
#[derive(Parser)]
#[command(name = "encore", version, about, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole sale on this machine: see it in a browser, or let a crowd storm it
    Demo(demo::DemoArguments),
    /// Run one node of the inventory store
    Node(ServerLayers),
    /// Run the waiting room
    Queue(ServerLayers),
    /// Run one or more planes of the HTTP API
    Api(api::ApiArguments),
    /// Run settlement, tickets, refunds and mail
    Fulfillment(ServerLayers),
    /// Run a gate at the venue
    Gate(ServerLayers),
    /// Run a payment provider that charges nobody, for demos and tests
    ProviderSimulator(ServerLayers),
    /// Bring the ledger's schema, roles and grants up to date
    Migrate(Layers),
    /// What an operator does by hand
    Admin(admin::AdminArguments),
    /// Measure the same work on Encore and on what one would pick instead, side by side
    Bench(bench::BenchArguments),
    /// Run another program and end it with us
    #[command(hide = true)]
    Keep(KeepArguments),
}

/// Read the arguments, run, and say what went wrong.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    raise_file_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("encore: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(Box::pin(run(arguments.command))) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("encore: {}", crate::words::of(&error));
            ExitCode::FAILURE
        }
    };
    runtime.shutdown_background();
    code
}

/// A socket is a file, and the usual limit of 1,024 is a small queue. What we may take, we take; children inherit it.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _kept_as_it_was = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(arguments) => return demo::run(arguments).await,
        Command::Node(server) => node::run(&server.layers()).await?,
        Command::Queue(server) => queue::run(&server.layers()).await?,
        Command::Api(arguments) => api::run(arguments).await?,
        Command::Fulfillment(server) => fulfillment::run(&server.layers()).await?,
        Command::Gate(server) => gate::run(&server.layers()).await?,
        Command::ProviderSimulator(server) => provider::run(&server.layers()).await?,
        Command::Migrate(layers) => migrate::run(&layers).await?,
        Command::Admin(arguments) => return admin::run(arguments).await,
        Command::Bench(arguments) => return bench::run(arguments).await,
        Command::Keep(arguments) => return keep(arguments).await,
    }
    Ok(ExitCode::SUCCESS)
}
