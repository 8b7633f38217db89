//! Orders: the states of money and what moves them, without I/O and without a clock.
//!
//! A payment ends in tickets or in a full refund; the rules here say which step may follow which, so that the ledger
//! only has to apply them in a transaction.

pub mod payment;
pub mod refund;
pub mod webhook;

use crate::ids::{BookingId, PaymentId, RefundId, SeatRef, TicketId};
use sha2::{Digest, Sha256};

/// The first 128 bits of a digest over `what` and its parts. Derived ids make a repeated step write the same row.
fn derived(what: &str, parts: &[&[u8]]) -> u128 {
    let mut digest = Sha256::new();
    digest.update(what.as_bytes());
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let bytes: [u8; 32] = digest.finalize().into();
    u128::from_be_bytes(bytes[..16].try_into().expect("half of a SHA-256 digest is 16 bytes"))
}

/// The booking that a payment makes when it is accepted: one payment, one booking.
pub fn booking_id(payment: PaymentId) -> BookingId {
    BookingId(derived("booking", &[&payment.0.to_be_bytes()]))
}

/// The `sequence`-th refund of a payment.
pub fn refund_id(payment: PaymentId, sequence: u32) -> RefundId {
    RefundId(derived("refund", &[&payment.0.to_be_bytes(), &sequence.to_be_bytes()]))
}

/// The ticket of one seat of a booking: one seat, one ticket, however often it is issued.
pub fn ticket_id(booking: BookingId, seat: SeatRef) -> TicketId {
    let (section, index) = (seat.section.0.to_be_bytes(), seat.seat.0.to_be_bytes());
    TicketId(derived("ticket", &[&booking.0.to_be_bytes(), &section, &index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SeatIndex, SectionId};

    #[test]
    fn derived_ids_are_stable_and_differ() {
        let payment = PaymentId(7);
        assert_eq!(booking_id(payment), booking_id(payment));
        assert_ne!(refund_id(payment, 1), refund_id(payment, 2));
        assert_ne!(refund_id(PaymentId(8), 1), refund_id(payment, 1));
        let seat = |section, seat| SeatRef { section: SectionId(section), seat: SeatIndex(seat) };
        let booking = booking_id(payment);
        assert_ne!(ticket_id(booking, seat(1, 2)), ticket_id(booking, seat(2, 1)));
        // Pinned: tickets in fans' hands carry these.
        assert_eq!(ticket_id(BookingId(1), seat(0, 0)).to_string(), TICKET_OF_BOOKING_ONE);
    }

    const TICKET_OF_BOOKING_ONE: &str = "tic_edd7ef51c543b983531bb5d33f09378b";
}
