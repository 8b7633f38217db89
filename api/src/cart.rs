//! From labels to a cart: what can be refused without asking the store. The store checks all of it again.

use crate::catalogue::Catalogue;
use crate::error::HttpError;
use crate::wire::reservation::{PlacesWanted, SeatLabel};
use domain::ids::{PromotionCode, SeatRef, SectionId};
use domain::inventory::EventRecord;
use domain::inventory::command::Cart;
use domain::inventory::record::{SectionKind, SectionSummary};
use domain::limits;
use std::collections::BTreeSet;

/// How many seats and places a cart may have, all lines together, each once. Needs no catalogue, so that it comes before
/// everything that costs something.
pub fn check_size(seats: &[SeatLabel], places: &[PlacesWanted], most: usize) -> Result<(), HttpError> {
    let wanted = places.iter().try_fold(seats.len(), |sum, line| sum.checked_add(line.count as usize));
    match wanted {
        Some(0) => return Err(HttpError::invalid_cart("Ask for at least one seat.")),
        Some(wanted) if wanted <= most => {}
        _ => {
            let message = format!("At most {most} seats can be asked for at once, all lines together.");
            return Err(HttpError::invalid_cart(message).with("limit", most));
        }
    }
    if places.iter().any(|line| line.count == 0) {
        return Err(HttpError::invalid_cart("Ask for at least one place of each standing section."));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = seats.iter().find(|seat| !seen.insert(*seat)) {
        let message = format!("The seat {} is asked for twice.", shown(twice));
        return Err(HttpError::invalid_cart(message).with("seat", serde_json::json!(twice)));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = places.iter().find(|line| !seen.insert(&line.section)) {
        return Err(HttpError::invalid_cart(format!("The section {} is there twice.", twice.section)));
    }
    Ok(())
}

/// The cart with the event's own numbers for its labels.
pub async fn resolve(
    catalogue: &Catalogue,
    event: &EventRecord,
    seats: &[SeatLabel],
    places: &[PlacesWanted],
) -> Result<Cart, HttpError> {
    let mut chosen = Vec::with_capacity(seats.len());
    for label in seats {
        chosen.push(seat(catalogue, event, label).await?);
    }
    let mut standing = Vec::with_capacity(places.len());
    for line in places {
        let section = section_named(event, &line.section)?;
        if section.kind != SectionKind::Standing {
            let message = format!("The section {} has numbered seats: choose them, or ask for the best.", line.section);
            return Err(HttpError::invalid_cart(message));
        }
        standing.push((section.id, line.count));
    }
    chosen.sort_unstable();
    standing.sort_unstable();
    Ok(Cart::Chosen { seats: chosen, places: standing })
}

/// One seat by its labels.
pub async fn seat(catalogue: &Catalogue, event: &EventRecord, label: &SeatLabel) -> Result<SeatRef, HttpError> {
    let section = section_named(event, &label.section)?;
    if section.kind != SectionKind::Seated {
        let message = format!("The section {} is standing: ask for `places`, by count.", label.section);
        return Err(HttpError::invalid_cart(message));
    }
    let found = catalogue.find(event, section, &label.row, &label.seat).await?;
    let seat = found.ok_or_else(|| {
        let message = format!("There is no seat {} at this event.", shown(label));
        HttpError::invalid_field_as("UNKNOWN_SEAT", message).with("seat", serde_json::json!(label))
    })?;
    Ok(SeatRef { section: section.id, seat })
}

fn section_named<'a>(event: &'a EventRecord, name: &str) -> Result<&'a SectionSummary, HttpError> {
    event.section_named(name).ok_or_else(|| {
        let name: String = name.chars().take(limits::LABEL_LEN).collect();
        let message = format!("There is no section {name:?} at this event.");
        HttpError::invalid_field_as("UNKNOWN_SEAT", message).with("section", name)
    })
}

fn shown(label: &SeatLabel) -> String {
    let text = format!("{}, row {}, seat {}", label.section, label.row, label.seat);
    text.chars().take(3 * limits::LABEL_LEN).collect()
}

/// A code, typed in any case.
pub fn promotion(code: Option<&String>) -> Result<Option<PromotionCode>, HttpError> {
    code.map(|code| PromotionCode::typed(code)).transpose().map_err(|_| {
        let why = format!("a code has 1 to {} visible characters", limits::PROMOTION_LEN);
        HttpError::invalid_field("promotion", why)
    })
}

/// A hold shorter than the event's.
pub fn hold_ttl_ms(seconds: Option<u32>, event: &EventRecord) -> Result<Option<u32>, HttpError> {
    let Some(seconds) = seconds else { return Ok(None) };
    let most = event.hold_ttl_ms / 1_000;
    if (1..=most).contains(&seconds) {
        return Ok(Some(seconds * 1_000));
    }
    Err(HttpError::invalid_field("hold_duration_seconds", format!("a hold of this event lasts 1 to {most} seconds")))
}

/// Sections for best available, preferred first: by price category, then by what a seat costs now.
pub fn ordered(sections: Vec<(&SectionSummary, i64)>) -> Vec<SectionId> {
    let mut sections = sections;
    sections.sort_by_key(|(section, price)| (section.tier, *price, section.id));
    sections.into_iter().map(|(section, _)| section.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat_label(seat: &str) -> SeatLabel {
        SeatLabel { section: "A".into(), row: "1".into(), seat: seat.into() }
    }

    fn places(section: &str, count: u32) -> PlacesWanted {
        PlacesWanted { section: section.into(), count }
    }

    #[test]
    fn the_limit_counts_all_lines_together() {
        let six: Vec<SeatLabel> = (0..6).map(|n| seat_label(&n.to_string())).collect();
        assert!(check_size(&six, &[], 6).is_ok());
        assert!(check_size(&six[..3], &[places("S", 3)], 6).is_ok());
        for (seats, lines) in [
            (&six[..0], vec![]),
            (&six[..], vec![places("S", 1)]),
            (&six[..0], vec![places("S", 200)]),
            (&six[..0], vec![places("S", 5), places("T", 5)]),
            (&six[..0], vec![places("S", u32::MAX), places("T", u32::MAX)]),
            (&six[..1], vec![places("S", 0)]),
            (&six[..0], vec![places("S", 1), places("S", 1)]),
        ] {
            let error = check_size(seats, &lines, 6).expect_err("it was accepted");
            assert_eq!((error.status.as_u16(), error.code()), (422, "INVALID_CART"), "{lines:?}");
        }
        let error = check_size(&[seat_label("1"), seat_label("1")], &[], 6).expect_err("it was accepted");
        assert_eq!(error.code(), "INVALID_CART");
    }
}
