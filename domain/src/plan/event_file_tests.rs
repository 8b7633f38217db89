//! Event files: the demo's two, and what is refused.

use super::*;
use serde_json::{Value, json};

const NOW: WallMs = WallMs(1_800_000_000_000);

fn arena() -> Value {
    json!({
        "id": 2, "title": "Arena night", "venue": "Arena", "starts_at": "+30d", "on_sale_at": "now", "currency": "EUR",
        "hold_ttl_s": 120, "tiers": [{"name": "Block", "price_cents": 4500}, {"name": "Floor", "price_cents": 6000}],
        "sections": [
            {"generate": {"prefix": "Block ", "first": 101, "count": 3, "rows": 4, "seats": 5, "tier": "Block"}},
            {"standing": {"name": "Floor", "capacity": 100, "tier": "Floor"}},
        ],
        "promotions": [{"code": "EARLY", "discount_bps": 1000, "max_uses": 3}],
    })
}

fn build(file: &Value) -> Result<Publication, EventFileError> {
    EventFile::parse(&file.to_string())?.build(3, NOW, &BTreeMap::new())
}

#[test]
fn an_event_file_becomes_a_record_and_its_sections() {
    let publication = build(&arena()).unwrap();
    let event = &publication.event;
    assert_eq!((event.id, event.version, event.hold_ttl_ms), (EventId(2), 3, 120_000));
    assert_eq!((event.on_sale_at, event.starts_at), (NOW, WallMs(NOW.0 + 30 * 86_400_000)));
    let sections: Vec<_> =
        event.sections.iter().map(|s| (s.id.0, s.name.as_str(), s.kind, s.tier, s.capacity)).collect();
    assert_eq!(
        sections,
        [
            (0, "Block 101", SectionKind::Seated, 0, 20),
            (1, "Block 102", SectionKind::Seated, 0, 20),
            (2, "Block 103", SectionKind::Seated, 0, 20),
            (3, "Floor", SectionKind::Standing, 1, 100),
        ]
    );
    assert_eq!(publication.plans.len(), 4);
    assert_eq!(publication.promotions[0].cap, 3);
}

#[test]
fn what_is_wrong_is_named() {
    let cases: Vec<(&str, &str, Value)> = vec![
        ("id", "/id", json!(0)),
        ("title", "/title", json!(" ")),
        ("venue", "/venue", json!("x\ny")),
        ("hold_ttl_s", "/hold_ttl_s", json!(0)),
        ("hold_ttl_s", "/hold_ttl_s", json!(4_294_967_295_u32)),
        ("starts_at", "/starts_at", json!("now")),
        ("tiers", "/tiers", json!([])),
        ("tiers[1]", "/tiers/1/name", json!("Block")),
        ("tiers[0]", "/tiers/0/price_cents", json!(0)),
        ("sections", "/sections", json!([])),
        ("sections[0]", "/sections/0/generate/tier", json!("Box")),
        ("sections[0]", "/sections/0/generate/rows", json!(0)),
        ("sections[1]", "/sections/1/standing/capacity", json!(10_001)),
        ("sections", "/sections/1/standing/name", json!("Block 101")),
        ("promotions[0]", "/promotions/0/discount_bps", json!(10_000)),
        ("promotions[0]", "/promotions/0/max_uses", json!(0)),
        ("promotions[0]", "/promotions/0/code", json!("A B")),
        ("promotions[0]", "/promotions/0/code", json!(" ")),
        ("sections[0]", "/sections/0", json!({"plan": {"file": "absent.json"}})),
    ];
    for (expected, pointer, value) in cases {
        let mut file = arena();
        *file.pointer_mut(pointer).expect(pointer) = value;
        match build(&file) {
            Err(EventFileError::Content { field, problem }) => assert_eq!(field, expected, "{problem}"),
            other => panic!("{pointer}: {other:?}"),
        }
    }
}

#[test]
fn a_misspelt_or_mistyped_field_is_refused() {
    for (field, value) in [
        ("hold_tll_s", json!(5)),
        ("on_sale_at", json!("soon")),
        ("currency", json!("EURO")),
        ("id", json!(-1)),
        ("queue", json!({"capacity": 5, "mode": "random"})),
        ("sections", json!([{"seats": {}}])),
    ] {
        let mut file = arena();
        file[field] = value;
        assert!(matches!(build(&file), Err(EventFileError::Format(_))), "{field}");
    }
}

#[test]
fn the_demos_events_can_be_published() {
    let hall = EventFile::parse(include_str!("../../../cli/assets/hall.json")).unwrap();
    assert_eq!(hall.plan_files(), BTreeSet::from(["hall.pretix.json"]));
    let plan = include_str!("../../../cli/assets/hall.pretix.json").to_owned();
    let hall = hall.build(1, NOW, &BTreeMap::from([("hall.pretix.json".to_owned(), plan)])).unwrap();
    let seats: u32 = hall.plans.iter().map(|plan| plan.capacity).sum();
    assert!((580..=620).contains(&seats), "{seats}");
    let accessible = hall.plans.iter().flat_map(|plan| &plan.rows).flat_map(|row| &row.seats).filter(|s| s.accessible);
    assert!(accessible.count() > 0);

    let arena = EventFile::parse(include_str!("../../../cli/assets/arena.json")).unwrap();
    let arena = arena.build(1, NOW, &BTreeMap::new()).unwrap();
    let of = |kind| arena.plans.iter().filter(move |plan| plan.kind == kind);
    assert_eq!(of(SectionKind::Seated).count(), 40);
    assert_eq!(of(SectionKind::Seated).map(|plan| plan.capacity).sum::<u32>(), 20_000);
    assert_eq!(of(SectionKind::Standing).count(), 1);
    assert_ne!(hall.event.id, arena.event.id);
}
