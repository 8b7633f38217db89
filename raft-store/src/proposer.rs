//! Proposing, on the leader: what is waiting becomes one entry, stamped with time; the next entry gathers what arrives
//! meanwhile. The queue is bounded, and says so at once. While something can run out, time is proposed each second even if
//! nobody asks.

use crate::group::ProposeError;
use crate::leader::Leaders;
use crate::runtime::{Instant, WallClock, millis_since, now, spawn, timeout};
use crate::state_machine::StateMachine;
use crate::types::{Applied, Batch, Raft, TypeConfig};
use crate::wire;
use domain::inventory::{Entry, Outcome, Refusal, Request};
use domain::limits::{ENTRY_BYTES, ENTRY_REQUESTS, REQUEST_BYTES};
use domain::time::Stamp;
use openraft::async_runtime::WatchReceiver;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Between two entries of a group in which something can run out.
const TICK: Duration = Duration::from_millis(1_000);
/// How long to look again whether a fresh leader has applied the first entry of its term.
const READY_POLL: Duration = Duration::from_millis(20);
/// A leader that a quorum has not confirmed for so long may be one no more, and advises nobody.
const ADVICE_LEASE_MS: u64 = 300;
/// What an overloaded caller is told to wait.
const RETRY_AFTER_MS: u64 = 250;

type Reply = oneshot::Sender<Result<Outcome, ProposeError>>;

struct Proposal {
    request: Request,
    bytes: usize,
    reply: Reply,
}

/// From when the next stamp counts, in which term.
#[derive(Clone, Copy)]
struct Base {
    term: u64,
    at: Instant,
}

/// The proposals of one group. Clones share the queue.
#[derive(Clone)]
pub struct Proposer {
    queue: mpsc::Sender<Proposal>,
    raft: Raft,
    leaders: Leaders,
    machine: StateMachine,
    clock: WallClock,
    base: Arc<Mutex<Option<Base>>>,
}

impl Proposer {
    /// Starts the task; it ends when the last clone is gone.
    pub fn start(raft: Raft, machine: StateMachine, leaders: Leaders, clock: WallClock, capacity: usize) -> Self {
        let (queue, receiver) = mpsc::channel(capacity.max(1));
        let proposer = Self {
            queue,
            raft: raft.clone(),
            leaders: leaders.clone(),
            machine: machine.clone(),
            clock: clock.clone(),
            base: Arc::default(),
        };
        let worker = Worker { raft, leaders, machine, clock, base: proposer.base.clone() };
        spawn(worker.run(receiver));
        proposer
    }

    /// Proposes one request and waits for its outcome.
    pub async fn propose(&self, request: Request) -> Result<Outcome, ProposeError> {
        let bytes = wire::size(&request);
        self.submit(request, bytes)?.await.unwrap_or_else(|_| Err(unknown(&self.leaders, "the node is stopping")))
    }

    /// Queues one request of so many encoded bytes; the outcome comes through the receiver.
    pub fn submit(
        &self,
        request: Request,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Outcome, ProposeError>>, ProposeError> {
        if bytes > REQUEST_BYTES {
            return Err(ProposeError::TooLarge { bytes, limit: REQUEST_BYTES });
        }
        let Ok(leader) = self.raft.as_leader() else {
            return Err(ProposeError::NotLeader(self.leaders.hint()));
        };
        let (reply, receiver) = oneshot::channel();
        let heard = leader.last_quorum_acked().is_some_and(|at| millis_since(at) < ADVICE_LEASE_MS);
        if let Some(refusal) = heard.then(|| self.advice(leader.leader_id().term, &request)).flatten() {
            let _ = reply.send(Ok(Outcome::Advised(refusal)));
            return Ok(receiver);
        }
        match self.queue.try_send(Proposal { request, bytes, reply }) {
            Ok(()) => Ok(receiver),
            Err(mpsc::error::TrySendError::Full(_)) => Err(ProposeError::Overloaded { retry_after_ms: RETRY_AFTER_MS }),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(unknown(&self.leaders, "the node is stopping")),
        }
    }

    /// A refusal that the applied state already shows: no entry is needed to say so, and no promise made by it. Only from
    /// the state of a leader that has caught up with its predecessors.
    fn advice(&self, term: u64, request: &Request) -> Option<Refusal> {
        let state = self.machine.state();
        let caught_up = state.term_began.is_some_and(|(began, _)| began == term);
        caught_up.then(|| state.machine.preview(request, self.clock.now())).flatten()
    }

    /// What this node, if it leads, would stamp on an entry now; zero if it does not.
    pub fn elapsed_ms(&self) -> u32 {
        let base = *self.base.lock().expect("no holder of this lock panics");
        let term = leading_term(&self.raft);
        match base {
            Some(base) if Some(base.term) == term => clamp_ms(millis_since(base.at)),
            _ => 0,
        }
    }

    /// Proposals that wait.
    pub fn queued(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }
}

struct Worker {
    raft: Raft,
    leaders: Leaders,
    machine: StateMachine,
    clock: WallClock,
    base: Arc<Mutex<Option<Base>>>,
}

impl Worker {
    async fn run(self, mut queue: mpsc::Receiver<Proposal>) {
        let mut last_entry = now();
        // What did not fit into the last entry begins the next one.
        let mut left_over = None;
        loop {
            let until_tick = TICK.saturating_sub(Duration::from_millis(millis_since(last_entry)));
            let first = match left_over.take() {
                Some(first) => Some(first),
                None => match timeout(until_tick, queue.recv()).await {
                    Some(Some(first)) => Some(first),
                    Some(None) => return,
                    None => None,
                },
            };
            let Some(term) = self.ready().await else {
                last_entry = now();
                self.refuse(first, &mut queue);
                continue;
            };
            let batch;
            (batch, left_over) = gather(first, &mut queue);
            if batch.is_empty() && !self.machine.state().machine.has_deadlines() {
                last_entry = now();
                continue;
            }
            self.write(term, batch).await;
            while self.machine.state().machine.is_behind()
                && queue.is_empty()
                && left_over.is_none()
                && self.ready().await == Some(term)
            {
                if !self.write(term, Vec::new()).await {
                    break;
                }
            }
            last_entry = now();
        }
    }

    /// The term in which this node leads, once it has applied the first entry of that term. `None` if it does not lead.
    async fn ready(&self) -> Option<u64> {
        loop {
            let term = leading_term(&self.raft)?;
            let changed = self.machine.changed();
            let began = self.machine.state().term_began;
            if let Some((_, at)) = began.filter(|(began, _)| *began == term) {
                let mut base = self.base.lock().expect("no holder of this lock panics");
                if base.is_none_or(|base| base.term != term) {
                    *base = Some(Base { term, at });
                }
                return Some(term);
            }
            timeout(READY_POLL, changed).await;
        }
    }

    /// Nothing of these was written.
    fn refuse(&self, first: Option<Proposal>, queue: &mut mpsc::Receiver<Proposal>) {
        let rest = std::iter::from_fn(|| queue.try_recv().ok());
        for proposal in first.into_iter().chain(rest) {
            let _ = proposal.reply.send(Err(ProposeError::NotLeader(self.leaders.hint())));
        }
    }

    /// Writes one entry and answers its callers. False if its fate is unknown.
    async fn write(&self, term: u64, batch: Vec<Proposal>) -> bool {
        let (requests, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|proposal| (proposal.request, proposal.reply)).unzip();
        let entry = Entry { stamp: self.stamp(term), requests };
        match self.replicate(term, entry).await {
            Ok(Applied(outcomes)) => {
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    let _ = reply.send(Ok(outcome));
                }
                true
            }
            Err(reason) => {
                tracing::warn!(term, reason, requests = replies.len(), "the fate of an entry is unknown");
                for reply in replies {
                    let _ = reply.send(Err(unknown(&self.leaders, &reason)));
                }
                false
            }
        }
    }

    async fn replicate(&self, term: u64, entry: Entry) -> Result<Applied, String> {
        let leader = self.raft.as_leader().map_err(|error| error.to_string())?;
        if leader.leader_id().term != term {
            return Err("leadership has changed".to_owned());
        }
        let (responder, complete) = ProgressResponder::<TypeConfig, ClientWriteResult<TypeConfig>>::complete_only();
        let write = self.raft.write(Batch(Arc::new(entry))).with_leader(leader.to_committed_leader_id());
        write.responder(responder).await.map_err(|error| error.to_string())?;
        match complete.await {
            Ok(Ok(response)) => Ok(response.data),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the node is stopping".to_owned()),
        }
    }

    /// Whole milliseconds since the base, which advances by exactly them, so that no fraction is lost. Time stamped on an
    /// entry whose fate is unknown is not stamped again: service time may run late, never early.
    fn stamp(&self, term: u64) -> Stamp {
        let mut base = self.base.lock().expect("no holder of this lock panics");
        let elapsed = match base.as_mut() {
            Some(base) if base.term == term => {
                let elapsed = millis_since(base.at);
                base.at += Duration::from_millis(elapsed);
                elapsed
            }
            _ => 0,
        };
        Stamp { elapsed_ms: clamp_ms(elapsed), wall: self.clock.now() }
    }
}

/// What waits, up to one entry's requests and bytes; and the one that did not fit any more.
fn gather(first: Option<Proposal>, queue: &mut mpsc::Receiver<Proposal>) -> (Vec<Proposal>, Option<Proposal>) {
    let mut bytes = first.as_ref().map_or(0, |proposal| proposal.bytes);
    let mut batch = Vec::from_iter(first);
    while batch.len() < ENTRY_REQUESTS {
        match queue.try_recv() {
            // Whoever no longer waits gets no entry: nothing of theirs was written.
            Ok(proposal) if proposal.reply.is_closed() => {}
            Ok(proposal) if !batch.is_empty() && bytes + proposal.bytes > ENTRY_BYTES => {
                return (batch, Some(proposal));
            }
            Ok(proposal) => {
                bytes += proposal.bytes;
                batch.push(proposal);
            }
            Err(_) => break,
        }
    }
    (batch, None)
}

fn clamp_ms(elapsed: u64) -> u32 {
    u32::try_from(elapsed).unwrap_or(u32::MAX)
}

/// `None` too once consensus has stopped here: what it last was says nothing any more.
fn leading_term(raft: &Raft) -> Option<u64> {
    if raft.metrics().borrow_watched().running_state.is_err() {
        return None;
    }
    raft.as_leader().ok().map(|leader| leader.leader_id().term)
}

fn unknown(leaders: &Leaders, reason: &str) -> ProposeError {
    ProposeError::Unknown { reason: reason.to_owned(), hint: leaders.hint() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Partition;
    use domain::inventory::command::{Command, Manage};

    fn waiting(sizes: &[usize]) -> (mpsc::Receiver<Proposal>, Vec<oneshot::Receiver<Result<Outcome, ProposeError>>>) {
        let (queue, receiver) = mpsc::channel(10_000);
        let callers = sizes.iter().map(|bytes| {
            let (reply, caller) = oneshot::channel();
            let command = Command::Manage(Manage::AckFeed { upto: 0 });
            let request = Request { partition: Partition::Meta, command };
            assert!(queue.try_send(Proposal { request, bytes: *bytes, reply }).is_ok());
            caller
        });
        let callers = callers.collect();
        (receiver, callers)
    }

    /// Sizes of the entries that a queue of such requests becomes.
    fn entries(sizes: &[usize]) -> Vec<Vec<usize>> {
        let (mut queue, _callers) = waiting(sizes);
        let (mut entries, mut left_over) = (Vec::new(), None);
        loop {
            let batch;
            (batch, left_over) = gather(left_over, &mut queue);
            if batch.is_empty() {
                return entries;
            }
            entries.push(batch.into_iter().map(|proposal| proposal.bytes).collect());
        }
    }

    #[test]
    fn an_entry_is_bounded_by_count_and_by_bytes_and_keeps_the_order() {
        assert_eq!(entries(&[10; 600]).iter().map(Vec::len).collect::<Vec<_>>(), [256, 256, 88]);
        let half = ENTRY_BYTES / 2;
        assert_eq!(entries(&[half, half, 1, half]), [vec![half, half], vec![1, half]]);
        // What is larger than an entry's bytes travels alone.
        assert_eq!(entries(&[1, REQUEST_BYTES, 2]), [vec![1], vec![REQUEST_BYTES], vec![2]]);
    }

    #[test]
    fn whoever_gave_up_gets_no_entry() {
        let (mut queue, callers) = waiting(&[1, 2, 3]);
        drop(callers);
        assert!(gather(None, &mut queue).0.is_empty());
    }
}
