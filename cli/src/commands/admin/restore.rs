//! `encore admin restore` and `encore admin rebuild`: an empty store gets its events back, from a backup and the ledger's
//! sales, or from the ledger alone.

use super::{Desk, now};
use anyhow::{Context, Result, bail, ensure};
use domain::ids::{EventId, Partition};
use domain::inventory::rebuild::{Rebuilt, Sale, Sources, highest_incarnation, rebuild};
use domain::inventory::record::EventStatus;
use domain::inventory::{Answer, EventRecord, Group, Query};
use ledger::catalogue::Publication;
use ledger::recoveries::{Recovery, RecoveryOutcome};
use ledger::{Audit, Cancellations, Catalogue, Recoveries};
use raft_store::backup;
use sha2::{Digest, Sha256};
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
    let digest = Sha256::digest(&bytes);
    let backup = backup::decode(&bytes.into()).with_context(|| file.display().to_string())?;
    println!("{}: {} groups.", file.display(), backup.groups.len());
    bring_back(desk, &backup.groups, &digest, arguments.resume).await
}

pub async fn from_ledger(desk: &Desk, arguments: &RebuildArguments) -> Result<()> {
    ensure!(arguments.from_ledger, "say --from-ledger");
    bring_back(desk, &[], b"the ledger alone", arguments.resume).await
}

/// `from` tells one backup from another.
async fn bring_back(desk: &Desk, groups: &[Group], from: &[u8], resume: bool) -> Result<()> {
    let there = desk.store.events().await.context("the store's catalogue")?;
    if !there.is_empty() && !resume {
        bail!("the store has {} events: a restore is for an empty one (or --resume an interrupted one)", there.len());
    }
    let backed_up = catalogue(groups);
    let lost = lost(desk).await?;
    if let Some(unknown) = backed_up.keys().find(|id| lost.iter().all(|lost| lost.publication.event.id != **id)) {
        bail!("event {unknown} is in the backup and not in the ledger's catalogue: publish it first");
    }
    let incarnation = incarnation(desk, groups, from, &lost, resume).await?;
    // Everything is checked before anything is written to the store.
    let ready = lost.iter().map(|lost| prepare(lost, &backed_up, groups, incarnation));
    for (lost, ready) in lost.iter().zip(ready.collect::<Result<Vec<_>>>()?) {
        let (event, Rebuilt { partitions, sold, held, notes }) = ready;
        for note in &notes {
            println!("event {}: {note}", event.id);
        }
        let codes = lost.publication.promotions.iter().map(|promotion| promotion.code.clone()).collect();
        let (id, title, status, count) = (event.id, event.title.clone(), event.status, partitions.len());
        desk.store.restore(event, codes, partitions).await.with_context(|| format!("event {id}"))?;
        println!("Event {id}, “{title}”: {count} partitions, {sold} seats sold, {held} held.");
        if status == EventStatus::Closed {
            println!("  It is closed: `encore admin event {id} open` puts it on sale.");
        }
    }
    println!("Now `encore admin audit` should find that every rule holds.");
    Ok(())
}

/// What the ledger knows of an event that the store has lost.
struct Lost {
    publication: Publication,
    sales: Vec<Sale>,
    cancelled: bool,
}

async fn lost(desk: &Desk) -> Result<Vec<Lost>> {
    let mut lost = Vec::new();
    for event in desk.ledger.events().await.context("the ledger's catalogue")? {
        let publication = desk.ledger.publication(event.id).await.context("the ledger's catalogue")?;
        let publication = publication.with_context(|| format!("event {} has no publication", event.id))?;
        let sales = desk.ledger.sales(event.id).await.context("the ledger's sales")?;
        let progress = desk.ledger.cancellation(event.id).await.context("the ledger's cancellations")?;
        lost.push(Lost { publication, sales, cancelled: progress.cancellation.is_some() });
    }
    Ok(lost)
}

/// The incarnation of every reservation that begins from now on. Only the ledger can know that it is a new one: the same
/// backup may have been restored before. One that is resumed goes on under its number, from what it was begun with: buckets
/// from one source would not know the holds of sections from another.
async fn incarnation(desk: &Desk, groups: &[Group], from: &[u8], lost: &[Lost], resumes: bool) -> Result<u16> {
    let mut digest = Sha256::new_with_prefix(from);
    for lost in lost {
        digest.update(serde_json::to_vec(&(&lost.publication, &lost.sales, lost.cancelled))?);
    }
    let sales = lost.iter().flat_map(|lost| highest_incarnation(&[], &lost.sales));
    let above = sales.chain(highest_incarnation(groups, &[])).max().unwrap_or(0);
    let recovery = Recovery { source: digest.finalize().into(), above, resumes, now: now() };
    match desk.ledger.begin_recovery(&recovery).await.context("the ledger")? {
        RecoveryOutcome::Incarnation(incarnation) => Ok(incarnation),
        RecoveryOutcome::OtherSource => bail!(
            "what was interrupted was begun from something else: another file, or the ledger has changed since. Stop the \
             nodes, empty their folders, start them and begin anew, with fulfillment stopped"
        ),
        RecoveryOutcome::NothingToResume => bail!("nothing was begun: leave out --resume"),
        RecoveryOutcome::UsedUp => bail!("the incarnations are used up"),
    }
}

fn prepare(
    lost: &Lost,
    backed_up: &BTreeMap<EventId, EventRecord>,
    groups: &[Group],
    incarnation: u16,
) -> Result<(EventRecord, Rebuilt)> {
    let Lost { publication, sales, cancelled } = lost;
    let known = backed_up.get(&publication.event.id);
    let same_plan = |record: &&EventRecord| record.plan_version == publication.event.plan_version;
    let mut event = known.filter(same_plan).unwrap_or(&publication.event).clone();
    // Whether operators have closed it only the store knew: without its word nothing is sold until they say so.
    event.status = known.map_or(EventStatus::Closed, |record| record.status);
    // The copy may be older than the cancellation, which is for good.
    if *cancelled {
        event.status = EventStatus::Cancelled;
    }
    let promotions: Vec<_> = publication.promotions.iter().map(|p| (p.code.clone(), p.discount_bps, p.cap)).collect();
    let sources = Sources {
        event: &event,
        plans: &publication.plans,
        promotions: &promotions,
        groups,
        sales,
        incarnation,
        now: now(),
    };
    let rebuilt = rebuild(&sources).map_err(anyhow::Error::msg);
    let rebuilt = rebuilt.with_context(|| format!("event {} cannot be rebuilt", event.id))?;
    Ok((event, rebuilt))
}

/// The events that a backup knows.
fn catalogue(groups: &[Group]) -> BTreeMap<EventId, EventRecord> {
    let told = groups.iter().filter_map(|group| match group.query(&Partition::Meta, &Query::Events, 0) {
        Answer::Events(events) => Some(events),
        _ => None,
    });
    told.flatten().map(|event| (event.id, event)).collect()
}
