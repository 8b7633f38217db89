//! The importer on small plans, on broken ones, and on the demo's hall.

use super::*;
use serde_json::json;

fn small() -> Value {
    let seat = |guid: &str, number: &str, x: f64, category: &str| json!({"seat_guid": guid, "seat_number": number, "position": {"x": x, "y": 0}, "category": category});
    json!({
        "name": "Small", "size": {"width": 200, "height": 100},
        "categories": [{"name": "A", "color": "#f00"}, {"name": "B"}],
        "zones": [
            {"name": "Stalls", "position": {"x": 10, "y": 20}, "uuid": "z", "zone_id": "s", "areas": [{"shape": "text"}],
             "rows": [
                {"row_number": "1", "position": {"x": 1.005, "y": 2}, "row_number_position": null, "row_label": null,
                 "seats": [seat("1-1", "1", 0.0, "A"), seat("1-2", "2", 20.0, "A"),
                           seat("1-3", "3", 60.0, "A"), seat("1-4", "4", 80.0, "A"), seat("1-5", "5", 100.0, "A")]},
                {"row_number": "2", "position": {"x": 0, "y": 30}, "seats": [seat("2-1", "1", 0.0, "A")]}]},
            {"position": {"x": 0, "y": 200}, "rows": [
                {"row_number": "1", "seats": [seat("b1", "1", 0.0, "B"), seat("b2", "2", 20.0, "A")]}]},
        ]
    })
}

fn read(plan: &Value) -> Result<Vec<CategorySection>, PlanError> {
    read_pretix(&plan.to_string(), &PretixOptions::default(), 0)
}

#[test]
fn zones_become_sections_with_offsets_added_and_aisles_found() {
    let sections = read(&small()).unwrap();
    let names: Vec<_> =
        sections.iter().map(|(s, category)| (s.section.0, s.name.as_str(), category.as_str())).collect();
    assert_eq!(names, [(0, "Stalls", "A"), (1, "Section 2 B", "B"), (2, "Section 2 A", "A")]);
    let stalls = &sections[0].0;
    assert_eq!((stalls.capacity, stalls.rows.len(), stalls.focal), (6, 2, Point { x: 10_000, y: 0 }));
    // 1.005 is just below its decimal form in binary: 100, not 101.
    assert_eq!(stalls.rows[0].seats[1].at, Point { x: 1_000 + 100 + 2_000, y: 2_200 });
    let aisles: Vec<_> = stalls.rows[0].seats.iter().map(|seat| seat.aisle_after).collect();
    assert_eq!(aisles, [false, true, false, false, false]);
}

#[test]
fn rows_of_one_number_are_one_row() {
    let mut plan = small();
    plan["zones"][0]["rows"][1]["row_number"] = json!("1");
    plan["zones"][0]["rows"][1]["seats"][0]["seat_number"] = json!("6");
    let sections = read(&plan).unwrap();
    assert_eq!(sections[0].0.rows.len(), 1);
    assert_eq!(sections[0].0.rows[0].seats.len(), 6);
    assert!(sections[0].0.rows[0].seats[4].aisle_after, "the two parts stand apart");
}

#[test]
fn accessible_seats_are_named_and_must_exist() {
    let options = |guid: &str| PretixOptions { accessible: BTreeSet::from([guid.to_owned()]), focal: Some((7, 8)) };
    let sections = read_pretix(&small().to_string(), &options("1-5"), 4).unwrap();
    let accessible: Vec<_> = sections[0].0.rows[0].seats.iter().map(|seat| seat.accessible).collect();
    assert_eq!(accessible, [false, false, false, false, true]);
    assert_eq!((sections[0].0.section, sections[0].0.focal), (SectionId(4), Point { x: 700, y: 800 }));
    assert!(read_pretix(&small().to_string(), &options("nowhere"), 0).is_err());
}

#[test]
fn a_refusal_names_the_place() {
    type Spoil = Box<dyn Fn(&mut Value)>;
    let cases: Vec<(&str, Spoil)> = vec![
        (
            "zone 1 (Stalls), row 1 (1), seat 2 (2)",
            Box::new(|p| p["zones"][0]["rows"][0]["seats"][1]["category"] = json!("C")),
        ),
        (
            "zone 1 (Stalls), row 1 (1), seat 2 (1)",
            Box::new(|p| p["zones"][0]["rows"][0]["seats"][1]["seat_number"] = json!("1")),
        ),
        (
            "zone 1 (Stalls), row 1 (1), seat 2 ( )",
            Box::new(|p| p["zones"][0]["rows"][0]["seats"][1]["seat_number"] = json!(" ")),
        ),
        (
            "zone 1 (Stalls), row 2 (2), seat 1 (1)",
            Box::new(|p| p["zones"][0]["rows"][1]["seats"][0]["seat_guid"] = json!("1-1")),
        ),
        (
            "zone 1 (Stalls), row 1 (1), seat 2 (2)",
            Box::new(|p| p["zones"][0]["rows"][0]["seats"][1]["position"]["x"] = json!(0)),
        ),
        (
            "zone 1 (Stalls), row 1 (1), seat 2 (2)",
            Box::new(|p| p["zones"][0]["rows"][0]["seats"][1]["position"]["x"] = json!(1e300)),
        ),
        ("zone 1 (Stalls), row 2 (2)", Box::new(|p| p["zones"][0]["rows"][1]["seats"] = json!([]))),
        ("zone 1 (Stalls), row 2 ()", Box::new(|p| p["zones"][0]["rows"][1]["row_number"] = json!(""))),
        ("zone 1 (Stalls)", Box::new(|p| p["zones"][0]["position"]["y"] = json!(-2e6))),
        ("zone 1", Box::new(|p| p["zones"][0]["name"] = json!("x".repeat(65)))),
        ("category 2", Box::new(|p| p["categories"][1]["name"] = json!("A"))),
        ("the plan", Box::new(|p| p["zones"] = json!([]))),
        ("zone \"Section 2 A\"", Box::new(|p| p["zones"][0]["name"] = json!("Section 2 A"))),
    ];
    for (expected, spoil) in cases {
        let mut plan = small();
        spoil(&mut plan);
        match read(&plan) {
            Err(PlanError::Content { place, problem }) => assert_eq!(place, expected, "{problem}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
    for (field, value) in [("zonez", json!([])), ("size", json!(5)), ("zones", json!({}))] {
        let mut plan = small();
        plan[field] = value;
        assert!(matches!(read(&plan), Err(PlanError::Format(_))), "{field}");
    }
    assert!(matches!(read_pretix("{", &PretixOptions::default(), 0), Err(PlanError::Format(_))));
}

#[test]
fn a_section_too_large_is_refused() {
    let mut plan = small();
    let seats: Vec<_> = (0..=limits::SECTION_SEATS)
        .map(|n| json!({"seat_guid": format!("g{n}"), "seat_number": n.to_string(), "position": {"x": n, "y": 900}, "category": "A"}))
        .collect();
    plan["zones"][0]["rows"][1]["seats"] = json!(seats);
    assert!(read(&plan).unwrap_err().to_string().contains("more than the 10000 of a section"));
}

#[test]
fn the_demos_hall_is_a_plan_of_about_six_hundred_seats() {
    let text = include_str!("../../../cli/assets/hall.pretix.json");
    let sections = read_pretix(text, &PretixOptions::default(), 0).unwrap();
    let seats: u32 = sections.iter().map(|(section, _)| section.capacity).sum();
    assert!((580..=620).contains(&seats), "{seats}");
}

/// A real theatre, where the shared plans are at hand.
#[test]
fn a_real_auditorium_keeps_its_seat_counts() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/plans/ull_paraninfo.pretix.json");
    let Ok(text) = std::fs::read_to_string(file) else { return };
    let sections = read_pretix(&text, &PretixOptions::default(), 0).unwrap();
    let counts: Vec<_> = sections.iter().map(|(section, _)| section.capacity).collect();
    assert_eq!(counts, [396, 137, 32, 38]);
    let again = read_pretix(&text, &PretixOptions::default(), 0).unwrap();
    assert_eq!(again, sections);
}
