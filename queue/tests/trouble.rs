//! Redis forgets, stops, hangs and comes back: fans are delayed, nobody is let in by it, and it heals by itself.

#![allow(missing_docs)]

mod support;

use queue::leases::{Lease, Leases};
use std::time::{Duration, Instant};
use support::{EVENT, RedisServer, Room, Seats, config, gate, now, session, until, user};

#[tokio::test]
async fn all_keys_deleted_holds_fail_closed_and_fans_join_again() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(1))).await;
    let leases = Leases::new(&redis.url(), Duration::from_millis(300)).unwrap();
    let alice = session(&room.join("alice").await);
    let bob = session(&room.join("bob").await);
    let pass = room.until_state(&alice, "admitted").await["token"].as_str().unwrap().to_owned();
    let old = room.passes.pass(&pass, EVENT, &user("alice"), now()).unwrap();
    assert_eq!(leases.check(EVENT, &user("alice"), &old.jti).await.unwrap(), Lease::Live);
    redis.command(&["FLUSHALL"]).await;
    // The signature is still good; the lease is not.
    assert_eq!(leases.check(EVENT, &user("alice"), &old.jti).await.unwrap(), Lease::None);
    assert_eq!(room.status(&alice).await["state"], "gone");
    assert_eq!(room.status(&bob).await["state"], "gone");
    // Bob is quicker now. His session still names him; joining gives a place.
    assert_eq!(room.join("bob").await["position"], 1);
    room.until_state(&bob, "admitted").await;
    room.join("alice").await;
    assert_eq!(room.status(&alice).await["state"], "waiting");
    assert_eq!(leases.check(EVENT, &user("alice"), &old.jti).await.unwrap(), Lease::None);
    // Alice's checkout ends well nevertheless: what the store granted, Redis learns again.
    leases.extend(EVENT, &user("alice"), "1-0-0-9".parse().unwrap(), 60_000).await.unwrap();
    assert_eq!(room.status(&alice).await["state"], "checkout");
    room.stop().await;
}

#[tokio::test]
async fn pass_ids_are_never_repeated_even_by_a_redis_that_forgot() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(1))).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let alice = session(&room.join("alice").await);
        let pass = room.until_state(&alice, "admitted").await["token"].as_str().unwrap().to_owned();
        ids.push(room.passes.pass(&pass, EVENT, &user("alice"), now()).unwrap());
        redis.command(&["FLUSHALL"]).await;
    }
    assert_ne!((&ids[0].jti, ids[0].iat), (&ids[1].jti, ids[1].iat));
    assert_ne!(ids[0].jti, ids[1].jti, "a used pass would block its successor");
    room.stop().await;
}

#[tokio::test]
async fn without_redis_everything_answers_try_again_and_heals() {
    let mut redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(1))).await;
    let leases = Leases::new(&redis.url(), Duration::from_millis(300)).unwrap();
    let alice = session(&room.join("alice").await);
    room.until_state(&alice, "admitted").await;
    redis.stop();
    let began = Instant::now();
    let joined = room.try_join("bob").await;
    joined.refuses(503, "QUEUE_UNAVAILABLE");
    assert!(joined.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    let url = room.url(&format!("/api/v1/events/1/queue/status?session={alice}"));
    room.send(|http| http.get(url)).await.refuses(503, "QUEUE_UNAVAILABLE");
    assert!(leases.check(EVENT, &user("alice"), &"any".parse().unwrap()).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(20), "nobody waits for a Redis that is gone");
    until("the operator is told", || async {
        let reply = room.send(|http| http.get(room.url("/readyz"))).await;
        (reply.status == 503 && reply.body["waiting_for"]["redis"].is_string()).then_some(())
    })
    .await;
    redis.run().await;
    let bob = until("joining works again", || async {
        let reply = room.try_join("bob").await;
        (reply.status == 200).then_some(reply.body)
    })
    .await;
    room.until_state(&session(&bob), "admitted").await;
    until("leases work again", || async { leases.check(EVENT, &user("alice"), &"any".parse().unwrap()).await.ok() })
        .await;
    room.stop().await;
}

#[tokio::test]
async fn a_redis_that_hangs_costs_a_quick_refusal() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(1))).await;
    room.join("alice").await;
    redis.freeze(true);
    room.try_join("bob").await.refuses(503, "QUEUE_UNAVAILABLE");
    redis.freeze(false);
    until("it goes on", || async { (room.try_join("bob").await.status == 200).then_some(()) }).await;
    room.stop().await;
}

#[tokio::test]
async fn starting_before_redis_is_no_error() {
    let mut redis = RedisServer::start().await;
    redis.stop();
    let room = Room::with(config(&redis), &Seats::with(gate(1))).await;
    room.try_join("alice").await.refuses(503, "QUEUE_UNAVAILABLE");
    redis.run().await;
    until("joining works", || async { (room.try_join("alice").await.status == 200).then_some(()) }).await;
    room.stop().await;
}
