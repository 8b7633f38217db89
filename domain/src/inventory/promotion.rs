//! The uses of one promotion code (P): a participant. Sets of reservations, never counters: at most `cap` uses over all
//! orders and one a user, taken with the hold, given back exactly once when it ends unpaid, never after payment.

use super::command::Vote;
use super::feed::Feed;
use super::outcome::Refusal;
use super::seats::Alarm;
use super::watermark::Marks;
use crate::ids::{Bucket, EventId, PromotionCode, ReservationId, UserId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A promotion's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    event: EventId,
    code: PromotionCode,
    discount_bps: u16,
    cap: u32,
    /// Reservations that use it now, held or sold.
    uses: BTreeMap<ReservationId, Use>,
    users: BTreeMap<UserId, ReservationId>,
    /// Answers of those that do not: No or Released.
    answers: BTreeMap<ReservationId, Refused>,
    marks: Marks,
    alarms: u64,
    /// Facts for outside; a promotion has none yet.
    pub(super) feed: Feed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    user: UserId,
    /// Frozen with the claim.
    discount_bps: u16,
    sold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Refused {
    No(Refusal),
    Released,
}

impl Promotion {
    /// A code that nobody has used.
    pub fn new(event: EventId, code: PromotionCode, discount_bps: u16, cap: u32) -> Result<Self, String> {
        if discount_bps > 10_000 {
            return Err(format!("{code} takes off more than everything"));
        }
        let (uses, users, answers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (marks, feed) = (Marks::default(), Feed::default());
        Ok(Self { event, code, discount_bps, cap, uses, users, answers, marks, alarms: 0, feed })
    }

    /// A repeated Create: what is new counts from the next claim on.
    pub fn update(&mut self, discount_bps: u16, cap: u32) -> Result<(), String> {
        if discount_bps > 10_000 {
            return Err(format!("{} takes off more than everything", self.code));
        }
        (self.discount_bps, self.cap) = (discount_bps, cap);
        Ok(())
    }

    /// Which event and code.
    pub fn identity(&self) -> (EventId, &PromotionCode) {
        (self.event, &self.code)
    }

    /// Reservations that use it now.
    pub fn uses(&self) -> Vec<ReservationId> {
        self.uses.keys().copied().collect()
    }

    /// Messages received that no correct sender sends.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// Whether this user may use it now; the discount.
    pub fn check(&self, user: &UserId) -> Result<u16, Refusal> {
        if self.users.contains_key(user) {
            return Err(Refusal::PromotionUsed);
        }
        if self.uses.len() >= self.cap as usize {
            return Err(Refusal::PromotionExhausted);
        }
        Ok(self.discount_bps)
    }

    /// Takes what [`Promotion::check`] allowed in this very state.
    pub fn take(&mut self, id: ReservationId, user: &UserId) {
        self.users.insert(user.clone(), id);
        self.uses.insert(id, Use { user: user.clone(), discount_bps: self.discount_bps, sold: false });
    }

    /// Take one use for `id`, or repeat what was answered.
    pub fn prepare(&mut self, id: ReservationId, user: &UserId) -> Vote {
        let yes = |discount_bps| Vote::Yes { seats: Vec::new(), discount_bps, together: true };
        match (self.uses.get(&id), self.answers.get(&id)) {
            (Some(used), _) if !used.sold => return yes(used.discount_bps),
            (_, Some(Refused::No(refusal))) => return Vote::No(refusal.clone()),
            (None, None) if !self.marks.is_below(&id) => {}
            _ => return Vote::No(Refusal::ParticipantGone),
        }
        match self.check(user) {
            Ok(discount_bps) => {
                self.take(id, user);
                yes(discount_bps)
            }
            Err(refusal) => {
                self.answers.insert(id, Refused::No(refusal.clone()));
                Vote::No(refusal)
            }
        }
    }

    /// Gives the use back, and remembers it.
    pub fn release(&mut self, id: ReservationId) -> Result<(), Alarm> {
        if self.uses.get(&id).is_some_and(|used| used.sold) {
            self.alarms += 1;
            return Err(Alarm(format!("release of {id}, which is sold")));
        }
        if let Some(used) = self.uses.remove(&id) {
            self.users.remove(&used.user);
        }
        if !self.marks.is_below(&id) {
            self.answers.insert(id, Refused::Released);
        }
        Ok(())
    }

    /// Keeps the use for ever.
    pub fn sell(&mut self, id: ReservationId) -> Result<(), Alarm> {
        match self.uses.get_mut(&id) {
            Some(used) => used.sold = true,
            None if self.marks.is_below(&id) => {}
            None => {
                self.alarms += 1;
                return Err(Alarm(format!("sale of {id}, which has no use of {}", self.code)));
            }
        }
        Ok(())
    }

    /// Drops remembered answers below the mark. Uses stay.
    pub fn watermark(&mut self, bucket: Bucket, incarnation: u16, below: u64) {
        let Some((from, to)) = self.marks.raise(self.event, bucket, incarnation, below) else { return };
        let passed: Vec<ReservationId> = self.answers.range(from..to).map(|(id, _)| *id).collect();
        for id in passed {
            self.answers.remove(&id);
        }
    }
}

impl super::invariants::Sound for Promotion {
    fn sound(&self) -> Result<(), String> {
        let owners: BTreeMap<&UserId, &ReservationId> = self.uses.iter().map(|(id, used)| (&used.user, id)).collect();
        if owners.len() != self.uses.len() {
            return Err(format!("a user uses {} twice", self.code));
        }
        if !owners.into_iter().eq(self.users.iter()) {
            return Err(format!("users of {} are not its uses", self.code));
        }
        match self.uses.keys().find(|id| self.answers.contains_key(id)) {
            Some(id) => Err(format!("{id} uses {} and was refused", self.code)),
            None => Ok(()),
        }
    }
}
