//! What must hold within one bucket after every entry.

use super::{Account, Checkouts, Voted};
use crate::ids::{ReservationId, SeatRef, UserId};
use crate::inventory::command::Purpose;
use crate::inventory::invariants::Sound;
use crate::inventory::locals::Participant;
use crate::inventory::record::{QuotedSeat, Status};
use crate::money::Minor;
use std::collections::{BTreeMap, BTreeSet};

impl Sound for Checkouts {
    fn sound(&self) -> Result<(), String> {
        let mut accounts: BTreeMap<UserId, Account> = BTreeMap::new();
        let mut deadlines = BTreeSet::new();
        for (id, record) in &self.records {
            let live = !record.status.is_terminal();
            if live && record.deadline.0 != u64::MAX {
                deadlines.insert((record.deadline, *id));
            }
            if matches!(record.status, Status::Held | Status::Paid) {
                self.committed(*id)?;
            }
            if record.purpose == Purpose::Block {
                continue;
            }
            let account = accounts.entry(record.user.clone()).or_default();
            let returned = record.refunds.as_ref().map_or(0, |refunds| refunds.returned.len());
            match record.status {
                Status::Paid => account.bought += record.count - returned as u32,
                _ if live => account.held += record.count,
                _ => {}
            }
            if live && record.purpose == Purpose::Offer {
                account.offers.insert(*id);
            } else if live && account.live.replace(*id).is_some() {
                return Err(format!("{} has two live checkouts, {id} is one", record.user));
            }
        }
        accounts.retain(|_, account| !account.is_empty());
        if accounts != self.accounts {
            return Err(format!("accounts {:?}, records {accounts:?}", self.accounts));
        }
        if deadlines != self.deadlines {
            return Err(format!("deadlines {:?}, records {deadlines:?}", self.deadlines));
        }
        let limit = u32::from(self.rules.user_limit);
        match accounts.iter().find(|(_, account)| account.held + account.bought > limit) {
            Some((user, account)) => Err(format!("{user} has {account:?} of {limit}")),
            None => self.sets_are_true(),
        }
    }
}

/// What a record says of its participants, to be compared with what they say.
pub(in crate::inventory) struct Judged<'a> {
    pub(in crate::inventory) status: Status,
    pub(in crate::inventory) seats: BTreeSet<SeatRef>,
    /// Refunded, and acknowledged by the section.
    pub(in crate::inventory) returned: BTreeSet<SeatRef>,
    /// Refunded, and not yet acknowledged.
    pub(in crate::inventory) returning: BTreeSet<SeatRef>,
    /// Participants that may own something, and whether they have acknowledged the end. Empty once collected.
    pub(in crate::inventory) parts: BTreeMap<&'a Participant, bool>,
    pub(in crate::inventory) collected: bool,
}

impl Checkouts {
    /// Every record as its participants should see it.
    pub(in crate::inventory) fn judged(&self) -> impl Iterator<Item = (ReservationId, Judged<'_>)> {
        self.records.iter().map(|(id, record)| {
            let refunds = record.refunds.as_deref();
            let returning: BTreeSet<SeatRef> = refunds
                .iter()
                .flat_map(|refunds| &refunds.returning)
                .flat_map(|(section, seats)| seats.iter().map(|seat| SeatRef { section: *section, seat: *seat }))
                .collect();
            let returned = refunds.map_or(BTreeSet::new(), |refunds| &refunds.returned - &returning);
            let owning = record.parts.iter().filter(|part| part.vote != Voted::No);
            let judged = Judged {
                status: record.status,
                seats: record.seats.iter().map(|quoted| quoted.seat).collect(),
                returned,
                returning,
                parts: owning.map(|part| (&part.who, part.acked)).collect(),
                collected: record.key.is_none(),
            };
            (*id, judged)
        })
    }

    /// A hold has every vote and its quote is the sum of its seats.
    fn committed(&self, id: ReservationId) -> Result<(), String> {
        let record = &self.records[&id];
        if record.seats.len() != record.count as usize {
            return Err(format!("{id} has {} seats of {}", record.seats.len(), record.count));
        }
        if Minor::checked_sum(record.seats.iter().map(QuotedSeat::net)) != Some(record.total) {
            return Err(format!("{id}: the total is not the sum"));
        }
        match record.parts.iter().find(|part| part.vote == Voted::Asked) {
            Some(part) => Err(format!("{id} is {:?} without the vote of {:?}", record.status, part.who)),
            None => Ok(()),
        }
    }

    /// The sets that make commands cheap say what the records say.
    fn sets_are_true(&self) -> Result<(), String> {
        let mut tidied = self.clone();
        for id in self.records.keys() {
            tidied.tidy(*id);
        }
        tidied.open.retain(|id| self.records.contains_key(id));
        tidied.owed.retain(|id| self.records.contains_key(id));
        if tidied != *self {
            return Err("open, owed or finished records are not in their sets".into());
        }
        let least = self.open.first().map(|id| (id.incarnation, id.sequence));
        if least.is_some_and(|least| self.mark > least) {
            return Err(format!("the watermark {:?} has passed {least:?}, which is open", self.mark));
        }
        match self.records.keys().find(|id| id.sequence >= self.next) {
            Some(id) => Err(format!("{id} was never minted")),
            None => Ok(()),
        }
    }
}
