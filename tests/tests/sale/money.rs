//! Money: late payments go back, whatever is delivered however often counts once, and nobody is believed but the provider.

use anyhow::{Context, Result, ensure};
use encore_tests::{Event, Fan, Part, Sale, eventually, webhook};
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::time::Duration;

async fn hold(sale: &Sale, fan: &Fan, row: &str) -> Result<Value> {
    let pass = sale.pass(fan).await?;
    let seats = sale.row("Block 1", row, 1..=2);
    Ok(fan.hold(1, &seats, &pass, &format!("hold-{row}")).await?.expect(201)?.body)
}

async fn until_free(sale: &Sale, free: u64) -> Result<()> {
    eventually("the hold runs out and its seats can be had again", Duration::from_secs(30), || async {
        let counts = sale.counts("Block 1").await?;
        ensure!(counts.0 == free, "{counts:?}");
        Ok(())
    })
    .await
}

/// The provider's own id of a payment, once fulfillment has opened it.
async fn opened(sale: &Sale, payment: &str) -> Result<String> {
    eventually("the payment is opened at the provider", Duration::from_secs(20), || async {
        let books = sale.provider_payments().await?;
        let intent = books.get(payment).with_context(|| format!("{payment} is not in the provider's books"))?;
        Ok(intent["id"].as_str().unwrap_or_default().to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_runs_out_and_its_seats_sell_again() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 2).hold_ttl_s(3)).start().await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let held = hold(&sale, &alice, "1").await?;
    until_free(&sale, 2).await?;
    let id = held["reservation_id"].as_str().context("an id")?;
    assert_eq!(alice.reservation(id).await?.expect(200)?.text("status"), "expired");
    let late = alice.pay(&held, "tok_visa", "pay").await?;
    assert_eq!((late.status, late.error()), (410, "HOLD_EXPIRED"), "{}", late.body);
    assert!(!late.text("expired_at").is_empty());
    sale.buys(&bob, &sale.row("Block 1", "1", 1..=2)).await?;
    sale.shows("Block 1", (0, 0, 2, 0)).await?;
    sale.audit().await
}

/// The money is captured after the hold has run out; the webhook comes three times, and fulfillment dies in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_after_the_deadline_is_refunded_once() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 1, 2).hold_ttl_s(4))
        .set(Part::Fulfillment, "fulfillment.extend_holds=false")
        .start()
        .await?;
    let (alice, bob) = (sale.fan("alice"), sale.fan("bob"));
    let held = hold(&sale, &alice, "1").await?;
    let paying = alice.pay(&held, "tok_processing", "pay").await?.expect(202)?;
    let payment = paying.text("payment_id").to_owned();
    let intent = opened(&sale, &payment).await?;
    until_free(&sale, 2).await?;
    let pass = sale.pass(&bob).await?;
    bob.hold(1, &sale.row("Block 1", "1", 1..=1), &pass, "hold").await?.expect(201)?;

    // A second after the deadline the bank says yes.
    let url = format!("{}/simulator/payment_intents/{intent}/finish", sale.stack.url(Part::Provider));
    sale.http.post(url).json(&json!({"succeed": true})).send().await?.error_for_status()?;
    let amount = held["total_cents"].as_i64().context("a total")?;
    let event = webhook::succeeded("evt_late", &intent, amount, "eur", &payment);
    for _ in 0..3 {
        sale.webhook(&event).await?.expect(200)?;
        sale.stack.kill(Part::Fulfillment).await?;
        sale.stack.restart(Part::Fulfillment).await?;
    }
    assert_eq!(alice.settled(&payment, Duration::from_secs(60)).await?, "refunded");
    sale.webhook(&event).await?.expect(200)?;

    let books = sale.provider_payments().await?;
    assert_eq!(
        books[&payment]["refunded"], books[&payment]["received"],
        "all of it went back, once: {}",
        books[&payment]
    );
    assert_eq!(alice.tickets().await?.len(), 0, "no ticket for a seat that ran out");
    let record = alice.reservation(held["reservation_id"].as_str().context("an id")?).await?.expect(200)?;
    assert_eq!(record.text("status"), "expired", "the seat is not revived");
    sale.shows("Block 1", (1, 1, 0, 0)).await?;
    sale.audit().await
}

/// The same event eight times at once, then again, and the provider's own deliveries besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_identical_webhooks_make_one_set_of_tickets() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 4)).start().await?;
    let alice = sale.fan("alice");
    let held = hold(&sale, &alice, "1").await?;
    let paying = alice.pay(&held, "tok_never", "pay").await?.expect(202)?;
    let payment = paying.text("payment_id").to_owned();
    let intent = opened(&sale, &payment).await?;
    let amount = held["total_cents"].as_i64().context("a total")?;
    let event = webhook::succeeded("evt_eight", &intent, amount, "eur", &payment);
    eventually("the reference is saved", Duration::from_secs(20), || async {
        sale.webhook(&event).await?.expect(200).map(|_| ())
    })
    .await?;
    let answers = try_join_all((0..8).map(|_| sale.webhook(&event))).await?;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(alice.settled(&payment, Duration::from_secs(30)).await?, "succeeded");
    eventually("two tickets and one mail", Duration::from_secs(20), || async {
        ensure!(alice.tickets().await?.len() == 2 && sale.mails()?.len() == 1, "{} mails", sale.mails()?.len());
        Ok(())
    })
    .await?;

    // An hour and three days later: the provider signs again what it said then.
    for _ in 0..2 {
        sale.webhook(&event).await?.expect(200)?;
    }
    let mut other = event.clone();
    other["data"]["object"]["amount_received"] = json!(amount + 1);
    assert_eq!(sale.webhook(&other).await?.status, 409, "the same id with other content is an incident");
    assert_eq!(alice.tickets().await?.len(), 2);
    assert_eq!(sale.mails()?.len(), 1);
    sale.audit().await
}

/// The webhook alone is enough; the buyer never comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_needs_to_come_back_to_the_page() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 3, 4)).start().await?;
    let alice = sale.fan("alice");
    let held = hold(&sale, &alice, "1").await?;
    alice.pay(&held, "tok_duplicate", "pay").await?.expect(202)?;
    eventually("mail and tickets come by themselves", Duration::from_secs(30), || async {
        ensure!(sale.mails()?.len() == 1, "{} mails", sale.mails()?.len());
        ensure!(alice.tickets().await?.len() == 2, "no tickets yet");
        Ok(())
    })
    .await?;
    let mail = sale.mails()?.remove(0);
    assert!(mail.contains("To: alice@example.org"), "it goes where the identity provider says: {mail}");

    // Whose address nobody vouches for has tickets all the same, and no mail goes to an address that was made up.
    let bob = sale.fan_without_address("bob");
    let held = hold(&sale, &bob, "2").await?;
    assert_eq!(sale.buy(&bob, &held, "tok_visa").await?, "succeeded");
    let carol = sale.fan("carol");
    let held = hold(&sale, &carol, "3").await?;
    assert_eq!(sale.buy(&carol, &held, "tok_visa").await?, "succeeded");
    // Carol's mail was due after Bob's would have been.
    eventually("tickets for both, and mail for Carol", Duration::from_secs(30), || async {
        ensure!(bob.tickets().await?.len() == 2, "no tickets yet");
        ensure!(sale.mails()?.iter().any(|mail| mail.contains("To: carol@example.org")), "no mail yet");
        Ok(())
    })
    .await?;
    assert_eq!(sale.mails()?.len(), 2, "{:?}", sale.mails()?);
    sale.audit().await
}

/// The webhook overtakes our own bookkeeping. It is answered so that it comes again, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_comes_too_early_comes_again() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 1, 4)).start().await?;
    let stranger =
        webhook::succeeded("evt_stranger", "pi_nobody", 4_000, "eur", "pay_00000000000000000000000000000001");
    let answer = sale.webhook(&stranger).await?;
    assert_eq!((answer.status, answer.error()), (503, "PAYMENT_UNKNOWN"), "{}", answer.body);
    assert!(answer.retry_after.is_some());

    // The provider charges and says so while the process that would save the reference is down.
    let alice = sale.fan("alice");
    let held = hold(&sale, &alice, "1").await?;
    sale.stack.kill(Part::Fulfillment).await?;
    let paying = alice.pay(&held, "tok_visa", "pay").await?.expect(202)?;
    assert_eq!(paying.text("status"), "processing");
    sale.stack.restart(Part::Fulfillment).await?;
    assert_eq!(alice.settled(paying.text("payment_id"), Duration::from_secs(30)).await?, "succeeded");
    sale.audit().await
}

/// Nothing unsigned is stored, and 2xx comes only once it is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_believed_but_the_provider() -> Result<()> {
    let mut sale = Sale::of(Event::new().section("Block 1", 3, 4)).start().await?;
    let alice = sale.fan("alice");
    let held = hold(&sale, &alice, "1").await?;
    let paying = alice.pay(&held, "tok_processing", "pay").await?.expect(202)?;
    let payment = paying.text("payment_id").to_owned();
    let intent = opened(&sale, &payment).await?;
    let amount = held["total_cents"].as_i64().context("a total")?;
    let body = webhook::succeeded("evt_forged", &intent, amount, "eur", &payment).to_string();
    let (door, secret) = (sale.stack.url(Part::Webhook), sale.stack.secrets().webhook_secret.clone());
    let now = webhook::now_s();
    let genuine = webhook::signature(&secret, now, &body);
    let tampered = body.replace(&amount.to_string(), "1");
    for (what, body, signature) in [
        ("signed with another secret", &body, webhook::signature("whsec_other", now, &body)),
        ("signed an hour ago", &body, webhook::signature(&secret, now - 3_600, &body)),
        ("signed for another body", &tampered, genuine.clone()),
        ("without a signature", &body, String::new()),
        ("with half a signature", &body, genuine[..genuine.len() - 2].to_owned()),
    ] {
        let answer = webhook::deliver(&sale.http, &door, body, &signature).await?;
        assert_eq!((answer.status, answer.error()), (400, "SIGNATURE_INVALID"), "{what}: {}", answer.body);
    }
    assert_eq!(alice.payment(&payment).await?.expect(200)?.text("status"), "processing");

    // With the ledger down a genuine one is not acknowledged either: it could not be recorded.
    sale.stack.kill(Part::Postgres).await?;
    let answer = webhook::deliver(&sale.http, &door, &body, &webhook::signature(&secret, now, &body)).await?;
    assert_eq!(answer.status, 503, "{}", answer.body);
    sale.stack.restart(Part::Postgres).await?;
    let url = format!("{}/simulator/payment_intents/{intent}/finish", sale.stack.url(Part::Provider));
    sale.http.post(url).json(&json!({"succeed": true})).send().await?.error_for_status()?;
    assert_eq!(alice.settled(&payment, Duration::from_secs(60)).await?, "succeeded");

    // A forged word about another payment moves nothing; a wrong amount never sells, and goes back.
    let bob = sale.fan("bob");
    let held = hold(&sale, &bob, "2").await?;
    assert_eq!(sale.buy(&bob, &held, "tok_wrong_amount").await?, "refunded");
    assert_eq!(bob.tickets().await?.len(), 0);
    sale.audit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_trouble_of_the_provider_ends_in_tickets_or_money_back() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 8, 2)).start().await?;
    let cases = [
        ("tok_visa", "succeeded"),
        ("tok_declined", "failed"),
        ("tok_out_of_order", "succeeded"),
        ("tok_late_1500", "succeeded"),
        ("tok_timeout_after_charge", "succeeded"),
        ("tok_forged", "failed"),
        ("tok_wrong_amount", "refunded"),
        ("tok_never", "succeeded"),
    ];
    let paying = cases.iter().enumerate().map(|(number, (card, _))| {
        let fan = sale.fan(&format!("fan-{number}"));
        let sale = &sale;
        async move {
            let held = hold(sale, &fan, &(number + 1).to_string()).await?;
            let outcome = match *card {
                // Nothing was ever charged and nobody says so: only giving up ends it, which takes longer than a test.
                "tok_forged" => {
                    let paying = fan.pay(&held, card, "pay").await?.expect(202)?;
                    opened(sale, paying.text("payment_id")).await?;
                    fan.cancel(held["reservation_id"].as_str().unwrap_or_default(), "cancel").await?;
                    "failed".to_owned()
                }
                card => sale.buy(&fan, &held, card).await.with_context(|| card.to_owned())?,
            };
            anyhow::Ok((fan, outcome))
        }
    });
    for ((card, expected), (fan, outcome)) in cases.iter().zip(try_join_all(paying).await?) {
        assert_eq!(outcome, *expected, "{card}");
        let tickets = if *expected == "succeeded" { 2 } else { 0 };
        eventually("as many tickets as were bought", Duration::from_secs(20), || async {
            let have = fan.tickets().await?.len();
            ensure!(have == tickets, "{card}: {have} tickets, {tickets} expected");
            Ok(())
        })
        .await?;
    }
    sale.audit().await
}
