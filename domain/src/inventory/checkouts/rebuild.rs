//! A bucket after a disaster: its records reconciled with the ledger's sales, its sets made anew from its records.

use super::{Account, Checkouts, Record, UNMARKED, Voted};
use crate::ids::{PromotionCode, ReservationId, SeatRef, SectionId, UserId};
use crate::inventory::command::{CheckoutRules, Purpose};
use crate::inventory::event::Fact;
use crate::inventory::outcome::Refusal;
use crate::inventory::query::SeatState;
use crate::inventory::rebuild::{Claims, Sale};
use crate::inventory::record::{QuotedSeat, Status};
use crate::money::Minor;
use crate::time::{Ticks, WallMs};
use std::collections::{BTreeMap, BTreeSet};

impl Checkouts {
    /// The rules.
    pub(in crate::inventory) fn rules(&self) -> &CheckoutRules {
        &self.rules
    }

    fn stopped_at(&self) -> Ticks {
        self.time(Ticks(0))
    }

    /// Takes new rules with a higher incarnation, and ends what was not yet decided: its votes are gone.
    pub(in crate::inventory) fn begin_anew(&mut self, rules: CheckoutRules) {
        let now = self.stopped_at();
        self.rules = rules;
        for record in self.records.values_mut() {
            record.chain = None;
            if record.status == Status::Preparing {
                record.status = Status::Aborted;
                record.refusal = Some(Refusal::PrepareTimeout);
                record.seats.clear();
                (record.ended, record.ledger_acked) = (now, true);
            }
            for part in &mut record.parts {
                part.take = None;
                if part.vote == Voted::Asked {
                    part.vote = Voted::No;
                }
            }
            // What participants were still to be told is in what they are rebuilt from.
            if let Some(refunds) = &mut record.refunds {
                refunds.returning.clear();
            }
        }
    }

    /// Takes a sale of the ledger in. Says what was known differently.
    pub(in crate::inventory) fn adopt(&mut self, sale: &Sale) -> Option<String> {
        let (id, now) = (sale.reservation, self.stopped_at());
        let mut note = None;
        let record = match self.records.get_mut(&id) {
            Some(record) if record.status == Status::Paid => record,
            Some(record) => {
                note = Some(format!("{id} was {:?} and is sold, says the ledger", record.status));
                record
            }
            None => {
                note = Some(format!("{id} was not known and is sold, says the ledger"));
                self.records.entry(id).or_insert_with(|| row(sale, now))
            }
        };
        if record.status != Status::Paid {
            (record.ended, record.ended_at) = (now, Some(sale.at));
            record.seats = sale.seats.clone();
            record.count = sale.seats.len() as u32;
            record.total = total(&sale.seats);
        }
        record.status = Status::Paid;
        record.payment = Some(sale.payment);
        record.refusal = None;
        let own: BTreeSet<SeatRef> = record.seats.iter().map(|quoted| quoted.seat).collect();
        let back = &sale.returned & &own;
        if !back.is_empty() {
            record.refunds.get_or_insert_default().returned.extend(back);
        }
        note
    }

    /// Seats that are sold and not given back.
    pub(in crate::inventory) fn sold(&self) -> impl Iterator<Item = (ReservationId, SeatRef)> {
        let paid = self.records.iter().filter(|(_, record)| record.status == Status::Paid);
        paid.flat_map(|(id, record)| record.owned().map(|quoted| (*id, quoted.seat)))
    }

    /// Claims seats for holds, offers and blocks; ends those of which a seat is somebody else's now.
    pub(in crate::inventory) fn keep_holds(
        &mut self,
        owners: &mut BTreeMap<SeatRef, ReservationId>,
        now: WallMs,
    ) -> Vec<String> {
        let t = self.stopped_at();
        let mut notes = Vec::new();
        for (id, record) in &mut self.records {
            if !matches!(record.status, Status::Held | Status::Offered) {
                continue;
            }
            let seats: Vec<SeatRef> = record.seats.iter().map(|quoted| quoted.seat).collect();
            if seats.iter().all(|seat| !owners.contains_key(seat)) {
                owners.extend(seats.iter().map(|seat| (*seat, *id)));
                continue;
            }
            notes.push(format!("the hold {id} is ended: a seat of it is another's"));
            record.status = Status::Expired;
            (record.ended, record.ended_at) = (t, Some(now));
            if record.purpose != Purpose::Block {
                self.feed.push(now, Fact::Expired(Box::new(record.view(*id, t))));
            }
        }
        notes
    }

    /// Makes accounts and sets anew from the records, and mints above all that was ever minted.
    pub(in crate::inventory) fn settle_anew(&mut self) {
        self.accounts = BTreeMap::new();
        self.deadlines = BTreeSet::new();
        self.open = BTreeSet::new();
        self.owed = BTreeSet::new();
        self.finished = BTreeSet::new();
        self.told = BTreeMap::new();
        for (id, record) in &mut self.records {
            self.next = self.next.max(id.sequence + 1);
            let over = record.status.is_terminal();
            for part in &mut record.parts {
                part.acked = over || part.vote == Voted::No;
                self.told.insert(part.who.clone(), UNMARKED);
            }
            if !over && record.deadline.0 != u64::MAX {
                self.deadlines.insert((record.deadline, *id));
            }
            if record.purpose == Purpose::Block {
                continue;
            }
            let account = self.accounts.entry(record.user.clone()).or_default();
            match record.status {
                Status::Paid => account.bought += record.owned().count() as u32,
                _ if over => {}
                _ => account.held += record.count,
            }
            if !over && record.purpose == Purpose::Offer && record.status == Status::Offered {
                account.offers.insert(*id);
            } else if !over {
                account.live = Some(*id);
            }
        }
        self.accounts.retain(|_, account: &mut Account| !account.is_empty());
        let ids: Vec<ReservationId> = self.records.keys().copied().collect();
        for id in ids {
            self.tidy(id);
        }
        self.mark = self.least_open();
    }

    /// What this bucket's reservations own in a section.
    pub(in crate::inventory) fn claims_of(&self, section: SectionId, claims: &mut Claims) {
        for (id, record) in &self.records {
            let state = match record.status {
                Status::Paid => SeatState::Sold,
                Status::Held | Status::Offered if record.purpose == Purpose::Block => SeatState::Blocked,
                Status::Held | Status::Offered => SeatState::Held,
                _ => continue,
            };
            let here = record.owned().filter(|quoted| quoted.seat.section == section);
            let here: Vec<_> = here.map(|quoted| (*quoted, state)).collect();
            if !here.is_empty() {
                claims.insert(*id, here);
            }
        }
    }

    /// Who uses a code, and whether for good.
    pub(in crate::inventory) fn uses_of(
        &self,
        code: &PromotionCode,
    ) -> impl Iterator<Item = (ReservationId, &UserId, bool)> {
        let using = move |(id, record): (&ReservationId, &'_ Record)| {
            let live = matches!(record.status, Status::Held | Status::Offered | Status::Paid);
            (live && record.promotion.as_ref() == Some(code)).then_some(*id)
        };
        let ids: Vec<ReservationId> = self.records.iter().filter_map(using).collect();
        ids.into_iter().map(|id| {
            let record = &self.records[&id];
            (id, &record.user, record.status == Status::Paid)
        })
    }
}

impl Record {
    /// Its seats that were not given back.
    fn owned(&self) -> impl Iterator<Item = &QuotedSeat> {
        let returned = self.refunds.as_ref().map(|refunds| &refunds.returned);
        self.seats.iter().filter(move |quoted| returned.is_none_or(|back| !back.contains(&quoted.seat)))
    }
}

/// The paid row of a sale of which nothing else is left.
fn row(sale: &Sale, now: Ticks) -> Record {
    Record {
        user: sale.user.clone(),
        key: None,
        purpose: Purpose::Checkout,
        status: Status::Paid,
        parts: Vec::new(),
        chain: None,
        count: sale.seats.len() as u32,
        seats: sale.seats.clone(),
        discount_bps: 0,
        total: total(&sale.seats),
        currency: sale.currency,
        together: false,
        promotion: None,
        pass: None,
        begun: now,
        hold_ms: 0,
        deadline: now,
        payment: Some(sale.payment),
        created_at: sale.at,
        ended_at: Some(sale.at),
        ended: now,
        refusal: None,
        ledger_acked: true,
        note: None,
        refunds: None,
    }
}

fn total(seats: &[QuotedSeat]) -> Minor {
    Minor::checked_sum(seats.iter().map(QuotedSeat::net)).unwrap_or(Minor(i64::MAX))
}
