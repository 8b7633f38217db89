//! What ends a node: it cannot keep what it promised, or a group of it decides nothing any more. It takes no part from the
//! moment that this is known, and whoever runs it ends it and says why.

use crate::group::GroupHandle;
use crate::node::Node;
use domain::ids::{GroupId, NodeId};
use openraft::async_runtime::WatchReceiver;
use tokio_util::sync::CancellationToken;

/// Why a node can take no further part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What it acknowledged to a leader is not in its log.
    #[error(
        "node {node} has forgotten what it acknowledged: of group {group} it has entries up to {has}, and it acknowledged \
         {acknowledged}. Its data folder was put back from an older copy, or its disk lost what was synced, so it must not go \
         on under its id. Start it with an empty data folder, with `node.id` set to a number that was never used and \
         `node.join = true`, then run `encore admin group replace-node {node} NEW-ID@HOST:PORT`"
    )]
    Forgot {
        /// Which node.
        node: NodeId,
        /// Of which group.
        group: GroupId,
        /// The last entry that it acknowledged to the leader.
        acknowledged: u64,
        /// The last entry that it has.
        has: u64,
    },
    /// A group's consensus ended by itself.
    #[error(
        "consensus of group {group} died on node {node}: {reason}. Start the node again; what was acknowledged is on disk"
    )]
    Consensus {
        /// Which node.
        node: NodeId,
        /// Which group.
        group: GroupId,
        /// As openraft says it.
        reason: String,
    },
}

/// Fails the node as soon as this group's consensus ends without having been asked to.
pub(crate) async fn watch_over(node: Node, group: GroupHandle, stop: CancellationToken) {
    let mut metrics = group.raft().metrics();
    let reason = loop {
        // The lock of the watched value must not be held while waiting.
        let died = metrics.borrow_watched().running_state.as_ref().err().map(ToString::to_string);
        if let Some(reason) = died {
            break reason;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            changed = metrics.changed() => if changed.is_err() {
                break "it panicked".to_owned();
            },
        }
    };
    if !stop.is_cancelled() {
        node.fail(Failure::Consensus { node: node.id(), group: group.id(), reason });
    }
}
