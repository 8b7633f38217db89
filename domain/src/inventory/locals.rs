//! The participants that serve in the same group as a `checkouts` partition, so that one entry can do the work of several
//! messages. What is not active here is left to messages.

use super::command::{Done, Purpose, Take};
use super::copy::Copy;
use super::news::News;
use super::outcome::Refusal;
use super::promotion::Promotion;
use super::record::QuotedSeat;
use super::seats::{Alarm, Pick, Seats};
use super::shared::Shared;
use crate::ids::{Bucket, EventId, PromotionCode, ReservationId, SeatIndex, SectionId, UserId};
use crate::time::{Ticks, WallMs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The moment of an entry, for one `checkouts` partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Its service time.
    pub(super) t: Ticks,
    /// The leader's wall clock.
    pub(super) wall: WallMs,
}

/// A participant of a reservation; the event is the reservation's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Participant {
    /// The seats of a section.
    Seats(SectionId),
    /// The uses of a code.
    Promotion(PromotionCode),
}

/// The participants of one event in this group.
pub(super) struct Locals<'a> {
    pub(super) event: EventId,
    pub(super) seats: &'a mut BTreeMap<(EventId, SectionId), Shared<Copy<Seats>>>,
    pub(super) promotions: &'a mut BTreeMap<(EventId, PromotionCode), Shared<Copy<Promotion>>>,
    pub(super) news: &'a mut News,
}

impl Locals<'_> {
    /// The section, if it serves here.
    pub(super) fn section(&self, section: SectionId) -> Option<&Seats> {
        self.seats.get(&(self.event, section))?.active()
    }

    fn section_mut(&mut self, section: SectionId) -> Option<&mut Seats> {
        self.seats.get_mut(&(self.event, section))?.active_mut()
    }

    /// The code, if it serves here.
    pub(super) fn promotion(&self, code: &PromotionCode) -> Option<&Promotion> {
        self.promotions.get(&(self.event, code.clone()))?.active()
    }

    fn promotion_mut(&mut self, code: &PromotionCode) -> Option<&mut Promotion> {
        self.promotions.get_mut(&(self.event, code.clone()))?.active_mut()
    }

    /// Whether this take could be had. The section serves here.
    pub(super) fn check(
        &self,
        section: SectionId,
        take: &Take,
        purpose: Purpose,
        wall: WallMs,
    ) -> Result<(Pick, Vec<QuotedSeat>), Refusal> {
        let seats = self.section(section).ok_or(Refusal::ParticipantGone)?;
        let pick = seats.check(take, purpose, wall)?;
        let quoted = pick.quoted(seats.plan());
        Ok((pick, quoted))
    }

    /// Takes what [`Locals::check`] found in this very entry.
    pub(super) fn take(&mut self, id: ReservationId, section: SectionId, pick: &Pick, purpose: Purpose) {
        if let Some(copy) = self.seats.get_mut(&(self.event, section))
            && let Some(seats) = copy.active_mut()
        {
            seats.take(id, pick, purpose, self.news);
        }
    }

    /// Takes a use that was checked in this very entry.
    pub(super) fn take_use(&mut self, id: ReservationId, code: &PromotionCode, user: &UserId) {
        if let Some(promotion) = self.promotion_mut(code) {
            promotion.take(id, user);
        }
    }

    /// Tells a participant how `id` ended, if it serves here; whether it did, and may so be taken as acknowledged.
    pub(super) fn tell(&mut self, id: ReservationId, who: &Participant, what: &Done, wall: WallMs) -> bool {
        let told: Option<Result<(), Alarm>> = match who {
            Participant::Seats(section) => {
                self.seats.get_mut(&(self.event, *section)).and_then(|copy| copy.active_mut()).map(|seats| match what {
                    Done::Released => seats.release(id, self.news),
                    Done::Sold => seats.sell(id, wall, self.news),
                    Done::Returned(back) => {
                        seats.give_back(id, back, self.news);
                        Ok(())
                    }
                })
            }
            Participant::Promotion(code) => self.promotion_mut(code).map(|promotion| match what {
                Done::Released => promotion.release(id),
                Done::Sold => promotion.sell(id),
                Done::Returned(_) => Ok(()),
            }),
        };
        told.is_some_and(|result| result.is_ok())
    }

    /// Tells a participant a watermark, if it serves here; whether it does.
    pub(super) fn mark(&mut self, who: &Participant, bucket: Bucket, (incarnation, below): (u16, u64)) -> bool {
        match who {
            Participant::Seats(section) => {
                self.section_mut(*section).map(|seats| seats.watermark(bucket, incarnation, below)).is_some()
            }
            Participant::Promotion(code) => {
                self.promotion_mut(code).map(|promotion| promotion.watermark(bucket, incarnation, below)).is_some()
            }
        }
    }

    /// The seats that a return names, by section.
    pub(super) fn by_section(seats: &[crate::ids::SeatRef]) -> BTreeMap<SectionId, Vec<SeatIndex>> {
        let mut sections: BTreeMap<SectionId, Vec<SeatIndex>> = BTreeMap::new();
        for seat in seats {
            sections.entry(seat.section).or_default().push(seat.seat);
        }
        sections
    }
}
