//! A partition's ordered outbox of facts: kept until a consumer has stored them, positions never restart.

use super::event::{Fact, FeedEntry};
use crate::limits;
use crate::time::WallMs;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The outbox. Positions count from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// The last position given.
    last: u64,
    /// What is not acknowledged; consecutive, up to `last`.
    waiting: VecDeque<FeedEntry>,
}

impl Feed {
    /// Adds a fact.
    pub fn push(&mut self, at: WallMs, fact: Fact) {
        self.last += 1;
        self.waiting.push_back(FeedEntry { position: self.last, at, fact });
    }

    /// Drops what a consumer has stored, up to and including `upto`.
    pub fn acknowledge(&mut self, upto: u64) {
        while self.waiting.front().is_some_and(|entry| entry.position <= upto) {
            self.waiting.pop_front();
        }
    }

    /// Facts after a position, in order.
    pub fn after(&self, after: u64, max: u32) -> Vec<FeedEntry> {
        let acknowledged = self.last - self.waiting.len() as u64;
        let skip = usize::try_from(after.saturating_sub(acknowledged)).unwrap_or(usize::MAX);
        self.waiting.iter().skip(skip).take(max as usize).cloned().collect()
    }

    /// The same facts at positions above this one: after a disaster consumers may have seen positions that this feed has
    /// forgotten that it gave.
    pub fn resumed(mut self, above: u64) -> Self {
        self.last = self.last.max(above);
        for entry in &mut self.waiting {
            self.last += 1;
            entry.position = self.last;
        }
        self
    }

    /// Whether new holds must wait for the consumer.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= limits::FEED_ENTRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SectionId;

    fn positions(entries: &[FeedEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.position).collect()
    }

    #[test]
    fn positions_go_on_after_an_acknowledgement() {
        let mut feed = Feed::default();
        for section in 0..4 {
            feed.push(WallMs(1), Fact::SoldOut { section: SectionId(section) });
        }
        assert_eq!(positions(&feed.after(0, 10)), [1, 2, 3, 4]);
        assert_eq!(positions(&feed.after(2, 1)), [3]);
        feed.acknowledge(3);
        feed.acknowledge(2);
        assert_eq!(positions(&feed.after(0, 10)), [4]);
        feed.acknowledge(99);
        feed.push(WallMs(1), Fact::SoldOut { section: SectionId(9) });
        assert_eq!(positions(&feed.after(0, 10)), [5]);
        assert_eq!(positions(&feed.after(7, 10)), [0_u64; 0]);
        let mut feed = feed.resumed(1_000);
        feed.push(WallMs(1), Fact::SoldOut { section: SectionId(9) });
        assert_eq!(positions(&feed.after(7, 10)), [1_001, 1_002]);
        assert_eq!(positions(&feed.after(1_001, 10)), [1_002]);
    }
}
