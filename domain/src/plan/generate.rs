//! Sections that follow a rule instead of a drawing: blocks of equal rows, laid out in bands before a stage.

use super::printable;
use crate::ids::SectionId;
use crate::inventory::record::{PlanRow, PlanSeat, Point, SectionKind, SectionPlan};
use crate::limits;
use serde::Deserialize;

/// Between two seats, and between two rows, in hundredths.
const PITCH: i32 = 100;
/// Between two sections.
const GANGWAY: i32 = 300;
/// From the stage to the first band.
const APRON: i32 = 600;

/// `count` equal sections named `{prefix}{first}`, `{prefix}{first + 1}` and so on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratedSections {
    /// What every name begins with, such as `Block `.
    pub prefix: String,
    /// The first number.
    #[serde(default = "one")]
    pub first: u32,
    /// How many sections.
    pub count: u16,
    /// Rows in each, labelled from 1.
    pub rows: u16,
    /// Seats in each row, labelled from 1.
    pub seats: u16,
    /// After which seats of every row there is an aisle.
    #[serde(default)]
    pub aisles: Vec<u16>,
    /// The first this many seats of the last row of each section are for wheelchair users and companions.
    #[serde(default)]
    pub accessible: u16,
    /// Their price category.
    pub tier: String,
    /// How many sections stand side by side in a band.
    #[serde(default = "ten")]
    pub columns: u16,
    /// How many bands stand nearer to the stage.
    #[serde(default)]
    pub band: u16,
}

fn one() -> u32 {
    1
}

fn ten() -> u16 {
    10
}

impl GeneratedSections {
    /// The sections, numbered from `next`; or what is wrong, in words.
    pub(super) fn build(&self, next: u16, tier: u16) -> Result<Vec<SectionPlan>, String> {
        self.check()?;
        let width = i32::from(self.seats) * PITCH;
        let columns = i32::from(self.columns);
        let focal = Point { x: (columns * (width + GANGWAY) - GANGWAY) / 2, y: 0 };
        let section = |at: u16| {
            let (column, band) = (i32::from(at % self.columns), i32::from(at / self.columns + self.band));
            let depth = i32::from(self.rows) * PITCH;
            let corner = Point { x: column * (width + GANGWAY), y: APRON + band * (depth + GANGWAY) };
            let name = format!("{}{}", self.prefix, self.first + u32::from(at));
            Some(SectionPlan {
                section: SectionId(next.checked_add(at)?),
                name: printable(&name)?,
                kind: SectionKind::Seated,
                tier,
                focal,
                rows: (0..self.rows).map(|row| self.row(row, corner)).collect(),
                capacity: u32::from(self.rows) * u32::from(self.seats),
            })
        };
        (0..self.count).map(section).collect::<Option<_>>().ok_or_else(|| {
            format!("{:?} does not make section names of at most {} characters", self.prefix, limits::LABEL_LEN)
        })
    }

    fn check(&self) -> Result<(), String> {
        let seats = usize::from(self.rows) * usize::from(self.seats);
        if self.count == 0 || seats == 0 || self.columns == 0 {
            return Err("count, rows, seats and columns must be at least 1".to_owned());
        }
        if usize::from(self.count) > limits::SECTIONS || seats > limits::SECTION_SEATS {
            return Err(format!(
                "at most {} sections of at most {} seats are possible",
                limits::SECTIONS,
                limits::SECTION_SEATS
            ));
        }
        if seats * usize::from(self.count) > limits::EVENT_SEATS {
            return Err(format!("an event has at most {} seats", limits::EVENT_SEATS));
        }
        if usize::from(self.columns) > limits::SECTIONS || usize::from(self.band) > limits::SECTIONS {
            return Err(format!("columns and band are at most {}", limits::SECTIONS));
        }
        let wide = i64::from(self.columns) * (i64::from(self.seats) * i64::from(PITCH) + i64::from(GANGWAY));
        let bands = i64::from(self.count / self.columns) + i64::from(self.band) + 1;
        let deep = i64::from(APRON) + bands * (i64::from(self.rows) * i64::from(PITCH) + i64::from(GANGWAY));
        if wide > i64::from(i32::MAX) || deep > i64::from(i32::MAX) {
            return Err("the plan would be larger than can be drawn".to_owned());
        }
        if self.first.checked_add(u32::from(self.count)).is_none() {
            return Err("first is too large".to_owned());
        }
        if self.accessible > self.seats {
            return Err("accessible is at most the seats of a row".to_owned());
        }
        match self.aisles.iter().find(|after| **after == 0 || **after >= self.seats) {
            Some(after) => Err(format!("there is no aisle after seat {after} of {}", self.seats)),
            None => Ok(()),
        }
    }

    fn row(&self, row: u16, corner: Point) -> PlanRow {
        let last = row + 1 == self.rows;
        let seat = |at: u16| PlanSeat {
            label: (at + 1).to_string(),
            at: Point { x: corner.x + i32::from(at) * PITCH, y: corner.y + i32::from(row) * PITCH },
            accessible: last && at < self.accessible,
            aisle_after: self.aisles.contains(&(at + 1)),
        };
        PlanRow { label: (row + 1).to_string(), seats: (0..self.seats).map(seat).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> GeneratedSections {
        GeneratedSections {
            prefix: "Block ".to_owned(),
            first: 101,
            count: 40,
            rows: 20,
            seats: 25,
            aisles: vec![12],
            accessible: 2,
            tier: "Tribune".to_owned(),
            columns: 10,
            band: 0,
        }
    }

    #[test]
    fn an_arena_has_distinct_seats_in_plan_order() {
        let sections = arena().build(3, 1).unwrap();
        assert_eq!(sections.len(), 40);
        assert_eq!((sections[0].section, sections[39].section), (SectionId(3), SectionId(42)));
        assert_eq!((sections[0].name.as_str(), sections[39].name.as_str()), ("Block 101", "Block 140"));
        let places: std::collections::BTreeSet<_> = sections
            .iter()
            .flat_map(|section| section.rows.iter().flat_map(|row| row.seats.iter().map(|seat| (seat.at.x, seat.at.y))))
            .collect();
        assert_eq!(places.len(), 20_000);
        let row = &sections[0].rows[0];
        assert!(row.seats[11].aisle_after && !row.seats[10].aisle_after);
        assert_eq!(sections[0].rows[19].seats.iter().filter(|seat| seat.accessible).count(), 2);
    }

    #[test]
    fn what_cannot_stand_is_refused() {
        let bad = [
            GeneratedSections { count: 0, ..arena() },
            GeneratedSections { seats: 0, ..arena() },
            GeneratedSections { rows: 65_535, seats: 65_535, ..arena() },
            GeneratedSections { count: 2_000, rows: 100, seats: 100, ..arena() },
            GeneratedSections { aisles: vec![25], ..arena() },
            GeneratedSections { columns: 0, ..arena() },
            GeneratedSections { columns: 2_000, rows: 1, seats: 10_000, ..arena() },
            GeneratedSections { first: u32::MAX, ..arena() },
            GeneratedSections { prefix: "x".repeat(80), ..arena() },
            GeneratedSections { accessible: 26, ..arena() },
        ];
        for case in bad {
            assert!(case.build(0, 0).is_err(), "{case:?}");
        }
    }
}
