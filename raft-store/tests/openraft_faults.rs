//! Faults that openraft is known to have, or to have had, each against the way in which we run it: what goes wrong, and the
//! property that must hold all the same. The settings behind them are pinned in `log_store/tests.rs`; that
//! `initialize()` returns too early is in `bootstrap.rs`; the simulation switches leader restore back on and must find it.

mod support;

use domain::ids::{EventId, GroupId, NodeId, Partition, SectionId};
use domain::inventory::command::{Command, Manage};
use domain::inventory::{Group, Request};
use raft_store::config::{KnownBugs, NodeConfig};
use raft_store::group::{GroupHandle, ProposeError};
use raft_store::state_machine::{AppliedEntry, Observer};
use raft_store::types::LogId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{Cluster, DATA, IDS, eventually};

fn partition(section: u16) -> Partition {
    Partition::Seats { event: EventId(1), section: SectionId(section) }
}

fn request(section: u16) -> Request {
    Request { partition: partition(section), command: Command::Manage(Manage::AckFeed { upto: 1 }) }
}

/// Proposes until it is acknowledged, wherever the leader is.
async fn propose(cluster: &Cluster, section: u16) {
    for _ in 0..500 {
        if cluster.leader(DATA).await.propose(request(section)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never acknowledged")
}

/// Whether this replica has applied a request to the section.
fn has(group: &GroupHandle, section: u16) -> bool {
    group.served().contains_key(&partition(section))
}

fn on(cluster: &Cluster, id: NodeId) -> GroupHandle {
    cluster.node(id).group(DATA).unwrap()
}

/// The leader is restarted while it hears of nobody; gives its old term, and whether it leads again in it.
async fn comes_back_as_leader(known_bugs: KnownBugs) -> bool {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let status = cluster.leader(DATA).await.status();
    let (id, term) = (status.leader.unwrap(), status.term);
    cluster.cut(id, true);
    cluster.stop_node(id).await;
    let node = cluster.try_start(NodeConfig { known_bugs, ..cluster.config(id) }).await.unwrap();
    cluster.net.join(id, node);
    // Longer than any election takes; alone it can win none.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let restored = on(&cluster, id).status().is_leader;
    cluster.cut(id, false);
    if !restored {
        eventually("somebody is elected", || cluster.nodes().iter().any(|n| n.group(DATA).unwrap().is_leader())).await;
        assert!(cluster.leader(DATA).await.status().term > term, "nobody leads again in a term that has ended");
    }
    restored
}

/// openraft restores a leader from its vote when it is restarted, and entries that only its followers have may then be
/// written again under the same log ids. A restarted leader must not lead in its old term.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_leader_does_not_lead_without_an_election() {
    assert!(!comes_back_as_leader(KnownBugs::default()).await);
    // And this test would see it.
    assert!(comes_back_as_leader(KnownBugs { leader_restore: true }).await);
}

/// A fresh leader refuses writes until a quorum has confirmed it (`LeaseExpired`), though it says that it leads. Whoever
/// proposes then must wait, and must never be told that the outcome is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_leader_keeps_its_callers_waiting_instead_of_failing_them() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let mut fresh = 0;
    for round in 0..12_u16 {
        let old = cluster.leader(DATA).await.status().leader.unwrap();
        let next = *IDS.iter().find(|id| **id != old).unwrap();
        if round.is_multiple_of(2) {
            let _ = on(&cluster, old).transfer_leader(next).await;
        } else {
            // By an election instead: the old leader is silent until another one has its place.
            cluster.cut(old, true);
        }
        let others: Vec<GroupHandle> = IDS.into_iter().filter(|id| *id != old).map(|id| on(&cluster, id)).collect();
        eventually("another node leads", || others.iter().any(GroupHandle::is_leader)).await;
        let leader = others.iter().find(|group| group.is_leader());
        if let Some(leader) = leader {
            // At the first moment.
            match leader.propose(request(100 + round)).await {
                Ok(_) => fresh += 1,
                Err(ProposeError::NotLeader(_)) => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
        cluster.cut(old, false);
        cluster.converged(DATA).await;
    }
    assert!(fresh > 0, "no fresh leader was ever asked");
}

/// Applies slowly, and remembers whether the log was purged behind what it had applied.
struct Slow {
    pause: Duration,
    entries: AtomicU64,
}

impl Observer for Slow {
    fn applied(&self, _: &AppliedEntry<'_>) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.pause);
    }

    fn installed(&self, _: GroupId, _: Option<LogId>, _: &Group) {}
}

/// openraft's issue 2116: a purge that overtakes an entry that is queued to be applied ends consensus by a panic. Nothing
/// may be purged that is not applied and in a durable snapshot, however far applying is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_purge_never_overtakes_what_is_still_to_be_applied() {
    let slow = Arc::new(Slow { pause: Duration::from_millis(4), entries: AtomicU64::new(0) });
    let cluster = Cluster::observed(20, vec![slow.clone()]).await;
    propose(&cluster, 1).await;
    let leader = cluster.leader(DATA).await;
    let callers: Vec<_> = (0..32_u16)
        .map(|caller| {
            let leader = leader.clone();
            tokio::spawn(async move {
                let mut answered = 0;
                for number in 0..20_u16 {
                    // An entry for each, so that many are queued.
                    answered += u32::from(leader.propose(request(1_000 + caller * 20 + number)).await.is_ok());
                }
                answered
            })
        })
        .collect();
    let purged = || cluster.nodes().iter().filter(|n| n.group(DATA).unwrap().status().purged.is_some()).count();
    let sound = || {
        for node in cluster.nodes() {
            // The parts of a status are not of one moment, and all of them only rise: read in this order.
            let group = node.group(DATA).unwrap();
            let purged = group.status().purged;
            let status = group.status();
            assert_eq!(status.stopped, None, "node {}", node.id());
            assert!(purged <= status.snapshot && status.snapshot <= status.applied, "node {}: {status:?}", node.id());
        }
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while callers.iter().any(|caller| !caller.is_finished()) || purged() < IDS.len() {
        sound();
        assert!(std::time::Instant::now() < deadline, "only {} nodes have purged", purged());
        if callers.iter().all(tokio::task::JoinHandle::is_finished) {
            propose(&cluster, 2).await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    cluster.converged(DATA).await;
    sound();
}

/// Issues 2095, 1802 and 1808: an error of a write says nothing about whether it was written. The caller must be told that
/// the outcome is unknown, never that nothing was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_failed_may_have_been_written_and_its_caller_is_told_so() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let old = cluster.leader(DATA).await;
    let id = old.status().leader.unwrap();
    let followers: Vec<GroupHandle> = IDS.into_iter().filter(|other| *other != id).map(|id| on(&cluster, id)).collect();
    let before = old.status().last_log.unwrap();
    // What it sends arrives, and what is answered does not.
    cluster.net.deafen(id, true);
    let asked = tokio::spawn({
        let old = old.clone();
        async move { old.propose(request(77)).await }
    });
    let arrived = || followers.iter().all(|group| group.status().last_log > Some(before));
    eventually("the entry is on the followers", arrived).await;
    cluster.cut(id, true);
    eventually("another node leads and has applied the entry", || {
        followers.iter().any(|group| group.is_leader() && has(group, 77))
    })
    .await;
    assert!(!has(&old, 77), "the old leader does not know");
    cluster.net.deafen(id, false);
    cluster.cut(id, false);
    let answer = asked.await.unwrap();
    assert!(
        matches!(answer, Ok(_) | Err(ProposeError::Unknown { .. })),
        "it was written, and the caller heard {answer:?}"
    );
    cluster.converged(DATA).await;
    let terms: BTreeSet<u64> = followers.iter().map(|group| group.status().term).collect();
    assert_eq!(terms.len(), 1);
}
