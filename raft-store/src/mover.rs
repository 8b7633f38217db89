//! Moving partitions, on the leader of the meta group: reads the open moves from the applied catalogue and brings each to its
//! end. Keeps nothing that a successor needs: after a crash at any step the next leader of the meta group does the step
//! again, which changes nothing where it had been done.
//!
//! | crash after | what is there | what the successor does |
//! |---|---|---|
//! | MoveBegin | source active | Freeze |
//! | Freeze | source frozen, the export lost | Freeze again, which exports again |
//! | Install | target installed, inactive | Freeze and Install again, same bytes, same attempt |
//! | MoveCommit | decided; the target is not serving yet | Activate |
//! | Activate | target serves, source frozen | Activate (nothing), Drop |
//! | Drop | move still listed | Activate, Drop (nothing), MoveDone |
//! | MoveAbort | source frozen or active | Unfreeze |
//!
//! Attempts of one partition are ended in their order, so that the Unfreeze of an old one finds its own Freeze.

mod log;

pub use log::{MoveLog, MoveNote, MoveResult, MoveStep, median_frozen_ms};

use crate::client::{Client, ClientError};
use crate::group::GroupHandle;
use crate::runtime::{Instant, millis_since, now, sleep, timeout};
use domain::ids::{GroupId, Partition};
use domain::inventory::command::{Manage, Meta};
use domain::inventory::query::{Move, MoveStage};
use domain::inventory::{Answer, Command, Outcome, Query, Request};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Partitions that move at the same time: each freezes a part of some event.
const AT_ONCE: usize = 2;
/// A partition is frozen until its target has taken it in: an attempt that lasts longer is given up.
const FREEZE_LIMIT: Duration = Duration::from_secs(3);
/// Between two looks when nothing changes.
const REST: Duration = Duration::from_millis(500);
/// Before a step that failed is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Drives moves until the node stops.
pub async fn run(meta: GroupHandle, client: Client, log: MoveLog, stop: CancellationToken) {
    let driver = Driver { meta, client, log };
    let mut driven = BTreeSet::new();
    let mut turns = Turns::default();
    let mut working = FuturesUnordered::new();
    loop {
        let machine = driver.meta.machine().clone();
        let changed = machine.changed();
        for open in turns.in_order(driver.next()) {
            if working.len() < AT_ONCE && driven.insert(open.partition.clone()) {
                working.push(driver.drive(open));
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((partition, done)) = working.next(), if !working.is_empty() => {
                driven.remove(&partition);
                turns.tried(partition, done);
            }
            _ = timeout(REST, changed) => {}
        }
    }
}

/// Whose turn it is: a move that cannot go on, because a group has lost its majority, must not keep others from theirs.
#[derive(Default)]
struct Turns {
    /// Tries so far.
    tries: u64,
    /// The number of the last try that failed, of each partition whose last try did.
    failed: BTreeMap<Partition, u64>,
}

impl Turns {
    /// Those that did not fail first, then whoever failed longest ago.
    fn in_order(&mut self, mut open: Vec<Move>) -> Vec<Move> {
        self.failed.retain(|partition, _| open.iter().any(|open| open.partition == *partition));
        open.sort_by_key(|open| self.failed.get(&open.partition).copied());
        open
    }

    fn tried(&mut self, partition: Partition, done: bool) {
        self.tries += 1;
        match done {
            true => self.failed.remove(&partition),
            false => self.failed.insert(partition, self.tries),
        };
    }
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
enum Hitch {
    #[error(transparent)]
    Store(#[from] ClientError),
    #[error("{0}")]
    Refused(String),
    #[error("it was not carried over within {} ms", FREEZE_LIMIT.as_millis())]
    Slow,
    #[error("the meta group has another leader: {0}")]
    Deposed(String),
    #[error("a test stops here, after {0:?}")]
    Halted(MoveStep),
}

struct Driver {
    meta: GroupHandle,
    client: Client,
    log: MoveLog,
}

impl Driver {
    /// The oldest open attempt of each partition, if this node leads the meta group.
    fn next(&self) -> Vec<Move> {
        if !self.meta.is_leader() {
            return Vec::new();
        }
        let Answer::Moves(moves) = self.meta.read_applied(&Partition::Meta, &Query::Moves) else { return Vec::new() };
        let mut seen = BTreeSet::new();
        moves.into_iter().filter(|open| seen.insert(open.partition.clone())).collect()
    }

    /// One try to bring an attempt to its end; gives its partition back, and whether it did.
    async fn drive(&self, open: Move) -> (Partition, bool) {
        let done = match open.stage {
            MoveStage::Begun => self.carry_over(&open).await,
            MoveStage::Committed => self.complete(&open, None).await,
            MoveStage::Aborted => self.undo(&open).await,
        };
        if let Err(hitch) = &done {
            tracing::debug!(partition = %open.partition, attempt = %open.attempt, %hitch, "a move is held up");
            sleep(RETRY).await;
        }
        (open.partition, done.is_ok())
    }

    /// Freeze, Install, commit; whatever holds these up ends the attempt, so that nothing stays frozen for long.
    async fn carry_over(&self, open: &Move) -> Result<(), Hitch> {
        let frozen_at = match self.copy(open).await {
            Ok(frozen_at) => frozen_at,
            Err(hitch @ (Hitch::Deposed(_) | Hitch::Halted(_))) => return Err(hitch),
            Err(hitch) => {
                tracing::warn!(partition = %open.partition, attempt = %open.attempt, %hitch, "a move is given up");
                self.log.note(open, MoveResult::GivenUp(hitch.to_string()));
                let (partition, attempt) = (open.partition.clone(), open.attempt);
                self.decide(Meta::MoveAbort { partition, attempt }).await?;
                return self.undo(open).await;
            }
        };
        let (partition, attempt) = (open.partition.clone(), open.attempt);
        self.decide(Meta::MoveCommit { partition, attempt }).await?;
        self.passed(MoveStep::Commit)?;
        self.complete(open, Some(frozen_at)).await
    }

    /// Until the target has the partition; gives the moment in which it was frozen.
    async fn copy(&self, open: &Move) -> Result<Instant, Hitch> {
        // A target that cannot answer would only be found out with the partition frozen.
        timeout(FREEZE_LIMIT, self.client.reach(open.to)).await.ok_or(Hitch::Slow)??;
        let frozen_at = now();
        timeout(FREEZE_LIMIT, self.transplant(open)).await.ok_or(Hitch::Slow)??;
        Ok(frozen_at)
    }

    /// Nobody is served from the first of these steps on.
    async fn transplant(&self, open: &Move) -> Result<(), Hitch> {
        let exported = match self.tell(open.from, open, Manage::Freeze { attempt: open.attempt }).await? {
            Outcome::Exported(bytes) => bytes,
            other => return Err(refused("Freeze", &other)),
        };
        self.passed(MoveStep::Freeze)?;
        let install = Manage::Install { attempt: open.attempt, epoch: open.epoch, exported };
        match self.tell(open.to, open, install).await? {
            Outcome::Done => self.passed(MoveStep::Install),
            other => Err(refused("Install", &other)),
        }
    }

    /// Meta has committed: the target serves, the source forgets.
    async fn complete(&self, open: &Move, frozen_at: Option<Instant>) -> Result<(), Hitch> {
        match self.tell(open.to, open, Manage::Activate { attempt: open.attempt }).await? {
            // A copy that calls the attempt late has been activated under it and is past it.
            Outcome::Done | Outcome::Invalid(_) => {}
            // Nothing else lets go of the only other copy.
            other => return Err(refused("Activate", &other)),
        }
        if let Some(frozen_at) = frozen_at {
            let frozen_ms = millis_since(frozen_at);
            tracing::info!(partition = %open.partition, from = %open.from, to = %open.to, frozen_ms, "moved");
            self.log.note(open, MoveResult::Moved { frozen_ms });
        }
        self.passed(MoveStep::Activate)?;
        match self.tell(open.from, open, Manage::Drop { attempt: open.attempt }).await? {
            // A copy that calls the attempt late has let go of what it had.
            Outcome::Done | Outcome::Invalid(_) => self.passed(MoveStep::Drop)?,
            // The copy would stay, and nobody would come back to it.
            other => return Err(refused("Drop", &other)),
        }
        self.forget(open).await
    }

    /// Meta has aborted: the source serves on.
    async fn undo(&self, open: &Move) -> Result<(), Hitch> {
        match self.tell(open.from, open, Manage::Unfreeze { attempt: open.attempt }).await? {
            // Not created yet: a Freeze that is still on its way would stop it for good, so the attempt stays listed.
            moved @ Outcome::Moved { .. } => Err(refused("Unfreeze", &moved)),
            _ => self.forget(open).await,
        }
    }

    async fn forget(&self, open: &Move) -> Result<(), Hitch> {
        self.decide(Meta::MoveDone { partition: open.partition.clone(), attempt: open.attempt }).await
    }

    fn passed(&self, step: MoveStep) -> Result<(), Hitch> {
        if self.log.goes_on_after(step) { Ok(()) } else { Err(Hitch::Halted(step)) }
    }

    /// A step, in the group that it concerns, wherever placement says that the partition is.
    async fn tell(&self, group: GroupId, open: &Move, step: Manage) -> Result<Outcome, Hitch> {
        Ok(self.client.submit_in(group, open.partition.clone(), Command::Manage(step)).await?)
    }

    async fn decide(&self, decision: Meta) -> Result<(), Hitch> {
        let request = Request { partition: Partition::Meta, command: Command::Meta(decision) };
        match self.meta.propose(request).await {
            Ok(Outcome::Done) => Ok(()),
            Ok(other) => Err(refused("meta's decision", &other)),
            Err(error) => Err(Hitch::Deposed(error.to_string())),
        }
    }
}

fn refused(step: &str, outcome: &Outcome) -> Hitch {
    let text: String = format!("{outcome:?}").chars().take(200).collect();
    Hitch::Refused(format!("{step} was answered {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Attempt, Bucket, Epoch, EventId};

    fn open(buckets: &[u16]) -> Vec<Move> {
        let one = |bucket: &u16| Move {
            partition: Partition::Checkouts { event: EventId(1), bucket: Bucket(*bucket) },
            attempt: Attempt(1),
            from: GroupId(1),
            to: GroupId(2),
            epoch: Epoch(2),
            stage: MoveStage::Committed,
        };
        buckets.iter().map(one).collect()
    }

    #[test]
    fn moves_that_cannot_go_on_let_the_others_pass() {
        let mut turns = Turns::default();
        let all = open(&[1, 2, 3]);
        let mut seen = Vec::new();
        // The first two can never be done; each round tries two.
        for _ in 0..3 {
            for open in turns.in_order(all.clone()).into_iter().take(AT_ONCE) {
                seen.push(open.partition.clone());
                turns.tried(open.partition, false);
            }
        }
        assert!(all.iter().all(|open| seen.iter().filter(|seen| **seen == open.partition).count() == 2), "{seen:?}");
        turns.tried(all[1].partition.clone(), true);
        assert_eq!(turns.in_order(all.clone())[0].partition, all[1].partition);
        // What is no longer open is forgotten.
        turns.in_order(Vec::new());
        assert!(turns.failed.is_empty());
    }
}
