//! Records that cross the store's door: the catalogue's event, a section's geometry and a reservation as its owner sees it.

use crate::ids::{EventId, PaymentId, PromotionCode, ReservationId, SeatIndex, SeatRef, SectionId, UserId};
use crate::money::{Currency, Minor};
use crate::time::{Ticks, WallMs};
use serde::{Deserialize, Serialize};

/// Whether an event can be bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    /// Shown; on sale from its `on_sale_at`.
    Scheduled,
    /// No new hold is granted; what is held may still be paid.
    Closed,
    /// Called off.
    Cancelled,
}

/// How the waiting room orders those who came before the sale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// First come, first served.
    #[default]
    Fifo,
    /// Those who joined before the sale are shuffled once when it starts; later ones follow in order.
    Lottery,
}

/// A price category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Its name on the plan.
    pub name: String,
    /// Price of a seat before occupancy, in minor units.
    pub base: Minor,
}

/// Whether places have numbers that a fan may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Numbered seats in rows.
    Seated,
    /// Interchangeable places, bought by count.
    Standing,
}

/// A section as the catalogue lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionSummary {
    /// Its id, in plan order.
    pub id: SectionId,
    /// Its name, unique within the event.
    pub name: String,
    /// Seated or standing.
    pub kind: SectionKind,
    /// Index into the event's tiers.
    pub tier: u16,
    /// Seats or places.
    pub capacity: u32,
}

/// The catalogue's record of one event; kept by the meta group so that browsing needs no database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its id.
    pub id: EventId,
    /// Raised by each publication; an older one never overwrites a newer one.
    pub version: u64,
    /// For people.
    pub title: String,
    /// For people.
    pub venue: String,
    /// When the doors matter.
    pub starts_at: WallMs,
    /// When holds begin.
    pub on_sale_at: WallMs,
    /// Whether it can be bought.
    pub status: EventStatus,
    /// Of every price of the event.
    pub currency: Currency,
    /// Version of the geometry; a layout is immutable under it.
    pub plan_version: u32,
    /// How long a hold lasts.
    pub hold_ttl_ms: u32,
    /// Seats one user may hold and own.
    pub user_limit: u16,
    /// `checkouts` partitions.
    pub buckets: u16,
    /// Whether prices follow occupancy and date; otherwise each seat costs its tier's base.
    pub dynamic_pricing: bool,
    /// Whether a declined card leaves the hold for another try.
    pub retry_declined: bool,
    /// How many may be in checkout at once.
    pub queue_capacity: u32,
    /// How the waiting room orders.
    pub queue_mode: QueueMode,
    /// Price categories.
    pub tiers: Vec<Tier>,
    /// Sections in plan order.
    pub sections: Vec<SectionSummary>,
}

impl EventRecord {
    /// The section of this name.
    pub fn section_named(&self, name: &str) -> Option<&SectionSummary> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The section of this id.
    pub fn section(&self, id: SectionId) -> Option<&SectionSummary> {
        self.sections.iter().find(|section| section.id == id)
    }
}

/// A point of the plan in hundredths of its unit; integers, so that every replica measures alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// To the right.
    pub x: i32,
    /// Downwards.
    pub y: i32,
}

/// A seat of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSeat {
    /// What is printed on it.
    pub label: String,
    /// Where it is.
    pub at: Point,
    /// Kept for wheelchair users and their companions.
    pub accessible: bool,
    /// An aisle follows: the next seat of the row is no neighbour.
    pub aisle_after: bool,
}

/// A row of a plan, seats in the order in which they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRow {
    /// What is printed on it.
    pub label: String,
    /// Seats from one end to the other.
    pub seats: Vec<PlanSeat>,
}

/// A section's geometry. A [`SeatIndex`] counts through its rows in this order. A standing area has no rows and
/// `capacity` places labelled `1..=capacity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPlan {
    /// Its id, in plan order.
    pub section: SectionId,
    /// Its name.
    pub name: String,
    /// Seated or standing.
    pub kind: SectionKind,
    /// Index into the event's tiers.
    pub tier: u16,
    /// What everybody looks at; the best seats are near it.
    pub focal: Point,
    /// Rows of a seated section; empty for a standing area.
    pub rows: Vec<PlanRow>,
    /// Seats or places.
    pub capacity: u32,
}

impl SectionSummary {
    /// What the catalogue lists of this section.
    pub fn of(plan: &SectionPlan) -> Self {
        Self { id: plan.section, name: plan.name.clone(), kind: plan.kind, tier: plan.tier, capacity: plan.capacity }
    }
}

impl SectionPlan {
    /// Row and seat as printed; `None` past the end. A standing place has an empty row label.
    pub fn labels(&self, seat: SeatIndex) -> Option<(&str, String)> {
        if self.kind == SectionKind::Standing {
            return (seat.0 < self.capacity).then(|| ("", (seat.0 + 1).to_string()));
        }
        let mut rest = seat.0 as usize;
        for row in &self.rows {
            match row.seats.get(rest) {
                Some(seat) => return Some((&row.label, seat.label.clone())),
                None => rest -= row.seats.len(),
            }
        }
        None
    }

    /// The seat with these labels.
    pub fn find(&self, row: &str, seat: &str) -> Option<SeatIndex> {
        let mut before = 0;
        for candidate in &self.rows {
            if candidate.label == row {
                let at = candidate.seats.iter().position(|s| s.label == seat)?;
                return Some(SeatIndex((before + at) as u32));
            }
            before += candidate.seats.len();
        }
        None
    }
}

/// Where a reservation stands. Terminals absorb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Participants are being asked.
    Preparing,
    /// A waitlist offer: seats held, not yet the live checkout.
    Offered,
    /// Every seat is held until the deadline.
    Held,
    /// Sold. Stays so through refunds.
    Paid,
    /// The deadline passed.
    Expired,
    /// Ended by its owner, or by an operator.
    Cancelled,
    /// A participant said no, or did not answer in time.
    Aborted,
}

impl Status {
    /// Whether nothing can change it any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Paid | Self::Expired | Self::Cancelled | Self::Aborted)
    }
}

/// A seat with the price frozen when it was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotedSeat {
    /// The seat.
    pub seat: SeatRef,
    /// Price by occupancy, before the discount.
    pub gross: Minor,
    /// What a promotion takes off.
    pub discount: Minor,
}

impl QuotedSeat {
    /// What the fan pays for it.
    pub fn net(&self) -> Minor {
        Minor(self.gross.0 - self.discount.0)
    }
}

/// A reservation as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationView {
    /// Its id.
    pub id: ReservationId,
    /// Whose it is.
    pub user: UserId,
    /// Where it stands; a hold whose deadline has passed says expired, swept or not.
    pub status: Status,
    /// Seats and frozen prices, ascending; empty while preparing.
    pub seats: Vec<QuotedSeat>,
    /// What is to be paid.
    pub total: Minor,
    /// Of `total`.
    pub currency: Currency,
    /// The code that was claimed with it.
    pub promotion: Option<PromotionCode>,
    /// When the hold ends, in the partition's service time.
    pub deadline: Ticks,
    /// Service time left at the moment of the answer.
    pub remaining_ms: u64,
    /// The payment that bought it.
    pub payment: Option<PaymentId>,
    /// Whether all seats are neighbours (best available).
    pub together: bool,
    /// The leader's wall clock at the entry that created it; for people.
    pub created_at: WallMs,
    /// The leader's wall clock at the entry that ended it; for people.
    pub ended_at: Option<WallMs>,
    /// Why the box office blocks it.
    pub note: Option<String>,
}
