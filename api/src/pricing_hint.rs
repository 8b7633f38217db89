//! What a seat would cost if it were claimed now, by the same rule as the claim itself. A hint: the claim decides.

use crate::catalogue::Catalogue;
use crate::wire::catalogue::SeatCounts;
use crate::wire::wall_now;
use domain::inventory::command::PriceRule;
use domain::inventory::query::{SeatMap, SeatState};
use domain::inventory::record::SectionSummary;
use domain::inventory::{EventRecord, pricing};
use domain::money::Minor;

/// Seats of a map by state.
pub fn counts(map: &SeatMap) -> SeatCounts {
    let mut counts = SeatCounts::default();
    for seat in 0..map.count {
        match map.state(seat) {
            Some(SeatState::Free) => counts.free += 1,
            Some(SeatState::Held) => counts.held += 1,
            Some(SeatState::Sold) => counts.sold += 1,
            Some(SeatState::Blocked) | None => counts.blocked += 1,
        }
    }
    counts
}

/// The price with so many seats taken, in minor units.
pub fn price_at(event: &EventRecord, section: &SectionSummary, counts: SeatCounts) -> i64 {
    let base = event.tiers.get(usize::from(section.tier)).map_or(Minor(0), |tier| tier.base);
    let rule = PriceRule { base, dynamic: event.dynamic_pricing, event_starts_at: event.starts_at };
    let multiplier = pricing::multiplier_bps(&rule, counts.held + counts.sold, section.capacity, wall_now());
    pricing::gross(base, multiplier).unwrap_or(base).0
}

/// The price by the map in memory; without one, as if nothing were taken.
pub async fn price_now(catalogue: &Catalogue, event: &EventRecord, section: &SectionSummary) -> i64 {
    let counts = match catalogue.seat_map(event.id, section.id, 0).await {
        Ok(map) => counts(&map),
        Err(_) => SeatCounts::default(),
    };
    price_at(event, section, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_counted_over_seats_and_not_over_padding() {
        // free, held, sold, blocked | sold, then padding.
        let map = SeatMap { version: 1, count: 5, packed: vec![0b00_01_10_11, 0b10_00_00_00] };
        assert_eq!(counts(&map), SeatCounts { free: 1, held: 1, sold: 2, blocked: 1 });
    }
}
