//! `encore admin audit`.

use super::Desk;
use crate::audit::{Sources, audit};
use anyhow::Result;
use std::process::ExitCode;
use std::time::Duration;

pub async fn run(desk: &Desk, patience: u64) -> Result<ExitCode> {
    let sources = Sources {
        store: desk.store.clone(),
        ledger: desk.ledger.clone(),
        provider_url: desk.settings.provider_url.clone(),
        gates: desk.settings.gates.clone(),
        http: desk.http.clone(),
        acknowledged: Vec::new(),
    };
    let report = audit(&sources, Duration::from_secs(patience)).await?;
    print!("{report}");
    match report.faults() {
        0 => {
            println!("Every rule holds.");
            Ok(ExitCode::SUCCESS)
        }
        faults => {
            println!("{faults} differences.");
            Ok(ExitCode::FAILURE)
        }
    }
}
