//! An event that is called off pays everybody back, once and for good; and a provider that is away for some seconds costs
//! nobody the seats.

use anyhow::{Context, Result, ensure};
use encore_tests::{Event, Part, Sale, binary, eventually};
use futures::future::try_join_all;
use serde_json::json;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// `encore admin event 1 …`, as an operator calls it.
async fn event(sale: &Sale, words: &[&str]) -> Result<(Output, String)> {
    let mut command = Command::new(binary()?);
    command.args(["admin", "event", "1"]).args(words).arg("--config").arg(sale.stack.operator_config());
    let done = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    Ok((done, said))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sold_event_is_cancelled_and_everybody_is_paid_back_once() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 4, 4)).start().await?;
    let fans: Vec<_> = (1..=3).map(|row| sale.fan(&format!("fan-{row}"))).collect();
    try_join_all(fans.iter().zip(1..).map(|(fan, row): (_, u32)| {
        let sale = &sale;
        async move { sale.buys(fan, &sale.row("Block 1", &row.to_string(), 1..=2)).await }
    }))
    .await?;
    let holder = sale.fan("holder");
    let pass = sale.pass(&holder).await?;
    let held = holder.hold(1, &sale.row("Block 1", "4", 1..=1), &pass, "hold").await?.expect(201)?;

    // Nothing happens on the first word.
    let (asked, said) = event(&sale, &["cancelled"]).await?;
    ensure!(asked.status.code() == Some(1) && said.contains("3 orders") && said.contains("--yes"), "{said}");
    sale.shows("Block 1", (9, 1, 6, 0)).await?;

    let (done, said) = event(&sale, &["cancelled", "--yes"]).await?;
    ensure!(done.status.success() && said.contains("cancelled, for good"), "{said}");
    // Fulfilment dies in the middle of it.
    sale.stack.kill(Part::Fulfillment).await?;
    sale.stack.restart(Part::Fulfillment).await?;
    eventually("everything went back", Duration::from_secs(60), || async {
        let (_, said) = event(&sale, &["cancelled"]).await?;
        ensure!(said.contains("all ended") && said.contains("refunded:    3 orders"), "{said}");
        Ok(())
    })
    .await?;
    sale.shows("Block 1", (16, 0, 0, 0)).await?;
    let id = held.text("reservation_id");
    ensure!(holder.reservation(id).await?.expect(200)?.text("status") == "cancelled", "the hold has ended");
    for fan in &fans {
        let tickets = fan.tickets().await?;
        ensure!(tickets.iter().all(|ticket| ticket["status"] == "revoked"), "{tickets:?}");
    }
    for (payment, books) in sale.provider_payments().await? {
        ensure!(books["received"] == books["refunded"], "{payment}: {books}");
    }
    eventually("everybody is told", Duration::from_secs(20), || async {
        let told = sale.mails()?.iter().filter(|mail| mail.contains("Subject: Your refund")).count();
        ensure!(told == 3, "{told} were told");
        Ok(())
    })
    .await?;

    // For good: by command and over HTTP, and no hold begins.
    let (reopened, said) = event(&sale, &["open"]).await?;
    ensure!(!reopened.status.success() && said.contains("cancelled, for good"), "{said}");
    let url = format!("{}/admin/events/1/status", sale.stack.admin_url(Part::Operators));
    let wish = |status: &str| {
        let request = sale.http.post(&url).bearer_auth(sale.operator().token).header("Idempotency-Key", status);
        request.json(&json!({"status": status})).send()
    };
    let refused = wish("open").await?;
    ensure!(refused.status() == 409, "{refused:?}");
    ensure!(refused.json::<serde_json::Value>().await?["error"] == "EVENT_CANCELLED");
    let progress = wish("cancelled").await?;
    ensure!(progress.status() == 202, "{progress:?}");
    let progress: serde_json::Value = progress.json().await?;
    ensure!(progress["refunded"]["orders"] == 3 && progress["holds_ended"] == true, "{progress}");
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_away_for_some_seconds_costs_nobody_the_seats() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 1, 4)).start().await?;
    let alice = sale.fan("alice");
    let pass = sale.pass(&alice).await?;
    let held = alice.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?.body;
    sale.stack.kill(Part::Provider).await?;
    let paying = alice.pay(&held, "tok_visa", "pay").await?.expect(202)?;
    let payment = paying.text("payment_id").to_owned();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let status = alice.payment(&payment).await?.expect(200)?;
    ensure!(status.text("status") == "processing", "{}", status.body);
    sale.stack.restart(Part::Provider).await?;
    ensure!(alice.settled(&payment, Duration::from_secs(60)).await? == "succeeded");
    eventually("tickets", Duration::from_secs(20), || async {
        alice.tickets().await?.get(1).map(|_| ()).context("two tickets")
    })
    .await?;

    // An id that was made up is not looked for until the deadline.
    for id in ["1-999-0-1", "1-65535-0-1", "99-0-0-1"] {
        let answer = alice.reservation(id).await?;
        ensure!(answer.status == 404, "{id}: {} {}", answer.status, answer.body);
        let made_up = json!({"reservation_id": id, "total_cents": 1, "currency": "EUR"});
        let answer = alice.pay(&made_up, "tok_visa", "made-up").await?;
        ensure!(answer.status == 404, "{id}: {} {}", answer.status, answer.body);
    }
    sale.audit().await
}
