//! A node whose data folder was lost, or put back from an older copy, does not go on under its id, and the others go on
//! without it.

mod served;

use domain::ids::{GroupId, NodeId};
use domain::inventory::{Outcome, Status};
use raft_store::{Failure, NodeConfig, ServeError, Server};
use served::{EVENT, Store, begin, event, eventually, plan};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const VICTIM: NodeId = NodeId(3);

/// Every node has registered, and every node knows.
async fn all_are_known(store: &Store) {
    eventually("every node is registered everywhere", || {
        store.servers().all(|server| {
            let meta = server.node().group(GroupId::META).expect("founders host it");
            served::IDS.iter().all(|id| meta.life_of(*id).is_some())
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_says_how_to_come_back_and_takes_no_part() {
    let mut store = Store::start().await;
    let client = store.client();
    let plans = vec![plan(0, 2)];
    client.publish(event(&plans), plans, Vec::new(), Vec::new()).await.unwrap();
    all_are_known(&store).await;

    // With its folder it comes back as often as it likes.
    store.stop_node(VICTIM).await;
    store.start_node(VICTIM).await;
    store.stop_node(VICTIM).await;

    let folder = store.data(VICTIM);
    std::fs::remove_dir_all(&folder).unwrap();
    let config =
        NodeConfig { id: VICTIM, data: folder.clone(), peers: store.peers.clone(), groups: 2, ..NodeConfig::default() };
    // Twice: the second time it finds the folder that it began the first time.
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = tokio::time::timeout(
            Duration::from_secs(60),
            Server::start(config.clone(), listener, CancellationToken::new()),
        );
        match started.await.unwrap() {
            Err(error @ ServeError::Wiped(VICTIM)) => {
                let text = error.to_string();
                assert!(text.contains("new id") && text.contains("replace-node 3"), "{text}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a wiped node came back"),
        }
        assert!(!folder.join("log").exists(), "no group was begun");
    }
    let held = client.begin(EVENT, begin(1, &[(0, 3)])).await.unwrap();
    assert!(matches!(held, Outcome::Reservation(view) if view.status == Status::Held), "two nodes go on");
}

/// Copies a folder as a backup of the machine would.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_an_older_copy_of_its_folder_takes_no_part_and_says_why() {
    let group = GroupId(1);
    let mut store = Store::start().await;
    let client = store.client();
    let plans = vec![plan(0, 2)];
    client.publish(event(&plans), plans, Vec::new(), vec![group]).await.unwrap();
    // Whoever leads goes on leading: it knows what was acknowledged to it.
    let leader = store.leader(group).await;
    let victim = served::IDS.into_iter().find(|id| *id != leader).unwrap();

    store.stop_node(victim).await;
    let (folder, older) = (store.data(victim), store.data(victim).with_extension("older"));
    copy(&folder, &older);
    store.start_node(victim).await;
    let hold = |number: u16| client.begin(EVENT, begin(number.into(), &[(0, number.into())]));
    for number in 0..5 {
        assert!(matches!(hold(number).await.unwrap(), Outcome::Reservation(view) if view.status == Status::Held));
    }
    let applied = |store: &Store, id: NodeId| {
        let server = store.servers().find(|server| server.node().id() == id).expect("it runs");
        server.node().group(group).and_then(|group| group.status().applied)
    };
    eventually("the follower has what the leader has", || applied(&store, victim) == applied(&store, leader)).await;
    store.stop_node(victim).await;
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&older, &folder).unwrap();
    store.start_node(victim).await;

    let ended = tokio::time::timeout(Duration::from_secs(60), store.take(victim).stopped()).await.unwrap();
    match ended.unwrap_err() {
        ServeError::Failed(failure @ Failure::Forgot { node, .. }) => {
            assert_eq!(node, victim);
            let text = failure.to_string();
            assert!(text.contains("older copy") && text.contains(&format!("replace-node {victim} ")), "{text}");
        }
        other => panic!("{other}"),
    }
    let held = hold(7).await.unwrap();
    assert!(matches!(held, Outcome::Reservation(view) if view.status == Status::Held), "two nodes go on");
    assert!(store.servers().all(|server| server.node().failure().is_none()));
}
