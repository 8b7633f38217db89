//! Recovery without memory: the leader of a group re-sends, on gaining leadership and whenever something changed, what the
//! group's partitions owe to others, until they are told that it is done. Sending again is harmless.

use crate::client::Client;
use crate::group::GroupHandle;
use crate::runtime::{sleep, timeout};
use domain::inventory::{Answer, Outcome, Query, Request, reply};
use futures::future::join_all;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Messages in one round.
const ROUND: usize = 256;
/// Rest between two rounds, so that a burst of changes is one round.
const REST: Duration = Duration::from_millis(10);
/// After a round in which nothing got further, or without any change.
const PATIENCE: Duration = Duration::from_secs(1);

/// Drives one group until the node stops. What partitions in other groups are owed goes `elsewhere`.
pub async fn run(group: GroupHandle, elsewhere: Option<Client>, stop: CancellationToken) {
    loop {
        let machine = group.machine().clone();
        let changed = machine.changed();
        let progress = if group.is_leader() { round(&group, elsewhere.as_ref()).await } else { Progress::Idle };
        let rest = async {
            match progress {
                Progress::Some => sleep(REST).await,
                Progress::None => sleep(PATIENCE).await,
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

async fn round(group: &GroupHandle, elsewhere: Option<&Client>) -> Progress {
    let owed = group.machine().state().machine.pending(ROUND);
    if owed.is_empty() {
        return Progress::Idle;
    }
    let answers = join_all(owed.iter().map(|request| deliver(group, elsewhere, request))).await;
    let replies: Vec<Request> = owed
        .iter()
        .zip(answers)
        .filter_map(|(request, outcome)| outcome.and_then(|outcome| reply(request, &outcome)))
        .collect();
    if replies.is_empty() {
        return Progress::None;
    }
    join_all(replies.into_iter().map(|request| group.propose(request))).await;
    Progress::Some
}

/// Delivers one message, within the group if its partition is active here. `None`: not now.
async fn deliver(group: &GroupHandle, elsewhere: Option<&Client>, request: &Request) -> Option<Outcome> {
    // Any question tells whether the partition is active here; this one reads nothing.
    let glance = Query::Feed { after: u64::MAX, max: 0 };
    match (group.read_applied(&request.partition, &glance), elsewhere) {
        (Answer::Moved { .. }, Some(client)) => {
            let Request { partition, command } = request.clone();
            let answer = client.submit(partition, command).await;
            answer
                .inspect_err(|error| {
                    tracing::debug!(partition = %request.partition, group = %group.id(), %error, "owed elsewhere");
                })
                .ok()
        }
        _ => group.propose(request.clone()).await.ok(),
    }
}
