//! The line itself, over a real Redis and real HTTP: places, admission, leases, lots.

#![allow(missing_docs)]

mod support;

use domain::ids::{EventId, UserId};
use domain::time::WallMs;
use futures::future::join_all;
use queue::redis::RedisStore;
use queue::store::{Standing, Tick, TickOrder};
use queue::{Config, EventGate, GateStatus, Mode, Stock};
use std::collections::BTreeSet;
use std::time::Duration;
use support::{EVENT, RedisServer, Room, Seats, config, gate, now, session, until, user};

/// Tick until one counts.
async fn tick(store: &RedisStore, event: EventId, capacity: u32, batch: u32, on_sale_at: WallMs) -> Tick {
    until("a tick that counts", || async {
        let tick = store.admit(event, TickOrder { capacity, batch, on_sale_at }).await.unwrap();
        tick.counted.then_some(tick)
    })
    .await
}

async fn is_inside(store: &RedisStore, gate: &EventGate, user: &UserId) -> bool {
    matches!(store.visit(gate, user, false).await.unwrap().standing, Standing::Inside { .. })
}

#[tokio::test]
async fn expired_leases_free_their_slots_and_absent_fans_are_passed_over() {
    // Capacity 10, thirty join; 1-10 enter; 11-20 close the browser; the ten leases expire.
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(10));
    let room = Room::with(Config { pass_ttl_seconds: 3, silence_ms: 2_000, ..config(&redis) }, &seats).await;
    let mut sessions = Vec::new();
    for n in 1..=30 {
        sessions.push(session(&room.join(&format!("fan-{n:02}")).await));
    }
    for first in &sessions[..10] {
        let answer = room.until_state(first, "admitted").await;
        assert!(answer["token"].is_string() && answer["expires_in"].as_u64().unwrap() <= 3, "{answer}");
    }
    // 21-30 keep their pages open, and all of them enter.
    join_all(sessions[20..].iter().map(|open| room.until_state(open, "admitted"))).await;
    for closed in &sessions[10..20] {
        let answer = room.status(closed).await;
        assert_eq!(answer["state"], "gone", "{answer}");
    }
    assert!(room.metric("encore_queue_dropped_total{event=\"1\"}").await.is_some_and(|dropped| dropped >= 10.0));
    room.stop().await;
}

#[tokio::test]
async fn the_same_identity_has_the_same_place_from_any_device_even_after_minutes_away() {
    // Logged out before the sale, and back after it has started.
    let redis = RedisServer::start().await;
    let early = EventGate { on_sale_at: WallMs(now().0 + 2_000), ..gate(1) };
    let store = RedisStore::new(&Config { silence_ms: 1_500, ..config(&redis) }).unwrap();
    let (alice, bob, carol) = (user("alice"), user("bob"), user("carol"));
    for fan in [&alice, &bob, &carol] {
        store.visit(&early, fan, true).await.unwrap();
    }
    // Alice is silent for longer than anybody may be, and the others stay. The sale starts.
    let first = until("somebody is let in", || async {
        for fan in [&bob, &carol] {
            store.visit(&early, fan, false).await.unwrap();
        }
        let tick = store.admit(EVENT, TickOrder { capacity: 1, batch: 1, on_sale_at: early.on_sale_at }).await.unwrap();
        (tick.admitted == 1).then_some(tick)
    })
    .await;
    assert_eq!((first.dropped, first.parked), (0, 1), "alice was dropped");
    assert!(is_inside(&store, &early, &bob).await);
    // She returns within one silence of the start, from another device: first in line, before Carol.
    let back = store.visit(&early, &alice, true).await.unwrap();
    assert!(matches!(back.standing, Standing::Waiting { ahead: 0, .. }), "{back:?}");
    let next = store.visit(&early, &carol, true).await.unwrap();
    assert!(matches!(next.standing, Standing::Waiting { ahead: 1, .. }), "{next:?}");
}

#[tokio::test]
async fn joining_again_keeps_the_place() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(0))).await;
    for name in ["a", "b", "c"] {
        room.join(name).await;
    }
    let again = room.join("a").await;
    assert_eq!((again["position"].as_u64(), again["ahead"].as_u64()), (Some(1), Some(0)), "{again}");
    // By GET as well.
    let url = room.url("/api/v1/events/1/queue/join");
    let reply = room.send(|http| http.get(url).bearer_auth(room.token("b"))).await;
    assert_eq!((reply.status, reply.body["position"].as_u64()), (200, Some(2)), "{:?}", reply.body);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    room.stop().await;
}

#[tokio::test]
async fn concurrent_joins_get_distinct_places_and_enter_in_that_order() {
    let redis = RedisServer::start().await;
    let store = RedisStore::new(&config(&redis)).unwrap();
    let gate = gate(1_000);
    let users: Vec<UserId> = (0..200).map(|n| user(&format!("fan-{n}"))).collect();
    // Each joins three times at once, as impatient fans do.
    let joins = users.iter().flat_map(|user| [user; 3]).map(|user| store.visit(&gate, user, true));
    join_all(joins).await.into_iter().for_each(|visit| drop(visit.unwrap()));
    let mut order = Vec::new();
    for user in &users {
        match store.visit(&gate, user, false).await.unwrap().standing {
            Standing::Waiting { ahead, .. } => order.push((ahead, user.clone())),
            other => panic!("{user} is {other:?}"),
        }
    }
    order.sort();
    assert!(order.iter().enumerate().all(|(place, (ahead, _))| *ahead == place as u64), "places are not 0..200");
    let mut entered = BTreeSet::new();
    while entered.len() < users.len() {
        tick(&store, EVENT, 1_000, 70, gate.on_sale_at).await;
        for (_, user) in &order {
            if is_inside(&store, &gate, user).await {
                entered.insert(user.clone());
            }
        }
        let first: BTreeSet<UserId> = order[..entered.len()].iter().map(|(_, user)| user.clone()).collect();
        assert_eq!(entered, first, "somebody overtook");
    }
}

#[tokio::test]
async fn two_admitters_racing_admit_one_batch_a_second() {
    let redis = RedisServer::start().await;
    let stores = [RedisStore::new(&config(&redis)).unwrap(), RedisStore::new(&config(&redis)).unwrap()];
    let gate = gate(1_000);
    for n in 0..40 {
        stores[0].visit(&gate, &user(&format!("fan-{n}")), true).await.unwrap();
    }
    let order = TickOrder { capacity: 1_000, batch: 3, on_sale_at: gate.on_sale_at };
    let mut counted = Vec::new();
    while counted.len() < 3 {
        let race = join_all((0..16).map(|n| stores[n % 2].admit(EVENT, order))).await;
        counted.extend(race.into_iter().map(Result::unwrap).filter(|tick| tick.counted));
    }
    assert!(counted.iter().all(|tick| tick.admitted == 3), "{counted:?}");
    let seconds: BTreeSet<u64> = counted.iter().map(|tick| tick.now.0 / 1_000).collect();
    assert_eq!(seconds.len(), counted.len(), "two ticks in one second: {counted:?}");
    // And only one of them holds the office.
    let lease = Duration::from_secs(5);
    assert!(stores[0].elect(EVENT, "one", lease).await.unwrap());
    assert!(!stores[1].elect(EVENT, "two", lease).await.unwrap());
    assert!(stores[0].elect(EVENT, "one", lease).await.unwrap());
    stores[0].resign(EVENT, "one").await.unwrap();
    assert!(stores[1].elect(EVENT, "two", lease).await.unwrap());
}

#[tokio::test]
async fn capacity_is_never_exceeded_whatever_comes() {
    let redis = RedisServer::start().await;
    let gate = gate(7);
    let seats = Seats::with(gate.clone());
    let (fan_pem, pass_pem) = (queue::token::generate_key_pem(), queue::token::generate_key_pem());
    let quick = Config { pass_ttl_seconds: 3, silence_ms: 1_500, batch: 5, ..config(&redis) };
    let rooms = [
        Room::keyed(quick.clone(), &seats, &fan_pem, &pass_pem).await,
        Room::keyed(quick.clone(), &seats, &fan_pem, &pass_pem).await,
    ];
    let store = RedisStore::new(&quick).unwrap();
    let entered = std::sync::Mutex::new(BTreeSet::new());
    let done = std::sync::atomic::AtomicBool::new(false);
    let crowd = join_all((0..60_u64).map(|n| {
        let (rooms, seats, store, entered, done) = (&rooms, &seats, &store, &entered, &done);
        async move {
            let room = &rooms[(n % 2) as usize];
            let name = format!("fan-{n}");
            let id = format!("1-0-0-{n}").parse().unwrap();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let answer = room.join(&name).await;
                if answer["state"] == "admitted" {
                    entered.lock().unwrap().insert(n);
                    // A third hold seats for a while, some buy or lose them, the others waste their pass.
                    if n % 3 == 0 {
                        store.leases().extend(EVENT, &user(&name), id, 300).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(400)).await;
                        seats.change(|state| {
                            state.ended.insert(id);
                        });
                    }
                }
                tokio::time::sleep(Duration::from_millis(60 + n)).await;
            }
        }
    }));
    let watch = async {
        // Each tick is one script, so a count between two scripts is a true count.
        until("many entered", || async {
            let reply = redis.command(&["ZCARD", "encore:{e1}:inside"]).await;
            let inside: u64 = redis::from_redis_value(reply).unwrap();
            assert!(inside <= 7, "{inside} inside");
            (entered.lock().unwrap().len() >= 20).then_some(())
        })
        .await;
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(crowd, watch);
    for room in rooms {
        room.stop().await;
    }
}

#[tokio::test]
async fn lots_are_fixed_by_the_seed_drawn_once_and_favour_nobody() {
    let redis = RedisServer::start().await;
    let store = RedisStore::new(&config(&redis)).unwrap();
    let users: Vec<UserId> = (0..400).map(|n| user(&format!("fan-{n}"))).collect();
    let mut orders = Vec::new();
    for (event, seed) in [(1, "spring"), (2, "spring"), (3, "autumn")] {
        let before = EventGate { event: EventId(event), on_sale_at: WallMs(now().0 + 600_000), ..gate(10) };
        let lottery = EventGate { mode: Mode::Lottery, ..before };
        join_all(users.iter().map(|user| store.visit(&lottery, user, true))).await;
        assert_eq!(store.draw(&lottery, seed).await.unwrap(), 400, "drawn before the sale");
        let started = EventGate { on_sale_at: WallMs(now().0 - 1), ..lottery };
        // Who comes after the start is last, and nobody enters before the draw is done.
        store.visit(&started, &user("late"), true).await.unwrap();
        assert_eq!(tick(&store, started.event, 10, 10, started.on_sale_at).await.admitted, 0);
        assert_eq!(store.draw(&started, seed).await.unwrap(), 0);
        // Another seed changes nothing any more.
        store.draw(&started, "winter").await.unwrap();
        let mut order = Vec::new();
        for user in users.iter().chain([&user("late")]) {
            let Standing::Waiting { ahead, .. } = store.visit(&started, user, false).await.unwrap().standing else {
                panic!("{user} is not in line");
            };
            order.push((ahead, user.clone()));
        }
        order.sort();
        assert_eq!(order.last().unwrap().1, user("late"));
        orders.push(order.into_iter().map(|(_, user)| user).collect::<Vec<_>>());
    }
    assert_eq!(orders[0], orders[1], "the same seed drew two orders");
    assert_ne!(orders[0], orders[2], "two seeds drew one order");
    // Coming early is no advantage: of the first hundred places, joiners of each half have about half.
    for order in &orders {
        let early = order[..100].iter().filter(|user| users[..200].contains(user)).count();
        assert!((25..=75).contains(&early), "{early} of the first hundred places went to the early half");
    }
}

#[tokio::test]
async fn a_lottery_starts_by_itself_and_tells_no_place_before() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(EventGate { mode: Mode::Lottery, on_sale_at: WallMs(now().0 + 1_500), ..gate(3) });
    let room = Room::open(&redis, &seats).await;
    let mut sessions = Vec::new();
    for n in 0..6 {
        let answer = room.join(&format!("fan-{n}")).await;
        assert_eq!((answer["state"].as_str(), answer["position"].as_u64()), (Some("pre_sale"), None), "{answer}");
        assert!(answer["token"].is_null() && answer["sale_starts_in"].as_u64().unwrap() <= 2, "{answer}");
        sessions.push(session(&answer));
    }
    until("three are in and three wait in places 1 to 3", || async {
        let answers = join_all(sessions.iter().map(|session| room.status(session))).await;
        let inside = answers.iter().filter(|answer| answer["state"] == "admitted").count();
        let places: BTreeSet<u64> = answers.iter().filter_map(|answer| answer["position"].as_u64()).collect();
        (inside == 3 && places == BTreeSet::from([0, 1, 2, 3])).then_some(())
    })
    .await;
    room.stop().await;
}

#[tokio::test]
async fn a_pass_that_ran_out_gives_priority_once() {
    let redis = RedisServer::start().await;
    let store = RedisStore::new(&Config { pass_ttl_seconds: 2, ..config(&redis) }).unwrap();
    let gate = gate(1);
    let (alice, bob) = (user("alice"), user("bob"));
    store.visit(&gate, &alice, true).await.unwrap();
    tick(&store, EVENT, 1, 1, gate.on_sale_at).await;
    assert!(is_inside(&store, &gate, &alice).await);
    store.visit(&gate, &bob, true).await.unwrap();
    for round in 0..2 {
        until("the pass runs out", || async {
            let visit = store.visit(&gate, &alice, false).await.unwrap();
            (!matches!(visit.standing, Standing::Inside { .. })).then_some(())
        })
        .await;
        let looking = store.visit(&gate, &alice, false).await.unwrap().standing;
        let joined = store.visit(&gate, &alice, true).await.unwrap().standing;
        if round == 0 {
            // The first time: ahead of Bob, who has waited all along.
            assert_eq!(looking, Standing::Expired);
            assert!(matches!(joined, Standing::Waiting { ahead: 0, .. }), "{joined:?}");
            tick(&store, EVENT, 1, 1, gate.on_sale_at).await;
            assert!(is_inside(&store, &gate, &alice).await);
        } else {
            assert_eq!(looking, Standing::Gone);
            assert!(matches!(joined, Standing::Waiting { ahead: 1, .. }), "{joined:?}");
        }
    }
}

#[tokio::test]
async fn a_held_reservation_keeps_its_slot_until_the_store_says_it_ended() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(1));
    let room = Room::with(Config { pass_ttl_seconds: 60, ..config(&redis) }, &seats).await;
    let store = RedisStore::new(&room.config).unwrap();
    let alice = session(&room.join("alice").await);
    let pass = room.until_state(&alice, "admitted").await["token"].as_str().unwrap().to_owned();
    let claims = room.passes.pass(&pass, EVENT, &user("alice"), now()).unwrap();
    let id = "1-0-0-5".parse().unwrap();
    let leases = store.leases();
    assert_eq!(leases.check(EVENT, &user("alice"), &claims.jti).await.unwrap(), queue::leases::Lease::Live);
    // A hold of no time at all: still inside, because the store has not said that it ended.
    leases.extend(EVENT, &user("alice"), id, 0).await.unwrap();
    let bob = session(&room.join("bob").await);
    for _ in 0..30 {
        assert_eq!(room.status(&bob).await["state"], "waiting");
        let answer = room.status(&alice).await;
        assert_eq!((answer["state"].as_str(), answer["token"].is_null()), (Some("checkout"), true), "{answer}");
        assert_eq!(answer["reservation_id"], "1-0-0-5", "the hold can be found again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The store being down frees nothing either.
    seats.change(|state| {
        state.ended.insert(id);
        state.down = true;
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(room.status(&bob).await["state"], "waiting");
    seats.change(|state| state.down = false);
    room.until_state(&bob, "admitted").await;
    assert_eq!(room.status(&alice).await["state"], "gone");
    // A late repetition for the old reservation frees nobody.
    assert!(!leases.free(EVENT, &user("alice"), id).await.unwrap());
    assert_eq!(room.status(&bob).await["state"], "admitted");
    room.stop().await;
}

#[tokio::test]
async fn a_free_of_one_reservation_never_frees_another() {
    let redis = RedisServer::start().await;
    let store = RedisStore::new(&config(&redis)).unwrap();
    let (alice, first, second) = (user("alice"), "1-0-0-1".parse().unwrap(), "1-0-0-2".parse().unwrap());
    store.leases().extend(EVENT, &alice, second, 60_000).await.unwrap();
    assert!(!store.leases().free(EVENT, &alice, first).await.unwrap());
    assert!(is_inside(&store, &gate(1), &alice).await);
    assert!(store.leases().free(EVENT, &alice, second).await.unwrap());
    assert!(!is_inside(&store, &gate(1), &alice).await);
}

#[tokio::test]
async fn sold_out_and_closed_are_told_to_everybody_and_stock_out_of_reach_too() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    seats.change(|state| state.stock = Stock { free: 1, held: 1, total: 9 });
    let room = Room::open(&redis, &seats).await;
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        sessions.push(session(&room.join(name).await));
    }
    assert_eq!(room.status(&sessions[1]).await["state"], "waiting");
    assert_eq!(room.status(&sessions[2]).await["state"], "unlikely");
    seats.change(|state| state.stock = Stock { free: 0, held: 0, total: 9 });
    room.until_state(&sessions[2], "sold_out").await;
    assert_eq!(room.join("newcomer").await["state"], "sold_out");
    // A refund brings a seat back: the line is where it was.
    seats.change(|state| state.stock.free = 1);
    let answer = room.until_state(&sessions[0], "waiting").await;
    assert_eq!(answer["position"], 1);
    seats.change(|state| state.gates[0].status = GateStatus::Closed);
    room.until_state(&sessions[0], "closed").await;
    room.stop().await;
}
