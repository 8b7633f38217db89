//! What follows from money: tickets, facts on their way, messages, and the catalogue.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::catalogue::{Promotion, Publication, PublishOutcome};
use crate::notices::{HOLD_EXPIRED, ORDER_CONFIRMED, PAYMENT_FAILED, RETRY_AFTER_S};
use crate::outbox::{MESSAGES, ORDER_PAID, TICKETS};
use crate::payments::WebhookOutcome;
use crate::settlement::{Ending, FeedNote};
use crate::tickets::TicketState;
use domain::ids::{EventId, SectionId};
use domain::inventory::record::{EventStatus, Point, QueueMode, SectionKind, SectionSummary, Tier};
use domain::inventory::{EventRecord, SectionPlan};
use domain::limits;
use domain::money::{Currency, Minor};
use domain::order::booking_id;
use domain::order::payment::PaymentState;
use domain::time::WallMs;

/// Carry everything that is on its way to its consumers.
async fn carry<L: Ledger>(ledger: &L) {
    while ledger.relay(NOW, 100).await.expect("relay") > 0 {}
}

pub(super) async fn tickets_are_issued_once<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 401);
    order.book().await;
    carry(ledger).await;
    let key = order.payment.to_string();
    let waiting = ledger.deliveries(TICKETS, 1_000).await.expect("read");
    let message = waiting.into_iter().find(|message| message.key == key).expect("order.paid was delivered");
    assert_eq!(message.topic, ORDER_PAID);
    let booking = booking_id(order.payment);
    let secrets: Vec<_> = order.seats.iter().map(|quoted| (quoted.seat, vec![7; 60])).collect();
    assert!(ledger.issue_tickets(message.id, booking, &secrets[..1], NOW).await.is_err(), "all seats or none");
    assert!(ledger.tickets_of_booking(booking).await.expect("read").is_empty(), "nothing half-issued stays");
    for secret in [vec![7; 60], vec![8; 60]] {
        let secrets: Vec<_> = order.seats.iter().map(|quoted| (quoted.seat, secret.clone())).collect();
        ledger.issue_tickets(message.id, booking, &secrets, NOW).await.expect("issue");
    }
    let tickets = ledger.tickets_of_user(&order.user).await.expect("read");
    assert_eq!(tickets.iter().map(|ticket| ticket.seat.label.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert!(tickets.iter().all(|ticket| ticket.sealed_secret == [7; 60]), "a ticket keeps its first secret");
    assert_eq!(ledger.tickets_of_event(order.reservation.event).await.expect("read"), tickets);
    assert_eq!(ledger.ticket(tickets[0].id).await.expect("read").as_ref(), Some(&tickets[0]));
    let told = ledger.notices_of(&order.user).await.expect("read");
    assert_eq!(told.iter().map(|notice| notice.kind.as_str()).collect::<Vec<_>>(), [ORDER_CONFIRMED]);
    let waiting = ledger.deliveries(TICKETS, 1_000).await.expect("read");
    assert!(waiting.iter().all(|waiting| waiting.id != message.id), "it is off the queue");
    let balance = ledger.balances(Some(order.reservation.event)).await.expect("read").remove(0);
    assert!(balance.is_conserved() && !balance.is_settling(), "{balance:?}");
    order.refund("r", None, later(5)).await;
    let tickets = ledger.tickets_of_booking(booking).await.expect("read");
    assert!(tickets.iter().all(|ticket| ticket.state == TicketState::Revoked && ticket.revoked_at == Some(later(5))));
}

pub(super) async fn facts_travel_in_order_and_once<L: Ledger>(ledger: &L) {
    let orders = [Order::new(ledger, 402), Order::new(ledger, 403), Order::new(ledger, 404)];
    for order in &orders {
        order.book().await;
    }
    let before = ledger.backlog(later(7)).await.expect("read");
    assert!(before.unpublished_ms >= 7, "{before:?}");
    carry(ledger).await;
    carry(ledger).await;
    assert_eq!(ledger.backlog(NOW).await.expect("read").unpublished_ms, 0);
    let keys: Vec<_> = orders.iter().map(|order| order.payment.to_string()).collect();
    let delivered = ledger.deliveries(TICKETS, 1_000).await.expect("read");
    let delivered: Vec<_> = delivered.into_iter().map(|message| message.key).filter(|key| keys.contains(key)).collect();
    assert_eq!(delivered, keys);
}

pub(super) async fn a_message_is_retried_then_kept<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 405);
    order.open().await;
    ledger.give_up(order.payment, "declined", NOW).await.expect("fail");
    carry(ledger).await;
    let waiting = ledger.deliveries(MESSAGES, 1_000).await.expect("read");
    let key = order.payment.to_string();
    let message = waiting.into_iter().find(|message| message.key == key).expect("payment.failed was delivered");
    for _ in 0..2 {
        ledger.consume_message(message.id, NOW).await.expect("consume");
    }
    let told = ledger.notices_of(&order.user).await.expect("read");
    assert_eq!(told.iter().map(|notice| notice.kind.as_str()).collect::<Vec<_>>(), [PAYMENT_FAILED]);
    assert_eq!(told[0].email.as_deref(), Some("fan@example.org"));
    let id = told[0].id;
    let due = |at: WallMs| async move {
        ledger.notices_due(at, 1_000).await.expect("read").iter().any(|notice| notice.id == id)
    };
    let mut at = NOW;
    for seconds in RETRY_AFTER_S {
        assert!(due(at).await);
        ledger.notice_failed(id, "no route", at).await.expect("fail");
        assert!(!due(WallMs(at.0 + seconds * 1_000 - 1)).await, "it waits {seconds} s");
        at = WallMs(at.0 + seconds * 1_000);
    }
    assert!(due(at).await);
    ledger.notice_failed(id, "no route", at).await.expect("fail");
    assert!(!due(later(86_400_000)).await);
    assert!(ledger.dead_letters().await.expect("read").iter().any(|notice| notice.id == id));
    assert!(ledger.replay(id, at).await.expect("replay"));
    assert!(!ledger.replay(id, at).await.expect("replay"));
    assert!(due(at).await);
    ledger.notice_sent(id, at).await.expect("sent");
    assert!(!due(later(86_400_000)).await);
}

pub(super) async fn an_expired_hold_is_told_once<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 406);
    let note = FeedNote {
        partition: order.reservation.partition(),
        position: 1,
        event: order.reservation.event,
        reservation: order.reservation,
        user: order.user.clone(),
        ending: Ending::Expired,
        at: NOW,
    };
    for _ in 0..2 {
        ledger.record_ending(&note, NOW).await.expect("record");
    }
    ledger.record_ending(&FeedNote { position: 2, ending: Ending::Cancelled, ..note }, NOW).await.expect("record");
    let told = ledger.notices_of(&order.user).await.expect("read");
    assert_eq!(told.iter().map(|notice| notice.kind.as_str()).collect::<Vec<_>>(), [HOLD_EXPIRED]);
}

pub(super) async fn a_version_is_published_once<L: Ledger>(ledger: &L) {
    let mut publication = publication(EventId(407));
    assert_eq!(ledger.publication(EventId(407)).await.expect("read"), None);
    assert_eq!(ledger.publish(&publication).await.expect("publish"), PublishOutcome::Published);
    assert_eq!(ledger.publish(&publication).await.expect("publish"), PublishOutcome::Unchanged);
    publication.event.version = 2;
    publication.event.title = "Second night".into();
    publication.promotions[0].cap = 9;
    assert_eq!(ledger.publish(&publication).await.expect("publish"), PublishOutcome::Published);
    assert_eq!(ledger.publication(EventId(407)).await.expect("read").as_ref(), Some(&publication));
    assert!(ledger.events().await.expect("read").contains(&publication.event));
    publication.event.version = 1;
    assert_eq!(ledger.publish(&publication).await.expect("publish"), PublishOutcome::Older { current: 2 });
}

fn publication(id: EventId) -> Publication {
    let standing = SectionPlan {
        section: SectionId(0),
        name: "Floor".into(),
        kind: SectionKind::Standing,
        tier: 0,
        focal: Point::default(),
        rows: Vec::new(),
        capacity: 3,
    };
    let summary =
        SectionSummary { id: SectionId(0), name: "Floor".into(), kind: SectionKind::Standing, tier: 0, capacity: 3 };
    let event = EventRecord {
        id,
        version: 1,
        title: "First night".into(),
        venue: "Hall".into(),
        starts_at: later(86_400_000),
        on_sale_at: NOW,
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 600_000,
        user_limit: 6,
        buckets: 1,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 10,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "Floor".into(), base: Minor(1_250) }],
        sections: vec![summary],
    };
    let early = Promotion { code: "EARLY".parse().expect("a code"), discount_bps: 1_000, cap: 3 };
    Publication { event, plans: vec![standing], promotions: vec![early] }
}

/// Not by the numbers of rows, which others share, but by what can still be seen.
pub(super) async fn what_was_handled_long_ago_is_removed_a_little_at_a_time<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 408);
    order.book().await;
    carry(ledger).await;
    let key = order.payment.to_string();
    let deliveries = async || ledger.deliveries(TICKETS, 1_000).await.expect("read");
    let message = deliveries().await.into_iter().find(|message| message.key == key).expect("order.paid was delivered");
    let captured = order.captured(order.amount(), order.currency);
    let again = async || ledger.record_event(&captured, NOW).await.expect("record");
    let prune = async |at, max| ledger.prune(later(at), max).await.expect("prune");
    while prune(limits::OUTBOX_KEPT_MS, 2).await > 0 {}
    let old = prune(limits::OUTBOX_KEPT_MS + 1, 2).await;
    assert_eq!(old, 2, "published in this very moment, and removed two at a time");
    while prune(limits::WEBHOOKS_KEPT_MS, 100).await > 0 {}
    assert!(deliveries().await.contains(&message), "what is not handled is kept, however old");
    assert_eq!(again().await, WebhookOutcome::Duplicate, "an event is known as long as it may come again");
    while prune(limits::WEBHOOKS_KEPT_MS + 1, 100).await > 0 {}
    assert_eq!(again().await, WebhookOutcome::Recorded);
    assert_eq!(order.view().await.state, PaymentState::Succeeded, "and even then it changes nothing");
    let secrets: Vec<_> = order.seats.iter().map(|quoted| (quoted.seat, vec![7; 60])).collect();
    ledger.issue_tickets(message.id, booking_id(order.payment), &secrets, NOW).await.expect("issue");
    assert_eq!(ledger.tickets_of_user(&order.user).await.expect("read").len(), 2);
    while prune(limits::WEBHOOKS_KEPT_MS + 1, 100).await > 0 {}
    assert!(deliveries().await.iter().all(|waiting| waiting.id != message.id));
}
