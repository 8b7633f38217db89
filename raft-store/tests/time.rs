//! Time: a hold lasts its service time, whatever the wall clocks of its leaders say and however long nobody serves; and a
//! node whose wall clock is wrong says so.

mod served;

use domain::ids::{GroupId, NodeId, ReservationId};
use domain::inventory::{Outcome, ReservationView, Status};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use raft_store::client::Client;
use served::{EVENT, IDS, Store, begin, event, eventually, plan, wall_now};
use std::time::{Duration, Instant};

const DATA: GroupId = GroupId(1);
const HOUR_MS: i64 = 3_600_000;

async fn on_sale(store: &Store, hold_ttl_ms: u32) -> Client {
    let client = store.client();
    let plans = vec![plan(0, 2)];
    let mut event = event(&plans);
    event.hold_ttl_ms = hold_ttl_ms;
    client.publish(event, plans, Vec::new(), vec![DATA]).await.unwrap();
    client
}

async fn hold(client: &Client, fan: usize, seat: u32) -> Box<ReservationView> {
    match client.begin(EVENT, begin(fan, &[(0, seat)])).await.unwrap() {
        Outcome::Reservation(view) if view.status == Status::Held => view,
        other => panic!("{other:?}"),
    }
}

async fn look(client: &Client, id: ReservationId) -> ReservationView {
    client.reservation(id).await.unwrap().expect("it is known")
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// Until the hold has run out; gives how much real time had passed at least since `asked`, before which it cannot have
/// begun.
async fn runs_out(client: &Client, id: ReservationId, asked: Instant) -> Duration {
    let deadline = Instant::now() + Duration::from_secs(120);
    while look(client, id).await.status == Status::Held {
        assert!(Instant::now() < deadline, "the hold never ran out");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(look(client, id).await.status, Status::Expired);
    asked.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_an_hour_ahead_and_an_hour_behind_end_no_hold_early_and_none_late() {
    const TTL_MS: u32 = 8_000;
    let store = Store::start().await;
    let client = on_sale(&store, TTL_MS).await;
    store.clock(IDS[0]).set_ahead_ms(HOUR_MS);
    store.clock(IDS[1]).set_ahead_ms(-HOUR_MS);
    for (fan, leaders) in [[0, 1, 2], [1, 0, 2]].into_iter().enumerate() {
        store.let_lead(DATA, IDS[leaders[0]]).await;
        let asked = Instant::now();
        let held = hold(&client, fan, fan as u32).await;
        // The test is one only if the leader's clock is wrong.
        let ahead = held.created_at.0.cast_signed() - wall_now().0.cast_signed();
        assert!(ahead.abs() > HOUR_MS / 2, "its leader stamped {ahead} ms");
        let (mut left, mut seen) = (held.remaining_ms, asked);
        assert!(left <= u64::from(TTL_MS));
        for leader in leaders {
            store.let_lead(DATA, IDS[leader]).await;
            let looking = Instant::now();
            let view = look(&client, held.id).await;
            // Another leader's clock gives nothing and takes nothing: at most the time between the two looks is gone.
            let passed = ms(seen.elapsed());
            assert!(view.remaining_ms + passed >= left, "{left} ms, then {} after {passed}", view.remaining_ms);
            // What an old leader had not stamped yet is not made up.
            assert!(view.remaining_ms <= u64::from(TTL_MS), "{}", view.remaining_ms);
            (left, seen) = (view.remaining_ms, looking);
        }
        let lasted = runs_out(&client, held.id, asked).await;
        assert!(lasted >= Duration::from_millis(TTL_MS.into()), "it ran out after {lasted:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_a_hold_costs_nobody_the_hold_and_it_ends_after_what_was_left() {
    const TTL_MS: u32 = 12_000;
    let mut store = Store::start().await;
    let client = on_sale(&store, TTL_MS).await;
    let asked = Instant::now();
    let held = hold(&client, 1, 3).await;
    // An old T must not be counted on by a leader that was elected meanwhile, either.
    let led = store.leader(DATA).await;
    let next = IDS.into_iter().find(|id| *id != led).unwrap();
    store.let_lead(DATA, next).await;
    for id in IDS {
        store.stop_node(id).await;
    }
    let down = Instant::now();
    tokio::time::sleep(Duration::from_millis(u64::from(TTL_MS) + 3_000)).await;
    let outage = down.elapsed();
    for id in IDS {
        store.start_node(id).await;
    }
    let view = look(&client, held.id).await;
    // While nobody served, no time passed; while somebody did, at most the time that passed.
    let served = asked.elapsed() - outage;
    let least = u64::from(TTL_MS).saturating_sub(ms(served));
    assert!(view.remaining_ms >= least, "{} ms of {least} are left", view.remaining_ms);
    assert!(view.status == Status::Held || least == 0, "{view:?}");
    let lasted = runs_out(&client, held.id, asked).await;
    assert!(lasted >= outage + Duration::from_millis(TTL_MS.into()), "it ran out after {lasted:?}");
}

/// What a scrape of this node's metrics shows of its clock.
fn offset(store: &Store, id: NodeId) -> Option<i64> {
    let mut registry = Registry::with_prefix("encore");
    raft_store::metrics::register(store.server(id).node(), &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let line = text.lines().find(|line| line.starts_with("encore_store_clock_offset_ms "))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_wall_clock_is_wrong_says_so_and_the_others_do_not() {
    let store = Store::start().await;
    let near = |id: NodeId, ahead: i64| offset(&store, id).is_some_and(|offset| (offset - ahead).abs() < 500);
    eventually("all clocks agree", || IDS.iter().all(|id| near(*id, 0))).await;
    for ahead in [HOUR_MS, -HOUR_MS] {
        store.clock(IDS[1]).set_ahead_ms(ahead);
        eventually("the wrong clock is seen", || near(IDS[1], ahead)).await;
        eventually("the others are right", || near(IDS[0], 0) && near(IDS[2], 0)).await;
        let status = raft_store::network::status(store.server(IDS[1]).node());
        assert!(status.clock_ahead_ms.is_some_and(|seen| (seen - ahead).abs() < 500), "{:?}", status.clock_ahead_ms);
    }
    store.clock(IDS[1]).set_ahead_ms(0);
    eventually("it is right again", || near(IDS[1], 0)).await;
}
