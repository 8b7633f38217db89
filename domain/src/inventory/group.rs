//! A Raft group's machine: the partitions that it hosts, its clock, and the one match that brings a request to its
//! partition. Same entries, same state, same outcomes on every replica; what hosts drain (changes, seat history) is no part
//! of the replicated state.

use super::command::{Checkout, Command, Entry, Participate, Request};
use super::outcome::{Outcome, Refusal};
use super::query::{Answer, Query};
use crate::ids::{Epoch, EventId, GroupId, Partition, ReservationId, SeatIndex, SectionId};
use crate::time::{Ticks, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The replicated state of one group. A snapshot is its serde form; postcard of it is deterministic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    id: GroupId,
    clock: Ticks,
    #[serde(skip)]
    news: News,
}

/// What the last entries changed, for the host alone.
#[derive(Clone, Debug, Default)]
struct News {
    changed: BTreeMap<Partition, u64>,
    seats: Vec<SeatChange>,
}

/// A change of a seat's owner, for the history index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatChange {
    /// The event.
    pub event: EventId,
    /// The section.
    pub section: SectionId,
    /// The seat.
    pub seat: SeatIndex,
    /// Whose claim it is, or was.
    pub reservation: ReservationId,
    /// What happened.
    pub kind: SeatChangeKind,
}

/// How a seat changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatChangeKind {
    /// Free → held.
    Held,
    /// Free → kept by the box office.
    Blocked,
    /// Held → sold.
    Sold,
    /// Held → free: the reservation ended unpaid.
    Released,
    /// Sold → free: refunded.
    Returned,
}

/// A hosted partition, for status pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosted {
    /// Which.
    pub partition: Partition,
    /// How often it has moved.
    pub epoch: Epoch,
    /// Whether it serves here.
    pub stage: Stage,
    /// Seats of a section, records of a bucket, uses of a promotion, events of the catalogue.
    pub size: u64,
}

/// How far this copy of a partition is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Serves.
    Active,
    /// Exported; waits for meta's decision.
    Frozen,
    /// Taken in; waits for meta's decision.
    Installed,
    /// Moved away.
    Dropped,
}

impl Default for Group {
    fn default() -> Self {
        Self::new(GroupId::META)
    }
}

impl Group {
    /// An empty group; the meta group has its catalogue from the start.
    pub fn new(id: GroupId) -> Self {
        Self { id, clock: Ticks(0), news: News::default() }
    }

    /// Which group it is.
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Applies one entry: time first, then what has run out (at most [`crate::limits::ENDED_PER_ENTRY`]), then each
    /// request in order. One outcome a request.
    pub fn apply(&mut self, entry: &Entry) -> Vec<Outcome> {
        self.news.seats.clear();
        entry.requests.iter().map(|_| Outcome::Invalid("not served yet".into())).collect()
    }

    /// Reads. `elapsed_since_last_entry_ms` is what the leader would stamp now; a follower gives 0.
    pub fn query(&self, _partition: &Partition, _query: &Query, _elapsed_since_last_entry_ms: u32) -> Answer {
        Answer::Invalid("not served yet".into())
    }

    /// A refusal that the applied state already shows, as advice and without an entry: only for a Begin whose key is
    /// unknown. `None` means: propose it.
    pub fn preview(&self, _request: &Request, _now: WallMs) -> Option<Refusal> {
        None
    }

    /// Messages that this group owes, at most `limit`: Prepare for what is preparing; Sell, Release, Return for what is
    /// not acknowledged; watermarks. Their partitions may be in other groups. Sending them again is harmless; feed what
    /// comes back through [`reply`].
    pub fn pending(&self, _limit: usize) -> Vec<Request> {
        Vec::new()
    }

    /// Whether time must be proposed each second, because something here can run out.
    pub fn has_deadlines(&self) -> bool {
        false
    }

    /// Whether more has run out than one entry may end: the leader should propose another tick at once.
    pub fn is_behind(&self) -> bool {
        false
    }

    /// The version of a partition that has one (seats, meta).
    pub fn version(&self, _partition: &Partition) -> Option<u64> {
        None
    }

    /// Partitions changed since the last drain, with their versions; for the watch stream.
    pub fn drain_changed(&mut self) -> Vec<(Partition, u64)> {
        std::mem::take(&mut self.news.changed).into_iter().collect()
    }

    /// Owners changed by the last [`Group::apply`] only; for the history index.
    pub fn drain_seat_changes(&mut self) -> Vec<SeatChange> {
        std::mem::take(&mut self.news.seats)
    }

    /// A digest of the replicated state: equal on every replica that has applied the same entries.
    pub fn state_hash(&self) -> [u8; 32] {
        use sha2::Digest;
        let bytes = postcard::to_stdvec(self).expect("the state is plain data");
        sha2::Sha256::digest(bytes).into()
    }

    /// What is hosted here.
    pub fn partitions(&self) -> Vec<Hosted> {
        Vec::new()
    }
}

/// What R is to be told after a participant answered `request`, a message from [`Group::pending`]: the vote or the
/// acknowledgement. `None`: nothing to say (it has moved, or it is not such a message).
pub fn reply(request: &Request, outcome: &Outcome) -> Option<Request> {
    let (Command::Participate(command), participant) = (&request.command, &request.partition) else { return None };
    let to = |reservation: ReservationId, checkout: Checkout| {
        Some(Request { partition: reservation.partition(), command: Command::Checkout(checkout) })
    };
    use super::command::Done;
    let ack = |reservation: ReservationId, done: Done| {
        to(reservation, Checkout::Ack { reservation, participant: participant.clone(), done })
    };
    match (command, outcome) {
        (Participate::Prepare { reservation, .. }, Outcome::Voted(vote)) => {
            let (reservation, vote) = (*reservation, vote.clone());
            to(reservation, Checkout::Vote { reservation, participant: participant.clone(), vote })
        }
        (Participate::Release { reservation }, Outcome::Done) => ack(*reservation, Done::Released),
        (Participate::Sell { reservation }, Outcome::Done) => ack(*reservation, Done::Sold),
        (Participate::Return { reservation, seats }, Outcome::Done) => ack(*reservation, Done::Returned(seats.clone())),
        (Participate::Watermark { bucket, incarnation, below }, Outcome::Done) => {
            let (participant, incarnation, below) = (participant.clone(), *incarnation, *below);
            let event = participant.event()?;
            Some(Request {
                partition: Partition::Checkouts { event, bucket: *bucket },
                command: Command::Checkout(Checkout::Marked { participant, incarnation, below }),
            })
        }
        _ => None,
    }
}
