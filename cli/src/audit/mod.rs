//! The audit: every rule that can be seen from outside, checked against store, ledger, payment provider and gates, with
//! each difference explained. Used by `encore admin audit` and at the end of the demo's storm.
//!
//! A sale is never at rest, and the four are read one after another, so a difference counts only if it stays.

mod checks;
mod evidence;
mod report;

pub use evidence::{EventEvidence, Evidence, Sources};
pub use report::{Numbers, Report, Rule, Verdict};

use anyhow::Result;
use std::time::{Duration, Instant};

/// Between two readings of an audit that found a difference.
const PAUSE: Duration = Duration::from_millis(500);

/// Read everything and check it, again and again until nothing is wrong and nothing is in between, or until the time is
/// over. What is still wrong then is in the report.
pub async fn audit(sources: &Sources, patience: Duration) -> Result<Report> {
    let begun = Instant::now();
    loop {
        let report = checks::check(&sources.gather().await?);
        if report.is_clean() || begun.elapsed() >= patience {
            return Ok(report);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
