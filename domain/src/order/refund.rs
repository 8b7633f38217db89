//! The states of a refund: its own key at the provider, and the provider's answers in any order.

use super::payment::UnknownState;
use crate::ids::PaymentId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a refund stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundState {
    /// Owed; the provider has not acknowledged it.
    Required,
    /// The provider has it and is working on it.
    Sent,
    /// The money went back.
    Succeeded,
    /// The provider could not give it back: an operator must.
    Failed,
}

/// What the provider says of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReport {
    /// Accepted, not finished.
    Pending,
    /// Finished.
    Succeeded,
    /// Failed or cancelled.
    Failed,
}

impl RefundState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Required, Self::Sent, Self::Succeeded, Self::Failed];

    /// The state after the provider's report. Reports overtake each other: a success stands, and a late `pending`
    /// changes nothing. A success after a failure is believed, because the provider retries on its own.
    pub fn on(self, report: RefundReport) -> Self {
        match (self, report) {
            (Self::Succeeded, _) | (_, RefundReport::Succeeded) => Self::Succeeded,
            (Self::Failed, _) | (_, RefundReport::Failed) => Self::Failed,
            (Self::Required | Self::Sent, RefundReport::Pending) => Self::Sent,
        }
    }

    /// Whether it counts as money given back or on its way, so that nothing is promised twice.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Failed)
    }

    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "REQUIRED",
            Self::Sent => "SENT",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
        }
    }
}

impl FromStr for RefundState {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl fmt::Display for RefundState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why money goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    /// The payment came after the reservation had ended, or was not the one that paid it.
    TooLate,
    /// The provider captured another amount or currency than was asked for.
    WrongAmount,
    /// The ledger already has a live booking of a seat: its own second check refused the sale.
    SeatTaken,
    /// The event was called off.
    EventCancelled,
    /// An operator decided.
    Operator,
    /// It was given back at the provider, without us.
    AtProvider,
}

impl RefundReason {
    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLate => "too_late",
            Self::WrongAmount => "wrong_amount",
            Self::SeatTaken => "seat_taken",
            Self::EventCancelled => "event_cancelled",
            Self::Operator => "operator",
            Self::AtProvider => "at_provider",
        }
    }
}

/// The key under which a refund is requested at the provider: never the payment's own.
pub fn provider_key(payment: PaymentId, sequence: u32) -> String {
    format!("{payment}-refund-{sequence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPORTS: [RefundReport; 3] = [RefundReport::Pending, RefundReport::Succeeded, RefundReport::Failed];

    proptest! {
        #[test]
        fn reports_in_any_order_converge(picks in proptest::collection::vec(0..REPORTS.len(), 1..12)) {
            let reports: Vec<_> = picks.into_iter().map(|pick| REPORTS[pick]).collect();
            let forward = reports.iter().fold(RefundState::Required, |state, report| state.on(*report));
            let backward = reports.iter().rev().fold(RefundState::Required, |state, report| state.on(*report));
            prop_assert_eq!(forward, backward);
        }
    }

    #[test]
    fn keys_differ_per_refund_and_states_read_back() {
        assert_ne!(provider_key(PaymentId(1), 1), provider_key(PaymentId(1), 2));
        for state in RefundState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
    }
}
