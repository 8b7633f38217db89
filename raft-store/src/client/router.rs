//! Finds the node to ask, and asks again until the deadline. Placement and leaders are guesses kept from earlier answers:
//! a wrong one costs a redirect, never a wrong answer, because ownership is checked where commands are applied.

mod placement;

use super::attempt::Attempts;
use super::dial::Dial;
use super::link::{Link, LinkError};
use super::{ClientConfig, ClientError, Freshness};
use crate::runtime;
use crate::wire;
use crate::wire::frames::{self, answer, ask};
use bytes::Bytes;
use domain::ids::{GroupId, NodeId, Partition};
use domain::inventory::query::SeatMap;
use domain::inventory::record::Status;
use domain::inventory::{Answer, Command, Outcome, Query, Request};
use placement::{Cached, keep_young};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a node that did not answer is left out of reads that any replica may answer.
const SUSPECT_MS: u64 = 1_000;
/// Retry hint when the store said that bounded state is full.
const FULL_RETRY_MS: u64 = 250;

/// What all clones of a client share.
pub(super) struct Router {
    pub(super) config: ClientConfig,
    pub(super) dial: Arc<dyn Dial>,
    links: Mutex<BTreeMap<String, Arc<Link>>>,
    leaders: Mutex<BTreeMap<GroupId, String>>,
    placement: Mutex<Cached>,
    refreshing: tokio::sync::Mutex<()>,
    seen: Mutex<BTreeMap<Partition, u64>>,
    /// When a node last failed to answer.
    failed: Mutex<BTreeMap<String, runtime::Instant>>,
    /// Rung when a node gave no answer: others may have taken its place.
    doubted: Arc<Notify>,
    turn: AtomicUsize,
    /// Nodes that were told by whoever uses this client.
    told: Mutex<BTreeSet<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can leave a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// Its task keeps placement young as long as somebody has the router.
    pub(super) fn start(config: ClientConfig, dial: Arc<dyn Dial>) -> Arc<Self> {
        let router = Arc::new(Self::new(config, dial));
        runtime::spawn(keep_young(Arc::downgrade(&router), router.doubted.clone()));
        router
    }

    fn new(config: ClientConfig, dial: Arc<dyn Dial>) -> Self {
        Self {
            config,
            dial,
            links: Mutex::default(),
            leaders: Mutex::default(),
            placement: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            failed: Mutex::default(),
            doubted: Arc::default(),
            turn: AtomicUsize::new(0),
            told: Mutex::default(),
        }
    }

    // ---- commands

    /// Submits until there is an outcome other than moved.
    pub(super) async fn submit(&self, partition: Partition, command: Command) -> Result<Outcome, ClientError> {
        let request = wire::encode(&Request { partition: partition.clone(), command });
        self.submit_encoded(&partition, None, request, &mut self.attempts()).await
    }

    /// Submits to a group, wherever placement says that the partition is; moved is an outcome like others here.
    pub(super) async fn submit_in(
        &self,
        group: GroupId,
        partition: Partition,
        command: Command,
    ) -> Result<Outcome, ClientError> {
        let request = wire::encode(&Request { partition: partition.clone(), command });
        self.submit_encoded(&partition, Some(group), request, &mut self.attempts()).await
    }

    /// The same, and asks again while a reservation is still being prepared: a known key is answered by its record.
    pub(super) async fn submit_until_decided(
        &self,
        partition: Partition,
        command: Command,
    ) -> Result<Outcome, ClientError> {
        let request = wire::encode(&Request { partition: partition.clone(), command });
        let mut attempts = self.attempts();
        loop {
            let outcome = self.submit_encoded(&partition, None, request.clone(), &mut attempts).await?;
            let open = match &outcome {
                Outcome::Preparing => true,
                Outcome::Reservation(view) => view.status == Status::Preparing,
                _ => false,
            };
            if !open || !attempts.pause_briefly().await {
                return Ok(outcome);
            }
        }
    }

    async fn submit_encoded(
        &self,
        partition: &Partition,
        fixed: Option<GroupId>,
        request: Bytes,
        attempts: &mut Attempts,
    ) -> Result<Outcome, ClientError> {
        loop {
            let group = match fixed {
                Some(group) => self.with_replicas(group, attempts).await,
                None => self.locate(partition, attempts).await?,
            };
            let address = self.leader_guess(group, attempts);
            match self.ask(&address, group, ask::What::Request(request.clone()), attempts).await {
                Some(answer::What::Outcome(bytes)) => {
                    self.leads(group, &address);
                    match wire::decode("outcome", &bytes).map_err(|error| ClientError::Protocol(error.to_string()))? {
                        Outcome::Moved { .. } if fixed.is_none() => {
                            attempts.moved(partition);
                            self.forget_placement();
                        }
                        Outcome::Overloaded => {
                            return Err(ClientError::Overloaded { retry_after_ms: FULL_RETRY_MS });
                        }
                        outcome => return Ok(outcome),
                    }
                }
                Some(other) => self.redirected(group, &address, other, attempts)?,
                None => self.forget_leader(group, &address),
            }
            if !attempts.pause().await {
                return Err(attempts.failure());
            }
        }
    }

    // ---- questions

    /// Returns once the group's leader has confirmed that it leads.
    pub(super) async fn reach(&self, group: GroupId) -> Result<(), ClientError> {
        // Any question will do: what the leader says about a partition of another group is an answer, too.
        let question = wire::encode(&(&Partition::Meta, &Query::Moves));
        let mut attempts = self.attempts();
        loop {
            let address = self.leader_guess(self.with_replicas(group, &attempts).await, &attempts);
            let read = frames::Read { question: question.clone(), linearizable: true, min_version: 0 };
            match self.ask(&address, group, ask::What::Read(read), &mut attempts).await {
                Some(answer::What::Answer(_)) => {
                    self.leads(group, &address);
                    return Ok(());
                }
                Some(other) => self.redirected(group, &address, other, &mut attempts)?,
                None => self.forget_leader(group, &address),
            }
            if !attempts.pause().await {
                return Err(attempts.failure_of_question());
            }
        }
    }

    /// Asks until there is an answer other than moved.
    pub(super) async fn query(
        &self,
        partition: Partition,
        query: Query,
        freshness: Freshness,
    ) -> Result<Answer, ClientError> {
        let question = wire::encode(&(&partition, &query));
        let mut attempts = self.attempts();
        let mut freshness = freshness;
        loop {
            let group = self.locate(&partition, &mut attempts).await?;
            let linearizable = freshness == Freshness::Linearizable;
            let address =
                if linearizable { self.leader_guess(group, &attempts) } else { self.any_replica(group, &attempts) };
            let min_version = if let Freshness::AtLeast(version) = freshness { version } else { 0 };
            let read = frames::Read { question: question.clone(), linearizable, min_version };
            match self.ask(&address, group, ask::What::Read(read), &mut attempts).await {
                Some(answer::What::Answer(bytes)) => {
                    if linearizable {
                        self.leads(group, &address);
                    }
                    match wire::decode("answer", &bytes).map_err(|error| ClientError::Protocol(error.to_string()))? {
                        // A replica that lags may not know the partition yet: only the leader's word counts.
                        Answer::Moved { .. } | Answer::Invalid(_) if !linearizable => {
                            freshness = Freshness::Linearizable;
                            continue;
                        }
                        Answer::Moved { .. } => {
                            attempts.moved(&partition);
                            self.forget_placement();
                        }
                        Answer::Invalid(reason) => return Err(ClientError::Invalid(reason)),
                        answer => return Ok(answer),
                    }
                }
                Some(answer::What::Behind(_)) => {
                    freshness = Freshness::Linearizable;
                    continue;
                }
                Some(other) => self.redirected(group, &address, other, &mut attempts)?,
                None if linearizable => self.forget_leader(group, &address),
                None => {}
            }
            if !attempts.pause().await {
                return Err(attempts.failure_of_question());
            }
        }
    }

    /// A seat map that is never older than what was seen before.
    pub(super) async fn seat_map(&self, partition: Partition, min_version: u64) -> Result<SeatMap, ClientError> {
        let seen = locked(&self.seen).get(&partition).copied().unwrap_or(0);
        let freshness = Freshness::AtLeast(min_version.max(seen));
        match self.query(partition.clone(), Query::SeatMap, freshness).await? {
            Answer::SeatMap(map) => {
                let mut seen = locked(&self.seen);
                let newest = seen.entry(partition).or_insert(0);
                *newest = (*newest).max(map.version);
                Ok(map)
            }
            other => Err(ClientError::Protocol(format!("{other:?}").chars().take(80).collect())),
        }
    }

    // ---- nodes

    /// Every known node's address.
    pub(super) fn addresses(&self) -> Vec<String> {
        let placement = locked(&self.placement).placement.clone();
        let known = placement.groups.values().flat_map(|nodes| nodes.values().cloned());
        let told = locked(&self.told).clone();
        known.chain(self.config.endpoints.iter().cloned()).chain(told).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// These are nodes, too; instead of those that were told before.
    pub(super) fn tell(&self, nodes: BTreeSet<String>) {
        *locked(&self.told) = nodes;
    }

    /// Addresses of a group's replicas; all known nodes while that is unknown.
    pub(super) fn replicas(&self, group: GroupId) -> Vec<String> {
        let placement = locked(&self.placement).placement.clone();
        match placement.groups.get(&group) {
            Some(nodes) if !nodes.is_empty() => nodes.values().cloned().collect(),
            _ => self.addresses(),
        }
    }

    fn leader_guess(&self, group: GroupId, attempts: &Attempts) -> String {
        let leader = locked(&self.leaders).get(&group).cloned();
        match leader {
            Some(address) if !attempts.failed_last(&address) => address,
            _ => self.any_replica(group, attempts),
        }
    }

    /// Replicas in turn; those that failed a moment ago only if there is no other. The meta group is looked for on all
    /// known nodes then, because nobody else says where it has gone.
    fn any_replica(&self, group: GroupId, attempts: &Attempts) -> String {
        let mut replicas = self.replicas(group);
        if group == GroupId::META && self.all_failed(group) {
            replicas = self.addresses();
        }
        {
            let failed = self.failed_lately();
            if replicas.iter().any(|address| !failed.contains_key(address)) {
                replicas.retain(|address| !failed.contains_key(address));
            }
        }
        if replicas.len() > 1 {
            replicas.retain(|address| !attempts.failed_last(address));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        match replicas.len() {
            0 => String::new(),
            count => replicas.swap_remove(turn % count),
        }
    }

    fn leads(&self, group: GroupId, address: &str) {
        let mut leaders = locked(&self.leaders);
        if leaders.get(&group).is_none_or(|known| known != address) {
            leaders.insert(group, address.to_owned());
        }
    }

    fn forget_leader(&self, group: GroupId, address: &str) {
        let mut leaders = locked(&self.leaders);
        if leaders.get(&group).is_some_and(|known| known == address) {
            leaders.remove(&group);
        }
    }

    fn address_of(&self, group: GroupId, node: NodeId) -> Option<String> {
        locked(&self.placement).placement.groups.get(&group)?.get(&node).cloned()
    }

    pub(super) fn attempts(&self) -> Attempts {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Attempts::new(self.config.request_timeout(), turn as u64)
    }

    /// One ask of one node. `None`: no answer; `attempts` knows why, and whether it may have been written.
    async fn ask(
        &self,
        address: &str,
        group: GroupId,
        what: ask::What,
        attempts: &mut Attempts,
    ) -> Option<answer::What> {
        let link = self.link(address);
        let patience = attempts.left().min(self.config.attempt_timeout());
        let Some(answered) = runtime::timeout(patience, link.ask(group.0, what)).await else {
            self.suspect(address);
            attempts.unknown(address, "no answer in time");
            return None;
        };
        match answered {
            Ok(what) => {
                self.trust(address);
                return Some(what);
            }
            Err(LinkError::Full) => {
                let retry_after_ms = FULL_RETRY_MS;
                return Some(answer::What::Overloaded(frames::Overloaded { retry_after_ms }));
            }
            Err(LinkError::NotSent(reason)) => attempts.unreachable(address, &reason),
            Err(LinkError::Broken(reason)) => attempts.unknown(address, &reason),
        }
        self.suspect(address);
        None
    }

    /// Nobody of those that are known to have the group has answered lately.
    fn all_failed(&self, group: GroupId) -> bool {
        if locked(&self.failed).is_empty() {
            return false;
        }
        let replicas = self.replicas(group);
        let failed = self.failed_lately();
        replicas.iter().all(|address| failed.contains_key(address))
    }

    fn failed_lately(&self) -> MutexGuard<'_, BTreeMap<String, runtime::Instant>> {
        let mut failed = locked(&self.failed);
        failed.retain(|_, at| runtime::millis_since(*at) < SUSPECT_MS);
        failed
    }

    fn suspect(&self, address: &str) {
        locked(&self.failed).insert(address.to_owned(), runtime::now());
        self.doubted.notify_one();
    }

    fn trust(&self, address: &str) {
        let mut failed = locked(&self.failed);
        if !failed.is_empty() {
            failed.remove(address);
        }
    }

    /// An answer that is neither outcome nor answer: learn from it, or give up.
    fn redirected(
        &self,
        group: GroupId,
        address: &str,
        what: answer::What,
        attempts: &mut Attempts,
    ) -> Result<(), ClientError> {
        match what {
            answer::What::NotLeader(hint) => {
                let known = self.address_of(group, NodeId(hint.node));
                let leader = known.or_else(|| (!hint.address.is_empty()).then_some(hint.address));
                match leader {
                    // A follower may still name the leader that has just failed: no hint is better than that one.
                    Some(leader) if leader != address && !attempts.failed_last(&leader) => {
                        self.leads(group, &leader);
                        attempts.redirected();
                    }
                    _ => {
                        self.forget_leader(group, address);
                        attempts.refused(address, "no leader is known");
                    }
                }
            }
            answer::What::Overloaded(full) => {
                return Err(ClientError::Overloaded { retry_after_ms: full.retry_after_ms });
            }
            answer::What::Unknown(unknown) => {
                attempts.unknown(address, &unknown.reason);
                self.forget_leader(group, address);
            }
            answer::What::Unavailable(unavailable) => attempts.refused(address, &unavailable.reason),
            answer::What::NoSuchGroup(_) => {
                attempts.refused(address, "the group is not there");
                self.forget_leader(group, address);
                self.forget_placement();
            }
            answer::What::Denied(denied) => return Err(ClientError::Denied(denied.reason)),
            answer::What::Malformed(malformed) => return Err(ClientError::Protocol(malformed.reason)),
            answer::What::Behind(_) => attempts.refused(address, "the replica is behind"),
            answer::What::Outcome(_) | answer::What::Answer(_) | answer::What::Status(_) | answer::What::History(_) => {
                return Err(ClientError::Protocol("an answer to another question".into()));
            }
        }
        Ok(())
    }

    pub(super) fn link(&self, address: &str) -> Arc<Link> {
        let mut links = locked(&self.links);
        if let Some(link) = links.get(address) {
            return link.clone();
        }
        let link =
            Link::new(address.to_owned(), self.dial.clone(), self.config.connect_timeout(), self.config.in_flight);
        let link = Arc::new(link);
        links.insert(address.to_owned(), link.clone());
        link
    }
}

/// A duration of so many milliseconds.
pub(super) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
