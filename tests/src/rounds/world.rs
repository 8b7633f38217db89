//! Reads everything that the store says, linearizable, for the judge.

use super::checker::{Said, World};
use super::event::{SECTIONS, USES, code};
use super::history::Recorder;
use anyhow::{Context, Result};
use domain::ids::{EventId, ReservationId, SeatRef, SectionId};
use raft_store::client::Client;
use std::collections::BTreeMap;

/// The store as it is now; what the feeds told is known already.
pub async fn read(
    client: &Client,
    events: &[EventId],
    said: BTreeMap<ReservationId, Vec<Said>>,
    recorder: &Recorder,
) -> Result<World> {
    let mut world = World { said, ..World::default() };
    for event in events {
        let records = client.records(*event).await.with_context(|| format!("the records of event {event}"))?;
        world.records.extend(records.into_iter().map(|view| (view.id, view)));
        for section in (0..SECTIONS).map(SectionId) {
            let owners = client.owners(*event, section).await.with_context(|| format!("the owners in {section}"))?;
            let seat = |seat| (*event, SeatRef { section, seat });
            world.owners.extend(owners.into_iter().map(|owner| (seat(owner.seat), (owner.reservation, owner.state))));
        }
        let uses = client.promotion_uses(*event, code()).await.context("the uses of a promotion")?;
        world.uses.insert((*event, code()), (USES, uses.into_iter().collect()));
    }
    world.now_ms = recorder.now_ms();
    Ok(world)
}
