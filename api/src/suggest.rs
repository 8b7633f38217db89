//! Seats that could be had instead of those that are gone: from the maps in memory, so that a refusal costs the store
//! nothing. A hint, not a claim.

use crate::catalogue::Catalogue;
use crate::wire::reservation::Suggestion;
use domain::ids::{SeatRef, SectionId};
use domain::inventory::EventRecord;
use domain::inventory::best_available::{Party, find};
use domain::inventory::command::Cart;
use domain::inventory::query::SeatState;
use domain::inventory::record::{SectionKind, SectionSummary};

/// Sections that are looked at, at most.
const SECTIONS: usize = 6;

/// As many seats side by side as were wanted in the section of the first lost seat; there, or in another section of the
/// same price category.
pub async fn instead(catalogue: &Catalogue, event: &EventRecord, cart: &Cart, lost: &[SeatRef]) -> Option<Suggestion> {
    let Cart::Chosen { seats, .. } = cart else { return None };
    let first = event.section(lost.first()?.section)?;
    let count = seats.iter().filter(|seat| seat.section == first.id).count();
    let alike = |section: &&SectionSummary| section.tier == first.tier && section.kind == SectionKind::Seated;
    let others = event.sections.iter().filter(alike).map(|section| section.id).filter(|id| *id != first.id);
    let order: Vec<SectionId> = std::iter::once(first.id).chain(others).take(SECTIONS).collect();
    for section in order {
        if let Some(found) = in_section(catalogue, event, section, count, lost).await {
            return Some(Suggestion { seats: catalogue.labels(event, &found).await.ok()? });
        }
    }
    None
}

async fn in_section(
    catalogue: &Catalogue,
    event: &EventRecord,
    section: SectionId,
    count: usize,
    lost: &[SeatRef],
) -> Option<Vec<SeatRef>> {
    let plan = catalogue.plan(event, section).await.ok()?;
    let map = catalogue.seat_map(event.id, section, 0).await.ok()?;
    let seat_ref = |seat| SeatRef { section, seat: domain::ids::SeatIndex(seat) };
    // The map may be older than the refusal, which is news about these seats.
    let free = |seat: u32| map.state(seat) == Some(SeatState::Free) && !lost.contains(&seat_ref(seat));
    let party = Party { count, accessible: 0, contiguous: true, spare_singles: true };
    let found = find(&plan, party, free)?;
    Some(found.seats.into_iter().map(|seat| SeatRef { section, seat }).collect())
}
