//! The file that describes one event: times, prices, sections, promotions. Unknown fields are refused, so that a misspelt
//! setting is an error and not a surprise on the day of the sale.

use super::generate::GeneratedSections;
use super::moment::Moment;
use super::pretix::{PlanError, PretixOptions, read_pretix};
use super::{Promotion, Publication, printable};
use crate::ids::{EventId, PromotionCode, SectionId};
use crate::inventory::record::{
    EventRecord, EventStatus, Point, QueueMode, SectionKind, SectionPlan, SectionSummary, Tier,
};
use crate::limits;
use crate::money::{Currency, Minor};
use crate::time::WallMs;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The largest price, in minor units: sums over a cart stay far from overflow.
const PRICE_MAX: i64 = 100_000_000;
/// Characters of a title or a venue.
const TITLE_LEN: usize = 200;

/// One event as its organiser writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventFile {
    /// Its number; publishing the same number again updates the event.
    pub id: u32,
    /// For people.
    pub title: String,
    /// For people.
    pub venue: String,
    /// When it takes place.
    pub starts_at: Moment,
    /// When holds begin.
    pub on_sale_at: Moment,
    /// Of every price.
    pub currency: Currency,
    /// How long a hold lasts, in seconds.
    #[serde(default = "default_hold_ttl_s")]
    pub hold_ttl_s: u32,
    /// Seats one user may hold and own.
    #[serde(default = "default_user_limit")]
    pub user_limit: u16,
    /// Whether prices follow occupancy and date.
    #[serde(default)]
    pub dynamic_pricing: bool,
    /// Whether a declined card leaves the hold for another try.
    #[serde(default)]
    pub retry_declined: bool,
    /// Version of the geometry; to be raised when it changes.
    #[serde(default = "default_plan_version")]
    pub plan_version: u32,
    /// `checkouts` partitions.
    #[serde(default = "default_buckets")]
    pub buckets: u16,
    /// Groups of the store over which a new event's sections and buckets are spread; one for most. Changed later by
    /// `encore admin spread`.
    #[serde(default = "default_spread")]
    pub spread: u16,
    /// The waiting room.
    #[serde(default)]
    pub queue: QueueFile,
    /// Price categories.
    pub tiers: Vec<TierFile>,
    /// Where the sections come from, in the order in which fans see them.
    pub sections: Vec<SectionSource>,
    /// Codes that take something off.
    #[serde(default)]
    pub promotions: Vec<PromotionFile>,
}

fn default_hold_ttl_s() -> u32 {
    600
}

fn default_user_limit() -> u16 {
    limits::CART_SEATS as u16
}

fn default_plan_version() -> u32 {
    1
}

fn default_spread() -> u16 {
    1
}

fn default_buckets() -> u16 {
    16
}

/// How the waiting room admits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueFile {
    /// How many may be in checkout at once.
    pub capacity: u32,
    /// How those who came before the sale are ordered.
    #[serde(default)]
    pub mode: QueueMode,
}

impl Default for QueueFile {
    fn default() -> Self {
        Self { capacity: 500, mode: QueueMode::Fifo }
    }
}

/// A price category.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierFile {
    /// What sections and plan categories call it.
    pub name: String,
    /// Price of a seat before occupancy, in minor units (yen have none: 8000 is 8000 yen).
    pub price_cents: i64,
}

/// Where sections come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionSource {
    /// A drawn plan.
    Plan(PlanSource),
    /// Equal blocks.
    Generate(GeneratedSections),
    /// Places without numbers.
    Standing(StandingArea),
}

/// A drawn plan in pretix's format.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSource {
    /// The plan's file, relative to the event file.
    pub file: String,
    /// Tier of each category that is not named like its tier.
    #[serde(default)]
    pub tiers: BTreeMap<String, String>,
    /// What everybody looks at, `[x, y]` in units of the plan.
    #[serde(default)]
    pub focal: Option<(i32, i32)>,
    /// GUIDs of seats for wheelchair users and their companions.
    #[serde(default)]
    pub accessible_seats: BTreeSet<String>,
}

/// A standing area.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingArea {
    /// Its name.
    pub name: String,
    /// Places.
    pub capacity: u32,
    /// Its price category.
    pub tier: String,
}

/// A code that takes something off each seat.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromotionFile {
    /// As printed; fans may type it in any case.
    pub code: String,
    /// Taken off, in basis points: 1000 is a tenth.
    pub discount_bps: u16,
    /// Uses over all orders; one a user.
    pub max_uses: u32,
}

/// Why an event file is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventFileError {
    /// Not JSON of this format.
    #[error("not an event file: {0}")]
    Format(String),
    /// Well-formed, but it cannot be sold as it is.
    #[error("{field}: {problem}")]
    Content {
        /// Where.
        field: String,
        /// What is wrong there.
        problem: String,
    },
    /// A plan that it names.
    #[error("plan {file}: {source}")]
    Plan {
        /// The plan's file.
        file: String,
        /// What is wrong with it.
        source: PlanError,
    },
}

fn refuse<T>(field: impl Into<String>, problem: impl Into<String>) -> Result<T, EventFileError> {
    Err(EventFileError::Content { field: field.into(), problem: problem.into() })
}

impl EventFile {
    /// Read the file. What it says is checked by [`EventFile::build`].
    pub fn parse(text: &str) -> Result<Self, EventFileError> {
        serde_json::from_str(text).map_err(|error| EventFileError::Format(error.to_string()))
    }

    /// The plan files that [`EventFile::build`] wants, as the event file names them.
    pub fn plan_files(&self) -> BTreeSet<&str> {
        let drawn = self.sections.iter().filter_map(|source| match source {
            SectionSource::Plan(plan) => Some(plan.file.as_str()),
            SectionSource::Generate(_) | SectionSource::Standing(_) => None,
        });
        drawn.collect()
    }

    /// Check everything and make what is published at `now` as `version`. `plans` has the text of each plan file.
    pub fn build(
        &self,
        version: u64,
        now: WallMs,
        plans: &BTreeMap<String, String>,
    ) -> Result<Publication, EventFileError> {
        self.check_scalars()?;
        let tiers = self.read_tiers()?;
        let promotions = self.read_promotions()?;
        let plans = self.read_sections(&tiers, plans)?;
        let (starts_at, on_sale_at) = (self.starts_at.resolve(now), self.on_sale_at.resolve(now));
        if starts_at <= on_sale_at {
            return refuse("starts_at", "the event must start after its sale");
        }
        let event = EventRecord {
            id: EventId(self.id),
            version,
            title: self.title.trim().to_owned(),
            venue: self.venue.trim().to_owned(),
            starts_at,
            on_sale_at,
            status: EventStatus::Scheduled,
            currency: self.currency,
            plan_version: self.plan_version,
            hold_ttl_ms: self.hold_ttl_s * 1_000,
            user_limit: self.user_limit,
            buckets: self.buckets,
            dynamic_pricing: self.dynamic_pricing,
            retry_declined: self.retry_declined,
            queue_capacity: self.queue.capacity,
            queue_mode: self.queue.mode,
            tiers,
            sections: plans.iter().map(SectionSummary::of).collect(),
        };
        Ok(Publication { event, plans, promotions })
    }

    fn check_scalars(&self) -> Result<(), EventFileError> {
        if self.id == 0 {
            return refuse("id", "an event's number starts at 1");
        }
        for (field, text) in [("title", &self.title), ("venue", &self.venue)] {
            if text.trim().is_empty() || text.chars().count() > TITLE_LEN || text.chars().any(char::is_control) {
                return refuse(field, format!("one line of at most {TITLE_LEN} characters is expected"));
            }
        }
        let ttl_ms = self.hold_ttl_s.checked_mul(1_000).filter(|ms| limits::HOLD_TTL_MS.contains(ms));
        if ttl_ms.is_none() {
            let (least, most) = (limits::HOLD_TTL_MS.start() / 1_000, limits::HOLD_TTL_MS.end() / 1_000);
            return refuse("hold_ttl_s", format!("{least} to {most} seconds are possible"));
        }
        if self.user_limit == 0 {
            return refuse("user_limit", "nobody could buy anything");
        }
        if self.buckets == 0 || self.buckets > limits::BUCKETS {
            return refuse("buckets", format!("1 to {} are possible", limits::BUCKETS));
        }
        if self.queue.capacity == 0 {
            return refuse("queue.capacity", "nobody would ever be admitted");
        }
        Ok(())
    }

    fn read_tiers(&self) -> Result<Vec<Tier>, EventFileError> {
        if self.tiers.is_empty() || self.tiers.len() > limits::SECTIONS {
            return refuse("tiers", format!("1 to {} are expected", limits::SECTIONS));
        }
        let mut names = BTreeSet::new();
        let read = |(at, tier): (usize, &TierFile)| {
            let field = format!("tiers[{at}]");
            let Some(name) = printable(&tier.name).filter(|name| names.insert(name.clone())) else {
                return refuse(field, "its name is blank, too long or not the only one");
            };
            if !(1..=PRICE_MAX).contains(&tier.price_cents) {
                return refuse(field, format!("price_cents is 1 to {PRICE_MAX}"));
            }
            Ok(Tier { name, base: Minor(tier.price_cents) })
        };
        self.tiers.iter().enumerate().map(read).collect()
    }

    fn read_promotions(&self) -> Result<Vec<Promotion>, EventFileError> {
        let mut codes = BTreeSet::new();
        let read = |(at, promotion): (usize, &PromotionFile)| {
            let field = format!("promotions[{at}]");
            let Ok(code) = PromotionCode::typed(&promotion.code) else {
                return refuse(field, "its code has blanks, or is empty or too long");
            };
            if !codes.insert(code.clone()) {
                return refuse(field, "its code is not the only one, written in capitals");
            }
            // Something must be left to pay: a payment of nothing is none.
            if promotion.discount_bps == 0 || promotion.discount_bps >= 10_000 {
                return refuse(field, "discount_bps is 1 to 9999");
            }
            if promotion.max_uses == 0 {
                return refuse(field, "max_uses is at least 1");
            }
            Ok(Promotion { code, discount_bps: promotion.discount_bps, cap: promotion.max_uses })
        };
        self.promotions.iter().enumerate().map(read).collect()
    }

    fn read_sections(
        &self,
        tiers: &[Tier],
        plans: &BTreeMap<String, String>,
    ) -> Result<Vec<SectionPlan>, EventFileError> {
        let mut sections: Vec<SectionPlan> = Vec::new();
        for (at, source) in self.sections.iter().enumerate() {
            let field = format!("sections[{at}]");
            let next = sections.len() as u16;
            match source {
                SectionSource::Plan(plan) => sections.extend(read_plan(plan, &field, tiers, plans, next)?),
                SectionSource::Generate(rule) => {
                    let tier = tier_named(tiers, &rule.tier, &field)?;
                    let built = rule.build(next, tier);
                    sections.extend(built.or_else(|problem| refuse(&field, problem))?);
                }
                SectionSource::Standing(area) => sections.push(read_standing(area, &field, tiers, next)?),
            }
            let seats: u64 = sections.iter().map(|section| u64::from(section.capacity)).sum();
            if sections.len() > limits::SECTIONS || seats > limits::EVENT_SEATS as u64 {
                let (most, seats) = (limits::SECTIONS, limits::EVENT_SEATS);
                return refuse(field, format!("an event has at most {most} sections and {seats} seats"));
            }
        }
        let mut names = BTreeSet::new();
        match sections.iter().find(|section| !names.insert(section.name.as_str())) {
            Some(twice) => refuse("sections", format!("two are named {:?}", twice.name)),
            None if sections.is_empty() => refuse("sections", "there is nothing to sell"),
            None => Ok(sections),
        }
    }
}

fn tier_named(tiers: &[Tier], name: &str, field: &str) -> Result<u16, EventFileError> {
    match tiers.iter().position(|tier| tier.name == name) {
        Some(at) => Ok(at as u16),
        None => refuse(field, format!("there is no tier {name:?}")),
    }
}

fn read_plan(
    source: &PlanSource,
    field: &str,
    tiers: &[Tier],
    plans: &BTreeMap<String, String>,
    next: u16,
) -> Result<Vec<SectionPlan>, EventFileError> {
    let Some(text) = plans.get(&source.file) else {
        return refuse(field, format!("the plan {:?} was not given", source.file));
    };
    let options = PretixOptions { focal: source.focal, accessible: source.accessible_seats.clone() };
    let sections = read_pretix(text, &options, next)
        .map_err(|error| EventFileError::Plan { file: source.file.clone(), source: error })?;
    let priced = |(mut section, category): (SectionPlan, String)| {
        section.tier = tier_named(tiers, source.tiers.get(&category).unwrap_or(&category), field)?;
        Ok(section)
    };
    sections.into_iter().map(priced).collect()
}

fn read_standing(area: &StandingArea, field: &str, tiers: &[Tier], next: u16) -> Result<SectionPlan, EventFileError> {
    let Some(name) = printable(&area.name) else {
        return refuse(field, "its name is blank or too long");
    };
    if area.capacity == 0 || area.capacity as usize > limits::SECTION_SEATS {
        return refuse(field, format!("its capacity is 1 to {}", limits::SECTION_SEATS));
    }
    Ok(SectionPlan {
        section: SectionId(next),
        name,
        kind: SectionKind::Standing,
        tier: tier_named(tiers, &area.tier, field)?,
        focal: Point::default(),
        rows: Vec::new(),
        capacity: area.capacity,
    })
}

#[cfg(test)]
#[path = "event_file_tests.rs"]
mod tests;
