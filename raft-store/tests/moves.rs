//! Moving partitions while they are on sale: nothing that was acknowledged is lost, no caller sees an error, and a crash at
//! any step of a move is mended by whoever leads next.

mod served;

use domain::ids::{EventId, GroupId, Partition, PaymentId, ReservationId, SectionId};
use domain::inventory::query::SeatState;
use domain::inventory::{FeedEntry, Outcome, Refusal, Status};
use domain::money::{Currency, Minor};
use futures::{StreamExt, TryStreamExt};
use raft_store::client::Client;
use raft_store::mover::{MoveNote, MoveResult, MoveStep, median_frozen_ms};
use served::{EVENT, Store, begin, event, eventually, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const HOME: GroupId = GroupId(1);
const AWAY: GroupId = GroupId(2);
const PRICE: i64 = 5_000;

async fn on_sale(store: &Store, rows: u32) -> Client {
    let client = store.client();
    let plans = vec![plan(0, rows), plan(1, rows)];
    client.publish(event(&plans), plans, Vec::new(), vec![HOME]).await.unwrap();
    while !client.placement().await.unwrap().groups.contains_key(&AWAY) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    client
}

/// What the store has acknowledged to one fan.
#[derive(Clone, Debug)]
struct Receipt {
    fan: usize,
    id: ReservationId,
    seats: Vec<(u16, u32)>,
    status: Status,
}

/// Fan after fan takes two seats, one in each section, and every second one pays; any error fails the test. Repeats each
/// hold under its key at once, as an impatient browser does.
async fn sell(client: Client, fans: Arc<AtomicUsize>, seats: u32, stop: Arc<AtomicBool>) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let fan = fans.fetch_add(1, Ordering::Relaxed);
        let at = fan as u32;
        if at >= seats {
            break;
        }
        let cart = [(0, at), (1, seats - 1 - at)];
        let (first, twin) =
            tokio::join!(client.begin(EVENT, begin(fan, &cart)), client.begin(EVENT, begin(fan, &cart)));
        let (first, twin) = (first.unwrap(), twin.unwrap());
        let Outcome::Reservation(view) = first else { panic!("fan {fan}: {first:?}") };
        assert!(matches!(&twin, Outcome::Reservation(twin) if twin.id == view.id), "fan {fan}'s twin: {twin:?}");
        assert_eq!(view.status, Status::Held, "fan {fan}: {view:?}");
        let mut status = Status::Held;
        if fan.is_multiple_of(2) {
            let (payment, amount) = (PaymentId(fan as u128 + 1), Minor(2 * PRICE));
            let paid = client.pay(view.id, payment, amount, Currency::EUR).await.unwrap();
            assert!(matches!(&paid, Outcome::Reservation(view) if view.status == Status::Paid), "fan {fan}: {paid:?}");
            status = Status::Paid;
        }
        receipts.push(Receipt { fan, id: view.id, seats: cart.to_vec(), status });
    }
    receipts
}

/// Every acknowledged hold and sale is there, with its seats, its key, and nothing else is.
async fn audit(client: &Client, receipts: &[Receipt]) {
    let records: BTreeMap<ReservationId, Status> =
        client.records(EVENT).await.unwrap().into_iter().map(|view| (view.id, view.status)).collect();
    for receipt in receipts {
        assert_eq!(records.get(&receipt.id), Some(&receipt.status), "fan {}", receipt.fan);
        let again = client.begin(EVENT, begin(receipt.fan, &receipt.seats)).await.unwrap();
        assert!(
            matches!(&again, Outcome::Reservation(view) if view.id == receipt.id),
            "fan {}: {again:?}",
            receipt.fan
        );
    }
    let mut expected = BTreeMap::new();
    for receipt in receipts {
        for seat in &receipt.seats {
            assert_eq!(expected.insert(*seat, receipt.id), None, "two receipts for {seat:?}");
        }
    }
    let paid: BTreeSet<ReservationId> =
        receipts.iter().filter(|receipt| receipt.status == Status::Paid).map(|receipt| receipt.id).collect();
    // A sale is told to sections of other groups a moment after it was acknowledged.
    for _ in 0..600 {
        let mut owners = Vec::new();
        for section in [0, 1] {
            let of_section = client.owners(EVENT, SectionId(section)).await.unwrap();
            owners
                .extend(of_section.into_iter().map(|owner| ((section, owner.seat.0), owner.reservation, owner.state)));
        }
        let owned: BTreeMap<_, _> = owners.iter().map(|(seat, owner, _)| (*seat, *owner)).collect();
        assert_eq!(owned, expected, "a seat has another owner than its receipt says");
        let sold = |owner: &ReservationId| if paid.contains(owner) { SeatState::Sold } else { SeatState::Held };
        if owners.iter().all(|(_, owner, state)| *state == sold(owner)) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("a sale never reached its seats");
}

async fn feeds(client: &Client) -> BTreeMap<Partition, Vec<FeedEntry>> {
    let mut feeds = BTreeMap::new();
    for partition in client.partitions(EVENT).await.unwrap() {
        let feed = client.feed(partition.clone(), 0, u32::MAX).await.unwrap();
        feeds.insert(partition, feed);
    }
    feeds
}

async fn move_all(client: &Client, to: GroupId) {
    let partitions = client.partitions(EVENT).await.unwrap();
    let moves = partitions.into_iter().map(|partition| async move {
        client.move_partition(&partition, to, &mut |text| println!("{text}")).await.map(drop)
    });
    futures::stream::iter(moves).buffer_unordered(4).try_collect::<()>().await.unwrap();
    let placement = client.placement().await.unwrap();
    let placed = &placement.events[&EVENT];
    assert!(placed.partitions(EVENT).iter().all(|partition| placed.locate(partition).0 == to), "{placed:?}");
}

fn notes(store: &Store) -> Vec<MoveNote> {
    store.servers().flat_map(|server| server.node().moves().notes()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_partitions_move_away_and_back_under_load() {
    const SEATS: u32 = 8_000;
    let store = Store::start().await;
    let client = on_sale(&store, SEATS / 10).await;
    let (fans, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let selling: Vec<_> =
        (0..8).map(|_| tokio::spawn(sell(store.client(), fans.clone(), SEATS, stop.clone()))).collect();
    eventually("the sale has begun", || fans.load(Ordering::Relaxed) > 40).await;
    let before = feeds(&client).await;
    move_all(&client, AWAY).await;
    let between = fans.load(Ordering::Relaxed);
    eventually("the sale goes on over there", || fans.load(Ordering::Relaxed) > between + 40).await;
    move_all(&client, HOME).await;
    let back = fans.load(Ordering::Relaxed);
    eventually("the sale goes on at home", || fans.load(Ordering::Relaxed) > back + 40).await;
    stop.store(true, Ordering::Relaxed);
    let mut receipts = Vec::new();
    for fan in selling {
        receipts.extend(fan.await.expect("no error reaches a caller"));
    }
    audit(&client, &receipts).await;
    for (partition, feed) in feeds(&client).await {
        let positions: Vec<u64> = feed.iter().map(|entry| entry.position).collect();
        assert_eq!(positions, (1..=feed.len() as u64).collect::<Vec<_>>(), "the feed of {partition} has a gap");
        assert_eq!(feed[..before[&partition].len()], before[&partition][..], "the feed of {partition} was rewritten");
    }
    let notes = notes(&store);
    let moved = notes.iter().filter(|note| matches!(note.result, MoveResult::Moved { .. })).count();
    println!(
        "{} holds and sales during {moved} moves, {} given up; frozen for {} ms at the median",
        receipts.len(),
        notes.len() - moved,
        median_frozen_ms(&notes).unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_step_of_a_move_is_mended() {
    let mut store = Store::start().await;
    let client = on_sale(&store, 100).await;
    let (fans, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let steps = [MoveStep::Freeze, MoveStep::Install, MoveStep::Commit, MoveStep::Activate, MoveStep::Drop];
    let partition = Partition::Seats { event: EVENT, section: SectionId(0) };
    let mut receipts = Vec::new();
    let mut at = HOME;
    for step in steps {
        // The leaders of the meta group (and its mover), of the source and of the target die in turn.
        for victim in [GroupId::META, HOME, AWAY] {
            let to = if at == HOME { AWAY } else { HOME };
            let before: u64 = store.servers().map(|server| server.node().moves().halted()).sum();
            store.servers().for_each(|server| server.node().moves().halt_after(Some(step)));
            let moving = tokio::spawn({
                let (client, partition) = (client.clone(), partition.clone());
                async move { client.move_partition(&partition, to, &mut |text| println!("{text}")).await }
            });
            eventually("the mover has come to the step", || {
                store.servers().map(|server| server.node().moves().halted()).sum::<u64>() > before
            })
            .await;
            let gone = store.leader(victim).await;
            store.stop_node(gone).await;
            store.servers().for_each(|server| server.node().moves().halt_after(None));
            moving.await.unwrap().unwrap_or_else(|error| panic!("after {step:?}, {victim} led by {gone}: {error}"));
            let next = fans.load(Ordering::Relaxed) as u32;
            let one = sell(client.clone(), fans.clone(), 1_000, stop.clone());
            let sold = tokio::time::timeout(std::time::Duration::from_secs(60), async {
                stop.store(false, Ordering::Relaxed);
                let one = tokio::spawn(one);
                eventually("a hold is granted after the move", || fans.load(Ordering::Relaxed) as u32 > next).await;
                stop.store(true, Ordering::Relaxed);
                one.await.unwrap()
            });
            receipts.extend(sold.await.expect("the partition serves"));
            store.start_node(gone).await;
            eventually("the node is back", || store.server(gone).node().is_ready()).await;
            at = to;
            assert_eq!(client.placement().await.unwrap().events[&EVENT].locate(&partition).0, at);
        }
    }
    assert!(client.moves().await.unwrap().is_empty(), "no move is left open");
    audit(&client, &receipts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_cannot_succeed_is_given_up_and_the_source_serves_on() {
    let store = Store::start().await;
    let client = on_sale(&store, 10).await;
    let partition = Partition::Seats { event: EVENT, section: SectionId(0) };
    store.servers().for_each(|server| server.node().moves().halt_after(Some(MoveStep::Freeze)));
    let moving = tokio::spawn({
        let (client, partition) = (client.clone(), partition.clone());
        async move { client.move_partition(&partition, AWAY, &mut |_| {}).await }
    });
    eventually("it is frozen", || store.servers().any(|server| server.node().moves().halted() > 0)).await;
    moving.abort();
    assert!(client.cancel_move(&partition).await.unwrap());
    store.servers().for_each(|server| server.node().moves().halt_after(None));
    let held = client.begin(EVENT, begin(1, &[(0, 1), (1, 1)])).await.unwrap();
    assert!(matches!(&held, Outcome::Reservation(view) if view.status == Status::Held), "{held:?}");
    assert!(!client.cancel_move(&partition).await.unwrap(), "there is nothing to cancel any more");
    assert!(client.moves().await.unwrap().is_empty());
    let nonsense = Partition::Seats { event: EventId(9), section: SectionId(0) };
    assert!(client.move_partition(&nonsense, AWAY, &mut |_| {}).await.is_err());
    assert!(client.move_partition(&partition, GroupId(77), &mut |_| {}).await.is_err());
    // Giving a command again that has been done changes nothing.
    assert_eq!(client.move_partition(&partition, HOME, &mut |_| {}).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_across_groups_are_whole_or_not_there_at_all() {
    const SEATS: u32 = 60;
    let mut store = Store::start().await;
    let client = store.client();
    let plans = vec![plan(0, SEATS / 10), plan(1, SEATS / 10)];
    client.publish(event(&plans), plans, Vec::new(), vec![HOME, AWAY]).await.unwrap();
    // Three fans want each pair of seats, one seat in each group.
    let storm: Vec<_> = (0..3 * SEATS as usize)
        .map(|fan| {
            let client = client.clone();
            tokio::spawn(async move {
                let pair = fan as u32 % SEATS;
                let outcome = client.begin(EVENT, begin(fan, &[(0, pair), (1, pair)])).await;
                (fan, pair, outcome)
            })
        })
        .collect();
    tokio::task::yield_now().await;
    // The judge's leader dies between Begin and the votes of some of them; then it is the participant's turn.
    let judge = store.leader(HOME).await;
    store.stop_node(judge).await;
    store.start_node(judge).await;
    let participant = store.leader(AWAY).await;
    store.stop_node(participant).await;
    let mut winners: BTreeMap<u32, (usize, ReservationId)> = BTreeMap::new();
    for answered in storm {
        let (fan, pair, outcome) = answered.await.unwrap();
        match outcome.unwrap_or_else(|error| panic!("fan {fan}: {error}")) {
            Outcome::Reservation(view) => {
                assert_eq!(view.status, Status::Held, "{view:?}");
                assert!(winners.insert(pair, (fan, view.id)).is_none(), "pair {pair} was granted twice");
            }
            Outcome::Refused(Refusal::SeatsTaken(_) | Refusal::PrepareTimeout)
            | Outcome::Advised(Refusal::SeatsTaken(_)) => {}
            other => panic!("fan {fan}: {other:?}"),
        }
    }
    store.start_node(participant).await;
    assert_owners(&client, winners.iter().map(|(pair, (_, id))| (*pair, *id)).collect()).await;

    // Ends across groups: paid, cancelled, refunded, run out.
    let mut left: Vec<(u32, (usize, ReservationId))> = winners.into_iter().collect();
    assert!(left.len() >= 4, "only {} pairs were granted", left.len());
    let mut owned: BTreeMap<u32, ReservationId> = left.iter().map(|(pair, (_, id))| (*pair, *id)).collect();
    let (paid_pair, (_, paid)) = left.pop().unwrap();
    let outcome = client.pay(paid, PaymentId(1), Minor(2 * PRICE), Currency::EUR).await.unwrap();
    assert!(matches!(&outcome, Outcome::Reservation(view) if view.status == Status::Paid), "{outcome:?}");
    let (cancelled_pair, (_, cancelled)) = left.pop().unwrap();
    client.cancel(cancelled, None).await.unwrap();
    owned.remove(&cancelled_pair);
    assert_owners(&client, owned.clone()).await;
    let seats = client.reservation(paid).await.unwrap().unwrap().seats.iter().map(|seat| seat.seat).collect();
    client.refund(domain::ids::RefundId(1), paid, seats).await.unwrap();
    owned.remove(&paid_pair);
    assert_owners(&client, owned.clone()).await;
    let mut brief = begin(10_000, &[(0, cancelled_pair), (1, cancelled_pair)]);
    brief.hold_ttl_ms = Some(1_000);
    let held = client.begin(EVENT, brief).await.unwrap();
    assert!(matches!(&held, Outcome::Reservation(view) if view.status == Status::Held), "{held:?}");
    assert_owners(&client, owned).await;
}

/// In both sections exactly these pairs are owned, by the same reservation; what was let go is given back by moments.
async fn assert_owners(client: &Client, expected: BTreeMap<u32, ReservationId>) {
    let mut seen = Vec::new();
    for _ in 0..1_200 {
        seen.clear();
        for section in [0, 1] {
            let owners = client.owners(EVENT, SectionId(section)).await.unwrap();
            seen.push(owners.iter().map(|owner| (owner.seat.0, owner.reservation)).collect::<BTreeMap<_, _>>());
        }
        if seen.iter().all(|owners| *owners == expected) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("expected {expected:?}, and there is {seen:?}");
}
