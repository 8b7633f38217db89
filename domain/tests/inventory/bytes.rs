//! The bytes of the log, pinned: a change here makes old logs unreadable. Variants are only ever appended.

use crate::fixture::{begin, chosen};
use crate::world::EVENT;
use domain::ids::{Bucket, Epoch, Partition, PaymentId, ReservationId, SeatIndex, SectionId};
use domain::inventory::command::{
    BestAvailable, Cart, Checkout, Command, Done, Entry, Manage, Meta, Participate, Purpose, Request, Take,
};
use domain::inventory::outcome::RefundReason;
use domain::inventory::record::EventStatus;
use domain::inventory::{Outcome, Refusal};
use domain::money::{Currency, Minor};
use domain::time::{Stamp, WallMs};

fn hex<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> String {
    let bytes = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value, "it does not read back");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id() -> ReservationId {
    ReservationId { event: EVENT, bucket: Bucket(2), incarnation: 0, sequence: 300 }
}

fn judge(command: Checkout) -> Request {
    Request { partition: id().partition(), command: Command::Checkout(command) }
}

fn participant(command: Participate) -> Request {
    let partition = Partition::Seats { event: EVENT, section: SectionId(4) };
    Request { partition, command: Command::Participate(command) }
}

/// What each of these is in the log, one a line.
fn log() -> Vec<(&'static str, String)> {
    let mut opening = begin("al", "k", chosen(&[(4, 7)]), 9);
    opening.fingerprint = [0xab; 16];
    let (reservation, payment) = (id(), PaymentId(5));
    let pay = Checkout::Pay { reservation, payment, amount: Minor(5_000), currency: Currency::EUR };
    let wish =
        BestAvailable { sections: vec![SectionId(1)], count: 2, contiguous: true, accessible: 0, max_price: None };
    let user = "al".parse().unwrap();
    let prepare = Participate::Prepare { reservation, user, take: Take::Best(wish), purpose: Purpose::Checkout };
    let acked = Checkout::Ack { reservation, participant: Partition::Meta, done: Done::Returned(vec![SeatIndex(1)]) };
    let mark = Participate::Watermark { bucket: Bucket(2), incarnation: 0, below: 300 };
    let feed = Request { partition: Partition::Meta, command: Command::Manage(Manage::AckFeed { upto: 3 }) };
    let closed = Meta::SetStatus { event: EVENT, status: EventStatus::Closed };
    let stamp = Stamp { elapsed_ms: 1_000, wall: WallMs(1_800_000_000_000) };
    let places = Cart::Chosen { seats: Vec::new(), places: vec![(SectionId(1), 2)] };
    vec![
        ("begin", hex(&judge(Checkout::Begin(Box::new(opening))))),
        ("pay", hex(&judge(pay))),
        ("cancel", hex(&judge(Checkout::Cancel { reservation, user: None }))),
        ("ledger ack", hex(&judge(Checkout::LedgerAck { reservation }))),
        ("ack", hex(&judge(acked))),
        ("prepare", hex(&participant(prepare))),
        ("sell", hex(&participant(Participate::Sell { reservation }))),
        ("watermark", hex(&participant(mark))),
        ("ack feed", hex(&feed)),
        ("set status", hex(&closed)),
        ("tick", hex(&Entry { stamp, requests: Vec::new() })),
        ("places", hex(&places)),
        ("refused", hex(&Outcome::Refused(Refusal::KeyReused))),
        ("must refund", hex(&Outcome::MustRefund(RefundReason::Expired))),
        ("moved", hex(&Outcome::Moved { epoch: Epoch(3) })),
    ]
}

const PINNED: &str = "\
begin: 0201020000016babababababababababababababababab02616c0001040700000009000000
pay: 0201020004010200ac0205904e03455552
cancel: 0201020005010200ac0200
ledger ack: 0201020008010200ac02
ack: 0201020007010200ac0200020101
prepare: 0101040100010200ac0202616c0201010201000000
sell: 0101040102010200ac02
watermark: 01010401040200ac02
ack feed: 00020103
set status: 010101
tick: e80780a0f1c2b13400
places: 0000010102
refused: 0105
must refund: 0300
moved: 0703
";

#[test]
fn the_log_has_these_bytes() {
    let written: String = log().iter().map(|(name, bytes)| format!("{name}: {bytes}\n")).collect();
    assert_eq!(written, PINNED, "old logs would not be read as they were meant:\n{written}");
}
