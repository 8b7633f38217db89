//! The story in the README, word for word: `curl` alone can do it all.

use anyhow::{Context, Result, ensure};
use encore_tests::{Part, Sale};
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_curl_story_runs_as_it_is_written() -> Result<()> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?.join("README.md");
    let readme = std::fs::read_to_string(readme)?;
    let after = readme.split_once("<!-- story:").context("the story is marked")?.1;
    let block = after.split_once("```sh\n").context("a block of shell")?.1;
    let story = block.split_once("```").context("its end")?.0;
    assert_eq!(story.lines().count(), 10, "ten lines");

    let sale = Sale::of_the_demo().start().await?;
    let fan = sale.fan("alice");
    let tell = async || -> Result<String> {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", story]).env("FAN", &fan.token).kill_on_drop(true);
        let doors = [("BROWSE", Part::Browse), ("QUEUE", Part::Queue), ("BUY", Part::Buy(1)), ("GATE", Part::Gate(1))];
        for (name, part) in doors {
            shell.env(name, sale.stack.url(part));
        }
        let told = tokio::time::timeout(Duration::from_secs(120), shell.output()).await.context("it never ends")??;
        let (said, complained) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        ensure!(told.status.success(), "{}\n{said}\n{complained}", told.status);
        Ok(said.into_owned())
    };
    // Pasted again, it buys and walks in again, with a new ticket, until the fan has as many as one may have.
    for time in 1..=3 {
        let said = tell().await.with_context(|| format!("time {time}"))?;
        assert!(said.contains("\"status\":\"held\""), "{said}");
        assert!(said.contains("\"succeeded\""), "{said}");
        assert!(said.contains("\"admitted\":true"), "{said}");
        assert_eq!(fan.tickets().await?.len(), 2 * time);
    }
    let said = tell().await.context("the fourth time")?;
    assert!(said.contains("TICKET_LIMIT"), "{said}");
    sale.audit().await
}
