//! Recovery without memory: the leader of a group re-sends, on gaining leadership and whenever something changed, what the
//! group's partitions owe to others, until they are told that it is done. Sending again is harmless.

use crate::group::GroupHandle;
use crate::runtime::{sleep, timeout};
use domain::inventory::group::reply;
use domain::inventory::{Outcome, Request};
use futures::future::join_all;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Messages in one round.
const ROUND: usize = 256;
/// Rest between two rounds, so that a burst of changes is one round.
const REST: Duration = Duration::from_millis(10);
/// After a round in which nothing got further, or without any change.
const PATIENCE: Duration = Duration::from_secs(1);

/// Drives one group until the node stops.
pub async fn run(group: GroupHandle, stop: CancellationToken) {
    loop {
        let machine = group.machine().clone();
        let changed = machine.changed();
        let progress = if group.is_leader() { round(&group).await } else { Progress::Idle };
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

async fn round(group: &GroupHandle) -> Progress {
    let owed = group.machine().state().machine.pending(ROUND);
    if owed.is_empty() {
        return Progress::Idle;
    }
    let answers = join_all(owed.iter().map(|request| group.propose(request.clone()))).await;
    let replies: Vec<Request> = owed
        .iter()
        .zip(&answers)
        .filter_map(|(request, answer)| {
            let outcome = answer.as_ref().ok()?;
            if let Outcome::Moved { .. } = outcome {
                tracing::debug!(partition = %request.partition, group = %group.id(), "owed to a partition elsewhere");
            }
            reply(request, outcome)
        })
        .collect();
    if replies.is_empty() {
        return Progress::None;
    }
    join_all(replies.into_iter().map(|request| group.propose(request))).await;
    Progress::Some
}
