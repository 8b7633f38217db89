//! What the demo shows when everything runs: addresses, logins, and a first thing to try with `curl`.

use super::events::HALL;
use crate::supervise::{Part, Stack};
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// How long the logins are good for.
const VALID: Duration = Duration::from_secs(12 * 3600);

/// Print it.
pub fn print(stack: &Stack) -> Result<()> {
    let token = |user: &str, operator: bool| stack.secrets().token(user, operator, VALID);
    let (alice, bob, operator) = (token("alice", false)?, token("bob", false)?, token("olga", true)?);
    let (browse, queue, buy) = (stack.url(Part::Browse), stack.url(Part::Queue), stack.url(Part::Buy(1)));
    println!();
    println!("  Pages       {browse}/");
    println!("  Waiting     {queue}        Buying  {buy}");
    println!("  Webhooks    {}        Gate    {}", stack.url(Part::Webhook), stack.url(Part::Gate(1)));
    println!(
        "  Operators   {}  and  {} (waiting room)",
        stack.admin_url(Part::Operators),
        stack.admin_url(Part::Queue)
    );
    println!("  Provider    {} (charges nobody)", stack.url(Part::Provider));
    println!();
    println!("  Alice       {browse}/#token={alice}");
    println!("  Bob         {browse}/#token={bob}");
    println!("  Operator    export OPERATOR={operator}");
    println!();
    println!("  With curl   export BROWSE={browse} QUEUE={queue} BUY={buy} GATE={}", stack.url(Part::Gate(1)));
    println!("              export FAN={alice}");
    println!("              curl -s $BROWSE/api/v1/events/{HALL}");
    println!("              curl -s -X POST $QUEUE/api/v1/events/{HALL}/queue/join -H \"Authorization: Bearer $FAN\"");
    println!("  By hand     {} admin status --config {}", word(stack.binary()), word(&stack.operator_config()));
    println!();
    Ok(())
}

/// A path as one word for a shell.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
