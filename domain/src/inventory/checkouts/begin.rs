//! Begin: open a reservation. What can be decided in this entry is decided in this entry; the rest becomes PREPARING.

use super::{Answered, Chain, Checkouts, Clock, Known, Part, Record, Voted};
use crate::ids::{Bucket, IdempotencyKey, ReservationId, SeatRef, SectionId, UserId};
use crate::inventory::command::{Begin, BestAvailable, Cart, Purpose, Take};
use crate::inventory::event::Fact;
use crate::inventory::locals::{Locals, Now, Participant};
use crate::inventory::outcome::{Alternative, Outcome, Refusal};
use crate::inventory::pricing;
use crate::inventory::record::{EventStatus, QuotedSeat, Status};
use crate::inventory::seats::Pick;
use crate::limits;
use crate::money::Minor;
use crate::time::Ticks;
use std::collections::{BTreeMap, BTreeSet};

/// A refusal names at most so many other sections.
pub(in crate::inventory) const ALTERNATIVES: usize = 10;

/// A cart by section.
pub(super) struct Wants {
    /// Seats and places to be counted against the limit.
    pub(super) count: u32,
    pub(super) what: What,
}

pub(super) enum What {
    /// All of these.
    Each(BTreeMap<SectionId, Take>),
    /// The first section that has it.
    FirstOf(Vec<SectionId>, BestAvailable),
}

impl Checkouts {
    /// Opens a reservation, or repeats what its key was answered.
    pub(in crate::inventory) fn begin(&mut self, begin: &Begin, now: Now, locals: &mut Locals<'_>) -> Outcome {
        if begin.sent_at <= self.floor {
            return Outcome::Stale { floor: self.floor };
        }
        let key = (begin.user.clone(), begin.key.clone());
        if let Some(known) = self.keys.get(&key) {
            if known.fingerprint != begin.fingerprint {
                return Outcome::Refused(Refusal::KeyReused);
            }
            return match known.answer.clone() {
                Answered::Refused(refusal) => Outcome::Refused(refusal),
                Answered::Record(id) => {
                    self.settle(id, now, locals);
                    self.answer(id, now)
                }
            };
        }
        if (begin.purpose == Purpose::Block) != (self.bucket == Bucket::BOX_OFFICE) {
            return Outcome::Invalid("blocks, and only blocks, live in the box office's bucket".into());
        }
        if self.feed.is_full() || self.keys.len() >= limits::KEYS {
            return Outcome::Overloaded;
        }
        self.settle_user(&begin.user, now, locals);
        match self.decide(begin, now, locals) {
            Ok(id) => self.answer(id, now),
            Err(refusal) => {
                let answer = Answered::Refused(refusal.clone());
                self.refused.push_back((now.t, key.0.clone(), key.1.clone()));
                self.keys.insert(key, Known { fingerprint: begin.fingerprint, answer });
                Outcome::Refused(refusal)
            }
        }
    }

    /// Whether the key is known, for advice: only an unknown one may be refused without an entry.
    pub(in crate::inventory) fn knows(&self, user: &UserId, key: &IdempotencyKey) -> bool {
        self.keys.contains_key(&(user.clone(), key.clone()))
    }

    /// What a repetition of the key's Begin would be answered at `t`, changing nothing; `None` if the key is not known,
    /// so that whoever may open nothing is told what was opened, and opens nothing.
    pub(in crate::inventory) fn answered(
        &self,
        user: &UserId,
        key: &IdempotencyKey,
        fingerprint: &[u8; 16],
        t: Ticks,
    ) -> Option<Outcome> {
        let known = self.keys.get(&(user.clone(), key.clone()))?;
        if known.fingerprint != *fingerprint {
            return Some(Outcome::Refused(Refusal::KeyReused));
        }
        Some(match &known.answer {
            Answered::Refused(refusal) => Outcome::Refused(refusal.clone()),
            Answered::Record(id) => match self.records.get(id) {
                // What no entry has aborted yet is aborted by the next one.
                Some(record) if record.status_at(t) == Status::Aborted => {
                    Outcome::Refused(record.refusal.clone().unwrap_or(Refusal::PrepareTimeout))
                }
                Some(record) => Outcome::Reservation(Box::new(record.view(*id, t))),
                None => Outcome::Unknown,
            },
        })
    }

    /// Whether nothing but the seats could refuse this Begin; for advice.
    pub(in crate::inventory) fn would_admit(&self, begin: &Begin, now: Now) -> bool {
        wants(begin).is_ok_and(|wants| self.admit(begin, wants.count, now).is_ok())
    }

    fn decide(&mut self, begin: &Begin, now: Now, locals: &mut Locals<'_>) -> Result<ReservationId, Refusal> {
        let wants = wants(begin)?;
        self.admit(begin, wants.count, now)?;
        let here = |section: &SectionId| locals.section(*section).is_some();
        let sections_here = match &wants.what {
            What::Each(takes) => takes.keys().all(here),
            What::FirstOf(sections, _) => sections.iter().all(here),
        };
        let code_here = begin.promotion.as_ref().is_none_or(|code| locals.promotion(code).is_some());
        if sections_here && code_here {
            self.claim_here(begin, &wants, now, locals)
        } else {
            Ok(self.prepare(begin, wants, now))
        }
    }

    fn admit(&self, begin: &Begin, count: u32, now: Now) -> Result<(), Refusal> {
        if begin.purpose == Purpose::Block {
            return Ok(());
        }
        let nothing = super::Account::default();
        let account = self.accounts.get(&begin.user).unwrap_or(&nothing);
        if self.rules.status != EventStatus::Scheduled {
            return Err(Refusal::SaleClosed);
        }
        if begin.purpose == Purpose::Checkout {
            if now.wall < self.rules.on_sale_at {
                return Err(Refusal::NotOnSale { on_sale_at: self.rules.on_sale_at });
            }
            if let Some(live) = account.live {
                return Err(Refusal::CheckoutOpen(live));
            }
            if begin.pass.as_ref().is_some_and(|pass| self.passes.contains_key(pass)) {
                return Err(Refusal::PassUsed);
            }
        }
        let has = account.held + account.bought;
        if has + count > u32::from(self.rules.user_limit) {
            let has = u16::try_from(has).unwrap_or(u16::MAX);
            return Err(Refusal::TicketLimit { limit: self.rules.user_limit, has });
        }
        Ok(())
    }

    /// The one-group path: check everything, then change.
    fn claim_here(
        &mut self,
        begin: &Begin,
        wants: &Wants,
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Result<ReservationId, Refusal> {
        let picks = picks(begin, &wants.what, now, locals)?;
        let discount_bps = match &begin.promotion {
            Some(code) => locals.promotion(code).ok_or(Refusal::PromotionUnknown)?.check(&begin.user)?,
            None => 0,
        };
        let mut seats: Vec<QuotedSeat> = picks.iter().flat_map(|(_, _, quoted)| quoted).copied().collect();
        let total = quote(&mut seats, discount_bps)?;
        let together = matches!(wants.what, What::FirstOf(..)) && picks.iter().all(|(_, pick, _)| pick.together());

        let id = self.mint();
        let claimed = |who| Part { who, take: None, vote: Voted::Yes, acked: false };
        let mut parts = Vec::with_capacity(picks.len() + usize::from(begin.promotion.is_some()));
        for (section, pick, _) in &picks {
            locals.take(id, *section, pick, begin.purpose);
            parts.push(claimed(Participant::Seats(*section)));
        }
        if let Some(code) = &begin.promotion {
            locals.take_use(id, code, &begin.user);
            parts.push(claimed(Participant::Promotion(code.clone())));
        }
        self.open_record(id, begin, wants.count, parts, None, now);
        let record = self.records.get_mut(&id).expect("it was just opened");
        (record.seats, record.total, record.together, record.discount_bps) = (seats, total, together, discount_bps);
        self.commit_hold(id, now);
        Ok(id)
    }

    /// The general path: ask the participants.
    fn prepare(&mut self, begin: &Begin, wants: Wants, now: Now) -> ReservationId {
        let id = self.mint();
        let asked = |who, take| Part { who, take: Some(take), vote: Voted::Asked, acked: false };
        let (mut parts, chain): (Vec<Part>, _) = match wants.what {
            What::Each(takes) => {
                (takes.into_iter().map(|(section, take)| asked(Participant::Seats(section), take)).collect(), None)
            }
            What::FirstOf(sections, wish) => {
                let mut next: std::collections::VecDeque<SectionId> = sections.into();
                let first = next.pop_front().map(|s| asked(Participant::Seats(s), Take::Best(wish.clone())));
                (first.into_iter().collect(), Some(Box::new(Chain { next, wish })))
            }
        };
        if let Some(code) = &begin.promotion {
            parts.push(asked(Participant::Promotion(code.clone()), Take::Use));
        }
        let best = chain.is_some();
        self.open_record(id, begin, wants.count, parts, chain, now);
        self.records.get_mut(&id).expect("it was just opened").together = best;
        self.tidy(id);
        id
    }

    fn mint(&mut self) -> ReservationId {
        let (event, bucket, incarnation) = (self.event, self.bucket, self.rules.incarnation);
        let id = ReservationId { event, bucket, incarnation, sequence: self.next };
        self.next += 1;
        id
    }

    /// Writes the record in state PREPARING, its key, its account and its participants.
    fn open_record(
        &mut self,
        id: ReservationId,
        begin: &Begin,
        count: u32,
        parts: Vec<Part>,
        chain: Option<Box<Chain>>,
        now: Now,
    ) {
        debug_assert!(matches!(self.clock, Clock::Running { .. }), "a stopped copy opens nothing");
        for part in &parts {
            // From now on it is told the watermark.
            self.told.entry(part.who.clone()).or_insert(super::UNMARKED);
        }
        let shortest = *limits::HOLD_TTL_MS.start();
        let hold_ms = begin.hold_ttl_ms.map_or(self.rules.hold_ttl_ms, |ms| ms.clamp(shortest, self.rules.hold_ttl_ms));
        let deadline = now.t.plus(limits::PREPARE_TTL_MS);
        let record = Record {
            user: begin.user.clone(),
            key: Some(begin.key.clone()),
            purpose: begin.purpose,
            status: Status::Preparing,
            parts,
            chain,
            count,
            seats: Vec::new(),
            discount_bps: 0,
            total: Minor(0),
            currency: self.rules.currency,
            together: false,
            promotion: begin.promotion.clone(),
            pass: begin.pass.clone(),
            begun: now.t,
            hold_ms,
            deadline,
            payment: None,
            created_at: now.wall,
            ended_at: None,
            ended: Ticks(0),
            refusal: None,
            // A block is the box office's own affair: the ledger never hears of it.
            ledger_acked: begin.purpose == Purpose::Block,
            note: begin.note.clone(),
            refunds: None,
        };
        self.records.insert(id, record);
        self.deadlines.insert((deadline, id));
        self.open.insert(id);
        let known = Known { fingerprint: begin.fingerprint, answer: Answered::Record(id) };
        self.keys.insert((begin.user.clone(), begin.key.clone()), known);
        if begin.purpose == Purpose::Block {
            return;
        }
        let account = self.accounts.entry(begin.user.clone()).or_default();
        account.held += count;
        match begin.purpose {
            Purpose::Offer => _ = account.offers.insert(id),
            Purpose::Checkout | Purpose::Block => account.live = Some(id),
        }
    }

    /// The commit point of the hold: every participant has said yes, seats and total are set.
    pub(super) fn commit_hold(&mut self, id: ReservationId, now: Now) {
        let record = self.records.get_mut(&id).expect("it is being committed");
        self.deadlines.remove(&(record.deadline, id));
        record.begun = now.t;
        record.deadline = now.t.plus(u64::from(record.hold_ms));
        record.chain = None;
        match record.purpose {
            Purpose::Checkout => record.status = Status::Held,
            Purpose::Offer => record.status = Status::Offered,
            Purpose::Block => (record.status, record.deadline) = (Status::Held, Ticks(u64::MAX)),
        }
        let view = Box::new(record.view(id, now.t));
        match record.purpose {
            Purpose::Checkout => self.feed.push(now.wall, Fact::Held(view)),
            Purpose::Offer => self.feed.push(now.wall, Fact::Offered(view)),
            Purpose::Block => {}
        }
        if record.purpose != Purpose::Block {
            self.deadlines.insert((record.deadline, id));
        }
        if let Some(pass) = &record.pass {
            self.passes.insert(pass.clone(), id);
        }
        self.tidy(id);
    }
}

/// Applies the discount to each seat, sorts them and sums up.
pub(super) fn quote(seats: &mut [QuotedSeat], discount_bps: u16) -> Result<Minor, Refusal> {
    seats.sort_unstable_by_key(|quoted| quoted.seat);
    for quoted in seats.iter_mut() {
        quoted.discount = pricing::discount(quoted.gross, discount_bps).ok_or(Refusal::PriceOverflow)?;
    }
    Minor::checked_sum(seats.iter().map(QuotedSeat::net)).ok_or(Refusal::PriceOverflow)
}

type Picked = (SectionId, Pick, Vec<QuotedSeat>);

/// What the sections here would give; a refusal names every taken seat of the cart.
fn picks(begin: &Begin, what: &What, now: Now, locals: &Locals<'_>) -> Result<Vec<Picked>, Refusal> {
    let check = |section: SectionId, take: &Take| {
        locals.check(section, take, begin.purpose, now.wall).map(|(pick, quoted)| (section, pick, quoted))
    };
    match what {
        What::Each(takes) => {
            let (mut picks, mut taken, mut other) = (Vec::with_capacity(takes.len()), Vec::new(), None);
            for (section, take) in takes {
                match check(*section, take) {
                    Ok(pick) => picks.push(pick),
                    Err(Refusal::SeatsTaken(seats)) => taken.extend(seats),
                    Err(refusal) => other = other.or(Some(refusal)),
                }
            }
            match (other, taken.is_empty()) {
                // A cart that names what does not exist is wrong, whoever owns the rest.
                (Some(refusal @ (Refusal::NoSuchSeat(_) | Refusal::BadCart(_))), _) => Err(refusal),
                (_, false) => Err(Refusal::SeatsTaken(taken)),
                (Some(refusal), true) => Err(refusal),
                (None, true) => Ok(picks),
            }
        }
        What::FirstOf(sections, wish) => {
            let mut alternatives: Vec<Alternative> = Vec::new();
            let take = Take::Best(wish.clone());
            for section in sections {
                match check(*section, &take) {
                    Ok(pick) => return Ok(vec![pick]),
                    Err(Refusal::NoMatchingSeats { alternatives: more }) => {
                        alternatives.extend(more.into_iter().filter(|other| other.free > 0));
                    }
                    Err(refusal) => return Err(refusal),
                }
            }
            alternatives.truncate(ALTERNATIVES);
            Err(Refusal::NoMatchingSeats { alternatives })
        }
    }
}

/// Sorts a cart by section, or says what is wrong with it.
pub(super) fn wants(begin: &Begin) -> Result<Wants, Refusal> {
    let bad = |text: &str| Err(Refusal::BadCart(text.to_owned()));
    let wants = match &begin.cart {
        Cart::Chosen { seats, places } => {
            let distinct: BTreeSet<SeatRef> = seats.iter().copied().collect();
            let sections: BTreeSet<SectionId> = seats.iter().map(|seat| seat.section).collect();
            let mut count = seats.len() as u64;
            let mut takes = BTreeMap::new();
            if distinct.len() != seats.len() {
                return bad("a seat is in the cart twice");
            }
            for (section, wanted) in places {
                count += u64::from(*wanted);
                if *wanted == 0 || sections.contains(section) || takes.contains_key(section) {
                    return bad("each standing area once, with at least one place");
                }
                takes.insert(*section, Take::Places(*wanted));
            }
            for (section, seats) in Locals::by_section(&distinct.into_iter().collect::<Vec<_>>()) {
                takes.insert(section, Take::Seats(seats));
            }
            Wants { count: u32::try_from(count).unwrap_or(u32::MAX), what: What::Each(takes) }
        }
        Cart::Best(wish) => {
            let distinct: BTreeSet<&SectionId> = wish.sections.iter().collect();
            if wish.accessible > wish.count {
                return bad("more accessible seats than seats");
            }
            if distinct.is_empty() || distinct.len() != wish.sections.len() || distinct.len() > limits::SECTIONS {
                return bad("each section once, and at least one");
            }
            let each = BestAvailable { sections: Vec::new(), ..wish.clone() };
            Wants { count: u32::from(wish.count), what: What::FirstOf(wish.sections.clone(), each) }
        }
    };
    match wants.count as usize {
        0 => bad("the cart is empty"),
        1 => Ok(wants),
        _ if begin.purpose == Purpose::Block => bad("a block is one seat"),
        2..=limits::CART_SEATS => Ok(wants),
        _ => bad("more seats than a cart may have"),
    }
}
