//! What must still be told to whom: the messages that recovery sends again until they are answered.

use super::{Checkouts, Record, Voted};
use crate::ids::{EventId, Partition, ReservationId};
use crate::inventory::command::{Command, Participate, Request};
use crate::inventory::locals::Participant;
use crate::inventory::record::Status;

impl Checkouts {
    /// Adds what is owed to partitions that are wanted, until `messages` has `limit`.
    pub(in crate::inventory) fn owe(
        &self,
        messages: &mut Vec<Request>,
        limit: usize,
        wanted: &dyn Fn(&Partition) -> bool,
    ) {
        for id in &self.owed {
            if messages.len() >= limit {
                return;
            }
            let mut owed = Vec::new();
            self.records[id].owe(*id, &mut owed);
            messages.extend(owed.into_iter().filter(|message| wanted(&message.partition)));
        }
        let (incarnation, below) = self.mark;
        for (who, _) in self.told.iter().filter(|(_, told)| **told < self.mark) {
            if messages.len() >= limit {
                return;
            }
            let command = Participate::Watermark { bucket: self.bucket, incarnation, below };
            messages
                .extend([message(self.event, who, command)].into_iter().filter(|message| wanted(&message.partition)));
        }
    }
}

impl Record {
    fn owe(&self, id: ReservationId, messages: &mut Vec<Request>) {
        let (reservation, purpose) = (id, self.purpose);
        for part in &self.parts {
            let command = match (self.status, &part.take) {
                (Status::Preparing, Some(take)) if part.vote == Voted::Asked => {
                    let (user, take) = (self.user.clone(), take.clone());
                    Participate::Prepare { reservation, user, take, purpose }
                }
                (Status::Paid, _) if !part.acked => Participate::Sell { reservation },
                (status, _) if status.is_terminal() && !part.acked => Participate::Release { reservation },
                _ => continue,
            };
            messages.push(message(id.event, &part.who, command));
        }
        for (section, seats) in self.refunds.iter().flat_map(|refunds| &refunds.returning) {
            let seats = seats.iter().copied().collect();
            messages.push(message(id.event, &Participant::Seats(*section), Participate::Return { reservation, seats }));
        }
    }
}

fn message(event: EventId, to: &Participant, command: Participate) -> Request {
    let partition = match to {
        Participant::Seats(section) => Partition::Seats { event, section: *section },
        Participant::Promotion(code) => Partition::Promotion { event, code: code.clone() },
    };
    Request { partition, command: Command::Participate(command) }
}
