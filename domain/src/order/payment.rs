//! The states of a payment and the facts that move it.
//!
//! Money moves only on the provider's word, the first outcome wins, and nothing that was captured is ever forgotten:
//! a capture is accepted even after a decline, and then ends in a refund.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PaymentState {
    /// Recorded here; the provider has not been asked yet, or has not answered.
    Initializing,
    /// The provider has it, under a saved reference; no outcome yet.
    Pending,
    /// The provider took the money; the store has not been asked for its judgement yet.
    Captured,
    /// Booked: the seats are the fan's.
    Succeeded,
    /// Declined, or given up before any money moved.
    Failed,
    /// Captured money that has to go back.
    RefundRequired,
    /// Everything captured went back.
    Refunded,
}

/// Something that was established about a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentFact {
    /// The provider's reference is known.
    ReferenceSaved,
    /// The provider captured the right amount in the right currency.
    Captured,
    /// The provider captured something else than what was asked for.
    CapturedOther,
    /// The provider declined, or the attempt was given up.
    Declined,
    /// The store judged: the reservation is paid by this payment.
    JudgedPaid,
    /// The store judged: too late, or somebody else's; the money goes back.
    JudgedRefund,
    /// An operator, or the provider's own console, gives the whole amount back.
    FullRefundRequested,
    /// Every obligation to give money back is met, and together they are all that was captured.
    AllRefunded,
}

/// What a fact does to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is now in this state.
    To(PaymentState),
    /// Nothing changes: known already, or an earlier outcome stands.
    Stay,
    /// The fact cannot be true of a payment in this state: somebody must look.
    Impossible,
}

impl PaymentState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Initializing,
        Self::Pending,
        Self::Captured,
        Self::Succeeded,
        Self::Failed,
        Self::RefundRequired,
        Self::Refunded,
    ];

    /// What `fact` does to a payment in this state.
    pub fn on(self, fact: PaymentFact) -> Step {
        use PaymentFact as F;
        use PaymentState as S;
        match (fact, self) {
            (F::ReferenceSaved, S::Initializing) => Step::To(S::Pending),
            (F::Captured, S::Initializing | S::Pending | S::Failed) => Step::To(S::Captured),
            (F::CapturedOther, S::Initializing | S::Pending | S::Failed) => Step::To(S::RefundRequired),
            (F::Declined, S::Initializing | S::Pending) => Step::To(S::Failed),
            (F::JudgedPaid, S::Captured) => Step::To(S::Succeeded),
            (F::JudgedRefund, S::Captured) => Step::To(S::RefundRequired),
            (F::JudgedPaid | F::JudgedRefund, S::Initializing | S::Pending | S::Failed) => Step::Impossible,
            (F::FullRefundRequested, S::Succeeded) => Step::To(S::RefundRequired),
            (F::FullRefundRequested, S::Initializing | S::Pending | S::Failed | S::Captured) => Step::Impossible,
            (F::AllRefunded, S::RefundRequired) => Step::To(S::Refunded),
            (F::AllRefunded, S::Initializing | S::Pending | S::Failed | S::Captured | S::Succeeded) => Step::Impossible,
            _ => Step::Stay,
        }
    }

    /// Whether the provider holds, or held, the fan's money for it.
    pub fn has_captured(self) -> bool {
        matches!(self, Self::Captured | Self::Succeeded | Self::RefundRequired | Self::Refunded)
    }

    /// Whether another attempt for the same reservation would be a second charge.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Initializing | Self::Pending | Self::Captured | Self::Succeeded)
    }

    /// What a fan is told.
    pub fn status(self) -> PaymentStatus {
        match self {
            Self::Initializing | Self::Pending | Self::Captured => PaymentStatus::Processing,
            Self::Succeeded => PaymentStatus::Succeeded,
            Self::Failed => PaymentStatus::Failed,
            Self::RefundRequired => PaymentStatus::RefundPending,
            Self::Refunded => PaymentStatus::Refunded,
        }
    }

    /// The word in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Pending => "PENDING",
            Self::Captured => "CAPTURED",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::RefundRequired => "REFUND_REQUIRED",
            Self::Refunded => "REFUNDED",
        }
    }
}

/// A text that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a state")]
pub struct UnknownState(pub String);

impl FromStr for PaymentState {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

impl fmt::Display for PaymentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a fan is told about a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentStatus {
    /// No outcome yet.
    Processing,
    /// The tickets are the fan's.
    Succeeded,
    /// Nothing was charged.
    Failed,
    /// The money is on its way back.
    RefundPending,
    /// The money went back.
    Refunded,
}

impl PaymentStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::RefundPending => "refund_pending",
            Self::Refunded => "refunded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FACTS: [PaymentFact; 8] = [
        PaymentFact::ReferenceSaved,
        PaymentFact::Captured,
        PaymentFact::CapturedOther,
        PaymentFact::Declined,
        PaymentFact::JudgedPaid,
        PaymentFact::JudgedRefund,
        PaymentFact::FullRefundRequested,
        PaymentFact::AllRefunded,
    ];

    fn after(state: PaymentState, fact: PaymentFact) -> PaymentState {
        match state.on(fact) {
            Step::To(next) => next,
            Step::Stay | Step::Impossible => state,
        }
    }

    proptest! {
        #[test]
        fn any_facts_in_any_order_keep_the_promises(picks in proptest::collection::vec(0..FACTS.len(), 0..40)) {
            let mut state = PaymentState::Initializing;
            let mut judged = None;
            for fact in picks.into_iter().map(|pick| FACTS[pick]) {
                let next = after(state, fact);
                prop_assert!(!state.has_captured() || next.has_captured(), "{state} forgot a capture on {fact:?}");
                prop_assert_eq!(after(next, fact), next, "repeating {:?} moved it again", fact);
                if next == PaymentState::Succeeded {
                    prop_assert!(judged != Some(PaymentFact::JudgedRefund), "booked after a refund was decided");
                    prop_assert!(judged != Some(PaymentFact::CapturedOther), "a wrong amount was booked");
                }
                if next != state && judged.is_none() {
                    let decides = matches!(
                        fact,
                        PaymentFact::JudgedPaid | PaymentFact::JudgedRefund | PaymentFact::CapturedOther
                    );
                    judged = decides.then_some(fact);
                }
                state = next;
            }
        }

        #[test]
        fn a_late_decline_never_undoes_a_capture(pick in 0..PaymentState::ALL.len()) {
            let state = PaymentState::ALL[pick];
            let declined = after(state, PaymentFact::Declined);
            prop_assert!(!state.has_captured() || declined == state);
        }
    }

    #[test]
    fn states_read_back() {
        for state in PaymentState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("PAID".parse::<PaymentState>().is_err());
    }
}
