//! What a cluster of three nodes promises: it elects, replicates, survives the loss of a node and of all nodes, and brings
//! a node that was away back by log or by snapshot.

mod support;

use domain::ids::{Attempt, Epoch, EventId, GroupId, NodeId, Partition, SectionId};
use domain::inventory::command::{Command, Manage};
use domain::inventory::{Answer, Outcome, Query, Request};
use domain::limits::{ENTRY_BYTES, REQUEST_BYTES};
use raft_store::group::{GroupHandle, ProposeError};
use std::time::Duration;
use support::{Cluster, DATA, IDS, eventually};

fn request(section: u16) -> Request {
    let partition = Partition::Seats { event: EventId(1), section: SectionId(section) };
    Request { partition, command: Command::Manage(Manage::AckFeed { upto: 1 }) }
}

/// Proposes until it is acknowledged, wherever the leader is.
async fn propose(cluster: &Cluster, section: u16) -> Outcome {
    for _ in 0..200 {
        let leader = cluster.leader(DATA).await;
        match leader.propose(request(section)).await {
            Ok(outcome) => return outcome,
            Err(ProposeError::NoSuchGroup(group)) => panic!("group {group} is gone"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    panic!("never acknowledged")
}

fn applied(handle: &GroupHandle) -> u64 {
    handle.status().applied.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_elect_and_replicate() {
    let cluster = Cluster::start(1_000).await;
    for section in 0..20 {
        propose(&cluster, section).await;
    }
    let (index, _) = cluster.converged(DATA).await;
    assert!(index.unwrap() >= 20);
    let leader = cluster.leader(DATA).await;
    let follower = cluster.nodes().into_iter().map(|node| node.group(DATA).unwrap()).find(|g| !g.is_leader());
    let refused = follower.unwrap().propose(request(1)).await;
    let Err(ProposeError::NotLeader(hint)) = refused else { panic!("{refused:?}") };
    assert_eq!(hint.leader, leader.status().leader);
    assert_eq!(hint.address, hint.leader.map(|id| format!("node-{id}:1")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_comes_back_and_catches_up() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let lost = cluster.leader(DATA).await.status().leader.unwrap();
    cluster.stop_node(lost).await;
    for section in 0..10 {
        propose(&cluster, section).await;
    }
    cluster.start_node(lost).await;
    cluster.converged(DATA).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_restart_from_their_logs() {
    let cluster = Cluster::start(1_000).await;
    for section in 0..10 {
        propose(&cluster, section).await;
    }
    let (before, _) = cluster.converged(DATA).await;
    for id in IDS {
        cluster.stop_node(id).await;
    }
    for id in IDS {
        cluster.start_node(id).await;
    }
    propose(&cluster, 11).await;
    let (after, _) = cluster.converged(DATA).await;
    assert!(after > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_behind_the_purged_log_gets_a_snapshot() {
    let cluster = Cluster::start(20).await;
    propose(&cluster, 1).await;
    let leader = cluster.leader(DATA).await;
    let away = *IDS.iter().find(|id| Some(**id) != leader.status().leader).unwrap();
    cluster.stop_node(away).await;
    let mut section = 0;
    // Until the log that the absent node needs is purged everywhere.
    while !cluster.nodes().iter().all(|node| node.group(DATA).unwrap().status().purged.is_some_and(|upto| upto > 20)) {
        section += 1;
        propose(&cluster, section % 100).await;
    }
    cluster.start_node(away).await;
    cluster.converged(DATA).await;
    assert!(cluster.node(away).group(DATA).unwrap().status().snapshot.is_some());
    // And it restarts from what it was given.
    cluster.stop_node(away).await;
    cluster.start_node(away).await;
    cluster.converged(DATA).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_leader_acknowledges_nothing() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let old = cluster.leader(DATA).await;
    let id = old.status().leader.unwrap();
    cluster.cut(id, true);
    let stuck = tokio::spawn({
        let old = old.clone();
        async move { old.propose(request(2)).await }
    });
    eventually("another node leads", || {
        cluster
            .nodes()
            .iter()
            .any(|node| node.id() != id && node.group(DATA).unwrap().status().leader == Some(node.id()))
    })
    .await;
    cluster.cut(id, false);
    let answer = stuck.await.unwrap();
    assert!(matches!(answer, Err(ProposeError::Unknown { .. } | ProposeError::NotLeader(_))), "{answer:?}");
    cluster.converged(DATA).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_serves_one_node_and_one_process() {
    let cluster = Cluster::start(1_000).await;
    let again = try_start(&cluster, cluster.config(NodeId(1))).await;
    assert!(again.unwrap_err().contains("another process uses this data folder"));
    let mut foreign = cluster.config(NodeId(1));
    foreign.id = NodeId(2);
    assert!(try_start(&cluster, foreign).await.unwrap_err().contains("belongs to node 1"));
}

async fn try_start(cluster: &Cluster, config: raft_store::config::NodeConfig) -> Result<(), String> {
    cluster.try_start(config).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_through_the_leader_see_what_was_acknowledged() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let acknowledged = applied(&cluster.leader(DATA).await);
    let leader = cluster.leader(DATA).await;
    let reads = (0..50).map(|_| {
        let leader = leader.clone();
        tokio::spawn(async move { leader.read(&request(1).partition, &Query::Stock).await.is_ok() })
    });
    for read in reads.collect::<Vec<_>>() {
        assert!(read.await.unwrap());
    }
    assert!(applied(&leader) >= acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_group_is_registered_where_it_lives() {
    let cluster = Cluster::start(1_000).await;
    let meta = cluster.leader(GroupId::META).await;
    let peers = cluster.config(NodeId(1)).peers;
    eventually("both groups are registered", || match meta.read_applied(&Partition::Meta, &Query::Placement) {
        Answer::Placement(placement) => [GroupId::META, DATA].iter().all(|id| placement.groups.get(id) == Some(&peers)),
        _ => false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_has_an_entry_of_its_own_and_one_too_large_is_refused() {
    let cluster = Cluster::start(1_000).await;
    propose(&cluster, 1).await;
    let leader = cluster.leader(DATA).await;
    let install = |bytes: usize| Request {
        partition: request(1).partition,
        command: Command::Manage(Manage::Install { attempt: Attempt(1), epoch: Epoch(2), exported: vec![0xff; bytes] }),
    };
    let refused = leader.propose(install(REQUEST_BYTES)).await;
    assert!(matches!(refused, Err(ProposeError::TooLarge { limit: REQUEST_BYTES, .. })), "{refused:?}");
    // It is no export, which is found out where it is applied: on every node.
    let outcome = leader.propose(install(2 * ENTRY_BYTES)).await;
    assert!(matches!(outcome, Ok(Outcome::Invalid(_))), "{outcome:?}");
    cluster.converged(DATA).await;
}
