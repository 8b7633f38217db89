//! Whether a process is ready: its own `/readyz`, asked until it says so, or until it has ended or the time is over.

use super::process::Process;
use anyhow::{Result, bail};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How often a starting process is asked.
const PAUSE: Duration = Duration::from_millis(40);

/// Ask `ready` until it answers yes. The error carries what the process wrote last, and `why` it was waited for.
pub async fn until_ready<F>(process: &mut Process, limit: Duration, mut ready: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<(), String>>,
{
    let begun = Instant::now();
    loop {
        let why = match ready().await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if let Some(status) = process.ended()? {
            bail!("{} ended ({status}). Its last words:\n{}", process.name(), process.last_words());
        }
        if begun.elapsed() > limit {
            bail!(
                "{} was not ready after {} s: {why}. Its log is {}. Its last words:\n{}",
                process.name(),
                limit.as_secs(),
                process.log().display(),
                process.last_words()
            );
        }
        sleep(PAUSE).await;
    }
}

/// One question to `/readyz`.
pub async fn ask(client: &reqwest::Client, base: &str) -> Result<(), String> {
    let answer = client.get(format!("{base}/readyz")).timeout(Duration::from_secs(2)).send().await;
    match answer {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(answer.text().await.unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    }
}
