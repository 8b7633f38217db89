//! What each message says.

use domain::money::{Currency, Minor};
use ledger::notices::{HOLD_EXPIRED, Notice, ORDER_CONFIRMED, PAYMENT_FAILED, REFUND_ON_ITS_WAY};
use ledger::tickets::Ticket;
use std::fmt::Write;

pub(super) struct Wording {
    pub subject: String,
    pub body: String,
}

/// The message in words.
pub(super) fn of(notice: &Notice, title: &str, tickets: &[Ticket]) -> Wording {
    let order = notice.payload["reservation"].as_str().unwrap_or("unknown");
    let (subject, text) = match notice.kind.as_str() {
        ORDER_CONFIRMED => (format!("Your tickets for {title}"), confirmed(notice, title, tickets)),
        HOLD_EXPIRED => (
            format!("Your seats for {title} are no longer held"),
            "The time to pay ran out, so your seats were given back to the sale. Nothing was charged. You are welcome \
             to choose again."
                .to_owned(),
        ),
        PAYMENT_FAILED => (format!("Your payment for {title} did not go through"), failed(notice)),
        REFUND_ON_ITS_WAY => (format!("Your refund for {title} is on its way"), refund(notice)),
        other => (format!("About your order for {title}"), other.replace('_', " ")),
    };
    let body = format!("Hello,\n\n{text}\n\nOrder: {order}\n\nEncore\n");
    Wording { subject, body }
}

fn amount(notice: &Notice) -> Option<String> {
    let amount = Minor(notice.payload["amount_minor"].as_i64()?);
    let currency: Currency = notice.payload["currency"].as_str()?.parse().ok()?;
    Some(amount.display(currency))
}

fn confirmed(notice: &Notice, title: &str, tickets: &[Ticket]) -> String {
    let mut text = format!("Thank you. You have paid {} for {title}.\n", amount(notice).unwrap_or_default());
    for ticket in tickets {
        let seat = &ticket.seat;
        let row = if seat.row.is_empty() { String::new() } else { format!(", row {}", seat.row) };
        let price = seat.price.display(ticket.currency);
        let _infallible = write!(text, "\n  {}{row}, seat {}: {price}, ticket {}", seat.section, seat.label, ticket.id);
    }
    text.push_str(
        "\n\nYour tickets are under \"My tickets\". Show the moving code at the gate; a picture of it is not enough.",
    );
    text
}

fn failed(notice: &Notice) -> String {
    let released = notice.payload["released"].as_bool().unwrap_or(true);
    let seats = if released {
        "Your seats were given back to the sale."
    } else {
        "Your seats are still held; you may try another card until the time runs out."
    };
    format!("Your payment was not accepted and nothing was charged. {seats}")
}

fn refund(notice: &Notice) -> String {
    let why = match notice.payload["reason"].as_str() {
        Some("event_cancelled") => "The event is cancelled, and your seats with it; tickets for it let nobody in.",
        Some("too_late") => "Your payment reached us after the seats had been given back.",
        Some("wrong_amount") => "The amount that was charged is not the price of your order.",
        Some("seat_taken") => "We could not give you these seats.",
        _ => "Your order was refunded.",
    };
    format!("{why} We are giving {} back the way it was paid.", amount(notice).unwrap_or_else(|| "it".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::WallMs;
    use serde_json::json;

    #[test]
    fn amounts_are_told_in_their_currency() {
        let notice = Notice {
            id: 1,
            user: "fan".parse().expect("a user"),
            email: None,
            kind: REFUND_ON_ITS_WAY.into(),
            payload: json!({"reservation": "1-0-0-7", "reason": "too_late", "amount_minor": 80, "currency": "JPY"}),
            tries: 0,
            created_at: WallMs(0),
        };
        let Wording { subject, body } = of(&notice, "Night", &[]);
        assert_eq!(subject, "Your refund for Night is on its way");
        assert!(body.contains("giving 80 JPY back") && body.contains("Order: 1-0-0-7"), "{body}");
    }
}
