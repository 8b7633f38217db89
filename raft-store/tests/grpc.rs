//! A served store through its client: what is asked is answered, whoever leads, whoever is down, and whatever comes in.

mod served;

use domain::ids::{GroupId, Partition, PaymentId, SectionId};
use domain::inventory::query::SeatState;
use domain::inventory::{Outcome, Refusal, ReservationView, Status};
use domain::money::{Currency, Minor};
use futures::StreamExt;
use raft_store::NodeConfig;
use raft_store::client::{Client, ClientConfig, ClientError, NodeAnswer, WatchItem};
use raft_store::wire::frames::peer_client::PeerClient;
use raft_store::wire::frames::store_client::StoreClient;
use raft_store::wire::frames::{Ask, AskFrame, PeerCall, Read, SnapshotPiece, WatchRequest, answer, ask};
use served::{EVENT, IDS, Store, begin, event, eventually, plan};
use std::collections::BTreeMap;
use std::time::Duration;

const HOME: GroupId = GroupId(1);

async fn on_sale(store: &Store, rows: u32) -> Client {
    let client = store.client();
    let plans = vec![plan(0, rows), plan(1, rows)];
    client.publish(event(&plans), plans, Vec::new(), Vec::new()).await.unwrap();
    client
}

fn held(outcome: Outcome) -> ReservationView {
    match outcome {
        Outcome::Reservation(view) if view.status == Status::Held => *view,
        other => panic!("not held: {other:?}"),
    }
}

async fn hold(client: &Client, number: usize, seats: &[(u16, u32)]) -> ReservationView {
    held(client.begin(EVENT, begin(number, seats)).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seat_is_held_paid_and_seen_by_everybody() {
    let store = Store::start().await;
    let client = on_sale(&store, 2).await;
    let view = hold(&client, 1, &[(0, 3), (0, 4)]).await;
    assert_eq!(view.total, Minor(10_000));
    assert_eq!(client.reservation(view.id).await.unwrap().map(|view| view.status), Some(Status::Held));
    assert_eq!(client.live(&[view.id]).await.unwrap(), [view.id]);
    // Somebody else's wish for one of them names the taken seat.
    match client.begin(EVENT, begin(2, &[(0, 4), (0, 5)])).await.unwrap() {
        Outcome::Refused(Refusal::SeatsTaken(seats)) | Outcome::Advised(Refusal::SeatsTaken(seats)) => {
            assert_eq!(seats.iter().map(|seat| seat.seat.0).collect::<Vec<_>>(), [4]);
        }
        other => panic!("{other:?}"),
    }
    let paid = client.pay(view.id, PaymentId(7), Minor(10_000), Currency::EUR).await.unwrap();
    assert!(matches!(paid, Outcome::Reservation(view) if view.status == Status::Paid));
    let other = store.client();
    let stock = other.stock(EVENT).await.unwrap();
    assert_eq!(stock.free + stock.held + stock.sold, 40);
    assert_eq!(other.owners(EVENT, SectionId(0)).await.unwrap().len(), 2);
    assert_eq!(other.records(EVENT).await.unwrap().iter().filter(|r| r.status == Status::Paid).count(), 1);
    assert_eq!(other.plan(EVENT, SectionId(0)).await.unwrap(), plan(0, 2));
    assert_eq!(other.events().await.unwrap().len(), 1);
    assert_eq!(other.event(domain::ids::EventId(9)).await.unwrap(), None);
    let facts = other.feed(view.id.partition(), 0, 10).await.unwrap();
    assert_eq!(facts.len(), 2, "{facts:?}");
    other.ack_feed(view.id.partition(), facts[1].position).await.unwrap();
    assert!(other.feed(view.id.partition(), 0, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_again_changes_nothing_and_an_unfinished_one_is_finished() {
    let store = Store::start().await;
    let client = on_sale(&store, 2).await;
    let view = hold(&client, 1, &[(0, 0)]).await;
    let again = on_sale(&store, 2).await;
    assert_eq!(again.reservation(view.id).await.unwrap().map(|view| view.status), Some(Status::Held));
    assert_eq!(again.stock(EVENT).await.unwrap().free, 39);
    let mut plans = vec![plan(0, 2)];
    let inconsistent = client.publish(event(&plans), Vec::new(), Vec::new(), Vec::new()).await;
    assert!(inconsistent.unwrap_err().to_string().contains("contradicts"), "a record without its plans");
    plans[0].tier = 4;
    assert!(client.publish(event(&plans), plans, Vec::new(), Vec::new()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_through_many_clients_outlives_its_leader() {
    let mut store = Store::start().await;
    let first = on_sale(&store, 30).await;
    let clients: Vec<Client> = (0..4).map(|_| store.client()).collect();
    let ask = |numbers: std::ops::Range<usize>| {
        let asked: Vec<_> = numbers
            .map(|number| {
                let client = clients[number % clients.len()].clone();
                // Three fans want each seat of section 0.
                tokio::spawn(
                    async move { (number, client.begin(EVENT, begin(number, &[(0, number as u32 % 300)])).await) },
                )
            })
            .collect();
        futures::future::join_all(asked)
    };
    let storm = tokio::spawn(ask(0..900));
    tokio::task::yield_now().await;
    let gone = store.leader(HOME).await;
    store.stop_node(gone).await;
    let mut winners = BTreeMap::new();
    for answered in storm.await.unwrap() {
        let (number, outcome) = answered.unwrap();
        match outcome.unwrap_or_else(|error| panic!("fan {number}: {error}")) {
            Outcome::Reservation(view) => {
                assert_eq!(view.status, Status::Held);
                let before = winners.insert(view.seats[0].seat.seat, view.id);
                assert_eq!(before, None, "a seat was granted twice");
            }
            Outcome::Refused(Refusal::SeatsTaken(_)) | Outcome::Advised(Refusal::SeatsTaken(_)) => {}
            other => panic!("fan {number}: {other:?}"),
        }
    }
    assert_eq!(winners.len(), 300, "every seat has one owner");
    // All acknowledged holds are there, with two nodes and with three.
    let owners = first.owners(EVENT, SectionId(0)).await.unwrap();
    let owned: BTreeMap<_, _> = owners.iter().map(|owner| (owner.seat, owner.reservation)).collect();
    assert_eq!(owned, winners);
    store.start_node(gone).await;
    // The returned node may be behind for a moment, and says so by an older map, but not for ever.
    loop {
        let map = first.seat_map(EVENT, SectionId(0), 0).await.unwrap();
        if (0..300).all(|seat| map.state(seat) == Some(SeatState::Held)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    eventually("the node is up again", || store.server(gone).node().is_ready()).await;
    let status = first.status().await;
    assert_eq!(status.nodes.values().filter(|node| matches!(node, NodeAnswer::Up(_))).count(), 3);
    assert!(status.leaders().contains_key(&HOME), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_from_two_clients_is_one_reservation() {
    let store = Store::start().await;
    let (one, two) = (on_sale(&store, 2).await, store.client());
    let (a, b) = tokio::join!(one.begin(EVENT, begin(1, &[(0, 1)])), two.begin(EVENT, begin(1, &[(0, 1)])));
    assert_eq!(held(a.unwrap()).id, held(b.unwrap()).id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_opens_with_a_reset_coalesces_and_reopens_after_a_failure() {
    let mut store = Store::start().await;
    let client = on_sale(&store, 30).await;
    let mut watch = Box::pin(store.client().watch(EVENT));
    assert_eq!(next(&mut watch).await, WatchItem::Reset);
    let holds = (0..200).map(|n| {
        let client = client.clone();
        async move { hold(&client, n, &[(0, n as u32)]).await }
    });
    futures::future::join_all(holds).await;
    let newest = client.seat_map(EVENT, SectionId(0), 0).await.unwrap().version;
    let partition = Partition::Seats { event: EVENT, section: SectionId(0) };
    let mut told = 0;
    loop {
        match next(&mut watch).await {
            WatchItem::Changed { partition: changed, version } if changed == partition => {
                told += 1;
                if version >= newest {
                    break;
                }
            }
            WatchItem::Changed { .. } | WatchItem::Reset => {}
        }
    }
    assert!(told < 100, "{told} hints for 200 holds");
    // Whichever node it watches: it comes back with a reset.
    for id in IDS {
        store.stop_node(id).await;
        store.start_node(id).await;
    }
    while next(&mut watch).await != WatchItem::Reset {}
}

async fn next(watch: &mut (impl futures::Stream<Item = WatchItem> + Unpin)) -> WatchItem {
    let item = tokio::time::timeout(Duration::from_secs(120), watch.next()).await;
    item.expect("nothing was told").expect("a watch never ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_says_so_and_nothing_is_lost() {
    let store = Store::tuned(NodeConfig { proposal_queue: 1, ..NodeConfig::default() }).await;
    let client = on_sale(&store, 100).await;
    client.placement().await.unwrap();
    // Polled together, so that they travel in few frames.
    let asked = (0..1_000).map(|number| client.begin(EVENT, begin(number, &[(0, number as u32)])));
    let (mut granted, mut overloaded) = (0, 0);
    for answer in futures::future::join_all(asked).await {
        match answer {
            Ok(outcome) => {
                held(outcome);
                granted += 1;
            }
            Err(ClientError::Overloaded { retry_after_ms }) => {
                assert!(retry_after_ms > 0);
                overloaded += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(overloaded > 0, "a queue of one took a thousand at once");
    assert_eq!(client.owners(EVENT, SectionId(0)).await.unwrap().len(), granted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_frames_are_refused_and_the_stream_goes_on() {
    let store = Store::start().await;
    let client = on_sale(&store, 2).await;
    let leader = store.peers[&store.leader(HOME).await].clone();
    let mut raw = StoreClient::connect(format!("http://{leader}")).await.unwrap();
    let read =
        |question: Vec<u8>| ask::What::Read(Read { question: question.into(), linearizable: true, min_version: 0 });
    let frame = AskFrame {
        asks: vec![
            Ask { id: 1, group: 1, what: Some(ask::What::Request(vec![0xff; 40].into())) },
            Ask { id: 2, group: 1, what: Some(ask::What::Request(Vec::new().into())) },
            Ask { id: 3, group: 1, what: Some(read(vec![9; 9])) },
            Ask { id: 4, group: 1, what: None },
            Ask { id: 5, group: 99, what: Some(read(Vec::new())) },
        ],
    };
    let mut answers = raw.converse(futures::stream::iter([frame])).await.unwrap().into_inner();
    let mut seen = BTreeMap::new();
    while let Some(frame) = answers.message().await.unwrap() {
        seen.extend(frame.answers.into_iter().map(|answer| (answer.id, answer.what.unwrap())));
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!((1..=4).all(|id| matches!(seen[&id], answer::What::Malformed(_))), "{seen:?}");
    assert!(matches!(seen[&5], answer::What::NoSuchGroup(_)));
    // Too much in one frame ends that stream, and only that one.
    let many = AskFrame { asks: vec![Ask::default(); 5_000] };
    let mut answers = raw.converse(futures::stream::iter([many])).await.unwrap().into_inner();
    assert!(matches!(answers.message().await, Ok(None) | Err(_)));
    let mut watch = raw.watch(WatchRequest { event: 77 }).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().unwrap().reset);
    hold(&client, 1, &[(0, 0)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_nodes_fails_in_words_and_recovers() {
    let mut store = Store::start().await;
    let client = on_sale(&store, 2).await;
    hold(&client, 1, &[(0, 0)]).await;
    for id in IDS {
        store.stop_node(id).await;
    }
    let impatient =
        Client::connect(ClientConfig { request_timeout_ms: 300, ..ClientConfig::with_endpoints(store.endpoints()) });
    let failed = impatient.begin(EVENT, begin(2, &[(0, 1)])).await.unwrap_err();
    assert!(matches!(failed, ClientError::Unavailable(_)), "{failed}");
    assert!(failed.retry_after_ms().is_some());
    let status = impatient.status().await;
    assert!(status.nodes.values().all(|node| matches!(node, NodeAnswer::Down(_))));
    for id in IDS {
        store.start_node(id).await;
    }
    hold(&client, 2, &[(0, 1)]).await;
    assert_eq!(client.owners(EVENT, SectionId(0)).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_too_long_gets_a_snapshot_in_pieces() {
    let mut store = Store::tuned(NodeConfig { snapshot_every: 20, ..NodeConfig::default() }).await;
    let client = store.client();
    // More than a megabyte of state: several pieces.
    let plans: Vec<_> = (0..8).map(|section| plan(section, 1_000)).collect();
    client.publish(event(&plans), plans, Vec::new(), Vec::new()).await.unwrap();
    let leader = store.leader(HOME).await;
    let away = *IDS.iter().find(|id| **id != leader).unwrap();
    let missed = store.server(away).node().group(HOME).unwrap().status().last_log.unwrap_or(0);
    store.stop_node(away).await;
    let mut number = 0;
    let purged = |store: &Store| {
        let up = IDS.iter().filter(|id| **id != away);
        up.map(|id| store.server(*id).node().group(HOME).unwrap().status().purged.unwrap_or(0)).min().unwrap()
    };
    while purged(&store) <= missed {
        hold(&client, number, &[(0, number as u32)]).await;
        number += 1;
    }
    let leading = store.server(leader).node().group(HOME).unwrap();
    let before = leading.status().applied;
    store.start_node(away).await;
    let group = store.server(away).node().group(HOME).unwrap();
    eventually("the node is ready", || store.server(away).node().is_ready()).await;
    assert!(group.status().applied >= before, "it is ready before it has what it missed");
    eventually("the node has caught up", || group.state_hash() == leading.state_hash()).await;
    assert!(group.status().snapshot.is_some_and(|upto| upto > missed), "it caught up by log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_answers_peers_only_under_its_own_id_and_only_what_it_can_read() {
    let store = Store::start().await;
    let mut peer = PeerClient::connect(format!("http://{}", store.peers[&IDS[0]])).await.unwrap();
    let call = |to: u64, group: u32, call: u32| PeerCall {
        group,
        call,
        body: vec![0xff; 7].into(),
        to,
        ..PeerCall::default()
    };
    let code = |status: tonic::Status| status.code();
    assert_eq!(peer.call(call(2, 1, 1)).await.map_err(code).unwrap_err(), tonic::Code::FailedPrecondition);
    assert_eq!(peer.call(call(1, 1, 9)).await.map_err(code).unwrap_err(), tonic::Code::InvalidArgument);
    assert_eq!(peer.call(call(1, 1, 1)).await.map_err(code).unwrap_err(), tonic::Code::InvalidArgument);
    assert_eq!(peer.call(call(1, 77, 1)).await.map_err(code).unwrap_err(), tonic::Code::NotFound);
    let head = SnapshotPiece { head: Some(call(1, 1, 5)), size: 10, data: Default::default() };
    let short = SnapshotPiece { head: None, size: 0, data: vec![1; 3].into() };
    let long = SnapshotPiece { data: vec![1; 30].into(), ..short.clone() };
    let garbage = SnapshotPiece { data: vec![1; 10].into(), ..short.clone() };
    for pieces in
        [vec![], vec![short.clone()], vec![head.clone(), short], vec![head.clone(), long], vec![head, garbage]]
    {
        let refused = peer.snapshot(futures::stream::iter(pieces)).await.map_err(code).unwrap_err();
        assert_eq!(refused, tonic::Code::InvalidArgument);
    }
    // And it is none the worse for it.
    on_sale(&store, 2).await;
}
