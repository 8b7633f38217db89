//! What is on sale: one event after the other, so that there are always free seats to fight for.

use domain::ids::{EventId, PromotionCode, SectionId};
use domain::inventory::record::{
    EventRecord, EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionPlan, SectionSummary, Tier,
};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use raft_store::client::Promotion;
use std::time::{SystemTime, UNIX_EPOCH};

/// Sections of each event.
pub const SECTIONS: u16 = 6;
/// Rows of each section.
const ROWS: u32 = 20;
/// Seats of each row.
const ROW: u32 = 20;
/// Seats of each section.
pub const SEATS: u32 = ROWS * ROW;
/// A hold that nobody ends lasts longer than any run.
pub const HOLD_TTL_MS: u32 = 3_600_000;
/// Uses of the promotion, less than are asked for.
pub const USES: u32 = 40;
const BUCKETS: u16 = 6;

/// The clock on the wall.
pub fn wall_now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The code of every event's promotion.
pub fn code() -> PromotionCode {
    "EARLY".parse().expect("a code")
}

/// Everything that is published of one event.
pub fn publication(id: EventId) -> (EventRecord, Vec<SectionPlan>, Vec<Promotion>) {
    let plans: Vec<SectionPlan> = (0..SECTIONS).map(plan).collect();
    let record = EventRecord {
        id,
        version: 1,
        title: format!("Evening {id}"),
        venue: "Hall".into(),
        starts_at: WallMs(wall_now().0 + 30 * 86_400_000),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: HOLD_TTL_MS,
        user_limit: 6,
        buckets: BUCKETS,
        dynamic_pricing: true,
        retry_declined: false,
        queue_capacity: 100,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "All".into(), base: Minor(5_000) }],
        sections: plans.iter().map(SectionSummary::of).collect(),
    };
    (record, plans, vec![Promotion { code: code(), discount_bps: 1_000, cap: USES }])
}

fn plan(section: u16) -> SectionPlan {
    let seat = |row: u32, seat: u32| PlanSeat {
        label: (seat + 1).to_string(),
        at: Point { x: seat as i32 * 100, y: row as i32 * 100 },
        accessible: false,
        aisle_after: false,
    };
    SectionPlan {
        section: SectionId(section),
        name: format!("Section {section}"),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 950, y: -500 },
        rows: (0..ROWS)
            .map(|row| PlanRow { label: (row + 1).to_string(), seats: (0..ROW).map(|n| seat(row, n)).collect() })
            .collect(),
        capacity: SEATS,
    }
}
