//! What fans were told, as they wrote it down the moment they were told.

use domain::ids::{PaymentId, PromotionCode, ReservationId, SeatRef};
use domain::inventory::ReservationView;
use domain::money::Minor;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Calls without an answer that are remembered for who looks for the reason.
const UNANSWERED_KEPT: usize = 30;

/// The last final word about a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is held.
    Held,
    /// It is sold, by this payment.
    Paid(PaymentId),
    /// It was cancelled.
    Cancelled,
    /// It ran out.
    Expired,
}

/// One reservation as its fan knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Which.
    pub id: ReservationId,
    /// Its seats, ascending.
    pub seats: Vec<SeatRef>,
    /// What they cost.
    pub total: Minor,
    /// The code that was claimed with them.
    pub promotion: Option<PromotionCode>,
    /// It cannot have run out before, in milliseconds of the run.
    pub ends_after_ms: u64,
    /// The last word.
    pub told: Told,
    /// Seats of a sale whose return was acknowledged.
    pub returned: BTreeSet<SeatRef>,
    /// Acknowledged refunds that gave back any seat.
    pub refunds: usize,
}

impl Receipt {
    /// Of a hold that was just granted.
    pub fn of(view: &ReservationView, ends_after_ms: u64) -> Self {
        Self {
            id: view.id,
            seats: view.seats.iter().map(|quoted| quoted.seat).collect(),
            total: view.total,
            promotion: view.promotion.clone(),
            ends_after_ms,
            told: Told::Held,
            returned: BTreeSet::new(),
            refunds: 0,
        }
    }
}

/// Everything that fans were told.
pub type History = BTreeMap<ReservationId, Receipt>;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// Holds that were granted.
    Held,
    /// Sales.
    Paid,
    /// Holds that fans gave up.
    Cancelled,
    /// Holds that ran out, as somebody was told.
    Expired,
    /// Refunds.
    Refunded,
    /// Holds that were refused for good.
    Refused,
    /// Requests that were sent a second time after they had been answered.
    Repeated,
    /// Calls without an answer, which were made again.
    Unanswered,
}

impl Count {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Held,
        Self::Paid,
        Self::Cancelled,
        Self::Expired,
        Self::Refunded,
        Self::Refused,
        Self::Repeated,
        Self::Unanswered,
    ];
}

/// Where everybody writes down what they were told. Clones share it.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    begun: Instant,
    history: Mutex<History>,
    counts: [AtomicU64; Count::ALL.len()],
    complaints: Mutex<Vec<String>>,
    unanswered: Mutex<VecDeque<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Recorder {
    fn default() -> Self {
        let inner = Inner {
            begun: Instant::now(),
            history: Mutex::default(),
            counts: Default::default(),
            complaints: Mutex::default(),
            unanswered: Mutex::default(),
        };
        Self(Arc::new(inner))
    }
}

impl Recorder {
    /// Milliseconds of the run.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes a receipt down, or over an older word about the same reservation.
    pub fn note(&self, receipt: Receipt) {
        locked(&self.0.history).insert(receipt.id, receipt);
    }

    /// What is known of one reservation.
    pub fn receipt(&self, id: ReservationId) -> Option<Receipt> {
        locked(&self.0.history).get(&id).cloned()
    }

    /// Everything.
    pub fn history(&self) -> History {
        locked(&self.0.history).clone()
    }

    /// One more of these.
    pub fn count(&self, count: Count) {
        self.0.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many of these.
    pub fn counted(&self, count: Count) -> u64 {
        self.0.counts[count as usize].load(Ordering::Relaxed)
    }

    /// Final answers so far that needed the store's word.
    pub fn answers(&self) -> u64 {
        let final_words = [Count::Held, Count::Paid, Count::Cancelled, Count::Expired, Count::Refunded, Count::Refused];
        final_words.into_iter().map(|count| self.counted(count)).sum()
    }

    /// A call had no answer, and why.
    pub fn unanswered(&self, what: &str, why: &str) {
        self.count(Count::Unanswered);
        let mut unanswered = locked(&self.0.unanswered);
        if unanswered.len() == UNANSWERED_KEPT {
            unanswered.pop_front();
        }
        unanswered.push_back(format!("{:>7} ms  {what}: {why}", self.now_ms()));
    }

    /// The last calls without an answer, oldest first.
    pub fn last_unanswered(&self) -> Vec<String> {
        locked(&self.0.unanswered).iter().cloned().collect()
    }

    /// A promise was broken: the run ends.
    pub fn complain(&self, complaint: impl Into<String>) {
        let complaint = complaint.into();
        println!("BROKEN at {} ms: {complaint}", self.now_ms());
        locked(&self.0.complaints).push(complaint);
    }

    /// What was complained about, if anything.
    pub fn complaints(&self) -> Option<String> {
        let complaints = locked(&self.0.complaints);
        (!complaints.is_empty()).then(|| complaints.join("\n"))
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Count::ALL.map(|count| format!("{} {}", self.counted(count), format!("{count:?}").to_lowercase()));
        f.write_str(&words.join(", "))
    }
}
