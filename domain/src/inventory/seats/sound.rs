//! What must hold within one section after every entry.

use super::{Claim, Given, Seats, count_of};
use crate::ids::{ReservationId, SeatIndex};
use crate::inventory::invariants::Sound;
use crate::inventory::query::Stock;
use std::collections::BTreeMap;

impl Sound for Seats {
    fn sound(&self) -> Result<(), String> {
        let mut seen: BTreeMap<SeatIndex, ReservationId> = BTreeMap::new();
        let mut stock = Stock { free: self.plan.capacity, ..Stock::default() };
        for owner in self.owners() {
            if let Some(other) = seen.insert(owner.seat, owner.reservation) {
                return Err(format!("seat {} belongs to {other} and {}", owner.seat, owner.reservation));
            }
            if self.map.state(owner.seat.0) != Some(owner.state) {
                return Err(format!("seat {} is {:?} but shown otherwise", owner.seat, owner.state));
            }
            stock.free -= 1;
            *count_of(&mut stock, owner.state) += 1;
        }
        if stock != self.stock {
            return Err(format!("counters {:?}, seats {stock:?}", self.stock));
        }
        let free = (0..self.plan.capacity).filter(|seat| self.is_free(*seat)).count();
        if free != self.stock.free as usize {
            return Err(format!("{free} seats shown free, {} counted", self.stock.free));
        }
        let owning = |claim: &Claim| matches!(claim.answer, Given::Held | Given::Sold);
        match self.claims.iter().find(|(_, claim)| owning(claim) == claim.seats.is_empty()) {
            Some((id, claim)) => Err(format!("{id} answered {:?} with {} seats", claim.answer, claim.seats.len())),
            None => Ok(()),
        }
    }
}
