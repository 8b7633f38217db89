//! What time does, in every entry: what has run out ends, what is old and wholly acknowledged is collected, and the
//! watermark rises.

use super::Checkouts;
use crate::ids::ReservationId;
use crate::inventory::locals::{Locals, Now};
use crate::inventory::record::Status;
use crate::limits;
use crate::time::{Ticks, WallMs};

/// A collection makes every Begin under way stale once, so it comes rarely and takes all it finds.
const COLLECT_EVERY_MS: u64 = 3_600_000;
/// Participants are told the watermark in steps of so many reservations, or when nothing is open.
const MARK_STEP: u64 = 64;

impl Checkouts {
    /// Whether a sweep would change anything.
    pub(in crate::inventory) fn is_due(&self, t: Ticks) -> bool {
        self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= t)
            || t >= self.collected_at.plus(COLLECT_EVERY_MS)
    }

    /// Ends what has run out, as far as the entry's budget goes.
    pub(in crate::inventory) fn sweep(&mut self, now: Now, budget: &mut usize, locals: &mut Locals<'_>) {
        while *budget > 0
            && let Some((_, id)) = self.deadlines.first().copied().filter(|(deadline, _)| *deadline <= now.t)
        {
            self.settle(id, now, locals);
            *budget -= 1;
        }
        self.collect(now);
    }

    /// Record and key go together, a day after the end. What is paid leaves its row.
    fn collect(&mut self, now: Now) {
        if now.t < self.collected_at.plus(COLLECT_EVERY_MS) {
            return;
        }
        let old = |ended: Ticks| ended.plus(limits::RECORD_TTL_MS) <= now.t;
        let mut left = limits::ENDED_PER_ENTRY;
        while left > 0
            && let Some((ended, id)) = self.finished.first().copied().filter(|(ended, _)| old(*ended))
        {
            self.finished.remove(&(ended, id));
            self.collect_record(id);
            left -= 1;
        }
        while left > 0
            && let Some((_, user, key)) = self.refused.pop_front_if(|(ended, ..)| old(*ended))
        {
            self.keys.remove(&(user, key));
            left -= 1;
        }
        if left == limits::ENDED_PER_ENTRY {
            self.collected_at = now.t;
        } else {
            // A twin of a collected Begin may be on its way, sent at any time until now by any clock.
            self.floor = self.floor.max(WallMs(now.wall.0.saturating_add(limits::CLOCK_MARGIN_MS)));
        }
    }

    fn collect_record(&mut self, id: ReservationId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        if let Some(key) = record.key.take() {
            self.keys.remove(&(record.user.clone(), key));
        }
        if let Some(pass) = record.pass.take()
            && self.passes.get(&pass) == Some(&id)
        {
            self.passes.remove(&pass);
        }
        if record.status == Status::Paid {
            record.parts = Vec::new();
        } else {
            self.records.remove(&id);
        }
    }

    /// The watermark that is to be told now: it rises in steps.
    pub(in crate::inventory) fn mark_to_raise(&self) -> Option<(u16, u64)> {
        let least = self.least_open();
        let far = least.0 > self.mark.0 || least.1 >= self.mark.1 + MARK_STEP;
        (least > self.mark && (far || self.open.is_empty())).then_some(least)
    }

    /// Raises the watermark in steps, and tells it to those who serve here.
    pub(in crate::inventory) fn raise_mark(&mut self, locals: &mut Locals<'_>) {
        let Some(least) = self.mark_to_raise() else { return };
        self.mark = least;
        for (who, told) in &mut self.told {
            if *told < least && locals.mark(who, self.bucket, least) {
                *told = least;
            }
        }
    }
}
