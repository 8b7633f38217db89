//! The state of a group taken apart, for whoever writes it down: one after the other the pieces have the bytes that the whole
//! would have, and each can be let go as soon as it is written. A group of millions of records is never in memory twice, and
//! what a piece shares with the group that goes on is shared for no longer than writing that piece takes.

use super::checkouts::Checkouts;
use super::copy::Copy;
use super::group::Group;
use super::placement::Catalogue;
use super::promotion::Promotion;
use super::seats::Seats;
use super::shared::Shared;
use crate::ids::{Bucket, EventId, GroupId, PromotionCode, SectionId};
use crate::time::Ticks;
use serde::{Serialize, Serializer};
use std::iter::once;

/// A piece of a group's state. Its serde form only means something after those of the pieces before it.
pub struct Piece(Part);

#[derive(Serialize)]
#[serde(untagged)]
enum Part {
    Head(GroupId, Ticks, Option<Catalogue>),
    /// How many entries the next map has.
    Length(usize),
    Seats((EventId, SectionId), Shared<Copy<Seats>>),
    Checkouts((EventId, Bucket), Shared<Copy<Checkouts>>),
    Promotion((EventId, PromotionCode), Shared<Copy<Promotion>>),
}

impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Group {
    /// Takes the state apart.
    pub fn into_pieces(self) -> impl Iterator<Item = Piece> + Send {
        let Self { id, clock, meta, seats, checkouts, promotions, news: _ } = self;
        let head = once(Part::Head(id, clock, meta));
        let seats = once(Part::Length(seats.len())).chain(seats.into_iter().map(|(key, copy)| Part::Seats(key, copy)));
        let checkouts = once(Part::Length(checkouts.len()))
            .chain(checkouts.into_iter().map(|(key, copy)| Part::Checkouts(key, copy)));
        let promotions = once(Part::Length(promotions.len()))
            .chain(promotions.into_iter().map(|(key, copy)| Part::Promotion(key, copy)));
        head.chain(seats).chain(checkouts).chain(promotions).map(Piece)
    }
}
