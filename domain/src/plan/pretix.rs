//! The importer of pretix's seating-plan JSON (its published schema, old and new): zones become sections, categories
//! become price tiers, positions become integers.
//!
//! A section has one price tier, so a zone of several categories becomes several sections. Rows of one zone with one number
//! are one row, as where an aisle cuts it in the drawing. Drawings (areas, colours) are left out.

use super::printable;
use crate::ids::SectionId;
use crate::inventory::record::{PlanRow, PlanSeat, Point, SectionKind, SectionPlan};
use crate::limits;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Furthest from the origin that a seat may be, in units of the plan.
const FURTHEST: f64 = 1_000_000.0;

/// What a plan does not say itself.
#[derive(Clone, Debug, Default)]
pub struct PretixOptions {
    /// What everybody looks at, in units of the plan; by default the middle of the upper edge.
    pub focal: Option<(i32, i32)>,
    /// GUIDs of the seats kept for wheelchair users and their companions.
    pub accessible: BTreeSet<String>,
}

/// A section of the plan and the category that prices it.
pub type CategorySection = (SectionPlan, String);

/// Why a plan is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not JSON of the schema.
    #[error("not a pretix seating plan: {0}")]
    Format(String),
    /// Well-formed, but it cannot be sold as it is.
    #[error("{place}: {problem}")]
    Content {
        /// Where, such as `zone 2 (Balcony), row 3 (C)`.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

fn refuse<T>(place: impl Into<String>, problem: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Content { place: place.into(), problem: problem.into() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    #[serde(rename = "name")]
    _name: String,
    zones: Vec<Zone>,
    categories: Vec<Category>,
    size: Option<Size>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    width: f64,
    #[serde(rename = "height")]
    _height: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Category {
    name: String,
    #[serde(rename = "color")]
    _color: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Zone {
    name: Option<String>,
    position: Position,
    rows: Vec<Row>,
    #[serde(rename = "zone_id")]
    _zone_id: Option<String>,
    #[serde(rename = "uuid")]
    _uuid: Option<String>,
    #[serde(rename = "displayed")]
    _displayed: Option<bool>,
    #[serde(rename = "areas")]
    _areas: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row_number: String,
    seats: Vec<Seat>,
    position: Option<Position>,
    #[serde(rename = "row_label")]
    _row_label: Option<String>,
    #[serde(rename = "seat_label")]
    _seat_label: Option<String>,
    #[serde(rename = "row_number_position")]
    _row_number_position: Option<String>,
    #[serde(rename = "number_of_seats")]
    _number_of_seats: Option<u32>,
    #[serde(rename = "seats_spacing")]
    _seats_spacing: Option<f64>,
    #[serde(rename = "uuid")]
    _uuid: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seat {
    seat_guid: String,
    seat_number: String,
    position: Position,
    category: String,
    #[serde(rename = "radius")]
    _radius: Option<f64>,
    #[serde(rename = "start_direction")]
    _start_direction: Option<String>,
    #[serde(rename = "uuid")]
    _uuid: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    x: f64,
    y: f64,
}

impl Position {
    /// Hundredths, each number rounded by itself, so that the sum of offsets is exact.
    fn point(self) -> Option<Point> {
        let hundredths = |value: f64| (value.abs() <= FURTHEST).then(|| (value * 100.0).round() as i32);
        Some(Point { x: hundredths(self.x)?, y: hundredths(self.y)? })
    }
}

fn offset(a: Point, b: Point) -> Point {
    Point { x: a.x + b.x, y: a.y + b.y }
}

/// Read a plan. Sections are numbered from `next` in the order in which their first seat stands in the file.
pub fn read_pretix(text: &str, options: &PretixOptions, next: u16) -> Result<Vec<CategorySection>, PlanError> {
    let plan: Plan = serde_json::from_str(text).map_err(|error| PlanError::Format(error.to_string()))?;
    let mut categories = BTreeSet::new();
    for (at, category) in plan.categories.iter().enumerate() {
        if printable(&category.name).is_none() || !categories.insert(category.name.as_str()) {
            return refuse(format!("category {}", at + 1), "its name is blank, too long or not the only one");
        }
    }
    let mut seen = Seen { left: options.accessible.clone(), ..Seen::default() };
    let mut sections: Vec<CategorySection> = Vec::new();
    for (at, zone) in plan.zones.iter().enumerate() {
        let name = match &zone.name {
            Some(name) if !name.trim().is_empty() => printable(name),
            _ => Some(format!("Section {}", at + 1)),
        };
        let Some(name) = name else {
            return refuse(
                format!("zone {}", at + 1),
                format!("its name is longer than {} characters", limits::LABEL_LEN),
            );
        };
        let place = format!("zone {} ({name})", at + 1);
        let split = read_zone(zone, &place, &categories, options, &mut seen)?;
        let alone = split.len() == 1;
        for (category, rows) in split {
            let name = if alone { name.clone() } else { format!("{name} {category}") };
            sections.push((section(rows, &name, &place, next, sections.len())?, category));
        }
    }
    if sections.is_empty() {
        return refuse("the plan", "it has no seats");
    }
    if let Some(guid) = seen.left.first() {
        return refuse("accessible_seats", format!("the plan has no seat {guid:?}"));
    }
    place_focal(&plan, options, &mut sections)?;
    check_names(&sections)?;
    Ok(sections)
}

#[derive(Default)]
struct Seen {
    guids: BTreeSet<String>,
    /// Of one zone: storeys may lie above each other in the drawing.
    points: BTreeSet<(i32, i32)>,
    /// Accessible seats that have not been met.
    left: BTreeSet<String>,
}

/// The zone's rows by category, in order of appearance.
fn read_zone(
    zone: &Zone,
    place: &str,
    categories: &BTreeSet<&str>,
    options: &PretixOptions,
    seen: &mut Seen,
) -> Result<Vec<(String, Vec<PlanRow>)>, PlanError> {
    let mut split: Vec<(String, Vec<PlanRow>)> = Vec::new();
    let mut labels = BTreeSet::new();
    seen.points.clear();
    let Some(zone_at) = zone.position.point() else {
        return refuse(place, "its position is too far away");
    };
    for (at, row) in zone.rows.iter().enumerate() {
        let place = format!("{place}, row {} ({})", at + 1, row.row_number);
        let Some(label) = printable(&row.row_number) else {
            return refuse(place, "its number is blank or too long");
        };
        let Some(row_at) = row.position.unwrap_or_default().point() else {
            return refuse(place, "its position is too far away");
        };
        if row.seats.is_empty() {
            return refuse(place, "it has no seats");
        }
        for (at, seat) in row.seats.iter().enumerate() {
            let place = format!("{place}, seat {} ({})", at + 1, seat.seat_number);
            let Some(category) = categories.get(seat.category.as_str()) else {
                return refuse(place, format!("its category {:?} is not one of the plan's", seat.category));
            };
            let seat = read_seat(seat, offset(zone_at, row_at), &place, options, seen)?;
            if !labels.insert((*category, label.clone(), seat.label.clone())) {
                return refuse(place, "there is another seat of this number in the row");
            }
            row_of(rows_of(&mut split, category), &label).seats.push(seat);
        }
    }
    Ok(split)
}

fn rows_of<'a>(split: &'a mut Vec<(String, Vec<PlanRow>)>, category: &str) -> &'a mut Vec<PlanRow> {
    let at = match split.iter().position(|(name, _)| name == category) {
        Some(at) => at,
        None => {
            split.push((category.to_owned(), Vec::new()));
            split.len() - 1
        }
    };
    &mut split[at].1
}

fn row_of<'a>(rows: &'a mut Vec<PlanRow>, label: &str) -> &'a mut PlanRow {
    // Nearly always the last one.
    let at = match rows.iter().rposition(|row| row.label == label) {
        Some(at) => at,
        None => {
            rows.push(PlanRow { label: label.to_owned(), seats: Vec::new() });
            rows.len() - 1
        }
    };
    &mut rows[at]
}

fn read_seat(
    seat: &Seat,
    base: Point,
    place: &str,
    options: &PretixOptions,
    seen: &mut Seen,
) -> Result<PlanSeat, PlanError> {
    let Some(label) = printable(&seat.seat_number) else {
        return refuse(place, "its number is blank or too long");
    };
    let Some(at) = seat.position.point().map(|at| offset(base, at)) else {
        return refuse(place, "its position is too far away");
    };
    if seat.seat_guid.is_empty() || !seen.guids.insert(seat.seat_guid.clone()) {
        return refuse(place, format!("its seat_guid {:?} is blank or not the only one", seat.seat_guid));
    }
    if !seen.points.insert((at.x, at.y)) {
        return refuse(place, "another seat of the zone stands in the same place");
    }
    if seen.guids.len() > limits::EVENT_SEATS {
        return refuse(place, format!("an event has at most {} seats", limits::EVENT_SEATS));
    }
    seen.left.remove(&seat.seat_guid);
    Ok(PlanSeat { label, at, accessible: options.accessible.contains(&seat.seat_guid), aisle_after: false })
}

fn section(mut rows: Vec<PlanRow>, name: &str, place: &str, next: u16, index: usize) -> Result<SectionPlan, PlanError> {
    let capacity: usize = rows.iter().map(|row| row.seats.len()).sum();
    if capacity > limits::SECTION_SEATS {
        return refuse(place, format!("{capacity} seats are more than the {} of a section", limits::SECTION_SEATS));
    }
    let Some(name) = printable(name) else {
        return refuse(place, format!("the section's name {name:?} is longer than {} characters", limits::LABEL_LEN));
    };
    let id = u16::try_from(index)
        .ok()
        .and_then(|index| next.checked_add(index))
        .filter(|id| usize::from(*id) < limits::SECTIONS);
    let Some(id) = id else {
        return refuse(place, format!("an event has at most {} sections", limits::SECTIONS));
    };
    mark_aisles(&mut rows);
    Ok(SectionPlan {
        section: SectionId(id),
        name,
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point::default(),
        rows,
        capacity: capacity as u32,
    })
}

/// An aisle is a gap of more than one and a half times the usual one: the row's own median, or the section's where a row
/// is too short to have one. Compared as squares, so that no root is taken.
fn mark_aisles(rows: &mut [PlanRow]) {
    let all: Vec<i64> = rows.iter().flat_map(gaps).collect();
    let Some(usual) = median(all) else { return };
    for row in rows {
        let gaps = gaps(row);
        let usual = if gaps.len() < 3 { usual } else { median(gaps.clone()).unwrap_or(usual) };
        for (seat, gap) in row.seats.iter_mut().zip(gaps) {
            seat.aisle_after = i128::from(gap) * 4 > i128::from(usual) * 9;
        }
    }
}

fn gaps(row: &PlanRow) -> Vec<i64> {
    let squared = |pair: &[PlanSeat]| {
        let (dx, dy) = (pair[1].at.x - pair[0].at.x, pair[1].at.y - pair[0].at.y);
        i64::from(dx) * i64::from(dx) + i64::from(dy) * i64::from(dy)
    };
    row.seats.windows(2).map(squared).collect()
}

fn median(mut of: Vec<i64>) -> Option<i64> {
    of.sort_unstable();
    of.get(of.len().saturating_sub(1) / 2).copied()
}

fn place_focal(plan: &Plan, options: &PretixOptions, sections: &mut [CategorySection]) -> Result<(), PlanError> {
    let middle = plan.size.as_ref().map(|size| Position { x: size.width / 2.0, y: 0.0 });
    let focal = options.focal.map(|(x, y)| Position { x: f64::from(x), y: f64::from(y) });
    let at = match focal.or(middle) {
        Some(position) => position.point(),
        None => Some(upper_middle(sections)),
    };
    let Some(at) = at else {
        return refuse("focal", "it is too far away");
    };
    for (section, _) in sections {
        section.focal = at;
    }
    Ok(())
}

fn upper_middle(sections: &[CategorySection]) -> Point {
    let seats =
        || sections.iter().flat_map(|(section, _)| &section.rows).flat_map(|row| &row.seats).map(|seat| seat.at);
    let (left, right) = (seats().map(|at| at.x).min(), seats().map(|at| at.x).max());
    let middle = (i64::from(left.unwrap_or(0)) + i64::from(right.unwrap_or(0))) / 2;
    Point { x: middle as i32, y: seats().map(|at| at.y).min().unwrap_or(0) }
}

fn check_names(sections: &[CategorySection]) -> Result<(), PlanError> {
    let mut names: BTreeMap<&str, SectionId> = BTreeMap::new();
    for (section, _) in sections {
        if names.insert(&section.name, section.section).is_some() {
            return refuse(format!("zone {:?}", section.name), "two zones would be sections of this name");
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "pretix_tests.rs"]
mod tests;
