//! The same request from two processes at once is one request; the same key for another request is refused.

use anyhow::{Result, ensure};
use encore_tests::{Event, Fan, Sale, eventually};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twins_over_two_processes_are_one_reservation() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 4, 10)).start().await?;
    for round in 0..10_u32 {
        let fan = sale.fan(&format!("fan-{round}"));
        let pass = sale.pass(&fan).await?;
        let seats = sale.row("Block 1", &(round % 4 + 1).to_string(), round / 4 * 2 + 1..=round / 4 * 2 + 2);
        let (one, two) = (fan.clone().through(0), fan.clone().through(1));
        let hold = |fan: Fan| {
            let (seats, pass) = (seats.clone(), pass.clone());
            async move { fan.hold(1, &seats, &pass, "the-one-key").await }
        };
        let (first, second) = tokio::try_join!(hold(one), hold(two))?;
        assert_eq!((first.status, second.status), (201, 201), "{} / {}", first.body, second.body);
        for field in ["reservation_id", "status", "seats", "total_cents", "currency", "created_at"] {
            assert_eq!(first.body[field], second.body[field], "{field}");
        }
        // Two seats for each fan, however often it was asked.
        let held = u64::from(round + 1) * 2;
        sale.shows("Block 1", (40 - held, held, 0, 0)).await?;

        let other = sale.row("Block 1", "4", 9..=10);
        let reused = fan.hold(1, &other, &pass, "the-one-key").await?;
        assert_eq!((reused.status, reused.error()), (409, "IDEMPOTENCY_KEY_REUSED"), "{}", reused.body);
    }
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_begun_once_whatever_the_clicks() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 10)).start().await?;
    let fan = sale.fan("alice");
    let pass = sale.pass(&fan).await?;
    let held = fan.hold(1, &sale.row("Block 1", "1", 1..=2), &pass, "hold").await?.expect(201)?;
    let other = fan.clone().through(1);
    let (first, second) =
        tokio::try_join!(fan.pay(&held.body, "tok_visa", "pay"), other.pay(&held.body, "tok_visa", "pay"))?;
    assert_eq!((first.status, second.status), (202, 202), "{} / {}", first.body, second.body);
    assert_eq!(first.text("payment_id"), second.text("payment_id"));
    let outcome = fan.settled(first.text("payment_id"), Duration::from_secs(30)).await?;
    assert_eq!(outcome, "succeeded");
    let reused = fan.pay(&held.body, "tok_other", "pay").await?;
    assert_eq!((reused.status, reused.error()), (409, "IDEMPOTENCY_KEY_REUSED"), "{}", reused.body);
    // Settling both tells the fan and issues the tickets; the audit waits for the tickets, and by then the mail is due.
    sale.audit().await?;
    eventually("one mail for one order", Duration::from_secs(20), || async {
        ensure!(sale.mails()?.len() == 1, "{} mails", sale.mails()?.len());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_who_lost_the_answer_to_a_hold_and_the_pass_finds_the_hold_again() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 10)).start().await?;
    let fan = sale.fan("alice");
    let pass = sale.pass(&fan).await?;
    let seats = sale.row("Block 1", "1", 1..=2);
    let held = fan.hold(1, &seats, &pass, "lost").await?.expect(201)?;
    // Another device knows the login only.
    let device = sale.fan("alice").through(1);
    let standing = device.join(1).await?.expect(200)?;
    assert_eq!((standing.text("state"), standing.text("token")), ("checkout", ""), "{}", standing.body);
    assert_eq!(standing.text("reservation_id"), held.text("reservation_id"));
    let found = device.reservation(standing.text("reservation_id")).await?.expect(200)?;
    assert_eq!((found.text("status"), &found.body["seats"]), ("held", &held.body["seats"]));
    // And one who has the pass still, but not the key, is shown the open checkout instead of a second one.
    let again = device.hold(1, &seats, &pass, "another-key").await?;
    assert_eq!((again.status, again.error()), (409, "CHECKOUT_ALREADY_OPEN"), "{}", again.body);
    assert_eq!(again.body["reservation"]["reservation_id"], held.body["reservation_id"]);
    assert_eq!(sale.buy(&device, &found.body, "tok_visa").await?, "succeeded");
    // To anybody else the name opens nothing.
    assert_eq!(sale.fan("mallory").reservation(held.text("reservation_id")).await?.status, 404);
    sale.audit().await
}
