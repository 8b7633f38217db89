//! What a judge is told after a participant has answered one of its messages.

use super::command::{Checkout, Command, Done, Participate, Request};
use super::outcome::Outcome;
use crate::ids::{Partition, ReservationId};

/// The vote or acknowledgement that follows from a participant's answer to `request`, a message from
/// [`super::Group::pending`]. `None`: nothing to say (it has moved, it raised an alarm, or it is not such a message).
pub fn reply(request: &Request, outcome: &Outcome) -> Option<Request> {
    let Command::Participate(command) = &request.command else { return None };
    let participant = request.partition.clone();
    let to = |reservation: ReservationId, checkout: Checkout| {
        Some(Request { partition: reservation.partition(), command: Command::Checkout(checkout) })
    };
    let (reservation, done) = match (command, outcome) {
        (Participate::Prepare { reservation, .. }, Outcome::Voted(vote)) => {
            let (reservation, vote) = (*reservation, vote.clone());
            return to(reservation, Checkout::Vote { reservation, participant, vote });
        }
        (Participate::Watermark { bucket, incarnation, below }, Outcome::Done) => {
            let partition = Partition::Checkouts { event: participant.event()?, bucket: *bucket };
            let marked = Checkout::Marked { participant, incarnation: *incarnation, below: *below };
            return Some(Request { partition, command: Command::Checkout(marked) });
        }
        (Participate::Release { reservation }, Outcome::Done) => (*reservation, Done::Released),
        (Participate::Sell { reservation }, Outcome::Done) => (*reservation, Done::Sold),
        (Participate::Return { reservation, seats }, Outcome::Done) => (*reservation, Done::Returned(seats.clone())),
        _ => return None,
    };
    to(reservation, Checkout::Ack { reservation, participant, done })
}
