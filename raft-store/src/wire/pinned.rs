//! Pinned bytes. A failure here means that old logs, snapshots and other versions' frames could not be read any more:
//! append variants, never insert, reorder or change them. New lines are printed by the failing test.

use super::frames::{self, Answer as Framed, AnswerFrame, Ask, AskFrame, answer, ask};
use super::*;
use domain::ids::*;
use domain::inventory::command::*;
use domain::inventory::outcome::{Alternative, RefundReason};
use domain::inventory::query::{SeatMap, Stock};
use domain::inventory::record::{EventStatus, QuotedSeat};
use domain::inventory::{Answer, Fact, FeedEntry, Outcome, Query, Refusal, ReservationView, Status};
use domain::money::{Currency, Minor};
use domain::time::{Stamp, Ticks, WallMs};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Debug;

const PINNED: &str = include_str!("pinned.txt");

/// What is pinned against what is made now.
#[derive(Default)]
struct Pins(BTreeMap<String, String>);

impl Pins {
    /// A value's bytes, which must also read back as the value.
    fn value<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str, value: &T) {
        let bytes = encode(value);
        assert_eq!(decode::<T>("value", &bytes).as_ref(), Ok(value), "{name} does not read back");
        self.0.insert(name.to_owned(), hex(&bytes));
    }

    /// A frame's bytes, which must also read back as the frame.
    fn frame<M: Message + Default + PartialEq + Debug>(&mut self, name: &str, frame: &M) {
        let bytes = frame.encode_to_vec();
        assert_eq!(M::decode(bytes.as_slice()).as_ref(), Ok(frame), "{name} does not read back");
        self.0.insert(name.to_owned(), hex(&bytes));
    }

    fn check(self) {
        let pinned: BTreeMap<String, String> = PINNED
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, bytes)| (name.to_owned(), bytes.to_owned()))
            .collect();
        let made: Vec<String> = self.0.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
        assert!(pinned == self.0, "the bytes have changed; now they are\n{}", made.join("\n"));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id() -> ReservationId {
    ReservationId { event: EventId(7), bucket: Bucket(3), incarnation: 1, sequence: 300 }
}

fn seats() -> Partition {
    Partition::Seats { event: EventId(7), section: SectionId(2) }
}

fn promotion() -> Partition {
    Partition::Promotion { event: EventId(7), code: "EARLY".parse().unwrap() }
}

fn seat(seat: u32) -> SeatRef {
    SeatRef { section: SectionId(2), seat: SeatIndex(seat) }
}

fn quoted() -> QuotedSeat {
    QuotedSeat { seat: seat(5), gross: Minor(5_000), discount: Minor(500) }
}

fn user() -> UserId {
    "alice".parse().unwrap()
}

fn best() -> BestAvailable {
    BestAvailable {
        sections: vec![SectionId(2), SectionId(1)],
        count: 2,
        contiguous: true,
        accessible: 0,
        max_price: Some(Minor(9_000)),
    }
}

fn begin(cart: Cart, purpose: Purpose) -> Command {
    Command::Checkout(Checkout::Begin(Box::new(Begin {
        key: "key-1".parse().unwrap(),
        fingerprint: *b"0123456789abcdef",
        user: user(),
        cart,
        promotion: Some("EARLY".parse().unwrap()),
        pass: Some("pass-1".parse().unwrap()),
        sent_at: WallMs(1_700_000_000_000),
        hold_ttl_ms: Some(60_000),
        purpose,
        note: None,
    })))
}

fn view() -> ReservationView {
    ReservationView {
        id: id(),
        user: user(),
        status: Status::Held,
        seats: vec![quoted()],
        total: Minor(4_500),
        currency: Currency::EUR,
        promotion: None,
        deadline: Ticks(600_000),
        remaining_ms: 599_000,
        payment: None,
        together: true,
        created_at: WallMs(1_700_000_000_000),
        ended_at: None,
        note: None,
    }
}

fn checkouts() -> Vec<(&'static str, Command)> {
    let reservation = id();
    let chosen = Cart::Chosen { seats: vec![seat(5), seat(6)], places: vec![(SectionId(9), 2)] };
    let yes = Vote::Yes { seats: vec![quoted()], discount_bps: 1_000, together: false };
    let checkout = |name, checkout| (name, Command::Checkout(checkout));
    vec![
        ("begin-chosen", begin(chosen, Purpose::Checkout)),
        ("begin-best", begin(Cart::Best(best()), Purpose::Offer)),
        ("begin-block", begin(Cart::Chosen { seats: vec![seat(1)], places: Vec::new() }, Purpose::Block)),
        checkout("vote", Checkout::Vote { reservation, participant: seats(), vote: yes }),
        checkout(
            "vote-no",
            Checkout::Vote { reservation, participant: promotion(), vote: Vote::No(Refusal::PromotionExhausted) },
        ),
        checkout("accept", Checkout::Accept { reservation, user: user() }),
        checkout("extend", Checkout::Extend { reservation, payment: PaymentId(1 << 100) }),
        checkout(
            "pay",
            Checkout::Pay { reservation, payment: PaymentId(1 << 100), amount: Minor(4_500), currency: Currency::EUR },
        ),
        checkout("cancel", Checkout::Cancel { reservation, user: None }),
        checkout("refund", Checkout::Refund { refund: RefundId(3), reservation, seats: vec![seat(5)] }),
        checkout("ack", Checkout::Ack { reservation, participant: seats(), done: Done::Sold }),
        checkout(
            "ack-returned",
            Checkout::Ack { reservation, participant: seats(), done: Done::Returned(vec![SeatIndex(5)]) },
        ),
        checkout("ledger-ack", Checkout::LedgerAck { reservation }),
        checkout("marked", Checkout::Marked { participant: seats(), incarnation: 1, below: 299 }),
    ]
}

fn participants() -> Vec<(&'static str, Command)> {
    let reservation = id();
    let participate = |name, participate| (name, Command::Participate(participate));
    let prepare = |name, take| {
        let purpose = Purpose::Checkout;
        participate(name, Participate::Prepare { reservation, user: user(), take, purpose })
    };
    vec![
        prepare("prepare-seats", Take::Seats(vec![SeatIndex(5), SeatIndex(6)])),
        prepare("prepare-places", Take::Places(2)),
        prepare("prepare-best", Take::Best(best())),
        prepare("prepare-use", Take::Use),
        participate("release", Participate::Release { reservation }),
        participate("sell", Participate::Sell { reservation }),
        participate("return", Participate::Return { reservation, seats: vec![SeatIndex(5)] }),
        participate("watermark", Participate::Watermark { bucket: Bucket(3), incarnation: 1, below: 300 }),
    ]
}

fn others() -> Vec<(&'static str, Command)> {
    let (attempt, epoch) = (Attempt(4), Epoch(5));
    let rules = CheckoutRules {
        version: 2,
        currency: Currency::EUR,
        hold_ttl_ms: 600_000,
        user_limit: 6,
        on_sale_at: WallMs(1_700_000_000_000),
        status: EventStatus::Scheduled,
        incarnation: 1,
    };
    let manage = |name, manage| (name, Command::Manage(manage));
    let meta = |name, meta| (name, Command::Meta(meta));
    let nodes = BTreeMap::from([(NodeId(1), "127.0.0.1:7001".to_owned())]);
    vec![
        manage("create-checkouts", Manage::Create(Box::new(Spec::Checkouts(rules)))),
        manage("create-promotion", Manage::Create(Box::new(Spec::Promotion { discount_bps: 1_000, cap: 50 }))),
        manage("ack-feed", Manage::AckFeed { upto: 12 }),
        manage("freeze", Manage::Freeze { attempt }),
        manage("unfreeze", Manage::Unfreeze { attempt }),
        manage("install", Manage::Install { attempt, epoch, exported: vec![1, 2, 3] }),
        manage("activate", Manage::Activate { attempt }),
        manage("drop", Manage::Drop { attempt }),
        manage("restore", Manage::Restore { state: vec![7, 8] }),
        meta("set-status", Meta::SetStatus { event: EventId(7), status: EventStatus::Closed }),
        meta("register-group", Meta::RegisterGroup { group: GroupId(1), nodes: nodes.clone() }),
        meta("move-begin", Meta::MoveBegin { partition: seats(), to: GroupId(2) }),
        meta("move-commit", Meta::MoveCommit { partition: seats(), attempt }),
        meta("move-abort", Meta::MoveAbort { partition: promotion(), attempt }),
        meta("register-node", Meta::RegisterNode { node: NodeId(3), life: 5 }),
        meta("move-done", Meta::MoveDone { partition: seats(), attempt }),
        meta("reserve-group", Meta::ReserveGroup { group: GroupId(3), nodes }),
    ]
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    let refused = |name, refusal| (name, Outcome::Refused(refusal));
    vec![
        ("outcome-reservation", Outcome::Reservation(Box::new(view()))),
        ("outcome-advised", Outcome::Advised(Refusal::SeatsTaken(vec![seat(5)]))),
        refused("outcome-places", Refusal::PlacesTaken { section: SectionId(9), left: 1 }),
        refused(
            "outcome-no-match",
            Refusal::NoMatchingSeats {
                alternatives: vec![Alternative { section: SectionId(2), free: 9, largest_together: 3 }],
            },
        ),
        refused("outcome-open", Refusal::CheckoutOpen(id())),
        refused("outcome-reused", Refusal::KeyReused),
        refused("outcome-limit", Refusal::TicketLimit { limit: 6, has: 5 }),
        refused("outcome-pass", Refusal::PassUsed),
        refused("outcome-on-sale", Refusal::NotOnSale { on_sale_at: WallMs(5) }),
        refused("outcome-gone", Refusal::ParticipantGone),
        ("outcome-refund", Outcome::MustRefund(RefundReason::AmountMismatch)),
        ("outcome-preparing", Outcome::Preparing),
        ("outcome-unknown", Outcome::Unknown),
        ("outcome-stale", Outcome::Stale { floor: WallMs(9) }),
        ("outcome-moved", Outcome::Moved { epoch: Epoch(5) }),
        ("outcome-done", Outcome::Done),
        ("outcome-overloaded", Outcome::Overloaded),
        ("outcome-another-life", Outcome::AnotherLife),
    ]
}

#[test]
fn bytes_of_the_domain_and_of_frames_stay_what_they_are() {
    let mut pins = Pins::default();
    for (name, command) in checkouts().into_iter().chain(participants()).chain(others()) {
        pins.value(name, &command);
    }
    for (name, outcome) in outcomes() {
        pins.value(name, &outcome);
    }
    let stamp = Stamp { elapsed_ms: 17, wall: WallMs(1_700_000_000_000) };
    let request =
        Request { partition: id().partition(), command: Command::Checkout(Checkout::LedgerAck { reservation: id() }) };
    pins.value("entry", &Entry { stamp, requests: vec![request.clone()] });
    pins.value("feed-entry", &FeedEntry { position: 3, at: WallMs(4), fact: Fact::Held(Box::new(view())) });
    pins.value("query-reservation", &(seats(), Query::Reservation(id())));
    pins.value("query-feed", &(Partition::Meta, Query::Feed { after: 3, max: 10 }));
    pins.value("query-moves", &Query::Moves);
    let (user, key) = ("al".parse().unwrap(), "k".parse().unwrap());
    pins.value("query-reserved", &Query::Reserved);
    pins.value("query-answered", &Query::Answered { user, key, fingerprint: [0xab; 16] });
    pins.value("answer-map", &Answer::SeatMap(SeatMap { version: 9, count: 5, packed: vec![0b0001_1011, 0] }));
    pins.value("answer-stock", &Answer::Stock(Stock { free: 1, held: 2, sold: 3, blocked: 4 }));
    let nodes = BTreeMap::from([(NodeId(1), "n1:1".to_owned())]);
    pins.value("answer-reserved", &Answer::Reserved(BTreeMap::from([(GroupId(3), nodes)])));
    pins.value("answer-moves", &Answer::Moves(Vec::new()));
    pins.value("answer-answered", &Answer::Answered(Some(Box::new(Outcome::Refused(Refusal::KeyReused)))));
    pins.frame(
        "frame-ask",
        &AskFrame {
            asks: vec![
                Ask { id: 1, group: 2, what: Some(ask::What::Request(encode(&request))) },
                Ask {
                    id: 2,
                    group: 0,
                    what: Some(ask::What::Read(frames::Read {
                        question: encode(&(seats(), Query::SeatMap)),
                        linearizable: false,
                        min_version: 9,
                    })),
                },
            ],
        },
    );
    let framed = |id, what| Framed { id, what: Some(what) };
    pins.frame(
        "frame-answer",
        &AnswerFrame {
            answers: vec![
                framed(1, answer::What::Outcome(encode(&Outcome::Done))),
                framed(2, answer::What::NotLeader(frames::NotLeader { node: 3, address: "h:1".into() })),
                framed(3, answer::What::Overloaded(frames::Overloaded { retry_after_ms: 250 })),
                framed(4, answer::What::Behind(frames::Behind { version: 8 })),
            ],
        },
    );
    pins.frame(
        "frame-peer",
        &frames::PeerCall {
            group: 1,
            call: 1,
            body: vec![1, 2].into(),
            to: 3,
            from: 2,
            from_life: vec![9].into(),
            to_life: vec![8].into(),
        },
    );
    pins.check();
}

#[test]
fn what_is_left_over_or_cut_off_is_refused() {
    let bytes = encode(&Outcome::Stale { floor: WallMs(1_000_000) });
    assert!(decode::<Outcome>("outcome", &bytes[..bytes.len() - 1]).is_err());
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode::<Outcome>("outcome", &longer).unwrap_err().to_string(), "cannot read outcome: 1 bytes too many");
    assert!(decode::<Outcome>("outcome", &[200]).is_err(), "an unknown variant");
}
