//! Plans, rules and requests as tests want them.

use domain::ids::{SeatIndex, SectionId, UserId};
use domain::inventory::SectionPlan;
use domain::inventory::command::{Begin, Cart, CheckoutRules, PriceRule, Purpose};
use domain::inventory::record::{EventStatus, PlanRow, PlanSeat, Point, SectionKind};
use domain::money::{Currency, Minor};
use domain::time::WallMs;

pub const DAY: u64 = 86_400_000;

/// Rows of so many seats, labelled A, B, … and 1, 2, …; looked at from the middle of the front.
pub fn hall(section: u16, rows: &[u32]) -> SectionPlan {
    let widest = rows.iter().copied().max().unwrap_or(0) as i32;
    let seats = |row: i32, count: u32| {
        (0..count as i32).map(move |seat| PlanSeat {
            label: (seat + 1).to_string(),
            at: Point { x: 100 * seat, y: 100 * row },
            accessible: false,
            aisle_after: false,
        })
    };
    let rows: Vec<PlanRow> = rows
        .iter()
        .enumerate()
        .map(|(at, count)| PlanRow {
            label: char::from(b'A' + at as u8).to_string(),
            seats: seats(at as i32, *count).collect(),
        })
        .collect();
    SectionPlan {
        section: SectionId(section),
        name: format!("section {section}"),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 50 * (widest - 1), y: -500 },
        capacity: rows.iter().map(|row| row.seats.len() as u32).sum(),
        rows,
    }
}

pub fn floor(section: u16, capacity: u32) -> SectionPlan {
    SectionPlan { kind: SectionKind::Standing, rows: Vec::new(), capacity, ..hall(section, &[]) }
}

pub fn rules() -> CheckoutRules {
    CheckoutRules {
        version: 1,
        currency: Currency::EUR,
        hold_ttl_ms: 60_000,
        user_limit: 6,
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        incarnation: 0,
    }
}

pub fn price(base: i64) -> PriceRule {
    PriceRule { base: Minor(base), dynamic: false, event_starts_at: WallMs(1_000 * DAY) }
}

pub fn begin(user: &str, key: &str, cart: Cart, sent_at: u64) -> Begin {
    let mut fingerprint = [0; 16];
    let text = format!("{cart:?}");
    for (at, byte) in text.bytes().enumerate() {
        fingerprint[at % 16] ^= byte.rotate_left((at / 16 % 8) as u32);
    }
    Begin {
        key: key.parse().unwrap(),
        fingerprint,
        user: user.parse::<UserId>().unwrap(),
        cart,
        promotion: None,
        pass: None,
        sent_at: WallMs(sent_at),
        hold_ttl_ms: None,
        purpose: Purpose::Checkout,
        note: None,
    }
}

pub fn chosen(seats: &[(u16, u32)]) -> Cart {
    let seats = seats
        .iter()
        .map(|(section, seat)| domain::ids::SeatRef { section: SectionId(*section), seat: SeatIndex(*seat) });
    Cart::Chosen { seats: seats.collect(), places: Vec::new() }
}
