//! Recovery without memory: the leader of a group re-sends, on gaining leadership and whenever something changed, what the
//! group's partitions owe to others, until they are told that it is done. Sending again is harmless.

use crate::client::Client;
use crate::group::GroupHandle;
use crate::runtime::{Instant, millis_since, now, sleep, timeout};
use domain::ids::Partition;
use domain::inventory::{Answer, Outcome, Query, Request, reply};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Messages in one round.
const ROUND: usize = 256;
/// Rest between two rounds, so that a burst of changes is one round.
const REST: Duration = Duration::from_millis(10);
/// Before what could not be delivered is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// A message to another group takes no longer; it is sent again.
const DELIVERY: Duration = Duration::from_secs(1);
/// A partition that did not answer is left alone for so long.
const AWAY_MS: u64 = 200;
/// Without any change.
const PATIENCE: Duration = Duration::from_secs(1);

/// Drives one group until the node stops. What partitions in other groups are owed goes `elsewhere`.
pub async fn run(group: GroupHandle, elsewhere: Option<Client>, stop: CancellationToken) {
    let mut away = Away::new();
    loop {
        let machine = group.machine().clone();
        let changed = machine.changed();
        let progress =
            if group.is_leader() { round(&group, elsewhere.as_ref(), &mut away).await } else { Progress::Idle };
        let rest = async {
            match progress {
                Progress::Some => sleep(REST).await,
                Progress::None => sleep(RETRY).await,
                Progress::Idle => {
                    timeout(PATIENCE, changed).await;
                    sleep(REST).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = rest => {}
        }
    }
}

/// What a round came to.
enum Progress {
    /// Nothing was owed.
    Idle,
    /// Something was delivered.
    Some,
    /// What is owed could not be delivered.
    None,
}

async fn round(group: &GroupHandle, elsewhere: Option<&Client>, away: &mut Away) -> Progress {
    away.retain(|_, since| millis_since(*since) < AWAY_MS);
    let owed = group.machine().state().machine.pending_for(ROUND, &|partition| !away.contains_key(partition));
    if owed.is_empty() {
        return if away.is_empty() { Progress::Idle } else { Progress::None };
    }
    // Each answer goes back at once: whoever is slow holds up only what is told to him.
    let told = join_all(owed.into_iter().map(|request| tell(group, elsewhere, request))).await;
    let mut progress = Progress::None;
    for told in told {
        match told {
            Told::Answered => progress = Progress::Some,
            Told::NotNow => {}
            Told::Silence(partition) => _ = away.insert(partition, now()),
        }
    }
    progress
}

/// Partitions elsewhere that did not answer, and since when.
type Away = BTreeMap<Partition, Instant>;

/// What became of one message.
enum Told {
    /// It was answered, and the answer is written.
    Answered,
    /// Neither.
    NotNow,
    /// The partition's group does not answer.
    Silence(Partition),
}

async fn tell(group: &GroupHandle, elsewhere: Option<&Client>, request: Request) -> Told {
    let outcome = match deliver(group, elsewhere, &request).await {
        Ok(outcome) => outcome,
        Err(told) => return told,
    };
    let Some(reply) = reply(&request, &outcome) else { return Told::NotNow };
    match group.propose(reply).await {
        Ok(_) => Told::Answered,
        Err(_) => Told::NotNow,
    }
}

/// Delivers one message, within the group if its partition is active here.
async fn deliver(group: &GroupHandle, elsewhere: Option<&Client>, request: &Request) -> Result<Outcome, Told> {
    // Any question tells whether the partition is active here; this one reads nothing.
    let glance = Query::Feed { after: u64::MAX, max: 0 };
    match (group.read_applied(&request.partition, &glance), elsewhere) {
        (Answer::Moved { .. }, Some(client)) => {
            let Request { partition, command } = request.clone();
            match timeout(DELIVERY, client.submit(partition.clone(), command)).await {
                Some(Ok(outcome)) => Ok(outcome),
                failed => {
                    tracing::debug!(%partition, group = %group.id(), ?failed, "owed elsewhere");
                    Err(Told::Silence(partition))
                }
            }
        }
        _ => group.propose(request.clone()).await.map_err(|_| Told::NotNow),
    }
}
