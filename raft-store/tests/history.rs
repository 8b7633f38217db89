//! The seat history may be lost and catches up: from the log, and where the log is purged from the snapshot; and what neither
//! has any more is said to be missing.

mod served;

use domain::ids::{GroupId, NodeId, PaymentId, SeatIndex, SectionId};
use domain::inventory::{Outcome, ReservationView, SeatChangeKind, Status};
use domain::money::{Currency, Minor};
use raft_store::NodeConfig;
use raft_store::client::{Client, ToldHistory};
use raft_store::history::SeatHistory;
use served::{EVENT, IDS, Store, begin, event, eventually, plan, user};
use std::path::Path;

const DATA: GroupId = GroupId(1);
/// Bought, given back, and never anybody's.
const SEATS: [u32; 3] = [0, 1, 2];

async fn hold(client: &Client, fan: usize, seat: u32) -> Box<ReservationView> {
    match client.begin(EVENT, begin(fan, &[(0, seat)])).await.unwrap() {
        Outcome::Reservation(view) if view.status == Status::Held => view,
        other => panic!("{other:?}"),
    }
}

async fn give_back(client: &Client, fan: usize, seat: u32) {
    let held = hold(client, fan, seat).await;
    client.cancel(held.id, Some(user(fan))).await.unwrap();
}

/// A store in which seat 0 is sold and seat 1 was held and given back.
async fn with_a_story(config: NodeConfig) -> (Store, Client) {
    let store = Store::tuned(config).await;
    let client = store.client();
    let plans = vec![plan(0, 2)];
    client.publish(event(&plans), plans, Vec::new(), vec![DATA]).await.unwrap();
    give_back(&client, 1, 0).await;
    let held = hold(&client, 2, 0).await;
    client.pay(held.id, PaymentId(1), Minor(5_000), Currency::EUR).await.unwrap();
    give_back(&client, 3, 1).await;
    (store, client)
}

async fn tell(client: &Client) -> Vec<ToldHistory> {
    let asked = SEATS.map(|seat| client.history(EVENT, SectionId(0), SeatIndex(seat)));
    futures::future::join_all(asked).await
}

/// What one node has of each seat, once all it has applied is in its index.
async fn of(store: &Store, id: NodeId) -> Vec<SeatHistory> {
    let history = store.server(id).node().history().expect("it is kept").clone();
    history.settle().await;
    SEATS.map(|seat| history.seat(EVENT, SectionId(0), SeatIndex(seat)).unwrap()).to_vec()
}

/// Waits until this node has indexed what that one has.
async fn catches_up(store: &Store, id: NodeId, wanted: &[SeatHistory]) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let have = of(store, id).await;
        if have.iter().zip(wanted).all(|(have, wanted)| have.changes == wanted.changes) {
            for have in have {
                let covered = have.coverage.iter().find(|covered| covered.group == DATA);
                assert!(covered.is_some_and(|covered| covered.gaps.is_empty()), "{have:?}");
            }
            return;
        }
        assert!(std::time::Instant::now() < deadline, "node {id} has only {have:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A word for it, and how an index is lost.
type Loss = (&'static str, fn(&Path));

/// Every file of the folder with every seventh byte changed.
fn corrupt(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            corrupt(&path);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.iter_mut().step_by(7).for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, bytes).unwrap();
    }
}

fn cut_short(folder: &Path) {
    let path = folder.join("db");
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_or_damaged_index_catches_up_from_the_log() {
    let (mut store, client) = with_a_story(NodeConfig::default()).await;
    let before = of(&store, store.leader(DATA).await).await;
    let kinds: Vec<_> = before[0].changes.iter().map(|change| change.kind).collect();
    use SeatChangeKind::{Held, Released, Sold};
    assert_eq!(kinds, [Held, Released, Held, Sold]);
    assert!(before[2].changes.is_empty());
    let told = tell(&client).await;
    let losses: [Loss; 3] = [
        ("removed", |folder| std::fs::remove_dir_all(folder).unwrap()),
        ("corrupted", corrupt),
        ("cut short", cut_short),
    ];
    for (what, lose) in losses {
        let victim = IDS[2];
        catches_up(&store, victim, &before).await;
        store.stop_node(victim).await;
        println!("the index of node {victim} is {what}");
        lose(&store.data(victim).join("history"));
        store.start_node(victim).await;
        catches_up(&store, victim, &before).await;
    }
    // And of all nodes at once.
    for id in IDS {
        store.stop_node(id).await;
        std::fs::remove_dir_all(store.data(id).join("history")).unwrap();
    }
    for id in IDS {
        store.start_node(id).await;
    }
    for id in IDS {
        catches_up(&store, id, &before).await;
    }
    assert_eq!(tell(&client).await, told);
    assert!(told.iter().all(|told| told.gaps.is_empty() && told.answered == 3), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_purged_log_no_longer_tells_is_told_by_another_node_or_said_to_be_missing() {
    let (mut store, client) = with_a_story(NodeConfig { snapshot_every: 30, ..NodeConfig::default() }).await;
    let told = tell(&client).await;
    let story = told[0].changes.last().expect("it was sold").index.max(told[1].changes[1].index);
    let mut fan = 100;
    let purged = |store: &Store| {
        store
            .servers()
            .all(|server| server.node().group(DATA).unwrap().status().purged.is_some_and(|upto| upto > story))
    };
    while !purged(&store) {
        assert!(fan < 2_000, "the log is never purged");
        give_back(&client, fan, 10).await;
        fan += 1;
    }

    // One node has lost its index: the others know.
    let victim = IDS[1];
    store.stop_node(victim).await;
    std::fs::remove_dir_all(store.data(victim).join("history")).unwrap();
    store.start_node(victim).await;
    let own = of(&store, victim).await;
    let covered = own[0].coverage.iter().find(|covered| covered.group == DATA).expect("it has a snapshot");
    assert!(matches!(covered.gaps[..], [(0, upto)] if upto >= story), "{covered:?}");
    assert_eq!(own[0].changes.iter().map(|c| (c.kind, c.at)).collect::<Vec<_>>(), [(SeatChangeKind::Sold, None)]);
    eventually("everybody answers", || store.servers().all(|server| server.node().is_ready())).await;
    for (now, before) in tell(&client).await.iter().zip(&told) {
        assert_eq!((&now.changes, &now.gaps), (&before.changes, &before.gaps));
    }

    // All of them have: what is left is said, and what is gone is said to be gone.
    for id in IDS {
        store.stop_node(id).await;
        std::fs::remove_dir_all(store.data(id).join("history")).unwrap();
    }
    for id in IDS {
        store.start_node(id).await;
    }
    eventually("everybody answers", || store.servers().all(|server| server.node().is_ready())).await;
    let left = tell(&client).await;
    for told in &left {
        assert!(matches!(told.gaps[..], [gap] if gap.group == DATA && gap.first == 1 && gap.last >= story), "{told:?}");
    }
    assert_eq!(left[0].changes.iter().map(|c| (c.kind, c.at)).collect::<Vec<_>>(), [(SeatChangeKind::Sold, None)]);
    assert!(left[1].changes.is_empty(), "it is free now, and what was is gone: {:?}", left[1]);
}
