//! The contract that both twins keep, as checks that take any ledger. Each works on an event of its own, so that they
//! can share a database; each panics with what a user would see go wrong.

mod cancelling;
mod effects;
mod money;
mod paying;
mod recovering;
mod refunding;
mod wallets;

use crate::Ledger;
use crate::payments::{AttachOutcome, BeginOutcome, BeginPayment, PaymentView, SeatLine};
use crate::refunds::{RefundOrder, RefundOutcome};
use crate::settlement::SettleOutcome;
use domain::ids::{Bucket, EventId, PaymentId, ReservationId, SeatIndex, SeatRef, SectionId, UserId};
use domain::inventory::record::QuotedSeat;
use domain::money::{Currency, Minor};
use domain::order::refund::RefundReason;
use domain::order::webhook::{ProviderEvent, ProviderFact};
use domain::time::WallMs;

/// Every promise, one after the other.
pub async fn run_all<L: Ledger>(ledger: &L) {
    paying::a_repeated_request_is_one_payment(ledger).await;
    paying::a_reservation_has_one_open_payment(ledger).await;
    paying::nothing_begins_beside_a_release(ledger).await;
    paying::a_reference_is_saved_once(ledger).await;
    paying::a_declined_payment_frees_the_seats_unless_another_card_may_be_tried(ledger).await;
    paying::processing_is_neither_outcome(ledger).await;
    money::an_event_is_recorded_once(ledger).await;
    money::an_unknown_reference_is_told_to_come_again(ledger).await;
    money::a_payment_given_up_and_charged_is_refunded(ledger).await;
    money::a_lost_payment_is_asked_about_for_a_day(ledger).await;
    money::another_amount_never_sells(ledger).await;
    money::the_first_outcome_wins(ledger).await;
    money::the_second_guard_refuses_a_seat_sold_twice(ledger).await;
    refunding::reports_in_any_order_converge(ledger).await;
    refunding::a_part_given_back_elsewhere_is_a_task_for_an_operator(ledger).await;
    refunding::everything_given_back_elsewhere_frees_the_seats(ledger).await;
    refunding::seats_are_refunded_once(ledger).await;
    cancelling::a_cancelled_event_owes_each_order_one_refund(ledger).await;
    effects::tickets_are_issued_once(ledger).await;
    effects::facts_travel_in_order_and_once(ledger).await;
    effects::a_message_is_retried_then_kept(ledger).await;
    effects::what_was_handled_long_ago_is_removed_a_little_at_a_time(ledger).await;
    effects::an_expired_hold_is_told_once(ledger).await;
    effects::a_version_is_published_once(ledger).await;
    wallets::a_device_is_given_the_secret_once_and_a_removed_one_makes_room(ledger).await;
    recovering::no_incarnation_is_given_twice(ledger).await;
    wallets::a_removed_device_knows_the_secret_no_more(ledger).await;
}

/// One order of a few seats on an event of its own.
pub(crate) struct Order<'a, L> {
    ledger: &'a L,
    pub payment: PaymentId,
    pub reservation: ReservationId,
    pub user: UserId,
    pub seats: Vec<QuotedSeat>,
    pub currency: Currency,
    pub retry_declined: bool,
}

pub(crate) const NOW: WallMs = WallMs(1_800_000_000_000);

pub(crate) fn later(ms: u64) -> WallMs {
    WallMs(NOW.0 + ms)
}

impl<'a, L: Ledger> Order<'a, L> {
    /// Two seats for 12.50 each. `number` names the event, so it must differ from check to check.
    pub(crate) fn new(ledger: &'a L, number: u32) -> Self {
        Self::twin(ledger, number, 1)
    }

    /// Another fan's order for the same seats.
    pub(crate) fn twin(ledger: &'a L, number: u32, sequence: u64) -> Self {
        let quoted = |seat| QuotedSeat {
            seat: SeatRef { section: SectionId(0), seat: SeatIndex(seat) },
            gross: Minor(1_250),
            discount: Minor(0),
        };
        Self {
            ledger,
            payment: PaymentId(u128::from(number) << 64 | u128::from(sequence)),
            reservation: ReservationId { event: EventId(number), bucket: Bucket(0), incarnation: 0, sequence },
            user: format!("fan-{number}-{sequence}").parse().expect("a user id"),
            seats: vec![quoted(0), quoted(1)],
            currency: Currency::EUR,
            retry_declined: false,
        }
    }

    pub(crate) fn amount(&self) -> Minor {
        Minor(self.seats.iter().map(|seat| seat.net().0).sum())
    }

    pub(crate) fn reference(&self) -> String {
        format!("pi_{}", self.payment)
    }

    pub(crate) fn request(&self) -> BeginPayment {
        let line = |quoted: &QuotedSeat| SeatLine {
            seat: quoted.seat,
            section: "Stalls".into(),
            row: "A".into(),
            label: (quoted.seat.seat.0 + 1).to_string(),
            price: quoted.net(),
        };
        BeginPayment {
            payment: self.payment,
            key: format!("key-{}", self.payment).parse().expect("a key"),
            fingerprint: "content".into(),
            reservation: self.reservation,
            user: self.user.clone(),
            email: Some("fan@example.org".into()),
            method: "card".into(),
            token: None,
            amount: self.amount(),
            currency: self.currency,
            seats: self.seats.iter().map(line).collect(),
            retry_declined: self.retry_declined,
            now: NOW,
        }
    }

    pub(crate) async fn begin(&self) {
        let begun = self.ledger.begin_payment(&self.request()).await.expect("begin");
        assert!(matches!(begun, BeginOutcome::Begun(_)), "{begun:?}");
    }

    /// Begun and known to the provider.
    pub(crate) async fn open(&self) {
        self.begin().await;
        let attached = self.ledger.attach_reference(self.payment, &self.reference(), Some("secret"), NOW).await;
        assert_eq!(attached.expect("attach"), AttachOutcome::Saved);
    }

    /// Captured in full.
    pub(crate) async fn capture(&self) {
        self.open().await;
        self.ledger.record_event(&self.captured(self.amount(), self.currency), NOW).await.expect("record");
    }

    /// Captured and booked.
    pub(crate) async fn book(&self) {
        self.capture().await;
        let settled = self.ledger.settle_paid(self.payment, &self.seats, NOW).await.expect("settle");
        assert!(matches!(settled, SettleOutcome::Booked(_)), "{settled:?}");
    }

    pub(crate) fn refund_order(&self, key: &str, seats: Option<&[SeatRef]>, now: WallMs) -> RefundOrder {
        RefundOrder {
            reservation: self.reservation,
            seats: seats.map(<[SeatRef]>::to_vec),
            reason: RefundReason::Operator,
            operator: format!("operator-{}", self.payment).parse().expect("a user id"),
            key: key.parse().expect("a key"),
            fingerprint: format!("{seats:?}"),
            now,
        }
    }

    /// An operator's wish.
    pub(crate) async fn refund(&self, key: &str, seats: Option<&[SeatRef]>, now: WallMs) -> RefundOutcome {
        self.ledger.request_refund(&self.refund_order(key, seats, now)).await.expect("request")
    }

    pub(crate) fn captured(&self, amount: Minor, currency: Currency) -> ProviderEvent {
        let fact =
            ProviderFact::Captured { reference: self.reference(), amount, currency, payment: Some(self.payment) };
        self.event("captured", fact)
    }

    pub(crate) fn declined(&self, reason: &str) -> ProviderFact {
        let (reference, payment) = (self.reference(), Some(self.payment));
        ProviderFact::Declined { reference, reason: reason.into(), payment }
    }

    pub(crate) fn event(&self, name: &str, fact: ProviderFact) -> ProviderEvent {
        ProviderEvent {
            id: format!("evt_{}_{name}", self.payment),
            kind: name.into(),
            created: NOW,
            fingerprint: format!("{fact:?}"),
            fact,
        }
    }

    pub(crate) async fn record(&self, name: &str, fact: ProviderFact) {
        self.ledger.record_event(&self.event(name, fact), NOW).await.expect("record");
    }

    pub(crate) async fn view(&self) -> PaymentView {
        self.ledger.payment(self.payment).await.expect("read").expect("a payment")
    }

    pub(crate) async fn incident_kinds(&self, subject: &str) -> Vec<String> {
        let open = self.ledger.incidents(later(86_400_000)).await.expect("read");
        open.into_iter().filter(|incident| incident.subject == subject).map(|incident| incident.kind).collect()
    }
}
