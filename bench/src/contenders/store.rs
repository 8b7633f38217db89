//! Encore's own store, through the client that the buy plane uses.

use crate::contender::{Contender, Failure, Verdict};
use crate::workload::{Attempt, Hall, Place};
use domain::ids::{EventId, GroupId, SeatIndex, SeatRef, SectionId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::record::{
    EventRecord, EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionPlan, SectionSummary, Status,
    Tier,
};
use domain::inventory::{Outcome, Refusal};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use futures::future::BoxFuture;
use raft_store::client::{Client, ClientError};
use std::fmt::Display;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seats of a row.
const ROW: u32 = 50;
/// Events of one sale at most: numbers of events are `sale * EVENTS + part`.
const EVENTS: u32 = 64;
/// Partitions of the fans of one event.
const BUCKETS: u16 = 16;

/// How a hall lies over the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every group has an event of its own with a share of the sections: a cart stays in its group.
    Apart(Vec<GroupId>),
    /// One event, its sections spread over the groups: neighbouring sections are in different ones.
    Spread(Vec<GroupId>),
}

/// The store.
pub struct Store {
    client: Client,
    layout: Layout,
    hold_ttl_ms: u32,
    end: Option<Instant>,
}

impl Store {
    /// Over a running store that has these groups.
    pub fn new(client: Client, layout: Layout, hold_ttl_ms: u32) -> Self {
        Self { client, layout, hold_ttl_ms, end: None }
    }

    /// Every hold ends at this instant.
    pub fn ending_at(self, end: Instant) -> Self {
        Self { end: Some(end), ..self }
    }

    /// The event, or the first one, of a sale.
    pub fn first_event(&self, sale: u32) -> EventId {
        EventId(sale * EVENTS)
    }

    /// All events of a sale, and its sections there.
    pub fn sections(&self, sale: u32, hall: Hall) -> Vec<(EventId, Vec<SectionId>)> {
        let events = self.events(sale, hall).into_iter();
        events.map(|(event, _, sections)| (event, sections.into_iter().map(SectionId).collect())).collect()
    }

    /// The events of a sale: each with the groups that it is for and its sections' numbers in the hall.
    fn events(&self, sale: u32, hall: Hall) -> Vec<(EventId, Vec<GroupId>, Vec<u16>)> {
        let EventId(first) = self.first_event(sale);
        match &self.layout {
            Layout::Spread(groups) => vec![(EventId(first), groups.clone(), (0..hall.sections).collect())],
            Layout::Apart(groups) => (0u32..)
                .zip(groups)
                .map(|(part, group)| {
                    let sections = (part as u16..hall.sections).step_by(groups.len()).collect();
                    (EventId(first + part), vec![*group], sections)
                })
                .collect(),
        }
    }

    /// The event and the seat there that a place of the hall is.
    fn locate(&self, sale: u32, place: Place) -> (EventId, SeatRef) {
        let seat = SeatRef { section: SectionId(place.section), seat: SeatIndex(place.seat) };
        match &self.layout {
            Layout::Spread(_) => (EventId(sale * EVENTS), seat),
            Layout::Apart(groups) => (EventId(sale * EVENTS + u32::from(place.section) % groups.len() as u32), seat),
        }
    }

    async fn publish(&self, sale: u32, hall: Hall) -> Result<(), Failure> {
        for (id, groups, sections) in self.events(sale, hall) {
            let plans: Vec<SectionPlan> = sections.into_iter().map(|section| plan(section, hall.seats)).collect();
            let event = event(id, &plans, self.hold_ttl_ms);
            self.client.publish(event, plans, Vec::new(), groups).await.map_err(failure)?;
        }
        Ok(())
    }

    async fn begin(&self, sale: u32, attempt: Attempt) -> Result<Verdict, Failure> {
        let (event, _) = self.locate(sale, attempt.seats[0]);
        let seats = attempt.seats.iter().map(|place| self.locate(sale, *place).1).collect();
        let number = attempt.number;
        let begin = Begin {
            key: format!("key-{number}").parse().map_err(failure)?,
            fingerprint: [0; 16],
            user: format!("fan-{number}").parse().map_err(failure)?,
            cart: Cart::Chosen { seats, places: Vec::new() },
            promotion: None,
            pass: Some(format!("pass-{number}").parse().map_err(failure)?),
            sent_at: now(),
            hold_ttl_ms: self.end.map(|end| left(end).as_millis() as u32),
            purpose: Purpose::Checkout,
            note: None,
        };
        match self.client.begin(event, begin).await {
            Ok(Outcome::Reservation(view)) if view.status == Status::Held => Ok(Verdict::Granted),
            Ok(Outcome::Refused(Refusal::SeatsTaken { .. }) | Outcome::Advised(Refusal::SeatsTaken { .. })) => {
                Ok(Verdict::Refused)
            }
            Ok(other) => Err(failure(format!("{other:?}").chars().take(200).collect::<String>())),
            Err(ClientError::Overloaded { .. }) => Ok(Verdict::Overloaded),
            Err(error) => Err(failure(error)),
        }
    }
}

impl Contender for Store {
    fn name(&self) -> String {
        match &self.layout {
            Layout::Apart(groups) if groups.len() == 1 => "Encore, 1 group".to_owned(),
            Layout::Apart(groups) => format!("Encore, {} groups", groups.len()),
            Layout::Spread(groups) => format!("Encore, carts over {} groups", groups.len()),
        }
    }

    fn open(&self, sale: u32, hall: Hall) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.publish(sale, hall))
    }

    fn hold(&self, sale: u32, attempt: Attempt) -> BoxFuture<'_, Result<Verdict, Failure>> {
        Box::pin(self.begin(sale, attempt))
    }
}

fn failure(error: impl Display) -> Failure {
    Failure { contender: "Encore", reason: error.to_string() }
}

/// What is left until then; a hold has a least length.
fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1))
}

fn now() -> WallMs {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(now.as_millis() as u64)
}

fn plan(section: u16, seats: u32) -> SectionPlan {
    let seat = |row: u32, seat: u32| PlanSeat {
        label: (seat + 1).to_string(),
        at: Point { x: seat as i32 * 100, y: row as i32 * 100 },
        accessible: false,
        aisle_after: false,
    };
    let row = |row: u32| PlanRow {
        label: (row + 1).to_string(),
        seats: (0..ROW.min(seats - row * ROW)).map(|number| seat(row, number)).collect(),
    };
    SectionPlan {
        section: SectionId(section),
        name: format!("Section {section}"),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 2_500, y: -500 },
        rows: (0..seats.div_ceil(ROW)).map(row).collect(),
        capacity: seats,
    }
}

fn event(id: EventId, plans: &[SectionPlan], hold_ttl_ms: u32) -> EventRecord {
    EventRecord {
        id,
        version: 1,
        title: format!("Sale {id}"),
        venue: "Hall".into(),
        starts_at: WallMs(now().0 + 30 * 86_400_000),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms,
        user_limit: 6,
        buckets: BUCKETS,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 100,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "A".into(), base: Minor(5_000) }],
        sections: plans.iter().map(SectionSummary::of).collect(),
    }
}
