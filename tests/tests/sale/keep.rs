//! All nodes lost with their data: a backup and the ledger bring the sale back, or the ledger alone does. And what the store
//! remembers of each seat.

use anyhow::{Context, Result, ensure};
use encore_tests::{Event, Part, Sale, eventually};
use std::path::Path;
use std::time::Duration;

const NODES: [Part; 3] = [Part::Node(1), Part::Node(2), Part::Node(3)];

/// What an operator's command came to, and what it said.
async fn admin(sale: &Sale, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = tokio::process::Command::new(encore_tests::binary()?);
    command.arg("admin").args(arguments).arg("--config").arg(sale.stack.operator_config()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(120), command.output()).await.context("no end")??;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A failing test shows what an operator would have seen.
    println!("$ encore admin {}\n{said}", arguments.join(" "));
    Ok((output.status.success(), said))
}

async fn does(sale: &Sale, arguments: &[&str]) -> Result<String> {
    let (done, said) = admin(sale, arguments).await?;
    ensure!(done, "{arguments:?}: {said}");
    Ok(said)
}

async fn refuses(sale: &Sale, arguments: &[&str]) -> Result<String> {
    let (done, said) = admin(sale, arguments).await?;
    ensure!(!done, "{arguments:?} was not refused: {said}");
    Ok(said)
}

/// The nodes are killed and their folders are gone; new ones are begun.
async fn destroy(sale: &mut Sale) -> Result<()> {
    for part in NODES {
        sale.stack.kill(part).await?;
        std::fs::remove_dir_all(sale.stack.places().data(part))?;
    }
    for part in NODES {
        sale.stack.start_part(part)?;
    }
    sale.stack.wait_ready(&NODES).await
}

/// The pages have seen a store without events; they look again by and by.
async fn is_listed_again(sale: &Sale) -> Result<()> {
    let looks = || async { sale.counts("Block 1").await.map(|_| ()) };
    eventually("the pages show the event again", Duration::from_secs(120), looks).await
}

/// Somebody who was not there before can hold these seats.
async fn still_sells(sale: &Sale, name: &str, row: &str) -> Result<()> {
    let fan = sale.fan(name);
    // The waiting room, too, has seen a store without events, and looks again.
    let joins = || async { sale.pass(&fan).await };
    let pass = eventually("the waiting room knows the event again", Duration::from_secs(60), joins).await?;
    eventually("a free seat can be held", Duration::from_secs(60), || async {
        fan.hold(1, &sale.row("Block 1", row, 1..=2), &pass, "after").await?.expect(201).map(|_| ())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_in_a_sale_brings_it_back_when_all_nodes_are_lost() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 6, 10).hold_ttl_s(1_200)).start().await?;
    let (alice, bob, carol) = (sale.fan("alice"), sale.fan("bob"), sale.fan("carol"));
    let bought = sale.buys(&alice, &sale.row("Block 1", "1", 1..=2)).await?;
    let pass = sale.pass(&bob).await?;
    let held = bob.hold(1, &sale.row("Block 1", "2", 1..=2), &pass, "hold").await?.expect(201)?;

    let story = does(&sale, &["history", "1", "Block 1", "1", "2"]).await?;
    let id = bought["reservation_id"].as_str().context("a reservation")?;
    ensure!(story.contains(id) && story.contains("held") && story.contains("sold"), "{story}");
    let json = does(&sale, &["history", "1", "Block 1", "2", "1", "--json"]).await?;
    let changes: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(changes["changes"][0]["reservation_id"], held.body["reservation_id"], "{json}");

    let file = sale.folder().join("store.backup");
    let path = file.to_str().context("a path")?;
    does(&sale, &["backup", "--out", path]).await?;
    let again = refuses(&sale, &["backup", "--out", path]).await?;
    ensure!(again.contains("exists already"), "{again}");
    let full = refuses(&sale, &["restore", path]).await?;
    ensure!(full.contains("is for an empty one"), "{full}");

    // After the backup, so that only the ledger knows.
    sale.buys(&carol, &sale.row("Block 1", "3", 1..=1)).await?;
    destroy(&mut sale).await?;

    let damaged = flipped(&file)?;
    let said = refuses(&sale, &["restore", damaged.to_str().context("a path")?]).await?;
    ensure!(said.contains("damaged at offset") && said.contains("checksum"), "{said}");
    let said = does(&sale, &["restore", path]).await?;
    ensure!(said.contains("3 seats sold, 2 held") && said.contains("says the ledger"), "{said}");
    let other = refuses(&sale, &["rebuild", "--from-ledger", "--resume"]).await?;
    ensure!(other.contains("was begun from something else"), "{other}");

    is_listed_again(&sale).await?;
    sale.shows("Block 1", (55, 2, 3, 0)).await?;
    eventually("bob's hold is there", Duration::from_secs(60), || async {
        let record = bob.reservation(held.body["reservation_id"].as_str().unwrap_or_default()).await?.expect(200)?;
        ensure!(record.text("status") == "held", "{}", record.body);
        Ok(())
    })
    .await?;
    assert_eq!(sale.buy(&bob, &held.body, "tok_visa").await?, "succeeded", "what was held can be paid");
    still_sells(&sale, "dave", "4").await?;
    is_corrected(&sale).await?;
    sale.audit().await
}

/// What is published after a restore counts, and a plan that fans have bought from stays, in the ledger, too.
async fn is_corrected(sale: &Sale) -> Result<()> {
    let file = sale.folder().join("corrected.json");
    let path = file.to_str().context("a path")?;
    let corrected = Event::new().section("Block 1", 6, 10).hold_ttl_s(1_200).with("title", "Corrected".into());
    std::fs::write(&file, corrected.text())?;
    does(sale, &["publish", path]).await?;
    let status = does(sale, &["status"]).await?;
    ensure!(status.contains("Corrected"), "{status}");

    let smaller = Event::new().section("Block 1", 5, 10).with("title", "Smaller".into());
    std::fs::write(&file, smaller.text())?;
    let said = refuses(sale, &["publish", path]).await?;
    ensure!(said.contains("section Block 1 is on sale: its plan cannot change"), "{said}");
    std::fs::write(&file, Event::new().section("Block 2", 6, 10).with("title", "Moved".into()).text())?;
    refuses(sale, &["publish", path]).await?;
    // Had the ledger taken any of them, this would publish it.
    does(sale, &["publish", path, "--unless-published"]).await?;
    let status = does(sale, &["status"]).await?;
    ensure!(status.contains("Corrected"), "{status}");
    Ok(())
}

/// The same file with one bit changed, beside it.
fn flipped(file: &Path) -> Result<std::path::PathBuf> {
    let mut bytes = std::fs::read(file)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    let beside = file.with_extension("flipped");
    std::fs::write(&beside, bytes)?;
    Ok(beside)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_backup_the_ledger_brings_back_what_was_sold() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 6, 10).hold_ttl_s(1_200)).start().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    sale.buys(&alice, &sale.row("Block 1", "1", 1..=2)).await?;
    let pass = sale.pass(&bob).await?;
    bob.hold(1, &sale.row("Block 1", "2", 1..=2), &pass, "hold").await?.expect(201)?;
    destroy(&mut sale).await?;

    let said = does(&sale, &["rebuild", "--from-ledger"]).await?;
    ensure!(said.contains("2 seats sold, 0 held"), "{said}");
    // Only the lost store knew whether somebody had closed it.
    ensure!(said.contains("It is closed: `encore admin event 1 open`"), "{said}");
    does(&sale, &["event", "1", "open"]).await?;
    is_listed_again(&sale).await?;
    sale.shows("Block 1", (58, 0, 2, 0)).await?;
    let taken = eventually("the store answers", Duration::from_secs(60), || async {
        let (fan, seats) = (sale.fan("erin"), sale.row("Block 1", "1", 1..=1));
        let pass = sale.pass(&fan).await?;
        let answer = fan.hold(1, &seats, &pass, "taken").await?;
        ensure!(answer.status != 503, "{}", answer.body);
        Ok(answer)
    })
    .await?;
    assert_eq!((taken.status, taken.error()), (409, "SEAT_UNAVAILABLE"), "{}", taken.body);
    still_sells(&sale, "dave", "2").await?;
    sale.audit().await
}
