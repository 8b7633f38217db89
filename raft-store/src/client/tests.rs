//! What the client promises, against nodes that are told how to misbehave.

use super::dial::{Conversation, Dial, FRAMES_AHEAD};
use super::*;
use crate::wire::frames::{self, Answer as Framed, AnswerFrame, Ask, AskFrame, WatchFrame, answer, ask};
use crate::{runtime, wire};
use domain::ids::{EventId, GroupId, NodeId, ReservationId, SectionId};
use domain::inventory::Request;
use domain::inventory::command::{Checkout, Manage};
use domain::inventory::query::{EventPlacement, Owner, SeatMap, SeatState};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

const EVENT: EventId = EventId(1);
const HOME: GroupId = GroupId(1);

type Behaviour = Arc<dyn Fn(&Ask) -> Option<answer::What> + Send + Sync>;

/// Nodes by address; those that are not there refuse connections.
#[derive(Default)]
struct Nodes {
    nodes: Mutex<BTreeMap<String, Behaviour>>,
    frames: AtomicUsize,
    asks: AtomicUsize,
    replaced: tokio::sync::Notify,
}

impl Nodes {
    fn with(nodes: impl IntoIterator<Item = (&'static str, Behaviour)>) -> Arc<Self> {
        let nodes = nodes.into_iter().map(|(address, behaviour)| (address.to_owned(), behaviour)).collect();
        Arc::new(Self { nodes: Mutex::new(nodes), ..Self::default() })
    }

    /// From now on there are these nodes and no other; streams that are open end.
    fn replace(&self, nodes: impl IntoIterator<Item = (&'static str, Behaviour)>) {
        *self.nodes.lock().unwrap() =
            nodes.into_iter().map(|(address, behaviour)| (address.to_owned(), behaviour)).collect();
        self.replaced.notify_waiters();
    }
}

struct FakeDial(Arc<Nodes>);

impl Dial for FakeDial {
    fn converse(&self, address: &str) -> BoxFuture<'static, Result<Conversation, String>> {
        let nodes = self.0.clone();
        let behaviour = nodes.nodes.lock().unwrap().get(address).cloned();
        Box::pin(async move {
            let behaviour = behaviour.ok_or("connection refused")?;
            let (asks, mut incoming) = mpsc::channel::<AskFrame>(FRAMES_AHEAD);
            let (outgoing, answers) = mpsc::channel(4);
            tokio::spawn(async move {
                let replaced = nodes.replaced.notified();
                tokio::pin!(replaced);
                while let Some(frame) = tokio::select! {
                    biased;
                    () = &mut replaced => None,
                    frame = incoming.recv() => frame,
                } {
                    nodes.frames.fetch_add(1, Ordering::SeqCst);
                    nodes.asks.fetch_add(frame.asks.len(), Ordering::SeqCst);
                    // Backwards, so that an answer's place says nothing.
                    let answers = frame.asks.iter().rev();
                    let answers =
                        answers.filter_map(|ask| behaviour(ask).map(|what| Framed { id: ask.id, what: Some(what) }));
                    let _ = outgoing.send(Ok(AnswerFrame { answers: answers.collect() })).await;
                }
            });
            let answers = tokio_stream::wrappers::ReceiverStream::new(answers).boxed();
            Ok(Conversation { asks, answers })
        })
    }

    fn watch(
        &self,
        _address: &str,
        _event: EventId,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Result<WatchFrame, String>>, String>> {
        Box::pin(async { Err("not watched here".to_owned()) })
    }
}

fn client(nodes: &Arc<Nodes>) -> Client {
    let config = ClientConfig {
        request_timeout_ms: 1_000,
        attempt_timeout_ms: 200,
        ..ClientConfig::with_endpoints(["a:1", "b:1", "c:1"])
    };
    Client::over(config, Arc::new(FakeDial(nodes.clone())))
}

fn placement(home: GroupId) -> Placement {
    let nodes =
        BTreeMap::from([(NodeId(1), "a:1".to_owned()), (NodeId(2), "b:1".to_owned()), (NodeId(3), "c:1".to_owned())]);
    let event = EventPlacement {
        home: (home, domain::ids::Epoch(0)),
        buckets: 4,
        sections: vec![SectionId(0)],
        promotions: Vec::new(),
        moved: BTreeMap::new(),
    };
    Placement {
        groups: BTreeMap::from([(GroupId::META, nodes.clone()), (GroupId(1), nodes.clone()), (GroupId(2), nodes)]),
        events: BTreeMap::from([(EVENT, event)]),
    }
}

fn told(answer: &Answer) -> Option<answer::What> {
    Some(answer::What::Answer(wire::encode(answer)))
}

fn outcome(outcome: &Outcome) -> Option<answer::What> {
    Some(answer::What::Outcome(wire::encode(outcome)))
}

/// Answers placement as the meta group would, and leaves the rest to `rest`.
fn with_placement(home: GroupId, rest: impl Fn(&Ask) -> Option<answer::What> + Send + Sync + 'static) -> Behaviour {
    Arc::new(move |ask| match question(ask) {
        Some((Partition::Meta, Query::Placement)) => told(&Answer::Placement(placement(home))),
        _ => rest(ask),
    })
}

fn question(ask: &Ask) -> Option<(Partition, Query)> {
    match &ask.what {
        Some(ask::What::Read(read)) => wire::decode("question", &read.question).ok(),
        _ => None,
    }
}

fn request(ask: &Ask) -> Option<Request> {
    match &ask.what {
        Some(ask::What::Request(bytes)) => wire::decode("request", bytes).ok(),
        _ => None,
    }
}

fn done(_: &Ask) -> Option<answer::What> {
    outcome(&Outcome::Done)
}

fn not_leader(node: u64) -> Option<answer::What> {
    Some(answer::What::NotLeader(frames::NotLeader { node, address: String::new() }))
}

fn reservation(sequence: u64) -> ReservationId {
    ReservationId { event: EVENT, bucket: domain::ids::Bucket(0), incarnation: 0, sequence }
}

fn ledger_ack() -> (Partition, Command) {
    let id = reservation(1);
    (id.partition(), Command::Checkout(Checkout::LedgerAck { reservation: id }))
}

async fn submit(client: &Client) -> Result<Outcome, ClientError> {
    let (partition, command) = ledger_ack();
    client.submit(partition, command).await
}

#[tokio::test]
async fn answers_find_who_asked_and_waiting_asks_share_frames() {
    let echo = with_placement(HOME, |ask| match request(ask)?.command {
        Command::Manage(Manage::AckFeed { upto }) => outcome(&Outcome::Invalid(upto.to_string())),
        _ => None,
    });
    let nodes = Nodes::with([("a:1", echo.clone()), ("b:1", echo.clone()), ("c:1", echo)]);
    let client = client(&nodes);
    client.placement().await.unwrap();
    let asked = (0..2_000_u64).map(|number| {
        let client = client.clone();
        async move {
            let command = Command::Manage(Manage::AckFeed { upto: number });
            let answer = client.submit(Partition::Seats { event: EVENT, section: SectionId(0) }, command).await;
            assert_eq!(answer, Ok(Outcome::Invalid(number.to_string())));
        }
    });
    futures::future::join_all(asked).await;
    assert_eq!(nodes.asks.load(Ordering::SeqCst), 2_001);
    let frames = nodes.frames.load(Ordering::SeqCst);
    assert!(frames < 200, "{frames} frames for 2001 asks");
}

#[tokio::test]
async fn a_wrong_leader_redirects_and_the_right_one_is_remembered() {
    let led = |node: u64| {
        move |ask: &Ask| if request(ask).is_some() && node != 2 { not_leader(2) } else { outcome(&Outcome::Done) }
    };
    let nodes = Nodes::with([
        ("a:1", with_placement(HOME, led(1))),
        ("b:1", with_placement(HOME, led(2))),
        ("c:1", with_placement(HOME, led(3))),
    ]);
    let client = client(&nodes);
    client.placement().await.unwrap();
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
    let before = nodes.asks.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(submit(&client).await, Ok(Outcome::Done));
    }
    assert_eq!(nodes.asks.load(Ordering::SeqCst), before + 10, "the leader was not remembered");
}

#[tokio::test]
async fn a_dead_leader_that_is_still_named_does_not_stop_the_search() {
    let named = Arc::new(AtomicUsize::new(0));
    let follower = {
        let named = named.clone();
        // Names the dead node three times, then leads itself.
        with_placement(HOME, move |_| {
            if named.fetch_add(1, Ordering::SeqCst) < 3 { not_leader(1) } else { done(&Ask::default()) }
        })
    };
    let nodes = Nodes::with([("b:1", follower.clone()), ("c:1", follower)]);
    assert_eq!(submit(&client(&nodes)).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn nobody_there_is_unavailable_and_silence_is_unknown() {
    let nobody = Nodes::with([]);
    assert!(matches!(submit(&client(&nobody)).await, Err(ClientError::Unavailable(_))));
    let silent = with_placement(HOME, |_| None);
    let nodes = Nodes::with([("a:1", silent.clone()), ("b:1", silent.clone()), ("c:1", silent)]);
    let failed = submit(&client(&nodes)).await.unwrap_err();
    assert_eq!(failed, ClientError::Timeout);
    assert!(failed.is_unknown());
}

#[tokio::test]
async fn an_overloaded_store_is_not_asked_again() {
    let overloaded =
        with_placement(HOME, |_| Some(answer::What::Overloaded(frames::Overloaded { retry_after_ms: 77 })));
    let nodes = Nodes::with([("a:1", overloaded.clone()), ("b:1", overloaded.clone()), ("c:1", overloaded)]);
    let client = client(&nodes);
    client.placement().await.unwrap();
    let before = nodes.asks.load(Ordering::SeqCst);
    assert_eq!(submit(&client).await, Err(ClientError::Overloaded { retry_after_ms: 77 }));
    assert_eq!(nodes.asks.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn a_moved_partition_is_followed() {
    let home = Arc::new(AtomicUsize::new(1));
    let node: Behaviour = {
        let home = home.clone();
        Arc::new(move |ask| match question(ask) {
            Some((Partition::Meta, Query::Placement)) => {
                told(&Answer::Placement(placement(GroupId(home.load(Ordering::SeqCst) as u32))))
            }
            _ if ask.group == 2 => outcome(&Outcome::Done),
            _ => outcome(&Outcome::Moved { epoch: domain::ids::Epoch(1) }),
        })
    };
    let nodes = Nodes::with([("a:1", node.clone()), ("b:1", node.clone()), ("c:1", node)]);
    let client = client(&nodes);
    client.placement().await.unwrap();
    home.store(2, Ordering::SeqCst);
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
    // And when it never settles, nothing was written.
    home.store(1, Ordering::SeqCst);
    client.placement().await.unwrap();
    let (partition, _) = ledger_ack();
    assert_eq!(submit(&client).await, Err(ClientError::Moved { partition }));
}

/// A replica whose seat map has this version; only node 2 leads.
fn replica(version: u64, leads: bool) -> Behaviour {
    with_placement(HOME, move |ask| {
        let Some(ask::What::Read(read)) = &ask.what else { return None };
        if read.linearizable && !leads {
            return not_leader(2);
        }
        if !read.linearizable && version < read.min_version {
            return Some(answer::What::Behind(frames::Behind { version }));
        }
        told(&Answer::SeatMap(SeatMap { version, count: 0, packed: Vec::new() }))
    })
}

#[tokio::test]
async fn a_seat_map_never_goes_backwards_for_one_client() {
    let nodes = Nodes::with([("a:1", replica(3, false)), ("b:1", replica(9, true)), ("c:1", replica(5, false))]);
    let client = client(&nodes);
    let mut last = 0;
    for _ in 0..20 {
        let version = client.seat_map(EVENT, SectionId(0), 0).await.unwrap().version;
        assert!(version >= last, "went from {last} back to {version}");
        last = version;
    }
    assert_eq!(client.seat_map(EVENT, SectionId(0), 7).await.unwrap().version, 9);
}

#[tokio::test]
async fn made_up_events_do_not_each_reach_the_store() {
    let node = with_placement(HOME, done);
    let nodes = Nodes::with([("a:1", node.clone()), ("b:1", node.clone()), ("c:1", node)]);
    let client = client(&nodes);
    let asked = (100..400).map(|event| {
        let client = client.clone();
        async move {
            let id = ReservationId { event: EventId(event), ..reservation(1) };
            assert_eq!(client.reservation(id).await, Ok(None));
            assert_eq!(client.stock(EventId(event)).await, Err(ClientError::NoSuchEvent(EventId(event))));
        }
    });
    futures::future::join_all(asked).await;
    let asks = nodes.asks.load(Ordering::SeqCst);
    assert!(asks < 20, "{asks} asks reached the store");
}

#[tokio::test]
async fn an_unreadable_answer_is_said() {
    let node = with_placement(HOME, |_| Some(answer::What::Outcome(vec![0xff; 9].into())));
    let nodes = Nodes::with([("a:1", node.clone()), ("b:1", node.clone()), ("c:1", node)]);
    assert!(matches!(submit(&client(&nodes)).await, Err(ClientError::Protocol(_))));
}

#[tokio::test]
async fn a_lagging_replica_does_not_decide_that_a_section_is_missing() {
    let owners = vec![Owner { seat: domain::ids::SeatIndex(1), reservation: reservation(1), state: SeatState::Held }];
    let owners = Answer::Owners(owners);
    let knows = owners.clone();
    let leader = with_placement(HOME, move |_| told(&knows));
    let lags = with_placement(HOME, |ask| match &ask.what {
        Some(ask::What::Read(read)) if read.linearizable => not_leader(2),
        _ => told(&Answer::Moved { epoch: domain::ids::Epoch(0) }),
    });
    let nodes = Nodes::with([("a:1", lags.clone()), ("b:1", leader), ("c:1", lags)]);
    let client = client(&nodes);
    for _ in 0..6 {
        let partition = Partition::Seats { event: EVENT, section: SectionId(0) };
        assert_eq!(client.query(partition, Query::Owners, Freshness::Any).await, Ok(owners.clone()));
    }
}

#[tokio::test]
async fn a_silent_replica_delays_one_read_and_not_every_third() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let silent: Behaviour = Arc::new(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        None
    });
    let nodes = Nodes::with([("a:1", replica(9, false)), ("b:1", replica(9, true)), ("c:1", silent)]);
    let client = client(&nodes);
    client.placement().await.unwrap();
    for _ in 0..12 {
        assert_eq!(client.seat_map(EVENT, SectionId(0), 0).await.unwrap().version, 9);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the silent node was not asked once");
}

/// The same event, with the meta group and its own on these nodes.
fn spread_out(meta: &[&str], home: &[&str]) -> Placement {
    let numbered = |addresses: &[&str]| -> BTreeMap<NodeId, String> {
        (1..).map(NodeId).zip(addresses.iter().map(|&address| address.to_owned())).collect()
    };
    let groups = BTreeMap::from([(GroupId::META, numbered(meta)), (HOME, numbered(home))]);
    Placement { groups, ..placement(HOME) }
}

/// A node of that store: with the meta group, the event's group, or neither.
fn member(meta: bool, home: bool, told_by_meta: &Placement) -> Behaviour {
    let placement = told_by_meta.clone();
    Arc::new(move |ask| match question(ask) {
        _ if !(if ask.group == 0 { meta } else { home }) => Some(answer::What::NoSuchGroup(frames::NoSuchGroup {})),
        Some((Partition::Meta, Query::Placement)) => told(&Answer::Placement(placement.clone())),
        _ => done(ask),
    })
}

#[tokio::test]
async fn a_group_whose_nodes_have_all_been_replaced_is_found_again() {
    let before = spread_out(&["c:1"], &["a:1", "b:1"]);
    let (meta, home) = (member(true, false, &before), member(false, true, &before));
    let nodes = Nodes::with([("a:1", home.clone()), ("b:1", home), ("c:1", meta)]);
    let client = client(&nodes);
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
    let after = spread_out(&["c:1"], &["d:1", "e:1"]);
    let (meta, home) = (member(true, false, &after), member(false, true, &after));
    nodes.replace([("d:1", home.clone()), ("e:1", home), ("c:1", meta)]);
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_meta_group_whose_nodes_have_all_been_replaced_is_found_among_the_others() {
    let before = spread_out(&["a:1", "b:1"], &["c:1"]);
    let (meta, home) = (member(true, false, &before), member(false, true, &before));
    let nodes = Nodes::with([("a:1", meta.clone()), ("b:1", meta), ("c:1", home)]);
    let client = client(&nodes);
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
    let after = spread_out(&["c:1"], &["c:1"]);
    nodes.replace([("c:1", member(true, true, &after))]);
    assert_eq!(client.placement().await, Ok(after));
}

#[tokio::test]
async fn what_nobody_answers_fails_for_all_who_wait_at_once() {
    let node = with_placement(HOME, done);
    let nodes = Nodes::with([("a:1", node.clone()), ("b:1", node.clone()), ("c:1", node)]);
    let client = client(&nodes);
    assert_eq!(submit(&client).await, Ok(Outcome::Done));
    nodes.replace([]);
    let begun = runtime::now();
    let asked = (0..40).map(|_| async { submit(&client).await.unwrap_err() });
    futures::future::join_all(asked).await;
    // One after another they would need forty times the request time-out of a second.
    let waited = runtime::millis_since(begun);
    assert!(waited < 20_000, "{waited} ms");
}
