//! `encore admin restore` and `encore admin rebuild`: an empty store gets its events back, from a backup and the ledger's
//! sales, or from the ledger alone.

use super::{Desk, now};
use anyhow::{Context, Result, bail, ensure};
use domain::ids::{EventId, Partition};
use domain::inventory::rebuild::{Rebuilt, Sources, rebuild};
use domain::inventory::record::EventStatus;
use domain::inventory::{Answer, EventRecord, Group, Query};
use ledger::catalogue::Publication;
use ledger::{Audit, Cancellations, Catalogue};
use raft_store::backup;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `encore admin restore`.
#[derive(clap::Args, Debug)]
pub struct RestoreArguments {
    /// What `encore admin backup` wrote
    file: PathBuf,
    /// Go on with a restore that was interrupted: what is there already stays
    #[arg(long)]
    resume: bool,
}

/// Arguments of `encore admin rebuild`.
#[derive(clap::Args, Debug)]
pub struct RebuildArguments {
    /// From the ledger's sales: sold seats come back, holds and blocks do not
    #[arg(long, required = true)]
    from_ledger: bool,
    /// Go on with a rebuild that was interrupted: what is there already stays
    #[arg(long)]
    resume: bool,
}

pub async fn restore(desk: &Desk, arguments: &RestoreArguments) -> Result<()> {
    let file = &arguments.file;
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let backup = backup::decode(&bytes.into()).with_context(|| file.display().to_string())?;
    println!("{}: {} groups.", file.display(), backup.groups.len());
    bring_back(desk, &backup.groups, arguments.resume).await
}

pub async fn from_ledger(desk: &Desk, arguments: &RebuildArguments) -> Result<()> {
    ensure!(arguments.from_ledger, "say --from-ledger");
    bring_back(desk, &[], arguments.resume).await
}

async fn bring_back(desk: &Desk, groups: &[Group], resume: bool) -> Result<()> {
    let there = desk.store.events().await.context("the store's catalogue")?;
    if !there.is_empty() && !resume {
        bail!("the store has {} events: a restore is for an empty one (or --resume an interrupted one)", there.len());
    }
    let backed_up = catalogue(groups);
    let events = desk.ledger.events().await.context("the ledger's catalogue")?;
    if let Some(unknown) = backed_up.keys().find(|id| events.iter().all(|event| event.id != **id)) {
        bail!("event {unknown} is in the backup and not in the ledger's catalogue: publish it first");
    }
    // Everything is read and checked before anything is written.
    let mut ready = Vec::new();
    for event in events {
        let publication = desk.ledger.publication(event.id).await.context("the ledger's catalogue")?;
        let publication = publication.with_context(|| format!("event {} has no publication", event.id))?;
        ready.push(prepare(desk, publication, &backed_up, groups).await?);
    }
    for (event, publication, rebuilt) in ready {
        let Rebuilt { partitions, sold, held, notes } = rebuilt;
        for note in &notes {
            println!("event {}: {note}", event.id);
        }
        let codes = publication.promotions.into_iter().map(|promotion| promotion.code).collect();
        let (id, title, count) = (event.id, event.title.clone(), partitions.len());
        desk.store.restore(event, codes, partitions).await.with_context(|| format!("event {id}"))?;
        println!("Event {id}, “{title}”: {count} partitions, {sold} seats sold, {held} held.");
    }
    println!("Now `encore admin audit` should find that every rule holds.");
    Ok(())
}

type Ready = (EventRecord, Publication, Rebuilt);

async fn prepare(
    desk: &Desk,
    publication: Publication,
    backed_up: &BTreeMap<EventId, EventRecord>,
    groups: &[Group],
) -> Result<Ready> {
    let sales = desk.ledger.sales(publication.event.id).await.context("the ledger's sales")?;
    // The backup's record has what operators have changed since it was published, such as closing it.
    let same_plan = |record: &&EventRecord| record.plan_version == publication.event.plan_version;
    let known = backed_up.get(&publication.event.id).filter(same_plan);
    let mut event = known.cloned().unwrap_or_else(|| publication.event.clone());
    // The copy may be older than the cancellation, which is for good.
    if desk.ledger.cancellation(event.id).await.context("the ledger's cancellations")?.cancellation.is_some() {
        event.status = EventStatus::Cancelled;
    }
    let promotions: Vec<_> = publication.promotions.iter().map(|p| (p.code.clone(), p.discount_bps, p.cap)).collect();
    let sources = Sources {
        event: &event,
        plans: &publication.plans,
        promotions: &promotions,
        groups,
        sales: &sales,
        now: now(),
    };
    let rebuilt = rebuild(&sources).map_err(anyhow::Error::msg);
    let rebuilt = rebuilt.with_context(|| format!("event {} cannot be rebuilt", event.id))?;
    Ok((event, publication, rebuilt))
}

/// The events that a backup knows.
fn catalogue(groups: &[Group]) -> BTreeMap<EventId, EventRecord> {
    let told = groups.iter().filter_map(|group| match group.query(&Partition::Meta, &Query::Events, 0) {
        Answer::Events(events) => Some(events),
        _ => None,
    });
    told.flatten().map(|event| (event.id, event)).collect()
}
