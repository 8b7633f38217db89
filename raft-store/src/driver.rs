//! Recovery without memory: the leader of a group re-sends, on gaining leadership and whenever something changed, what the
//! group's partitions owe to others, until they are told that it is done. Sending again is harmless.

use crate::client::Client;
use crate::group::GroupHandle;
use crate::runtime::{Instant, millis_since, now, sleep, timeout};
use domain::ids::Partition;
use domain::inventory::{Answer, Outcome, Query, Request, reply};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Messages that are looked for at once.
const BATCH: usize = 256;
/// Rest after a change, so that a burst of changes is one look.
const REST: Duration = Duration::from_millis(10);
/// A message to another group takes no longer; it is sent again.
const DELIVERY: Duration = Duration::from_secs(1);
/// A partition that did not take what it was told is left alone for so long.
const AWAY_MS: u64 = 200;
/// Without any change.
const PATIENCE: Duration = Duration::from_secs(1);

/// Drives one group until the node stops. What partitions in other groups are owed goes `elsewhere`.
pub async fn run(group: GroupHandle, elsewhere: Option<Client>, stop: CancellationToken) {
    let mut creditors = Creditors::default();
    let mut telling = FuturesUnordered::new();
    loop {
        let machine = group.machine().clone();
        let changed = machine.changed();
        let owed = match group.is_leader() {
            true => creditors.owed(&group),
            false => BTreeMap::new(),
        };
        let more = !owed.is_empty();
        for (partition, messages) in owed {
            telling.push(tell_all(&group, elsewhere.as_ref(), partition, messages));
        }
        if more {
            // There may be others behind so many messages to these.
            continue;
        }
        let patience = if creditors.away.is_empty() { PATIENCE } else { Duration::from_millis(AWAY_MS) };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((partition, answered)) = telling.next(), if !telling.is_empty() => creditors.told(partition, answered),
            _ = timeout(patience, changed) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(REST) => {}
        }
    }
}

/// To whom something is owed: each partition is told on its own, so that one that is silent holds up nobody else.
#[derive(Default)]
struct Creditors {
    /// They are being told.
    busy: BTreeSet<Partition>,
    /// They did not take it lately.
    away: BTreeMap<Partition, Instant>,
}

impl Creditors {
    /// What can be told now, by whom it is for; they are busy from now on.
    fn owed(&mut self, group: &GroupHandle) -> BTreeMap<Partition, Vec<Request>> {
        self.away.retain(|_, since| millis_since(*since) < AWAY_MS);
        let wanted = |partition: &Partition| self.is_free(partition);
        let messages = group.machine().state().machine.pending_for(BATCH, &wanted);
        self.begin(messages)
    }

    fn is_free(&self, partition: &Partition) -> bool {
        !self.busy.contains(partition) && !self.away.contains_key(partition)
    }

    fn begin(&mut self, messages: Vec<Request>) -> BTreeMap<Partition, Vec<Request>> {
        let mut owed: BTreeMap<Partition, Vec<Request>> = BTreeMap::new();
        for message in messages {
            owed.entry(message.partition.clone()).or_default().push(message);
        }
        self.busy.extend(owed.keys().cloned());
        owed
    }

    fn told(&mut self, partition: Partition, answered: bool) {
        self.busy.remove(&partition);
        if !answered {
            self.away.insert(partition, now());
        }
    }
}

/// Tells one partition everything, at the same time; gives it back, and whether it has answered all.
async fn tell_all(
    group: &GroupHandle,
    elsewhere: Option<&Client>,
    partition: Partition,
    messages: Vec<Request>,
) -> (Partition, bool) {
    let told = join_all(messages.into_iter().map(|message| tell(group, elsewhere, message))).await;
    (partition, told.into_iter().all(|answered| answered))
}

/// Whether the message was answered, and the answer is written.
async fn tell(group: &GroupHandle, elsewhere: Option<&Client>, request: Request) -> bool {
    let Some(outcome) = deliver(group, elsewhere, &request).await else { return false };
    match reply(&request, &outcome) {
        Some(reply) => group.propose(reply).await.is_ok(),
        None => false,
    }
}

/// Delivers one message, within the group if its partition is active here.
async fn deliver(group: &GroupHandle, elsewhere: Option<&Client>, request: &Request) -> Option<Outcome> {
    // Any question tells whether the partition is active here; this one reads nothing.
    let glance = Query::Feed { after: u64::MAX, max: 0 };
    match (group.read_applied(&request.partition, &glance), elsewhere) {
        (Answer::Moved { .. }, Some(client)) => {
            let Request { partition, command } = request.clone();
            match timeout(DELIVERY, client.submit(partition.clone(), command)).await {
                Some(Ok(outcome)) => Some(outcome),
                failed => {
                    tracing::debug!(%partition, group = %group.id(), ?failed, "owed elsewhere");
                    None
                }
            }
        }
        _ => group.propose(request.clone()).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{EventId, SectionId};
    use domain::inventory::Command;
    use domain::inventory::command::Manage;

    fn section(number: u16) -> Partition {
        Partition::Seats { event: EventId(1), section: SectionId(number) }
    }

    fn message(number: u16, upto: u64) -> Request {
        Request { partition: section(number), command: Command::Manage(Manage::AckFeed { upto }) }
    }

    #[tokio::test]
    async fn a_silent_partition_holds_up_nobody_else() {
        let mut creditors = Creditors::default();
        let owed = creditors.begin(vec![message(1, 1), message(2, 1), message(1, 2)]);
        assert_eq!(owed[&section(1)], [message(1, 1), message(1, 2)], "in their order");
        assert_eq!(owed[&section(2)], [message(2, 1)]);
        // The first says nothing for long; the second answers, and is told the next thing.
        creditors.told(section(2), true);
        assert!(creditors.is_free(&section(2)) && !creditors.is_free(&section(1)));
        creditors.begin(vec![message(2, 2)]);
        creditors.told(section(2), true);
        // Nobody is asked again at once who did not answer.
        creditors.told(section(1), false);
        assert!(!creditors.busy.contains(&section(1)) && !creditors.is_free(&section(1)));
    }
}
