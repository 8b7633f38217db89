//! At the gate: one ticket lets in one person, whatever the order of scans; an invalid code is invalid whoever used what.

use anyhow::{Context, Result, ensure};
use encore::crowd::door::code;
use encore_tests::{Event, Fan, Sale, eventually};
use futures::future::try_join_all;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::time::Duration;

async fn ticket(sale: &Sale, fan: &Fan) -> Result<String> {
    eventually("the ticket is issued", Duration::from_secs(20), || async {
        let tickets = fan.tickets().await?;
        Ok(tickets.first().context("no ticket yet")?["ticket_id"].as_str().context("an id")?.to_owned())
    })
    .await
    .with_context(|| sale.folder().display().to_string())
}

/// Both gates know the ticket: a forged code of it is called invalid, not unknown.
async fn until_known(sale: &Sale, ticket: &str) -> Result<()> {
    for gate in [1, 2] {
        eventually("the gate knows the ticket", Duration::from_secs(20), || async {
            let answer = sale.scan(gate, &forged(ticket, "nothing"), "North").await?;
            ensure!(answer.error() != "TICKET_UNKNOWN", "{}", answer.body);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// A code of the right form whose proof is a plain hash of public data, or a MAC with a guessed key.
fn forged(ticket: &str, key: &str) -> String {
    if !key.is_empty() {
        return made_with(ticket, key.as_bytes());
    }
    let window = encore_tests::webhook::now_s() / 15;
    let proof = hex::encode(Sha256::digest(format!("{ticket}:{window}").as_bytes()));
    format!("{ticket}.{window}.{proof}")
}

/// The code of this moment, made with this secret.
fn made_with(ticket: &str, secret: &[u8]) -> String {
    let window = encore_tests::webhook::now_s() / 15;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(format!("{ticket}:{window}").as_bytes());
    format!("{ticket}.{window}.{}", hex::encode(mac.finalize().into_bytes()))
}

/// Ten times over: two gates, the same instant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_scan_one_ticket_at_once() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 10, 2)).start().await?;
    let fans: Vec<Fan> = (0..10).map(|number| sale.fan(&format!("fan-{number}"))).collect();
    try_join_all(fans.iter().enumerate().map(|(number, fan)| {
        let (sale, row) = (&sale, (number + 1).to_string());
        async move { sale.buys(fan, &sale.row("Block 1", &row, 1..=1)).await }
    }))
    .await?;
    for fan in &fans {
        let ticket = ticket(&sale, fan).await?;
        until_known(&sale, &ticket).await?;
        let code = code(fan, &ticket).await?;
        let (north, south) = tokio::try_join!(sale.scan(1, &code, "North"), sale.scan(2, &code, "South"))?;
        let mut statuses = [north.status, south.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "one admitted, one not: {} / {}", north.body, south.body);
        let (winner, loser) = if north.status == 200 { ("North", &south) } else { ("South", &north) };
        assert_eq!(loser.error(), "ALREADY_USED");
        assert_eq!(loser.body["admitted"], false);
        assert!(loser.body.to_string().contains(winner), "the loser is told where: {}", loser.body);
        assert!(loser.body.to_string().contains("202"), "the loser is told when: {}", loser.body);
    }
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_valid_or_not_before_anybody_asks_whether_it_was_used() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 2)).start().await?;
    let alice = sale.fan("alice");
    sale.buys(&alice, &sale.row("Block 1", "1", 1..=1)).await?;
    let ticket = ticket(&sale, &alice).await?;
    until_known(&sale, &ticket).await?;

    // Made from public data.
    for (what, code) in [("a plain hash", forged(&ticket, "")), ("a guessed key", forged(&ticket, &ticket))] {
        let answer = sale.scan(1, &code, "North").await?;
        assert_eq!((answer.status, answer.error()), (403, "CODE_INVALID"), "{what}: {}", answer.body);
    }
    let genuine = code(&alice, &ticket).await?;
    assert_eq!(sale.scan(1, &genuine, "North").await?.status, 200);
    // Used, and still an invalid code is invalid.
    let answer = sale.scan(2, &forged(&ticket, "guess"), "South").await?;
    assert_eq!((answer.status, answer.error()), (403, "CODE_INVALID"), "{}", answer.body);
    let (_, rest) = genuine.split_once('.').context("a code has parts")?;
    let unknown = format!("tic_{:032x}.{rest}", 7);
    assert_eq!(sale.scan(1, &unknown, "North").await?.error(), "TICKET_UNKNOWN");
    for bad in ["", "hello", "tic_x.1.2", &genuine[..genuine.len() - 1]] {
        let answer = sale.scan(1, bad, "North").await?;
        assert_eq!((answer.status, answer.error()), (422, "CODE_MALFORMED"), "{bad:?}: {}", answer.body);
    }
    sale.audit().await
}

/// A phone is lost and removed from the ticket: its codes are worth nothing at the gate, those of the other phone everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_device_lets_nobody_in() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 2)).start().await?;
    let alice = sale.fan("alice");
    sale.buys(&alice, &sale.row("Block 1", "1", 1..=1)).await?;
    let ticket = ticket(&sale, &alice).await?;
    until_known(&sale, &ticket).await?;
    let secret = async |device: &str| -> Result<Vec<u8>> {
        Ok(hex::decode(alice.wallet(&ticket, device).await?.expect(200)?.text("secret"))?)
    };
    let lost = secret("lost").await?;
    assert_eq!(secret("kept").await?, lost);
    alice.remove_device(&ticket, "lost", "remove").await?.expect(204)?;
    let kept = secret("kept").await?;
    eventually("the gate knows the new secret", Duration::from_secs(30), || async {
        let answer = sale.scan(1, &made_with(&ticket, &kept), "North").await?;
        ensure!(answer.status == 200, "{}", answer.body);
        Ok(())
    })
    .await?;
    let answer = sale.scan(1, &made_with(&ticket, &lost), "North").await?;
    assert_eq!((answer.status, answer.error()), (403, "CODE_INVALID"), "{}", answer.body);
    sale.audit().await
}
