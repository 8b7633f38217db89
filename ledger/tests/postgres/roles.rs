//! Least privilege: each role does its own work, and cannot do another's.

use crate::support::Server;
use domain::ids::{Bucket, EventId, PaymentId, ReservationId, SeatIndex, SeatRef, SectionId};
use domain::inventory::record::QuotedSeat;
use domain::money::{Currency, Minor};
use domain::order::refund::RefundReason;
use domain::order::ticket_id;
use domain::order::webhook::{ProviderEvent, ProviderFact};
use domain::time::WallMs;
use ledger::payments::{BeginOutcome, BeginPayment, WebhookOutcome};
use ledger::settlement::SettleOutcome;
use ledger::wallets::{DeviceGrant, DeviceRemoval};
use ledger::{Audit, Catalogue, LedgerError, Notices, Outbox, Payments, Refunds, Settlement, Tickets, Wallets};
use std::fmt::Debug;
use std::time::{Duration, Instant};

const NOW: WallMs = WallMs(1_800_000_000_000);
const PAYMENT: PaymentId = PaymentId(7);
const RESERVATION: ReservationId = ReservationId { event: EventId(1), bucket: Bucket(0), incarnation: 0, sequence: 1 };

fn request() -> BeginPayment {
    BeginPayment {
        payment: PAYMENT,
        key: "key".parse().unwrap(),
        fingerprint: "content".into(),
        reservation: RESERVATION,
        user: "fan".parse().unwrap(),
        email: None,
        method: "card".into(),
        token: None,
        amount: Minor(100),
        currency: Currency::EUR,
        seats: Vec::new(),
        retry_declined: false,
        now: NOW,
    }
}

fn captured() -> ProviderEvent {
    let fact = ProviderFact::Captured {
        reference: "pi_7".into(),
        amount: Minor(100),
        currency: Currency::EUR,
        payment: Some(PAYMENT),
    };
    ProviderEvent { id: "evt_7".into(), kind: "k".into(), created: NOW, fingerprint: "f".into(), fact }
}

fn refused<T: Debug>(what: &str, found: Result<T, LedgerError>) {
    assert!(matches!(found, Err(LedgerError::Forbidden(_))), "{what}: {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_does_its_own_work_only() {
    let server = Server::start(false).await;
    let [browse, buy, webhook, relay, owner] =
        ["browse", "buy", "webhook", "relay", "owner"].map(|role| server.ledger(&format!("encore_{role}")));

    // One order, each step by the role whose step it is.
    assert!(matches!(buy.begin_payment(&request()).await, Ok(BeginOutcome::Begun(_))));
    assert_eq!(webhook.record_event(&captured(), NOW).await.unwrap(), WebhookOutcome::UnknownReference);
    relay.attach_reference(PAYMENT, "pi_7", Some("secret"), NOW).await.unwrap();
    assert_eq!(webhook.record_event(&captured(), NOW).await.unwrap(), WebhookOutcome::Recorded);
    relay.settle_refund(PAYMENT, RefundReason::TooLate, NOW).await.unwrap();
    refused("webhook relays", webhook.relay(NOW, 10).await);
    // The refused relay's transaction, and with it the relay's lock, ends when its connection is next looked at.
    let deadline = Instant::now() + Duration::from_secs(30);
    while relay.relay(NOW, 10).await.unwrap() == 0 {
        assert!(Instant::now() < deadline, "what the order wrote into the outbox is never relayed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    relay.backlog(NOW).await.unwrap();
    buy.tickets_of_user(&"fan".parse().unwrap()).await.unwrap();
    buy.refunds_of(PAYMENT).await.unwrap();
    assert_eq!(browse.events().await.unwrap(), []);
    assert_eq!(owner.balances(None).await.unwrap().len(), 1);

    refused("browse pays", browse.begin_payment(&request()).await);
    refused("browse reads payments", browse.payment(PAYMENT).await);
    refused("browse reads tickets", browse.tickets_of_user(&"fan".parse().unwrap()).await);
    refused("buy records events", buy.record_event(&captured(), NOW).await);
    refused("buy settles", buy.settle_refund(PAYMENT, RefundReason::TooLate, NOW).await);
    refused("buy fails payments", buy.give_up(PAYMENT, "no", NOW).await);
    refused("buy reads incidents", buy.incidents(NOW).await);
    refused("webhook begins payments", webhook.begin_payment(&other()).await);
    refused("webhook reads the catalogue", webhook.events().await);
    refused("relay begins payments", relay.begin_payment(&BeginPayment { payment: PaymentId(8), ..other() }).await);
}

/// The buy plane may give a ticket another secret, and the relay may remove what was handled long ago; others may not.
#[tokio::test(flavor = "multi_thread")]
async fn devices_and_old_rows_are_removed_by_those_who_may() {
    let server = Server::start(false).await;
    let [buy, webhook, relay] = ["buy", "webhook", "relay"].map(|role| server.ledger(&format!("encore_{role}")));
    let seat = SeatRef { section: SectionId(0), seat: SeatIndex(0) };
    buy.begin_payment(&request()).await.unwrap();
    relay.attach_reference(PAYMENT, "pi_7", None, NOW).await.unwrap();
    webhook.record_event(&captured(), NOW).await.unwrap();
    let sold = [QuotedSeat { seat, gross: Minor(100), discount: Minor(0) }];
    let SettleOutcome::Booked(booking) = relay.settle_paid(PAYMENT, &sold, NOW).await.unwrap() else {
        panic!("it was captured");
    };
    relay.issue_tickets(1, booking, &[(seat, vec![7; 60])], NOW).await.unwrap();
    let ticket = ticket_id(booking, seat);
    let given = buy.grant_device(ticket, "phone", NOW).await.unwrap();
    assert!(matches!(given, DeviceGrant::Granted { .. }), "{given:?}");
    refused("webhook removes devices", webhook.revoke_device(ticket, "phone", &[8; 60], NOW).await);
    assert_eq!(buy.revoke_device(ticket, "phone", &[8; 60], NOW).await.unwrap(), DeviceRemoval::Removed);
    assert_eq!(buy.ticket(ticket).await.unwrap().unwrap().secret_version, 2);
    relay.prune(NOW, 10).await.unwrap();
    refused("buy prunes", buy.prune(NOW, 10).await);
    refused("webhook prunes", webhook.prune(NOW, 10).await);
}

fn other() -> BeginPayment {
    let reservation = ReservationId { sequence: 2, ..RESERVATION };
    BeginPayment { key: "other".parse().unwrap(), reservation, ..request() }
}

/// The server is cut off in the middle of the work and comes back: callers are told to come again, and then it works.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_nothing_and_is_told_as_unavailable() {
    let mut server = Server::start(true).await;
    let buy = server.ledger("encore_buy");
    buy.begin_payment(&request()).await.unwrap();
    let impatient = server.impatient_ledger("encore_buy", 500);
    server.kill();
    for _ in 0..3 {
        let down = impatient.payment(PAYMENT).await;
        assert!(down.as_ref().is_err_and(LedgerError::is_unavailable), "{down:?}");
        let down = impatient.begin_payment(&other()).await;
        assert!(down.as_ref().is_err_and(LedgerError::is_unavailable), "{down:?}");
    }
    server.run().await;
    assert!(buy.payment(PAYMENT).await.unwrap().is_some(), "what was acknowledged is there");
    assert!(matches!(buy.begin_payment(&request()).await, Ok(BeginOutcome::Repeated(_))));
}

/// A caller who goes away in the middle of a step leaves a pool that works.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_leaves_poisons_nothing() {
    let server = Server::start(false).await;
    let buy = server.ledger("encore_buy");
    for number in 0..200_u64 {
        let request = BeginPayment {
            payment: PaymentId(u128::from(number) + 100),
            key: format!("key-{number}").parse().unwrap(),
            reservation: ReservationId { sequence: 100 + number, ..RESERVATION },
            ..request()
        };
        let step = buy.begin_payment(&request);
        let _left = tokio::time::timeout(std::time::Duration::from_micros(number * 20), step).await;
    }
    for number in 0..200_u64 {
        let request = BeginPayment {
            payment: PaymentId(u128::from(number) + 1_000),
            key: format!("key-{number}").parse().unwrap(),
            reservation: ReservationId { sequence: 100 + number, ..RESERVATION },
            ..request()
        };
        let outcome = buy.begin_payment(&request).await.unwrap();
        assert!(matches!(outcome, BeginOutcome::Begun(_) | BeginOutcome::Repeated(_)), "{outcome:?}");
    }
}
