//! The judge must be able to condemn: made-up stores that have broken a promise.

use super::*;
use domain::ids::{Bucket, PaymentId, SeatIndex, SectionId};
use domain::inventory::record::QuotedSeat;
use domain::money::{Currency, Minor};
use domain::time::{Ticks, WallMs};

const EVENT: EventId = EventId(1);
const ENDS_AFTER_MS: u64 = 1_000;

fn id(sequence: u64) -> ReservationId {
    ReservationId { event: EVENT, bucket: Bucket(0), incarnation: 0, sequence }
}

fn seat(number: u32) -> SeatRef {
    SeatRef { section: SectionId(0), seat: SeatIndex(number) }
}

fn code() -> PromotionCode {
    "EARLY".parse().expect("a code")
}

/// A fan holds two seats, another bought two with a code and gave one back, a third cancelled.
struct Day {
    history: History,
    world: World,
}

impl Day {
    fn new() -> Self {
        let mut day = Self { history: History::new(), world: World { now_ms: 500, ..World::default() } };
        day.add(1, &[0, 1], Status::Held, Told::Held, &[Said::Held]);
        day.add(2, &[2, 3], Status::Paid, Told::Paid(PaymentId(2)), &[Said::Held, Said::Paid, Said::Released]);
        day.add(3, &[2], Status::Cancelled, Told::Cancelled, &[Said::Held, Said::Cancelled]);
        day.receipt(2).returned = [seat(3)].into();
        day.receipt(2).refunds = 1;
        day.record(2).promotion = Some(code());
        day.receipt(2).promotion = Some(code());
        day.world.owners = [
            ((EVENT, seat(0)), (id(1), SeatState::Held)),
            ((EVENT, seat(1)), (id(1), SeatState::Held)),
            ((EVENT, seat(2)), (id(2), SeatState::Sold)),
        ]
        .into();
        day.world.uses = [((EVENT, code()), (1, [id(2)].into()))].into();
        day
    }

    fn add(&mut self, sequence: u64, seats: &[u32], status: Status, told: Told, said: &[Said]) {
        let seats: Vec<SeatRef> = seats.iter().map(|number| seat(*number)).collect();
        let quoted = |seat: &SeatRef| QuotedSeat { seat: *seat, gross: Minor(50), discount: Minor(0) };
        let view = ReservationView {
            id: id(sequence),
            user: format!("fan-{sequence}").parse().expect("a user"),
            status,
            seats: seats.iter().map(quoted).collect(),
            total: Minor(50 * seats.len() as i64),
            currency: Currency::EUR,
            promotion: None,
            deadline: Ticks(0),
            remaining_ms: 0,
            payment: matches!(status, Status::Paid).then_some(PaymentId(u128::from(sequence))),
            together: false,
            created_at: WallMs(0),
            ended_at: None,
            note: None,
        };
        let receipt = Receipt { told, ..Receipt::of(&view, ENDS_AFTER_MS) };
        self.history.insert(view.id, receipt);
        self.world.records.insert(view.id, view);
        self.world.said.insert(id(sequence), said.to_vec());
    }

    fn record(&mut self, sequence: u64) -> &mut ReservationView {
        self.world.records.get_mut(&id(sequence)).expect("a record")
    }

    fn receipt(&mut self, sequence: u64) -> &mut Receipt {
        self.history.get_mut(&id(sequence)).expect("a receipt")
    }

    #[track_caller]
    fn has(&self, fault: &Fault) {
        let faults = check(&self.history, &self.world);
        assert!(faults.contains(fault), "{fault} is not among {faults:?}");
    }
}

#[test]
fn a_clean_day_has_no_fault() {
    let mut day = Day::new();
    assert_eq!(check(&day.history, &day.world), []);
    // A refused cart leaves a record that nobody asks for.
    day.add(4, &[], Status::Aborted, Told::Held, &[]);
    day.history.remove(&id(4));
    assert_eq!(check(&day.history, &day.world), []);
}

#[test]
fn a_lost_hold_is_seen() {
    let mut day = Day::new();
    day.world.records.remove(&id(1));
    day.has(&Fault::Lost(id(1), Told::Held));
    let mut day = Day::new();
    day.record(1).status = Status::Cancelled;
    day.has(&Fault::Broken(id(1), Told::Held, Status::Cancelled));
}

#[test]
fn a_lost_sale_is_seen() {
    let mut day = Day::new();
    day.record(2).status = Status::Held;
    day.has(&Fault::Broken(id(2), Told::Paid(PaymentId(2)), Status::Held));
    let mut day = Day::new();
    day.record(2).payment = Some(PaymentId(77));
    day.has(&Fault::Broken(id(2), Told::Paid(PaymentId(2)), Status::Paid));
    let mut day = Day::new();
    let at = (EVENT, seat(2));
    day.world.owners.insert(at, (id(2), SeatState::Held));
    let (section, records) = (Some((id(2), SeatState::Held)), Some((id(2), SeatState::Sold)));
    day.has(&Fault::Disagreed { event: EVENT, seat: seat(2), section, records });
    day.world.owners.remove(&at);
    day.has(&Fault::Disagreed { event: EVENT, seat: seat(2), section: None, records });
}

#[test]
fn two_owners_are_seen() {
    let mut day = Day::new();
    day.add(5, &[1, 9], Status::Held, Told::Held, &[Said::Held]);
    day.has(&Fault::TwoOwners(EVENT, seat(1), [id(1), id(5)]));
}

#[test]
fn a_seat_that_was_given_back_and_is_still_owned_is_seen() {
    let mut day = Day::new();
    let section = Some((id(2), SeatState::Sold));
    day.world.owners.insert((EVENT, seat(3)), (id(2), SeatState::Sold));
    day.has(&Fault::Disagreed { event: EVENT, seat: seat(3), section, records: None });
}

#[test]
fn a_hold_that_ran_out_early_is_seen_and_one_in_time_is_not() {
    let mut day = Day::new();
    day.record(1).status = Status::Expired;
    day.world.said.insert(id(1), vec![Said::Held, Said::Expired]);
    day.world.owners.retain(|_, (owner, _)| *owner != id(1));
    day.has(&Fault::Early(id(1)));
    day.world.now_ms = ENDS_AFTER_MS;
    assert_eq!(check(&day.history, &day.world), []);
}

#[test]
fn other_seats_than_acknowledged_are_seen() {
    let mut day = Day::new();
    day.record(1).seats.pop();
    day.has(&Fault::Changed(id(1)));
    let mut day = Day::new();
    day.record(1).total = Minor(1);
    day.has(&Fault::Changed(id(1)));
}

#[test]
fn holds_that_nobody_was_told_of_are_seen() {
    let mut day = Day::new();
    day.history.remove(&id(1));
    day.has(&Fault::Stranger(id(1), Status::Held));
    day.record(1).status = Status::Preparing;
    day.has(&Fault::Unfinished(id(1)));
}

#[test]
fn a_promotion_that_was_used_too_often_or_by_nobody_is_seen() {
    let mut day = Day::new();
    day.world.uses = [((EVENT, code()), (1, [id(2), id(3)].into()))].into();
    day.has(&Fault::Promotion(EVENT, code(), "2 uses of 1".into()));
    day.has(&Fault::Promotion(EVENT, code(), format!("uses and reservations differ in {}", id(3))));
}

#[test]
fn a_feed_that_forgot_or_repeated_is_seen() {
    for said in [vec![Said::Held, Said::Released], vec![Said::Held, Said::Paid, Said::Paid, Said::Released]] {
        let mut day = Day::new();
        day.world.said.insert(id(2), said.clone());
        day.has(&Fault::Untold(id(2), Status::Paid, said));
    }
}

#[test]
fn a_feed_that_tells_of_what_never_was_is_seen() {
    let mut day = Day::new();
    day.world.said.insert(id(77), vec![Said::Held]);
    day.has(&Fault::Rumour(id(77), vec![Said::Held]));
    let mut day = Day::new();
    day.add(4, &[], Status::Aborted, Told::Held, &[Said::Held]);
    day.has(&Fault::Untold(id(4), Status::Aborted, vec![Said::Held]));
}
