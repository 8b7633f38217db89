//! Fans who hold, pay, cancel, give seats back, let holds run out and repeat themselves, through the store's own client, as
//! the API and the settlement do for them. Each asks with the same key until there is an answer, and writes it down.

use super::event::{HOLD_TTL_MS, SEATS, SECTIONS, code, wall_now};
use super::history::{Count, Receipt, Recorder, Told};
use domain::ids::{EventId, PaymentId, PromotionCode, RefundId, ReservationId, SeatIndex, SeatRef, SectionId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::outcome::RefundReason;
use domain::inventory::{Outcome, Refusal, ReservationView, Status};
use domain::money::Currency;
use raft_store::client::{Client, ClientError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// An answer that takes longer, over all attempts, is a broken promise.
const PATIENCE: Duration = Duration::from_secs(120);
/// Before a call without an answer is made again.
const RETRY_MS: Range<u64> = 20..200;
/// Between two visits of a fan.
const REST_MS: Range<u64> = 50..350;
/// A hold that is meant to run out.
const SHORT_MS: Range<u32> = 1_000..3_000;
/// Requests that a fan remembers, to send them again.
const MEMORY: usize = 30;
/// Seats that everybody wants.
const HOT: u32 = 12;

/// The fans; they end when told to.
pub struct Crowd {
    fans: JoinSet<()>,
    stop: Arc<AtomicBool>,
    event: Arc<AtomicU32>,
}

impl Crowd {
    /// That many fans of this event, sharing these clients.
    pub fn gather(count: u64, seed: u64, event: EventId, clients: &[Client], recorder: &Recorder) -> Self {
        let (stop, event) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(event.0)));
        let mut fans = JoinSet::new();
        for (number, client) in (0..count).zip(clients.iter().cycle()) {
            let mut fan = Fan {
                number,
                visits: 0,
                client: client.clone(),
                recorder: recorder.clone(),
                random: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number)),
                asked: Vec::new(),
            };
            let (stop, event) = (stop.clone(), event.clone());
            fans.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if fan.visit(EventId(event.load(Ordering::Relaxed))).await.is_none() {
                        return;
                    }
                    let rest = fan.random.random_range(REST_MS);
                    tokio::time::sleep(Duration::from_millis(rest)).await;
                }
            });
        }
        Self { fans, stop, event }
    }

    /// From now on this event is what everybody wants.
    pub fn turn_to(&self, event: EventId) {
        self.event.store(event.0, Ordering::Relaxed);
    }

    /// Every fan finishes what he is doing and goes home.
    pub async fn go_home(mut self, recorder: &Recorder) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.fans.join_next().await {
            if let Err(error) = ended {
                recorder.complain(format!("a fan's task ended: {error}"));
            }
        }
    }
}

/// A request for a hold and its final answer.
struct Asked {
    event: EventId,
    begin: Begin,
    answer: Result<ReservationId, Refusal>,
}

struct Fan {
    number: u64,
    visits: u64,
    client: Client,
    recorder: Recorder,
    random: StdRng,
    asked: Vec<Asked>,
}

/// `None`: a promise was broken, which was complained about.
type Goes<T> = Option<T>;

impl Fan {
    async fn visit(&mut self, event: EventId) -> Goes<()> {
        self.visits += 1;
        if let Some(receipt) = self.hold(event).await? {
            match self.random.random_range(0..100) {
                0..50 => self.pay(receipt).await?,
                50..70 => self.cancel(receipt).await?,
                70..75 => self.look(receipt.id).await?,
                _ if self.left_ms(&receipt) <= u64::from(SHORT_MS.end) => self.outstay(receipt).await?,
                _ => {}
            }
        }
        if self.random.random_bool(0.25) {
            self.repeat().await?;
        }
        Some(())
    }

    /// Two seats or so, beside each other or in several sections; some of them wanted by many.
    fn cart(&mut self) -> Vec<SeatRef> {
        let random = &mut self.random;
        let (section, first) = match random.random_bool(0.3) {
            true => (0, random.random_range(0..HOT)),
            false => (random.random_range(0..SECTIONS), random.random_range(0..SEATS)),
        };
        let across = random.random_bool(0.5);
        let seats: BTreeSet<SeatRef> = (0..random.random_range(1..=3u16))
            .map(|more| SeatRef {
                section: SectionId(if across { (section + more) % SECTIONS } else { section }),
                seat: SeatIndex((first + u32::from(more)) % SEATS),
            })
            .collect();
        seats.into_iter().collect()
    }

    fn wish(&mut self) -> Begin {
        let name = format!("{}-{}", self.number, self.visits);
        let promotion: Option<PromotionCode> = self.random.random_bool(0.1).then(code);
        let short = self.random.random_bool(0.15).then(|| self.random.random_range(SHORT_MS));
        Begin {
            key: format!("key-{name}").parse().expect("a key"),
            fingerprint: u128::from(self.visits).to_le_bytes(),
            user: format!("fan-{name}").parse().expect("a user"),
            cart: Cart::Chosen { seats: self.cart(), places: Vec::new() },
            promotion,
            pass: Some(format!("pass-{name}").parse().expect("a pass")),
            sent_at: wall_now(),
            hold_ttl_ms: short,
            purpose: Purpose::Checkout,
            note: None,
        }
    }

    async fn hold(&mut self, event: EventId) -> Goes<Option<Receipt>> {
        let begin = self.wish();
        let sent_ms = self.recorder.now_ms();
        let ends_after_ms = sent_ms + u64::from(begin.hold_ttl_ms.unwrap_or(HOLD_TTL_MS));
        let client = self.client.clone();
        let ask = || client.begin(event, begin.clone());
        let (held, answer) = match self.insist("a hold", ask).await? {
            Outcome::Reservation(view) => {
                let mut receipt = Receipt::of(&view, ends_after_ms);
                match view.status {
                    Status::Held => self.recorder.count(Count::Held),
                    // It ran out before its answer came through.
                    Status::Expired if self.recorder.now_ms() >= ends_after_ms => receipt.told = Told::Expired,
                    status => return self.broken(&format!("the hold {} is {status:?}", view.id)),
                }
                self.recorder.note(receipt.clone());
                ((receipt.told == Told::Held).then_some(receipt), Ok(view.id))
            }
            Outcome::Refused(refusal) => {
                self.recorder.count(Count::Refused);
                match &refusal {
                    Refusal::SeatsTaken(_) | Refusal::PrepareTimeout | Refusal::PromotionExhausted => {}
                    other => return self.broken(&format!("a hold was refused: {other:?}")),
                }
                (None, Err(refusal))
            }
            Outcome::Advised(Refusal::SeatsTaken(_) | Refusal::PromotionExhausted) => return Some(None),
            other => return self.broken(&format!("a hold was answered {other:?}")),
        };
        if self.asked.len() == MEMORY {
            let forgotten = self.random.random_range(0..MEMORY);
            self.asked.swap_remove(forgotten);
        }
        self.asked.push(Asked { event, begin, answer });
        Some(held)
    }

    async fn pay(&mut self, receipt: Receipt) -> Goes<()> {
        let (id, amount) = (receipt.id, receipt.total);
        let payment = PaymentId(u128::from(self.number) << 64 | u128::from(self.visits));
        let client = self.client.clone();
        if self.random.random_bool(0.2) {
            let extended = self.insist("an extension", || client.extend(id, payment)).await?;
            self.agrees("an extension", id, &extended)?;
        }
        let mut pays = 1 + u32::from(self.random.random_bool(0.2));
        let mut receipt = receipt;
        while pays > 0 {
            pays -= 1;
            match self.insist("a payment", || client.pay(id, payment, amount, Currency::EUR)).await? {
                Outcome::Reservation(view) if view.status == Status::Paid => {
                    let first = receipt.told == Told::Held;
                    receipt.told = Told::Paid(payment);
                    self.recorder.count(if first { Count::Paid } else { Count::Repeated });
                    self.recorder.note(receipt.clone());
                    self.view_agrees("a payment", &view)?;
                }
                // What was acknowledged as paid never is.
                Outcome::MustRefund(RefundReason::Expired)
                    if receipt.told == Told::Held && self.may_be_over(&receipt) =>
                {
                    self.ran_out(receipt);
                    return Some(());
                }
                other => return self.broken(&format!("the payment of {id} was answered {other:?}")),
            }
        }
        if self.random.random_bool(0.2) { self.give_back(receipt).await } else { Some(()) }
    }

    /// The refund of a part of a sale, as the ledger's outbox sends it: at least once.
    async fn give_back(&mut self, receipt: Receipt) -> Goes<()> {
        let (id, client) = (receipt.id, self.client.clone());
        let count = self.random.random_range(1..=receipt.seats.len());
        let seats = receipt.seats[..count].to_vec();
        let refund = RefundId(u128::from(self.number) << 64 | u128::from(self.visits));
        for time in 0..=u32::from(self.random.random_bool(0.3)) {
            match self.insist("a refund", || client.refund(refund, id, seats.clone())).await? {
                Outcome::Done if time == 0 => {
                    let returned = seats.iter().copied().collect();
                    self.recorder.note(Receipt { returned, refunds: 1, ..receipt.clone() });
                    self.recorder.count(Count::Refunded);
                }
                Outcome::Done => self.recorder.count(Count::Repeated),
                other => return self.broken(&format!("the refund of {id} was answered {other:?}")),
            }
        }
        Some(())
    }

    async fn cancel(&mut self, receipt: Receipt) -> Goes<()> {
        let (id, client) = (receipt.id, self.client.clone());
        match self.insist("a cancellation", || client.cancel(id, None)).await? {
            Outcome::Reservation(view) if view.status == Status::Cancelled => {
                self.recorder.note(Receipt { told: Told::Cancelled, ..receipt });
                self.recorder.count(Count::Cancelled);
                self.view_agrees("a cancellation", &view)
            }
            Outcome::Reservation(view) if view.status == Status::Expired && self.may_be_over(&receipt) => {
                self.ran_out(receipt);
                Some(())
            }
            other => self.broken(&format!("the cancellation of {id} was answered {other:?}")),
        }
    }

    /// Stays away until the hold may have run out, and looks.
    async fn outstay(&mut self, receipt: Receipt) -> Goes<()> {
        tokio::time::sleep(Duration::from_millis(self.left_ms(&receipt))).await;
        self.look(receipt.id).await
    }

    async fn look(&mut self, id: ReservationId) -> Goes<()> {
        let client = self.client.clone();
        match self.insist("a look", || client.reservation(id)).await? {
            Some(view) => self.view_agrees("a look", &view),
            None => self.broken(&format!("{id} was acknowledged and is gone")),
        }
    }

    /// An old request once more, under its key: the same answer, as far as it still stands.
    async fn repeat(&mut self) -> Goes<()> {
        if self.asked.is_empty() {
            return Some(());
        }
        let Asked { event, begin, answer } = self.asked.swap_remove(self.random.random_range(0..self.asked.len()));
        let client = self.client.clone();
        let outcome = self.insist("a repeated hold", || client.begin(event, begin.clone())).await?;
        self.recorder.count(Count::Repeated);
        match (&answer, &outcome) {
            (Ok(id), Outcome::Reservation(view)) if view.id == *id => self.view_agrees("a repeated hold", view)?,
            (Err(refusal), Outcome::Refused(again)) if refusal == again => {}
            _ => return self.broken(&format!("{} was answered {answer:?}, and again {outcome:?}", begin.key)),
        }
        self.asked.push(Asked { event, begin, answer });
        Some(())
    }

    fn left_ms(&self, receipt: &Receipt) -> u64 {
        receipt.ends_after_ms.saturating_sub(self.recorder.now_ms())
    }

    fn may_be_over(&self, receipt: &Receipt) -> bool {
        self.left_ms(receipt) == 0
    }

    fn ran_out(&self, receipt: Receipt) {
        self.recorder.note(Receipt { told: Told::Expired, ..receipt });
        self.recorder.count(Count::Expired);
    }

    fn agrees(&self, what: &str, id: ReservationId, outcome: &Outcome) -> Goes<()> {
        match outcome {
            Outcome::Reservation(view) if view.id == id => self.view_agrees(what, view),
            other => self.broken(&format!("{what} of {id} was answered {other:?}")),
        }
    }

    /// A view breaks nothing that was told; that it ran out is written down.
    fn view_agrees(&self, what: &str, view: &ReservationView) -> Goes<()> {
        let Some(receipt) = self.recorder.receipt(view.id) else {
            return self.broken(&format!("{what}: nobody was told of {}", view.id));
        };
        if let Some(fault) = receipt.broken_by(view, self.recorder.now_ms()) {
            return self.broken(&format!("{what}: {fault}"));
        }
        if (receipt.told, view.status) == (Told::Held, Status::Expired) {
            self.ran_out(receipt);
        }
        Some(())
    }

    fn broken<T>(&self, complaint: &str) -> Goes<T> {
        self.recorder.complain(format!("fan {}, visit {}: {complaint}", self.number, self.visits));
        None
    }

    /// Asks until there is an answer. What is still being prepared is asked for again.
    async fn insist<T: Settled, F>(&mut self, what: &str, mut ask: impl FnMut() -> F) -> Goes<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let begun = Instant::now();
        loop {
            let last = match ask().await {
                Ok(answer) if answer.is_settled() => return Some(answer),
                Ok(_) => "still preparing".to_owned(),
                Err(error) => error.to_string(),
            };
            self.recorder.unanswered(what, &last);
            if begun.elapsed() > PATIENCE {
                return self.broken(&format!("{what} had no answer within {} s: {last}", PATIENCE.as_secs()));
            }
            let rest = self.random.random_range(RETRY_MS);
            tokio::time::sleep(Duration::from_millis(rest)).await;
        }
    }
}

/// An answer that may not be one yet.
trait Settled {
    fn is_settled(&self) -> bool;
}

impl Settled for Outcome {
    fn is_settled(&self) -> bool {
        match self {
            Outcome::Preparing => false,
            Outcome::Reservation(view) => view.status != Status::Preparing,
            _ => true,
        }
    }
}

impl Settled for Option<ReservationView> {
    fn is_settled(&self) -> bool {
        true
    }
}
