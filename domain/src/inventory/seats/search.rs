//! Which seats a take would get. Nothing changes here.

use super::Seats;
use crate::ids::{SeatIndex, SeatRef};
use crate::inventory::best_available::{self, Found, Party};
use crate::inventory::outcome::{Alternative, Refusal};
use crate::inventory::record::SectionKind;
use std::collections::BTreeSet;

impl Seats {
    /// What else could be had here.
    pub fn alternative(&self) -> Alternative {
        match self.plan.kind {
            SectionKind::Seated => best_available::alternative(&self.plan, |seat| self.is_free(seat)),
            SectionKind::Standing => {
                Alternative { section: self.plan.section, free: self.stock.free, largest_together: self.stock.free }
            }
        }
    }

    pub(super) fn chosen(&self, seats: &[SeatIndex]) -> Result<Found, Refusal> {
        let named = |seat: &SeatIndex| SeatRef { section: self.plan.section, seat: *seat };
        let wrong_kind = self.plan.kind != SectionKind::Seated;
        if let Some(seat) = seats.iter().find(|seat| wrong_kind || seat.0 >= self.plan.capacity) {
            return Err(Refusal::NoSuchSeat(named(seat)));
        }
        let sorted: BTreeSet<SeatIndex> = seats.iter().copied().collect();
        if sorted.is_empty() || sorted.len() != seats.len() {
            return Err(Refusal::BadCart("each seat once, and at least one".into()));
        }
        let taken: Vec<SeatRef> = sorted.iter().filter(|seat| !self.is_free(seat.0)).map(named).collect();
        if !taken.is_empty() {
            return Err(Refusal::SeatsTaken(taken));
        }
        Ok(Found { seats: sorted.into_iter().collect(), together: false })
    }

    pub(super) fn places(&self, count: u32) -> Result<Found, Refusal> {
        if self.plan.kind != SectionKind::Standing {
            return Err(Refusal::BadCart(format!("section {} has numbered seats", self.plan.name)));
        }
        if count == 0 || count > self.stock.free {
            return Err(Refusal::PlacesTaken { section: self.plan.section, left: self.stock.free });
        }
        let free = (self.first_free..self.plan.capacity).filter(|seat| self.is_free(*seat));
        Ok(Found { seats: free.take(count as usize).map(SeatIndex).collect(), together: true })
    }

    pub(super) fn best(&self, party: Party) -> Result<Found, Refusal> {
        let none = || Refusal::NoMatchingSeats { alternatives: vec![self.alternative()] };
        if party.count as u64 > u64::from(self.stock.free) {
            return Err(none());
        }
        match self.plan.kind {
            SectionKind::Standing if party.accessible == 0 => self.places(party.count as u32).map_err(|_| none()),
            SectionKind::Standing => Err(none()),
            SectionKind::Seated => best_available::find(&self.plan, party, |seat| self.is_free(seat)).ok_or_else(none),
        }
    }
}
