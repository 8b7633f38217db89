//! One message or hold in trouble waits on its own: the others do not wait for it.

use crate::support::{DEADLINE, Shop, now};
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use domain::time::WallMs;
use fulfillment::consumers;
use fulfillment::notify::{FileSink, Notifier};
use fulfillment::settlement::Extender;
use ledger::notices::RETRY_AFTER_S;
use ledger::{Notices, Outbox};

/// A row that nobody can read is kept for somebody to look at, and hides no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_stops_no_other() {
    let shop = Shop::open(Currency::EUR).await;
    shop.server.damage(
        "INSERT INTO notifications (dedupe, user_id, kind, payload, due_at_ms, created_at_ms)
         VALUES ('x', 'no user at all', 'order_confirmed', '{}', 0, 0)",
    );
    let (_, payment) = shop.order("ann", 1, Some("tok_visa")).await;
    shop.until(payment, PaymentStatus::Succeeded).await;
    shop.pass(now()).await;
    assert_eq!(shop.mail_to("ann"), ["Your tickets for Night of the Tests"]);
    assert_eq!(shop.relay.backlog(now()).await.unwrap().dead_letters, 1, "somebody is told");
    assert_eq!(shop.owner.dead_letters().await.unwrap(), [], "and the others can be read");
}

/// A message that cannot be worded is tried again by itself, and in the end kept for somebody to look at.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_worded_stops_no_other() {
    let shop = Shop::open(Currency::EUR).await;
    let (_, poison) = shop.order("ann", 1, Some("tok_visa")).await;
    let (_, sound) = shop.order("bob", 1, Some("tok_visa")).await;
    // Everything but the mail.
    let deadline = std::time::Instant::now() + DEADLINE;
    while shop.tickets("ann").await.len() + shop.tickets("bob").await.len() < 2 {
        assert!(std::time::Instant::now() < deadline, "no tickets");
        shop.money(now()).await;
        shop.relay.relay(now(), 100).await.unwrap();
        consumers::tickets::issue(&shop.relay, &shop.sealer, now()).await.unwrap();
    }
    shop.server.damage("UPDATE tickets SET id = 'tic_' WHERE user_id = 'ann'");
    let sink = FileSink::new(&shop.mail, "Encore <tickets@encore.invalid>").unwrap();
    let mut notifier = Notifier::default();
    let mut at = now();
    notifier.send(&shop.relay, &sink, at).await.unwrap();
    assert_eq!(shop.mail_to("bob"), ["Your tickets for Night of the Tests"]);
    for seconds in RETRY_AFTER_S {
        assert_eq!(shop.owner.dead_letters().await.unwrap(), []);
        at = WallMs(at.0 + seconds * 1_000);
        notifier.send(&shop.relay, &sink, at).await.unwrap();
    }
    let dead = shop.owner.dead_letters().await.unwrap();
    assert_eq!(dead.iter().map(|notice| notice.user.as_str()).collect::<Vec<_>>(), ["ann"]);
    assert_eq!(shop.mail_to("ann"), Vec::<String>::new());
    for payment in [poison, sound] {
        assert_eq!(shop.status(payment).await, PaymentStatus::Succeeded);
    }
}

/// The store does not answer for one hold: the others are extended, and the round ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_not_answered_for_keeps_no_other_waiting() {
    let shop = Shop::open(Currency::EUR).await;
    let mut held = Vec::new();
    for user in ["ann", "bob", "cid"] {
        held.push(shop.order(user, 1, None).await.0);
    }
    shop.store.silent.lock().unwrap().insert(held[0].id);
    let mut extender = Extender::default();
    for round in 0..2 {
        let at = WallMs(now().0 + round * 600_000);
        let ended = tokio::time::timeout(DEADLINE, extender.extend(&shop.store, &shop.relay, at)).await;
        ended.expect("the round ends").expect_err("one was not answered for");
    }
    for other in &held[1..] {
        let view = shop.store.reservation(other.id);
        assert!(view.remaining_ms > other.remaining_ms, "extended: {view:?}");
    }
    shop.store.silent.lock().unwrap().clear();
    extender.extend(&shop.store, &shop.relay, now()).await.unwrap();
    assert!(shop.store.reservation(held[0].id).remaining_ms > held[0].remaining_ms, "asked for again");
}
