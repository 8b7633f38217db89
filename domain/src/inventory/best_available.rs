//! Best available: which free seats of one section a party gets. Neighbours come from plan order, an aisle ends a run; the
//! search is integer arithmetic over the plan, so that every replica picks the same seats.
//!
//! One row, together, leaving no single seat beside the take; then one row, together; then, unless `contiguous`, the
//! nearest seats over rows with nobody alone if avoidable. Among candidates the centroid nearest to the focal point wins,
//! then plan order.

use super::outcome::Alternative;
use super::record::{PlanRow, SectionPlan};
use crate::ids::SeatIndex;

/// A party's wish.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// How many seats.
    pub count: usize,
    /// Exactly so many of them for wheelchair users; without one, accessible seats stay free.
    pub accessible: usize,
    /// Only neighbours in one row.
    pub contiguous: bool,
    /// Whether a take should leave no single seat beside it. Not for the box office.
    pub spare_singles: bool,
}

/// What was found, in plan order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seats.
    pub seats: Vec<SeatIndex>,
    /// Whether all are neighbours.
    pub together: bool,
}

/// Finds seats for a party among those that `free` says are free.
pub fn find(plan: &SectionPlan, party: Party, free: impl Fn(u32) -> bool) -> Option<Found> {
    if party.count == 0 {
        return None;
    }
    let runs = runs(plan, &free);
    let whole = Piece { count: party.count, accessible: party.accessible };
    if let Some(window) = best_window(plan, &runs, whole, party.spare_singles, &[]) {
        return Some(Found { seats: window.seats().collect(), together: true });
    }
    if party.contiguous || party.count == 1 {
        return None;
    }
    let mut seats: Vec<SeatIndex> = splits(party.count)
        .into_iter()
        .find_map(|sizes| place_pieces(plan, &runs, &sizes, party))?
        .iter()
        .flat_map(Window::seats)
        .collect();
    seats.sort_unstable();
    Some(Found { seats, together: false })
}

/// What the section could still give, accessible seats aside.
pub fn alternative(plan: &SectionPlan, free: impl Fn(u32) -> bool) -> Alternative {
    let mut alternative = Alternative { section: plan.section, free: 0, largest_together: 0 };
    for run in runs(plan, &free) {
        let mut length = 0;
        for offset in 0..run.length {
            if run.row.seats[run.offset + offset].accessible {
                length = 0;
                continue;
            }
            length += 1;
            alternative.free += 1;
            alternative.largest_together = alternative.largest_together.max(length);
        }
    }
    alternative
}

/// Free neighbours without a gap, an aisle or the row's end between them.
#[derive(Clone, Copy)]
struct Run<'a> {
    row: &'a PlanRow,
    /// Index of the row's first seat in the section.
    row_start: u32,
    /// The run's first seat in the row.
    offset: usize,
    length: usize,
}

/// `count` seats of a run.
#[derive(Clone, Copy)]
struct Window {
    first: u32,
    count: u32,
    distance: i128,
}

impl Window {
    fn seats(&self) -> impl Iterator<Item = SeatIndex> + use<> {
        (self.first..self.first + self.count).map(SeatIndex)
    }

    fn overlaps(&self, other: &Window) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }
}

/// A part of the party that sits together.
#[derive(Clone, Copy)]
struct Piece {
    count: usize,
    accessible: usize,
}

fn runs<'a>(plan: &'a SectionPlan, free: &impl Fn(u32) -> bool) -> Vec<Run<'a>> {
    let mut runs = Vec::new();
    let mut row_start = 0;
    for row in &plan.rows {
        let mut open: Option<usize> = None;
        let mut close = |from: Option<usize>, to: usize| {
            if let Some(offset) = from {
                runs.push(Run { row, row_start, offset, length: to - offset });
            }
        };
        for (at, seat) in row.seats.iter().enumerate() {
            if free(row_start + at as u32) {
                open = open.or(Some(at));
            } else {
                close(open.take(), at);
            }
            if seat.aisle_after {
                close(open.take(), at + 1);
            }
        }
        close(open, row.seats.len());
        row_start += row.seats.len() as u32;
    }
    runs
}

/// The nearest window that fits the piece: first one that leaves no single seat beside it, then any.
fn best_window(
    plan: &SectionPlan,
    runs: &[Run<'_>],
    piece: Piece,
    spare_singles: bool,
    taken: &[Window],
) -> Option<Window> {
    let (mut sparing, mut any) = (None, None);
    for run in runs.iter().filter(|run| run.length >= piece.count) {
        for shift in 0..=run.length - piece.count {
            let Some(window) = window(plan, run, shift, piece) else { continue };
            if taken.iter().any(|other| other.overlaps(&window)) {
                continue;
            }
            let (left, right) = (shift, run.length - piece.count - shift);
            if left != 1 && right != 1 {
                keep_nearer(&mut sparing, window);
            }
            keep_nearer(&mut any, window);
        }
    }
    if spare_singles { sparing.or(any) } else { any }
}

fn keep_nearer(best: &mut Option<Window>, window: Window) {
    // Windows come in plan order, so that equal distances keep the first.
    if best.is_none_or(|best| window.distance < best.distance) {
        *best = Some(window);
    }
}

/// The window at this shift, with its centroid's squared distance to the focal point (times count², alike for all windows
/// of one size); `None` if it has another number of accessible seats than wanted.
fn window(plan: &SectionPlan, run: &Run<'_>, shift: usize, piece: Piece) -> Option<Window> {
    let from = run.offset + shift;
    let seats = &run.row.seats[from..from + piece.count];
    if seats.iter().filter(|seat| seat.accessible).count() != piece.accessible {
        return None;
    }
    let count = piece.count as i128;
    let (x, y) =
        seats.iter().fold((0_i128, 0_i128), |(x, y), seat| (x + i128::from(seat.at.x), y + i128::from(seat.at.y)));
    let (dx, dy) = (x - count * i128::from(plan.focal.x), y - count * i128::from(plan.focal.y));
    Some(Window { first: run.row_start + from as u32, count: piece.count as u32, distance: dx * dx + dy * dy })
}

/// Ways to seat a party apart: nobody alone first, then as few as possible alone; few pieces before many.
fn splits(count: usize) -> Vec<Vec<usize>> {
    fn parts(left: usize, max: usize, so_far: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if left == 0 {
            all.push(so_far.clone());
        }
        for size in (1..=max.min(left)).rev() {
            so_far.push(size);
            parts(left - size, size, so_far, all);
            so_far.pop();
        }
    }
    let mut all = Vec::new();
    // Larger parties than a cart are searched only as pairs and more; their partitions would be too many.
    parts(count.min(crate::limits::CART_SEATS), count.saturating_sub(1), &mut Vec::new(), &mut all);
    all.retain(|sizes| sizes.iter().sum::<usize>() == count);
    all.sort_by_key(|sizes| (sizes.iter().filter(|size| **size == 1).count(), sizes.len(), sizes[0]));
    all
}

/// Places the pieces one by one, the largest first, each as near as it can be; accessible seats go to the first piece that
/// can have them all, else one by one over the pieces.
fn place_pieces(plan: &SectionPlan, runs: &[Run<'_>], sizes: &[usize], party: Party) -> Option<Vec<Window>> {
    let mut left = party.accessible;
    let mut placed: Vec<Window> = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        let capacity_after: usize = sizes[at + 1..].iter().sum();
        let least = left.saturating_sub(capacity_after);
        let window = (least..=left.min(*size)).rev().find_map(|accessible| {
            let piece = Piece { count: *size, accessible };
            let window = best_window(plan, runs, piece, party.spare_singles, &placed)?;
            left -= accessible;
            Some(window)
        })?;
        placed.push(window);
    }
    (left == 0).then_some(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SectionId;
    use crate::inventory::record::{PlanSeat, Point, SectionKind};

    /// Four rows A to D of eight numbered seats, A-7 accessible, as a public chart has it.
    fn chart() -> SectionPlan {
        let rows = ["A", "B", "C", "D"].iter().enumerate().map(|(r, label)| PlanRow {
            label: (*label).to_owned(),
            seats: (0..8)
                .map(|s| PlanSeat {
                    label: (s + 1).to_string(),
                    at: Point { x: 15_194 + 2_000 * s, y: 9_956 + 2_400 * r as i32 },
                    accessible: *label == "A" && s == 6,
                    aisle_after: false,
                })
                .collect(),
        });
        plan(rows.collect(), Point { x: 22_500, y: 3_323 })
    }

    fn plan(rows: Vec<PlanRow>, focal: Point) -> SectionPlan {
        let capacity = rows.iter().map(|row| row.seats.len() as u32).sum();
        let (section, name) = (SectionId(0), "Stalls".to_owned());
        SectionPlan { section, name, kind: SectionKind::Seated, tier: 0, focal, rows, capacity }
    }

    /// One straight row with these labels, looked at from its middle.
    fn row(labels: &[&str]) -> SectionPlan {
        let seats = labels.iter().enumerate().map(|(at, label)| PlanSeat {
            label: (*label).to_owned(),
            at: Point { x: 100 * at as i32, y: 0 },
            accessible: false,
            aisle_after: false,
        });
        let focal = Point { x: 50 * (labels.len() as i32 - 1), y: -1_000 };
        plan(vec![PlanRow { label: "1".into(), seats: seats.collect() }], focal)
    }

    fn party(count: usize) -> Party {
        Party { count, accessible: 0, contiguous: false, spare_singles: true }
    }

    fn named(plan: &SectionPlan, seats: &[SeatIndex]) -> Vec<String> {
        seats.iter().map(|seat| plan.labels(*seat).map(|(row, seat)| format!("{row}-{seat}")).unwrap()).collect()
    }

    fn ask(plan: &SectionPlan, taken: &[&str], party: Party) -> Vec<String> {
        let taken: Vec<u32> = taken
            .iter()
            .map(|name| {
                let (row, seat) = name.split_once('-').unwrap();
                plan.find(row, seat).unwrap().0
            })
            .collect();
        find(plan, party, |seat| !taken.contains(&seat)).map_or(Vec::new(), |found| named(plan, &found.seats))
    }

    #[test]
    fn answers_as_published_for_the_chart() {
        let chart = chart();
        assert_eq!(ask(&chart, &[], party(1)), ["A-5"]);
        assert_eq!(ask(&chart, &[], party(2)), ["A-4", "A-5"]);
        assert_eq!(ask(&chart, &[], party(3)), ["A-4", "A-5", "A-6"]);
        assert_eq!(ask(&chart, &["A-4", "A-5"], party(2)), ["B-4", "B-5"]);
        let careless = Party { spare_singles: false, ..party(2) };
        assert_eq!(ask(&chart, &["A-4", "A-5"], careless), ["A-2", "A-3"]);
        let wheelchair = Party { accessible: 1, ..party(3) };
        assert_eq!(ask(&chart, &[], wheelchair), ["A-6", "A-7", "A-8"]);
    }

    #[test]
    fn agrees_with_the_shared_answers_where_they_are_at_hand() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/best-available.json");
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names = |value: &serde_json::Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        for case in cases["cases"].as_array().unwrap() {
            let taken = names(&case["taken"]);
            let wish = Party {
                accessible: case["accessible"].as_u64().unwrap_or(0) as usize,
                spare_singles: case["avoid_single_seats"].as_bool().unwrap_or(true),
                ..party(case["count"].as_u64().unwrap() as usize)
            };
            let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
            assert_eq!(ask(&chart(), &taken, wish), names(&case["answer"]), "{case}");
        }
    }

    #[test]
    fn judges_the_whole_take_and_keeps_a_party_together() {
        let six = row(&["1", "2", "3", "4", "5", "6"]);
        assert_eq!(ask(&six, &["1-6", "1-1", "1-2", "1-3"], party(2)), ["1-4", "1-5"]);
        let ten = row(&["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
        assert_eq!(ask(&ten, &[], party(9)).len(), 9);
        let found = find(&ten, party(9), |_| true).unwrap();
        assert!(found.together);
    }

    #[test]
    fn sells_the_last_pair_singly_if_it_must() {
        let two = row(&["1", "2"]);
        assert_eq!(ask(&two, &[], party(1)), ["1-1"]);
        assert_eq!(ask(&two, &["1-1"], party(1)), ["1-2"]);
        assert_eq!(ask(&two, &["1-1"], party(2)), [""; 0]);
    }

    #[test]
    fn neighbours_come_from_plan_order_and_an_aisle_ends_a_run() {
        let odd_even = row(&["5", "3", "1", "2", "4", "6"]);
        assert_eq!(ask(&odd_even, &[], party(2)), ["1-1", "1-2"]);
        let mut with_aisle = row(&["1", "2", "3", "4"]);
        with_aisle.rows[0].seats[1].aisle_after = true;
        let together = Party { contiguous: true, ..party(3) };
        assert_eq!(ask(&with_aisle, &[], together), [""; 0]);
        assert_eq!(ask(&with_aisle, &[], party(4)), ["1-1", "1-2", "1-3", "1-4"]);
        assert!(!find(&with_aisle, party(4), |_| true).unwrap().together);
    }

    #[test]
    fn splits_a_party_with_nobody_alone_if_avoidable() {
        let chart = chart();
        // Runs of two, two and one are left.
        let left = ["B-1", "B-2", "C-4", "C-5", "D-8"];
        let free = |seat: u32| left.contains(&named(&chart, &[SeatIndex(seat)])[0].as_str());
        let four = find(&chart, party(4), free).unwrap();
        assert_eq!(named(&chart, &four.seats), ["B-1", "B-2", "C-4", "C-5"]);
        assert!(!four.together);
        let three = find(&chart, party(3), free).unwrap();
        assert_eq!(three.seats.len(), 3);
        assert_eq!(find(&chart, Party { contiguous: true, ..party(3) }, free), None);
        assert_eq!(find(&chart, party(6), free), None);
        let alternative = alternative(&chart, free);
        assert_eq!((alternative.free, alternative.largest_together), (5, 2));
    }

    #[test]
    fn accessible_seats_are_kept_for_those_who_ask() {
        let chart = chart();
        let only = |names: &'static [&'static str]| {
            let chart = chart.clone();
            move |seat: u32| names.contains(&named(&chart, &[SeatIndex(seat)])[0].as_str())
        };
        assert_eq!(find(&chart, party(2), only(&["A-7", "A-8"])), None);
        let wish = Party { accessible: 1, ..party(2) };
        assert_eq!(find(&chart, wish, only(&["A-7", "A-8"])).unwrap().seats.len(), 2);
        assert_eq!(find(&chart, Party { accessible: 2, ..party(2) }, |_| true), None);
    }
}
