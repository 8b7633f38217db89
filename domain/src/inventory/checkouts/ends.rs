//! How a reservation goes on and ends, exactly one way: Accept, Extend, Pay, Cancel, and running out.

use super::{Checkouts, Voted};
use crate::ids::{PaymentId, ReservationId, UserId};
use crate::inventory::command::{Done, Purpose};
use crate::inventory::event::Fact;
use crate::inventory::locals::{Locals, Now};
use crate::inventory::outcome::{Outcome, RefundReason, Refusal};
use crate::inventory::record::{EventStatus, Status};
use crate::limits::{EXTEND_BOUND_MS, EXTEND_MS};
use crate::money::{Currency, Minor};

impl Checkouts {
    /// An offer becomes the user's checkout.
    pub(in crate::inventory) fn accept(
        &mut self,
        id: ReservationId,
        user: &UserId,
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Outcome {
        if self.records.get(&id).is_none_or(|record| record.user != *user) {
            return Outcome::Unknown;
        }
        self.settle_user(user, now, locals);
        let record = self.records.get_mut(&id).expect("it was just found");
        match record.status {
            Status::Preparing => return Outcome::Preparing,
            Status::Offered => {}
            _ => return self.answer(id, now),
        }
        if self.rules.status != EventStatus::Scheduled {
            return Outcome::Refused(Refusal::SaleClosed);
        }
        let account = self.accounts.entry(user.clone()).or_default();
        if let Some(live) = account.live {
            return Outcome::Refused(Refusal::CheckoutOpen(live));
        }
        account.offers.remove(&id);
        account.live = Some(id);
        self.deadlines.remove(&(record.deadline, id));
        record.status = Status::Held;
        record.purpose = Purpose::Checkout;
        record.begun = now.t;
        record.deadline = now.t.plus(u64::from(record.hold_ms));
        self.deadlines.insert((record.deadline, id));
        self.feed.push(now.wall, Fact::Held(Box::new(record.view(id, now.t))));
        self.answer(id, now)
    }

    /// Moves the deadline of a hold in payment, within its fixed bound.
    pub(in crate::inventory) fn extend(&mut self, id: ReservationId, now: Now, locals: &mut Locals<'_>) -> Outcome {
        self.settle(id, now, locals);
        let Some(record) = self.records.get_mut(&id) else { return Outcome::Unknown };
        match record.status {
            Status::Preparing => return Outcome::Preparing,
            Status::Held if record.purpose != Purpose::Block && record.deadline.remaining_ms(now.t) < EXTEND_MS => {
                let bound = record.begun.plus(u64::from(record.hold_ms) + EXTEND_BOUND_MS);
                let deadline = record.deadline.max(now.t.plus(EXTEND_MS).min(bound));
                self.deadlines.remove(&(record.deadline, id));
                self.deadlines.insert((deadline, id));
                record.deadline = deadline;
            }
            _ => {}
        }
        self.answer(id, now)
    }

    /// The judge between payment and expiry.
    pub(in crate::inventory) fn pay(
        &mut self,
        id: ReservationId,
        payment: PaymentId,
        (amount, currency): (Minor, Currency),
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Outcome {
        self.settle(id, now, locals);
        let Some(record) = self.records.get(&id) else { return Outcome::Unknown };
        let refund = match record.status {
            Status::Preparing => return Outcome::Preparing,
            Status::Paid if record.payment == Some(payment) => return self.answer(id, now),
            Status::Paid => RefundReason::AlreadyPaid,
            Status::Expired => RefundReason::Expired,
            Status::Cancelled => RefundReason::Cancelled,
            // An offer that was not accepted and a block have nothing to be paid.
            Status::Aborted | Status::Offered => RefundReason::Aborted,
            Status::Held if record.purpose == Purpose::Block => RefundReason::Aborted,
            Status::Held if (record.total, record.currency) != (amount, currency) => RefundReason::AmountMismatch,
            Status::Held => {
                self.finish(id, End::Paid(payment), now, locals);
                return self.answer(id, now);
            }
        };
        Outcome::MustRefund(refund)
    }

    /// Ends a hold or an offer, for its owner or for an operator. A paid one stays paid.
    pub(in crate::inventory) fn cancel(
        &mut self,
        id: ReservationId,
        user: Option<&UserId>,
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Outcome {
        self.settle(id, now, locals);
        let Some(record) = self.records.get(&id).filter(|r| user.is_none_or(|user| *user == r.user)) else {
            return Outcome::Unknown;
        };
        match record.status {
            Status::Preparing => return Outcome::Preparing,
            Status::Held | Status::Offered => self.finish(id, End::Cancelled, now, locals),
            Status::Paid | Status::Expired | Status::Cancelled | Status::Aborted => {}
        }
        self.answer(id, now)
    }

    /// Ends what has run out, before any command looks at it.
    pub(super) fn settle(&mut self, id: ReservationId, now: Now, locals: &mut Locals<'_>) {
        let Some(record) = self.records.get(&id) else { return };
        if record.deadline > now.t {
            return;
        }
        match record.status {
            Status::Preparing => self.finish(id, End::Aborted(Refusal::PrepareTimeout), now, locals),
            Status::Held | Status::Offered => self.finish(id, End::Expired, now, locals),
            Status::Paid | Status::Expired | Status::Cancelled | Status::Aborted => {}
        }
    }

    /// The same for all that this user has in his account.
    pub(super) fn settle_user(&mut self, user: &UserId, now: Now, locals: &mut Locals<'_>) {
        let Some(account) = self.accounts.get(user) else { return };
        let all: Vec<ReservationId> = account.offers.iter().copied().chain(account.live).collect();
        for id in all {
            self.settle(id, now, locals);
        }
    }

    /// The one place where a record ends: status, account, feed and what its participants are to be told.
    pub(super) fn finish(&mut self, id: ReservationId, end: End, now: Now, locals: &mut Locals<'_>) {
        let record = self.records.get_mut(&id).expect("only a record ends");
        assert!(!record.status.is_terminal(), "{id} is {:?} and cannot end again", record.status);
        self.deadlines.remove(&(record.deadline, id));
        (record.ended, record.ended_at) = (now.t, Some(now.wall));
        record.chain = None;
        let (status, tell) = match &end {
            End::Paid(payment) => {
                record.payment = Some(*payment);
                (Status::Paid, Done::Sold)
            }
            End::Expired => (Status::Expired, Done::Released),
            End::Cancelled => (Status::Cancelled, Done::Released),
            End::Aborted(refusal) => {
                record.refusal = Some(refusal.clone());
                record.seats.clear();
                record.ledger_acked = true;
                (Status::Aborted, Done::Released)
            }
        };
        record.status = status;
        for part in record.parts.iter_mut().filter(|part| part.vote != Voted::No) {
            part.take = None;
            part.acked = locals.tell(id, &part.who, &tell, now.wall);
        }
        if record.purpose != Purpose::Block {
            let view = || Box::new(record.view(id, now.t));
            match end {
                End::Paid(_) => self.feed.push(now.wall, Fact::Paid(view())),
                End::Expired => self.feed.push(now.wall, Fact::Expired(view())),
                End::Cancelled => self.feed.push(now.wall, Fact::Cancelled(view())),
                End::Aborted(_) => {}
            }
            let (user, count) = (record.user.clone(), record.count);
            self.settle_account(&user, id, count, status == Status::Paid);
        }
        self.tidy(id);
    }

    fn settle_account(&mut self, user: &UserId, id: ReservationId, count: u32, paid: bool) {
        let account = self.accounts.get_mut(user).expect("a record that is not over has an account");
        account.held -= count;
        account.bought += if paid { count } else { 0 };
        account.offers.remove(&id);
        if account.live == Some(id) {
            account.live = None;
        }
        if account.is_empty() {
            self.accounts.remove(user);
        }
    }
}

/// The ways in which a reservation ends.
pub(super) enum End {
    Paid(PaymentId),
    Expired,
    Cancelled,
    Aborted(Refusal),
}
