//! The only door to the seats: submit a command to a partition, or ask one a question.
//!
//! A [`Client`] follows leaders and placement by itself: wrong leaders, elections and moved partitions are absorbed by
//! asking again until the call's deadline. That is safe because every command is idempotent, and necessary because no
//! error proves that a command was not written. One long-lived stream a node carries everything that is waiting.

mod attempt;
mod calls;
mod config;
pub mod dial;
mod error;
mod history;
mod link;
mod operate;
mod publish;
mod restore;
mod router;
mod status;
#[cfg(test)]
mod tests;
mod watch;

pub use config::ClientConfig;
pub use error::ClientError;
pub use history::{Gap, ToldHistory};
pub use operate::{OperateError, Progress};
pub use publish::{Promotion, PublishError};
pub use status::{ClusterStatus, GroupStatus, NodeAnswer, NodeStatus, Role};
pub use watch::WatchItem;

use domain::ids::{GroupId, Partition};
use domain::inventory::query::Placement;
use domain::inventory::{Answer, Command, Outcome, Query};
use router::Router;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing that was answered before the call is missing from it (read index at the leader).
    Linearizable,
    /// What any replica has applied, but a seat map of at least this version.
    AtLeast(u64),
    /// What any replica has applied.
    Any,
}

/// A handle to the store. Cheap to clone; all clones share connections, placement and leaders.
#[derive(Clone)]
pub struct Client {
    router: Arc<Router>,
}

impl Client {
    /// A client of the store behind these endpoints. Connects when first used, and never fails because nodes are down.
    /// Must be called within a tokio runtime.
    pub fn connect(config: ClientConfig) -> Self {
        let dial = crate::network::GrpcDial::new(config.tls.clone());
        Self::over(config, Arc::new(dial))
    }

    /// The same over another way to the nodes; for the simulation.
    pub fn over(config: ClientConfig, dial: Arc<dyn dial::Dial>) -> Self {
        Self { router: Router::start(config, dial) }
    }

    /// Where more nodes are than the configuration says; instead of those that were told before.
    pub(crate) fn also_at(&self, nodes: BTreeSet<String>) {
        self.router.tell(nodes);
    }

    /// Replicates a command and returns what it came to. [`Outcome::Moved`] and [`Outcome::Overloaded`] never come out
    /// of here: the first is followed, the second is an error.
    pub async fn submit(&self, partition: Partition, command: Command) -> Result<Outcome, ClientError> {
        self.router.submit(partition, command).await
    }

    /// Replicates a command in a group, wherever placement says that the partition is; for the steps of a move.
    /// [`Outcome::Moved`] comes out of here.
    pub(crate) async fn submit_in(
        &self,
        group: GroupId,
        partition: Partition,
        command: Command,
    ) -> Result<Outcome, ClientError> {
        self.router.submit_in(group, partition, command).await
    }

    /// Returns once a group's leader has confirmed that it leads.
    pub(crate) async fn reach(&self, group: GroupId) -> Result<(), ClientError> {
        self.router.reach(group).await
    }

    /// Asks a partition. [`Answer::Moved`] and [`Answer::Invalid`] never come out of here.
    pub async fn query(&self, partition: Partition, query: Query, freshness: Freshness) -> Result<Answer, ClientError> {
        self.router.query(partition, query, freshness).await
    }

    /// Where everything lives, linearizable.
    pub async fn placement(&self) -> Result<Placement, ClientError> {
        self.router.refresh_placement().await.map(|placement| (*placement).clone())
    }

    /// Asks every known node about itself. Nodes that do not answer are listed as down; this never fails.
    pub async fn status(&self) -> ClusterStatus {
        self.router.status().await
    }
}
