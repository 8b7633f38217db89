//! Devices that carry a ticket.

use super::{NOW, Order, later};
use crate::Ledger;
use crate::outbox::TICKETS;
use crate::tickets::Ticket;
use crate::wallets::{DeviceGrant, DeviceRemoval, REPEAT_MS};
use domain::limits;
use domain::order::booking_id;

/// A ticket that was issued with this sealed secret.
async fn ticket<L: Ledger>(ledger: &L, order: &Order<'_, L>, sealed: &[u8]) -> Ticket {
    order.book().await;
    while ledger.relay(NOW, 100).await.expect("relay") > 0 {}
    let key = order.payment.to_string();
    let waiting = ledger.deliveries(TICKETS, 1_000).await.expect("read");
    let message = waiting.into_iter().find(|message| message.key == key).expect("order.paid was delivered");
    let secrets: Vec<_> = order.seats.iter().map(|quoted| (quoted.seat, sealed.to_vec())).collect();
    ledger.issue_tickets(message.id, booking_id(order.payment), &secrets, NOW).await.expect("issue");
    ledger.tickets_of_user(&order.user).await.expect("read").remove(0)
}

pub(super) async fn a_device_is_given_the_secret_once_and_a_removed_one_makes_room<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 501);
    let ticket = ticket(ledger, &order, &[7; 60]).await.id;
    let ask = async |device: &str, ms| ledger.grant_device(ticket, device, later(ms)).await.expect("an answer");
    let given = DeviceGrant::Granted { sealed_secret: vec![7; 60], version: 1 };
    for device in 0..limits::TICKET_DEVICES {
        assert_eq!(ask(&format!("d{device}"), 0).await, given);
    }
    assert_eq!(ask("d0", REPEAT_MS).await, given, "an answer that was lost is given again");
    assert_eq!(ask("d0", REPEAT_MS + 1).await, DeviceGrant::GivenBefore);
    assert_eq!(ask("late", 1).await, DeviceGrant::TooMany);
    let remove = async |device: &str| ledger.revoke_device(ticket, device, &[8; 60], later(2)).await.expect("removed");
    assert_eq!(remove("d0").await, DeviceRemoval::Removed);
    assert_eq!(ask("d0", 3).await, DeviceGrant::Revoked);
    assert!(matches!(ask("late", 3).await, DeviceGrant::Granted { .. }), "there is room");
}

pub(super) async fn a_removed_device_knows_the_secret_no_more<L: Ledger>(ledger: &L) {
    let order = Order::new(ledger, 502);
    let before = ticket(ledger, &order, &[7; 60]).await;
    let ask =
        async |device: &str| ledger.grant_device(before.id, device, later(REPEAT_MS * 9)).await.expect("an answer");
    for device in ["phone", "lost"] {
        ledger.grant_device(before.id, device, NOW).await.expect("an answer");
    }
    let remove = async |device: &str, byte| {
        ledger.revoke_device(before.id, device, &[byte; 60], later(1)).await.expect("removed")
    };
    assert_eq!(remove("nobody", 1).await, DeviceRemoval::Unknown);
    assert_eq!(
        ledger.ticket(before.id).await.expect("read").as_ref(),
        Some(&before),
        "a mistaken name changes nothing"
    );
    assert_eq!(remove("lost", 8).await, DeviceRemoval::Removed);
    assert_eq!(remove("lost", 9).await, DeviceRemoval::RemovedBefore);
    let after = ledger.ticket(before.id).await.expect("read").expect("a ticket");
    assert_eq!((after.sealed_secret.as_slice(), after.secret_version), ([8; 60].as_slice(), 2));
    let of_event = ledger.tickets_of_event(order.reservation.event).await.expect("read");
    let versions: Vec<_> = of_event.iter().map(|ticket| ticket.secret_version).collect();
    assert_eq!(versions, [2, 1], "what the gates are told; the order's other ticket is as it was");
    let fresh = DeviceGrant::Granted { sealed_secret: vec![8; 60], version: 2 };
    assert_eq!(ask("phone").await, fresh, "who remains is given the new one");
    // However often devices come and go, a ticket remembers a bounded number of them.
    for number in 0..=limits::REMOVED_DEVICES {
        let device = format!("d{number}");
        assert!(matches!(ask(&device).await, DeviceGrant::Granted { .. }));
        let removed = ledger.revoke_device(before.id, &device, &[9; 60], later(2 + number as u64)).await;
        assert_eq!(removed.expect("removed"), DeviceRemoval::Removed);
    }
    assert_eq!(remove("lost", 1).await, DeviceRemoval::Unknown, "the first one is forgotten");
    assert_eq!(remove("d1", 1).await, DeviceRemoval::RemovedBefore);
}
