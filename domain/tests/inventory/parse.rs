//! The words of a script: seats, reservations, partitions.

use crate::world::{EVENT, World};
use domain::ids::{Bucket, Partition, ReservationId, SeatIndex, SeatRef, SectionId};
use domain::inventory::record::SectionKind;
use std::error::Error;

pub type Parsed<T> = Result<T, Box<dyn Error>>;

/// `r7`, `r7@2`, `r7@box`, `r7.1`.
pub fn id(text: &str) -> Parsed<ReservationId> {
    let rest = text.strip_prefix('r').ok_or_else(|| format!("{text} is no reservation"))?;
    let (rest, incarnation) = match rest.split_once('.') {
        Some((rest, incarnation)) => (rest, incarnation.parse()?),
        None => (rest, 0),
    };
    let (sequence, bucket) = match rest.split_once('@') {
        Some((sequence, bucket_text)) => (sequence, bucket(bucket_text)?),
        None => (rest, Bucket(0)),
    };
    Ok(ReservationId { event: EVENT, bucket, incarnation, sequence: sequence.parse()? })
}

pub fn bucket(text: &str) -> Parsed<Bucket> {
    if text == "box" { Ok(Bucket::BOX_OFFICE) } else { Ok(text.parse()?) }
}

/// `A-3`, `2/A-3`; a place of a standing area as `2/17`.
pub fn seat(world: &World, text: &str) -> Parsed<SeatRef> {
    let (section, name) = match text.split_once('/') {
        Some((section, name)) => (section.parse()?, name),
        None => (SectionId(1), text),
    };
    let plan = world.plans.get(&section).ok_or_else(|| format!("no section {section}"))?;
    let seat = match name.split_once('-') {
        Some((row, number)) => plan.find(row, number).unwrap_or(SeatIndex(999)),
        None if plan.kind == SectionKind::Standing => SeatIndex(name.parse::<u32>()? - 1),
        None => return Err(format!("{text} is no seat").into()),
    };
    Ok(SeatRef { section, seat })
}

/// `seats/1`, `checkouts/0`, `promotion/EARLY`, `meta`: of the one event.
pub fn partition(text: &str) -> Parsed<Partition> {
    match text.split_once('/') {
        Some(("checkouts", bucket_text)) => Ok(Partition::Checkouts { event: EVENT, bucket: bucket(bucket_text)? }),
        Some((kind, rest)) => Ok(format!("{kind}/{EVENT}/{rest}").parse()?),
        None => Ok(text.parse()?),
    }
}
