//! What participants in other groups answer: their votes, and later their acknowledgements.

use super::ends::End;
use super::{Checkouts, Part, Voted, begin};
use crate::ids::{Partition, ReservationId};
use crate::inventory::command::{Done, Take, Vote};
use crate::inventory::locals::{Locals, Now, Participant};
use crate::inventory::outcome::{Outcome, Refusal};
use crate::inventory::record::Status;

impl Checkouts {
    /// A participant's answer to Prepare. All yes is the commit point of the hold; a no aborts, or turns to the next section
    /// of a wish. A vote for what is over changes nothing: its participant is told the end.
    pub(in crate::inventory) fn vote(
        &mut self,
        id: ReservationId,
        from: &Partition,
        vote: &Vote,
        now: Now,
        locals: &mut Locals<'_>,
    ) -> Outcome {
        self.settle(id, now, locals);
        let Some(who) = self.participant(from) else { return Outcome::Invalid(format!("{from} does not vote here")) };
        let Some(record) = self.records.get_mut(&id) else { return Outcome::Unknown };
        if record.status != Status::Preparing {
            return Outcome::Done;
        }
        let Some(part) = record.parts.iter_mut().find(|part| part.who == who) else {
            return Outcome::Invalid(format!("{from} was not asked for {id}"));
        };
        if part.vote != Voted::Asked {
            return Outcome::Done;
        }
        match vote {
            Vote::Yes { seats, discount_bps, together } => {
                part.vote = Voted::Yes;
                record.seats.extend(seats.iter().copied());
                match who {
                    Participant::Seats(_) => record.together &= together,
                    Participant::Promotion(_) => record.discount_bps = *discount_bps,
                }
                if record.parts.iter().all(|part| part.vote != Voted::Asked) {
                    self.commit_votes(id, now, locals);
                }
            }
            Vote::No(refusal) => {
                // It took nothing and remembers that it did not: nothing is owed to it.
                (part.vote, part.acked, part.take) = (Voted::No, true, None);
                if !self.turn_to_next(id, &who) {
                    self.finish(id, End::Aborted(refusal.clone()), now, locals);
                }
            }
        }
        self.tidy(id);
        Outcome::Done
    }

    fn commit_votes(&mut self, id: ReservationId, now: Now, locals: &mut Locals<'_>) {
        let record = self.records.get_mut(&id).expect("it was just voted for");
        let pass_used = record.pass.as_ref().is_some_and(|pass| self.passes.contains_key(pass));
        match begin::quote(&mut record.seats, record.discount_bps) {
            _ if pass_used => self.finish(id, End::Aborted(Refusal::PassUsed), now, locals),
            Err(refusal) => self.finish(id, End::Aborted(refusal), now, locals),
            Ok(total) => {
                record.total = total;
                self.commit_hold(id, now);
            }
        }
    }

    /// Asks the next section of a wish after one had nothing; whether there was one.
    fn turn_to_next(&mut self, id: ReservationId, refused: &Participant) -> bool {
        let Some(record) = self.records.get_mut(&id) else { return false };
        let Some(chain) = record.chain.as_mut().filter(|_| matches!(refused, Participant::Seats(_))) else {
            return false;
        };
        let Some(section) = chain.next.pop_front() else { return false };
        let (who, take) = (Participant::Seats(section), Some(Take::Best(chain.wish.clone())));
        self.told.entry(who.clone()).or_insert(super::UNMARKED);
        record.parts.push(Part { who, take, vote: Voted::Asked, acked: false });
        true
    }

    /// A participant has done what it was told.
    pub(in crate::inventory) fn acknowledge(&mut self, id: ReservationId, from: &Partition, done: &Done) -> Outcome {
        let Some(who) = self.participant(from) else { return Outcome::Invalid(format!("{from} is not asked here")) };
        // A collected record was acknowledged by all: this is an echo.
        let Some(record) = self.records.get_mut(&id) else { return Outcome::Done };
        match (done, &who) {
            (Done::Returned(seats), Participant::Seats(section)) => {
                if let Some(refunds) = &mut record.refunds
                    && let Some(returning) = refunds.returning.get_mut(section)
                {
                    seats.iter().for_each(|seat| _ = returning.remove(seat));
                    if returning.is_empty() {
                        refunds.returning.remove(section);
                    }
                }
            }
            (Done::Returned(_), Participant::Promotion(_)) => {}
            (Done::Released | Done::Sold, _) => {
                let expected = if record.status == Status::Paid { Done::Sold } else { Done::Released };
                if !record.status.is_terminal() || *done != expected {
                    return Outcome::Invalid(format!("{id} is {:?}, not to be {done:?}", record.status));
                }
                record.parts.iter_mut().filter(|part| part.who == who).for_each(|part| part.acked = true);
            }
        }
        self.tidy(id);
        Outcome::Done
    }

    /// The ledger has written down how it ended.
    pub(in crate::inventory) fn ledger_acknowledge(&mut self, id: ReservationId) -> Outcome {
        let Some(record) = self.records.get_mut(&id) else { return Outcome::Done };
        if !record.status.is_terminal() {
            return Outcome::Invalid(format!("{id} has not ended"));
        }
        record.ledger_acked = true;
        self.tidy(id);
        Outcome::Done
    }

    /// A participant has been told a watermark.
    pub(in crate::inventory) fn marked(&mut self, from: &Partition, mark: (u16, u64)) -> Outcome {
        if let Some(told) = self.participant(from).and_then(|who| self.told.get_mut(&who)) {
            *told = mark.max(*told);
        }
        Outcome::Done
    }

    fn participant(&self, partition: &Partition) -> Option<Participant> {
        match partition {
            Partition::Seats { event, section } if *event == self.event => Some(Participant::Seats(*section)),
            Partition::Promotion { event, code } if *event == self.event => Some(Participant::Promotion(code.clone())),
            _ => None,
        }
    }
}
