//! A node whose data folder was lost does not come back under its id, and the others go on without it.

mod served;

use domain::ids::{GroupId, NodeId};
use domain::inventory::{Outcome, Status};
use raft_store::{NodeConfig, ServeError, Server};
use served::{EVENT, Store, begin, event, eventually, plan};
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
