//! Linearizable reads. Those that wait while leadership is being confirmed share the next confirmation, so that a thousand
//! readers cost one round trip.

use crate::group::ReadError;
use crate::leader::Leaders;
use crate::runtime::timeout;
use crate::types::{Raft, TypeConfig};
use domain::ids::NodeId;
use openraft::ReadPolicy;
use openraft::errors::{LinearizableReadError, RaftError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A leader that is cut off is not waited for: the reader asks elsewhere.
const PATIENCE: Duration = Duration::from_secs(1);

type Waiting = oneshot::Sender<Result<(), ReadError>>;

/// Confirms leadership for reads. Clones share it.
#[derive(Clone)]
pub struct Reader(mpsc::UnboundedSender<Waiting>);

impl Reader {
    /// Starts the task.
    pub fn start(raft: Raft, leaders: Leaders) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        crate::runtime::spawn(run(raft, leaders, receiver));
        Self(sender)
    }

    /// Returns once everything that was acknowledged before this call is applied on this node, the leader.
    pub async fn confirm(&self) -> Result<(), ReadError> {
        let (sender, receiver) = oneshot::channel();
        let stopped = || ReadError::Unavailable("the node is stopping".to_owned());
        self.0.send(sender).map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}

async fn run(raft: Raft, leaders: Leaders, mut queue: mpsc::UnboundedReceiver<Waiting>) {
    while let Some(first) = queue.recv().await {
        let mut waiting = vec![first];
        while let Ok(next) = queue.try_recv() {
            waiting.push(next);
        }
        let confirmed = match timeout(PATIENCE, raft.ensure_linearizable(ReadPolicy::ReadIndex)).await {
            Some(confirmed) => confirmed.map(drop).map_err(|error| read_error(&leaders, error)),
            None => Err(ReadError::Unavailable("no quorum confirmed the leader in time".to_owned())),
        };
        for waiter in waiting {
            let _ = waiter.send(confirmed.clone());
        }
    }
}

fn read_error(leaders: &Leaders, error: RaftError<TypeConfig, LinearizableReadError<TypeConfig>>) -> ReadError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => {
            let address = forward.leader_node.map(|node| node.addr);
            let hint = forward.leader_id.map(|leader| leaders.located(NodeId(leader), address));
            ReadError::NotLeader(hint.unwrap_or_default())
        }
        other => ReadError::Unavailable(other.to_string()),
    }
}
