//! The troubles that the simulator makes on request: by a special card for one payment, by switches for all.

use serde::{Deserialize, Serialize};

/// One way in which a payment goes wrong, or right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// None: charged at once.
    Smooth,
    /// Declined.
    Declined,
    /// Charged, but the answer never comes.
    TimeoutAfterCharge,
    /// Charged so many milliseconds later; `processing` until then.
    Late(u64),
    /// Each event delivered eight times at once.
    Duplicate,
    /// `processing` is delivered after `succeeded`.
    OutOfOrder,
    /// Nothing is charged, but somebody sends a forged success.
    Forged,
    /// One major unit less is charged than was asked for.
    WrongAmount,
    /// Charged, but no event is ever delivered.
    Never,
    /// Neither outcome, until `POST /simulator/payment_intents/{id}/finish`.
    Processing,
    /// The first attempts answer 500 and do nothing.
    Unavailable,
    /// Refunds stay pending, until `POST /simulator/refunds/{id}/finish`.
    RefundPending,
}

impl Trouble {
    /// What a card token asks for; a token that names no trouble is charged at once.
    pub fn of_token(token: &str) -> Self {
        let name = token.strip_prefix("tok_").unwrap_or(token);
        match name {
            "declined" | "chargeDeclined" | "pm_card_chargeDeclined" => Self::Declined,
            "timeout_after_charge" => Self::TimeoutAfterCharge,
            "duplicate" => Self::Duplicate,
            "out_of_order" => Self::OutOfOrder,
            "forged" => Self::Forged,
            "wrong_amount" => Self::WrongAmount,
            "never" => Self::Never,
            "processing" => Self::Processing,
            "unavailable" => Self::Unavailable,
            "refund_pending" => Self::RefundPending,
            _ => match name.strip_prefix("late_").and_then(|ms| ms.parse().ok()) {
                Some(ms) => Self::Late(ms),
                None => Self::Smooth,
            },
        }
    }
}

/// Troubles for everybody; `POST /simulator/switches` replaces them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switches {
    /// Every call is answered 503.
    pub down: bool,
    /// No event is delivered while it is set; they wait.
    pub hold_events: bool,
    /// Every payment has this trouble, whatever its card.
    pub trouble: Option<Trouble>,
    /// Added to the delay of every event.
    pub event_delay_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_trouble() {
        assert_eq!(Trouble::of_token("tok_visa"), Trouble::Smooth);
        assert_eq!(Trouble::of_token("tok_late_1500"), Trouble::Late(1_500));
        assert_eq!(Trouble::of_token("tok_late_soon"), Trouble::Smooth);
        assert_eq!(Trouble::of_token("tok_wrong_amount"), Trouble::WrongAmount);
    }
}
