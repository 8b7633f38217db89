//! `encore admin history`: who owned a seat, and since when.

use super::Desk;
use anyhow::{Context, Result, bail};
use domain::ids::{EventId, SeatIndex};
use domain::inventory::SeatChangeKind;
use domain::inventory::record::{SectionKind, SectionPlan};
use domain::time::WallMs;
use raft_store::client::Gap;
use raft_store::history::Ownership;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Arguments of `encore admin history`.
#[derive(clap::Args, Debug)]
pub struct HistoryArguments {
    /// The event's number
    event: EventId,
    /// The section's name
    section: String,
    /// The row's label; `-` in a standing area
    row: String,
    /// The seat's label
    seat: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(desk: &Desk, arguments: &HistoryArguments) -> Result<()> {
    let HistoryArguments { event, section, row, seat, json } = arguments;
    let record = desk.store.event(*event).await?.with_context(|| format!("there is no event {event}"))?;
    let names = || record.sections.iter().map(|section| section.name.as_str()).collect::<Vec<_>>().join(", ");
    let summary = record
        .section_named(section)
        .with_context(|| format!("event {event} has no section {section}; it has {}", names()))?;
    let plan = desk.store.plan(*event, summary.id).await?;
    let index = find(&plan, row, seat).with_context(|| format!("{section} has no seat {seat} in row {row}"))?;
    let told = desk.store.history(*event, summary.id, index).await;
    if told.answered == 0 {
        bail!("no node could tell: {}", told.silent.join("; "));
    }
    for silent in &told.silent {
        eprintln!("not asked: {silent}");
    }
    if *json {
        let changes: Vec<_> = told.changes.iter().map(as_json).collect();
        let gap = |gap: &Gap| json!({"group": gap.group.0, "first": gap.first, "last": gap.last});
        let gaps: Vec<_> = told.gaps.iter().map(gap).collect();
        println!("{}", serde_json::to_string_pretty(&json!({"changes": changes, "gaps": gaps}))?);
        return Ok(());
    }
    println!("Event {event}, {section}, row {row}, seat {seat}");
    for Gap { group, first, last } in &told.gaps {
        println!(
            "No node has entries {first} to {last} of group {group} any more: what happened in them is not told here."
        );
    }
    if told.changes.is_empty() {
        let since = if told.gaps.is_empty() { "has never been anybody's." } else { "Nothing else is known of it." };
        println!("{since}");
    }
    for change in &told.changes {
        let when = change.at.map_or_else(|| "at the latest then".to_owned(), when);
        let place = format!("group {} entry {}", change.group, change.index);
        println!("{when:<24}  {:<9}  {:<16}  {place}", word(change.kind), change.reservation.to_string());
    }
    Ok(())
}

/// The seat of these labels; places of a standing area are numbered from 1.
fn find(plan: &SectionPlan, row: &str, seat: &str) -> Option<SeatIndex> {
    match plan.kind {
        SectionKind::Seated => plan.find(row, seat),
        SectionKind::Standing => {
            let place = seat.parse::<u32>().ok()?.checked_sub(1)?;
            (place < plan.capacity).then_some(SeatIndex(place))
        }
    }
}

fn as_json(change: &Ownership) -> serde_json::Value {
    json!({
        "at": change.at.map(when), "what": word(change.kind), "reservation_id": change.reservation.to_string(),
        "group": change.group.0, "entry": change.index,
    })
}

fn word(kind: SeatChangeKind) -> &'static str {
    match kind {
        SeatChangeKind::Held => "held",
        SeatChangeKind::Blocked => "blocked",
        SeatChangeKind::Sold => "sold",
        SeatChangeKind::Released => "released",
        SeatChangeKind::Returned => "returned",
    }
}

fn when(at: WallMs) -> String {
    let seconds = i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX);
    let known = OffsetDateTime::from_unix_timestamp(seconds).ok();
    known.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| at.0.to_string())
}
