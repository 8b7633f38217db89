//! At the gate: buyers fetch their wallets' secrets, show a code, and try it a second time.

use crate::fan::{Answer, Fan, read};
use crate::supervise::{Part, Stack};
use anyhow::{Context, Result, bail};
use domain::ids::TicketId;
use domain::ticket_code::{TicketCode, TicketSecret};
use domain::time::WallMs;
use serde_json::json;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a fresh ticket may take until the gate knows it.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);

/// At most `most` of the buyers walk in. Returns how many did.
pub async fn walk_in(stack: &Stack, buyers: &[Fan], most: usize) -> Result<u32> {
    let gate = stack.url(Part::Gate(1));
    let http = reqwest::Client::new();
    let mut walked = 0;
    for fan in buyers.iter().take(most) {
        let tickets = fan.tickets().await?;
        let ticket = tickets.first().with_context(|| format!("{} bought and has no ticket", fan.name))?;
        let id = ticket["ticket_id"].as_str().context("a ticket has an id")?;
        let code = code(fan, id).await?;
        let first = known(&http, &gate, &code).await?;
        if first.status != 200 {
            bail!("{} was refused with a fresh ticket: {}", fan.name, first.body);
        }
        let second = scan(&http, &gate, &code).await?;
        if second.error() != "ALREADY_USED" {
            bail!("{} showed a used ticket and was answered {}: {}", fan.name, second.status, second.body);
        }
        walked += 1;
    }
    Ok(walked)
}

/// The code that this fan's wallet shows now.
pub async fn code(fan: &Fan, ticket: &str) -> Result<String> {
    let wallet = fan.wallet(ticket, "phone").await?.expect(200)?;
    let secret: TicketSecret = wallet.text("secret").parse().map_err(|why: &str| anyhow::anyhow!("{why}"))?;
    let ticket: TicketId = ticket.parse()?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    Ok(TicketCode::at(ticket, &secret, now).to_string())
}

/// One scan.
pub async fn scan(http: &reqwest::Client, gate: &str, code: &str) -> Result<Answer> {
    read(http.post(format!("{gate}/scan")).json(&json!({"code": code, "gate": "North"})).send().await?).await
}

/// A scan of a ticket that may be on its way to the gate still.
async fn known(http: &reqwest::Client, gate: &str, code: &str) -> Result<Answer> {
    let begun = Instant::now();
    loop {
        let answer = scan(http, gate, code).await?;
        let unknown = answer.error() == "TICKET_UNKNOWN";
        if !unknown || begun.elapsed() > KNOWN_WITHIN {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
