//! Publishing: the ledger's catalogue is the system of record and is written first; the store gets a copy of the same
//! version. A crash in between is mended by running it again.

use super::{Desk, now};
use anyhow::{Context, Result};
use domain::ids::{EventId, GroupId};
use domain::plan::{self, EventFile};
use ledger::Catalogue;
use ledger::catalogue::{Promotion, Publication};
use raft_store::{client, operate};
use std::collections::BTreeMap;
use std::path::Path;

/// What the command line says otherwise than the file.
pub struct Changes {
    pub hold_ttl_s: Option<u32>,
    pub queue_capacity: Option<u32>,
    pub spread: Option<u16>,
}

pub async fn run(desk: &Desk, file: &Path, unless_published: bool, changes: Changes) -> Result<()> {
    let mut event = read(file)?;
    if let Some(seconds) = changes.hold_ttl_s {
        event.hold_ttl_s = seconds;
    }
    if let Some(capacity) = changes.queue_capacity {
        event.queue.capacity = capacity;
    }
    if let Some(groups) = changes.spread {
        event.spread = groups;
    }
    let spread = usize::from(event.spread);
    let known = desk.ledger.publication(EventId(event.id)).await.context("the ledger's catalogue")?;
    let publication = match known {
        Some(known) if unless_published => known,
        known => {
            // The store counts changes of status, too, and what a restore put back counts on from those.
            let there = desk.store.event(EventId(event.id)).await.context("the store")?;
            let last = known.map(|known| known.event.version).max(there.map(|event| event.version));
            let publication = from_plan(event.build(last.map_or(1, |last| last + 1), now(), &plans(file, &event)?)?);
            desk.store.may_publish(&publication.event, &publication.plans).await.context("the store")?;
            desk.ledger.publish(&publication).await.context("the ledger's catalogue")?;
            publication
        }
    };
    let Publication { event, plans, promotions } = publication;
    let promotions = promotions.into_iter().map(|Promotion { code, discount_bps, cap }| client::Promotion {
        code,
        discount_bps,
        cap,
    });
    let (id, title, version) = (event.id, event.title.clone(), event.version);
    let seats: u64 = plans.iter().map(|plan| u64::from(plan.capacity)).sum();
    let sections = plans.len();
    if changes.spread.is_some() && desk.store.placement().await.context("the store")?.events.contains_key(&id) {
        println!(
            "Event {id} is where it is: --spread is for new ones. To spread it, `encore admin spread {id} --groups N`."
        );
    }
    let groups = groups(desk, id, spread).await?;
    desk.store.publish(event, plans, promotions.collect(), groups).await.context("the store")?;
    println!("Event {id}, “{title}”: {seats} places in {sections} sections, version {version}.");
    Ok(())
}

/// The groups over which a new event's sections are spread; none for one group, which the store chooses.
async fn groups(desk: &Desk, event: EventId, spread: usize) -> Result<Vec<GroupId>> {
    if spread < 2 {
        return Ok(Vec::new());
    }
    let placement = desk.store.placement().await.context("the store")?;
    Ok(operate::choose_groups(&placement, event, spread)?)
}

fn read(file: &Path) -> Result<EventFile> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    EventFile::parse(&text).with_context(|| format!("{}", file.display()))
}

/// The plan files that an event file names, which stand beside it.
fn plans(file: &Path, event: &EventFile) -> Result<BTreeMap<String, String>> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let read = |name: &str| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok((name.to_owned(), text))
    };
    event.plan_files().into_iter().map(read).collect()
}

fn from_plan(publication: plan::Publication) -> Publication {
    let plan::Publication { event, plans, promotions } = publication;
    let promotions = promotions
        .into_iter()
        .map(|plan::Promotion { code, discount_bps, cap }| Promotion { code, discount_bps, cap })
        .collect();
    Publication { event, plans, promotions }
}
