//! Giving seats of a paid reservation back. A paid row stays for the life of the event; the promotion's use is not given
//! back.

use super::Checkouts;
use crate::ids::{RefundId, ReservationId, SeatRef};
use crate::inventory::command::Done;
use crate::inventory::event::Fact;
use crate::inventory::locals::{Locals, Now, Participant};
use crate::inventory::outcome::Outcome;
use crate::inventory::record::Status;
use std::collections::BTreeSet;

impl Checkouts {
    /// Marks seats returned, once, and sends their Return until it is acknowledged. Only the outbox of the ledger's
    /// transaction that made those bookings not live may send it.
    pub(in crate::inventory) fn refund(
        &mut self,
        refund: RefundId,
        id: ReservationId,
        seats: &[SeatRef],
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Outcome {
        let Some(record) = self.records.get_mut(&id) else { return Outcome::Unknown };
        if record.status != Status::Paid {
            return Outcome::Invalid(format!("{id} is {:?}: nothing to give back", record.status));
        }
        if record.refunds.as_ref().is_some_and(|refunds| refunds.known.contains_key(&refund)) {
            return Outcome::Done;
        }
        let own: BTreeSet<SeatRef> = record.seats.iter().map(|quoted| quoted.seat).collect();
        if seats.is_empty() || seats.iter().any(|seat| !own.contains(seat)) {
            return Outcome::Invalid(format!("{id} did not buy these seats"));
        }
        let refunds = record.refunds.get_or_insert_default();
        let back: Vec<SeatRef> =
            seats.iter().copied().collect::<BTreeSet<_>>().difference(&refunds.returned).copied().collect();
        refunds.known.insert(refund, back.clone());
        refunds.returned.extend(back.iter().copied());
        for (section, seats) in Locals::by_section(&back) {
            let returned = Done::Returned(seats.clone());
            if !locals.tell(id, &Participant::Seats(section), &returned, now.wall) {
                refunds.returning.entry(section).or_default().extend(seats);
            }
        }
        let (user, count) = (record.user.clone(), back.len() as u32);
        if let Some(account) = self.accounts.get_mut(&user) {
            account.bought -= count;
            if account.is_empty() {
                self.accounts.remove(&user);
            }
        }
        if !back.is_empty() {
            self.feed.push(now.wall, Fact::Released { reservation: id, refund, seats: back });
        }
        self.tidy(id);
        Outcome::Done
    }
}
