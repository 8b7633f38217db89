//! A section after a disaster: its seats as the records of their judges say.

use super::{Claim, Given, Seats, Taken, bits, count_of};
use crate::ids::{EventId, SeatIndex};
use crate::inventory::command::PriceRule;
use crate::inventory::feed::Feed;
use crate::inventory::query::SeatState;
use crate::inventory::rebuild::Claims;
use crate::inventory::record::{SectionKind, SectionPlan};

impl Seats {
    /// All seats free but those that are claimed. Two claims on one seat are refused.
    pub(in crate::inventory) fn rebuilt(
        event: EventId,
        plan: SectionPlan,
        price: PriceRule,
        version: u64,
        feed: Feed,
        claims: &Claims,
    ) -> Result<Self, String> {
        let mut section = Self { feed, version, ..Self::new(event, plan, price)? };
        for (id, seats) in claims {
            let Some((_, state)) = seats.first() else { continue };
            let answer = if *state == SeatState::Sold { Given::Sold } else { Given::Held };
            let mut taken: Vec<Taken> = Vec::new();
            for (quoted, _) in seats {
                let seat = quoted.seat.seat;
                if section.map.state(seat.0) != Some(SeatState::Free) {
                    return Err(format!("seat {seat} of {} cannot be {id}'s", section.plan.name));
                }
                section.mark(seat, *state);
                taken.push(Taken { seat, gross: quoted.gross });
            }
            taken.sort_unstable_by_key(|taken| taken.seat);
            let block = *state == SeatState::Blocked;
            section.claims.insert(*id, Claim { answer, seats: taken, together: false, block });
        }
        if section.plan.kind == SectionKind::Standing {
            while section.first_free < section.plan.capacity && !section.is_free(section.first_free) {
                section.first_free += 1;
            }
        }
        Ok(section)
    }

    fn mark(&mut self, seat: SeatIndex, state: SeatState) {
        self.stock.free -= 1;
        *count_of(&mut self.stock, state) += 1;
        self.map.packed[seat.0 as usize / 4] |= bits(state) << (6 - 2 * (seat.0 % 4));
    }
}
