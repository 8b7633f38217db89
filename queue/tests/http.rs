//! The contract over HTTP: bad input is refused with a code and a sentence, and pages of other origins may call.

#![allow(missing_docs)]

mod support;

use domain::ids::EventId;
use domain::time::WallMs;
use queue::token::{Fan, Signer, generate_key_pem};
use queue::{Config, EventGate, GateStatus, Load, Stock};
use serde_json::json;
use std::time::{Duration, Instant};
use support::{DEADLINE, EVENT, RedisServer, Room, Seats, config, gate, now, session, until, user};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const JOIN: &str = "/api/v1/events/1/queue/join";

#[tokio::test]
async fn joining_needs_a_login() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(0))).await;
    let url = room.url(JOIN);
    room.send(|http| http.post(&url)).await.refuses(401, "UNAUTHORIZED");
    room.send(|http| http.post(&url).header("authorization", "Basic YTpi")).await.refuses(401, "UNAUTHORIZED");
    room.send(|http| http.post(&url).header("authorization", "Bearer")).await.refuses(401, "UNAUTHORIZED");
    room.send(|http| http.post(&url).bearer_auth("a.b.c")).await.refuses(401, "UNAUTHORIZED");
    let fan = Fan { user: user("alice"), operator: false, email: None, expires: WallMs(now().0 - 1_000) };
    let sign = |signer: &Signer, aud: &str, fan: &Fan| signer.sign_fan(&room.config.fan_issuer, aud, fan);
    let expired = sign(&room.fans, &room.config.fan_audience, &fan);
    let fan = Fan { expires: WallMs(now().0 + 60_000), ..fan };
    let foreign = sign(&room.fans, "another-shop", &fan);
    let forged = sign(&Signer::from_pem(&generate_key_pem()).unwrap(), &room.config.fan_audience, &fan);
    for token in [expired, foreign, forged] {
        let reply = room.send(|http| http.post(&url).bearer_auth(token)).await;
        reply.refuses(401, "UNAUTHORIZED");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    room.stop().await;
}

#[tokio::test]
async fn bad_requests_are_refused_in_words_and_change_nothing() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(0))).await;
    let token = room.token("alice");
    let url = room.url(JOIN);
    for body in ["{", "[]", "null", "{\"seat\": 1}", "hello", "{} {}"] {
        let reply = room.send(|http| http.post(&url).bearer_auth(&token).body(body)).await;
        reply.refuses(400, "BAD_REQUEST");
    }
    let huge = "x".repeat(100_000);
    room.send(|http| http.post(&url).bearer_auth(&token).body(huge)).await.refuses(413, "BODY_TOO_LARGE");
    for id in ["2", "0", "-1", "x", "1.0", "99999999999", "%7Be1%7D"] {
        let url = room.url(&format!("/api/v1/events/{id}/queue/join"));
        room.send(|http| http.post(url).bearer_auth(&token)).await.refuses(404, "EVENT_NOT_FOUND");
    }
    room.send(|http| http.delete(&url).bearer_auth(&token)).await.refuses(405, "METHOD_NOT_ALLOWED");
    room.send(|http| http.get(room.url("/nowhere"))).await.refuses(404, "NOT_FOUND");
    for query in ["", "?session=", "?sesion=x", "?session=x&extra=1", "?session=x&wait_ms=soon"] {
        let url = room.url(&format!("/api/v1/events/1/queue/status{query}"));
        let reply = room.send(|http| http.get(url)).await;
        assert!([400, 401].contains(&reply.status), "{query}: {:?}", reply.body);
        let code = if reply.status == 400 { "BAD_REQUEST" } else { "SESSION_INVALID" };
        reply.refuses(reply.status, code);
    }
    // Nobody is in line because of any of this.
    assert_eq!(room.join("first").await["position"], 1);
    // An empty object is no body.
    let reply = room.send(|http| http.post(&url).bearer_auth(&token).body("{}")).await;
    assert_eq!((reply.status, reply.body["position"].as_u64()), (200, Some(2)));
    room.stop().await;
}

#[tokio::test]
async fn a_session_is_for_one_fan_and_one_event() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    seats.change(|state| state.gates.push(EventGate { event: EventId(2), ..gate(0) }));
    let room = Room::open(&redis, &seats).await;
    let alice = session(&room.join("alice").await);
    let elsewhere = room.url(&format!("/api/v1/events/2/queue/status?session={alice}"));
    room.send(|http| http.get(elsewhere)).await.refuses(401, "SESSION_INVALID");
    for forged in [room.token("alice"), format!("{alice}x"), alice[..alice.len() - 4].to_owned(), "x".repeat(5_000)] {
        for path in ["status", "ws"] {
            let url = room.url(&format!("/api/v1/events/1/queue/{path}?session={forged}"));
            room.send(|http| http.get(url)).await.refuses(401, "SESSION_INVALID");
        }
    }
    // A good session on the socket's address, without a socket.
    let url = room.url(&format!("/api/v1/events/1/queue/ws?session={alice}"));
    room.send(|http| http.get(url)).await.refuses(426, "WEBSOCKET_REQUIRED");
    // A session is no login and no pass.
    let url = room.url(JOIN);
    room.send(|http| http.post(url).bearer_auth(&alice)).await.refuses(401, "UNAUTHORIZED");
    assert!(room.passes.pass(&alice, EVENT, &user("alice"), now()).is_err());
    room.stop().await;
}

#[tokio::test]
async fn a_long_poll_answers_at_once_when_the_turn_comes_and_at_the_latest_when_asked() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    let room = Room::open(&redis, &seats).await;
    let alice = session(&room.join("alice").await);
    let poll = |wait_ms: u64| room.url(&format!("/api/v1/events/1/queue/status?session={alice}&wait_ms={wait_ms}"));
    let reply = room.send(|http| http.get(poll(50))).await;
    assert_eq!((reply.status, reply.body["state"].as_str()), (200, Some("waiting")));
    let began = Instant::now();
    let open = async {
        until("the poll waits", || async { (began.elapsed() > Duration::from_millis(300)).then_some(()) }).await;
        seats.change(|state| state.gates[0].capacity = 1);
    };
    let (reply, ()) = tokio::join!(room.send(|http| http.get(poll(600_000))), open);
    assert_eq!((reply.status, reply.body["state"].as_str()), (200, Some("admitted")), "{:?}", reply.body);
    // What is decided is answered without waiting.
    let reply = room.send(|http| http.get(poll(600_000))).await;
    assert_eq!(reply.body["state"], "admitted");
    room.stop().await;
}

#[tokio::test]
async fn pages_of_allowed_origins_may_call_and_no_answer_is_kept() {
    let redis = RedisServer::start().await;
    let shop = "https://tickets.example";
    let config = Config { allowed_origins: vec![shop.into()], ..config(&redis) };
    let room = Room::with(config, &Seats::with(gate(0))).await;
    let preflight = |origin: &'static str| {
        let url = room.url(JOIN);
        room.send(move |http| {
            http.request(reqwest::Method::OPTIONS, url)
                .header("origin", origin)
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "authorization")
        })
    };
    let reply = preflight(shop).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, Some(shop)));
    assert!(reply.header("access-control-allow-headers").is_some_and(|headers| headers.contains("authorization")));
    assert_eq!(preflight("https://elsewhere.example").await.header("access-control-allow-origin"), None);
    // Refusals can be read too, or the page could not say why.
    let url = room.url(JOIN);
    let reply = room.send(|http| http.post(url).header("origin", shop)).await;
    reply.refuses(401, "UNAUTHORIZED");
    assert_eq!(reply.header("access-control-allow-origin"), Some(shop));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("vary"), Some("origin"));
    room.stop().await;
}

#[tokio::test]
async fn the_operator_turns_the_dial_and_nobody_else_does() {
    let redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(1))).await;
    let url = format!("http://{}/admin/events/1/queue", room.admin);
    let operator = room.token_as("olga", true);
    room.send(|http| http.put(&url).body("{}")).await.refuses(401, "UNAUTHORIZED");
    room.send(|http| http.get(&url).bearer_auth(room.token("alice"))).await.refuses(403, "FORBIDDEN");
    room.send(|http| http.put(&url).bearer_auth(room.token("alice")).body("{}")).await.refuses(403, "FORBIDDEN");
    for bad in
        ["", "{", "[3]", "[]", "{\"capacty\": 3}", "{\"capacity\": -1}", "{\"capacity\": 9000000}", "{\"paused\": 1}"]
    {
        let reply = room.send(|http| http.put(&url).bearer_auth(&operator).body(bad)).await;
        reply.refuses(400, "BAD_REQUEST");
    }
    let other = url.replace("/1/", "/5/");
    room.send(|http| http.get(other).bearer_auth(&operator)).await.refuses(404, "EVENT_NOT_FOUND");
    // The fans' listener has no dials.
    let public = room.url("/admin/events/1/queue");
    room.send(|http| http.get(public).bearer_auth(&operator)).await.refuses(404, "NOT_FOUND");

    let turn = |dial: serde_json::Value| {
        let request = (url.clone(), operator.clone(), dial.to_string());
        room.send(move |http| http.put(request.0).bearer_auth(request.1).body(request.2))
    };
    let reply = turn(json!({"paused": true})).await;
    assert_eq!((reply.status, &reply.body["dial"]["paused"]), (200, &json!(true)), "{:?}", reply.body);
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        sessions.push(session(&room.join(name).await));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(room.status(&sessions[0]).await["state"], "waiting", "let in while paused");
    // Redis forgetting everything does not undo the pause: the fans are gone, the dial is put back.
    redis.command(&["FLUSHALL"]).await;
    let again = session(&room.join("a").await);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(room.status(&again).await["state"], "waiting", "let in after Redis forgot the pause");
    turn(json!({"capacity": 2})).await;
    for name in ["b", "c"] {
        sessions.push(session(&room.join(name).await));
    }
    room.until_state(&again, "admitted").await;
    room.until_state(&sessions[3], "admitted").await;
    assert_eq!(room.status(&sessions[4]).await["state"], "waiting");
    room.stop().await;
}

#[tokio::test]
async fn trouble_at_the_provider_pauses_admission_and_the_dial_overrules_it() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(5));
    seats.change(|state| state.load = Some(Load { hold_p99_ms: None, provider_error_ratio: Some(0.5) }));
    let room = Room::open(&redis, &seats).await;
    let alice = session(&room.join("alice").await);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(room.status(&alice).await["state"], "waiting");
    let url = format!("http://{}/admin/events/1/queue", room.admin);
    let operator = room.token_as("olga", true);
    room.send(|http| http.put(url).bearer_auth(operator).body("{\"paused\": false}")).await;
    room.until_state(&alice, "admitted").await;
    room.stop().await;
}

#[tokio::test]
async fn slow_holds_let_fewer_in_and_the_next_admitter_goes_on_from_there() {
    let redis = RedisServer::start().await;
    let config = Config { batch: 10, ..config(&redis) };
    let seats = Seats::with(gate(1_000));
    seats.change(|state| state.load = Some(Load { hold_p99_ms: Some(450.0), provider_error_ratio: None }));
    let room = Room::with(config.clone(), &seats).await;
    let pace = || async {
        let kept = redis.command(&["HGET", "encore:{e1}:meta", "pace"]).await;
        let redis::Value::BulkString(text) = kept else { return None };
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()["batch"].as_f64()
    };
    assert_eq!(until("the pace is decided", pace).await, 8.0, "ten, less a fifth");
    room.stop().await;
    // It is the sale's, not the process's: another one does not begin with the configured batch again.
    seats.change(|state| state.load = None);
    let room = Room::with(config, &seats).await;
    let mut sessions = Vec::new();
    for number in 0..9 {
        sessions.push(session(&room.join(&format!("fan-{number}")).await));
    }
    for waiting in &sessions {
        room.until_state(waiting, "admitted").await;
    }
    assert_eq!(pace().await, Some(8.0));
    room.stop().await;
}

#[tokio::test]
async fn nobody_enters_before_the_sale_and_everybody_is_told_when_it_starts() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(EventGate { on_sale_at: WallMs(now().0 + 2_500), ..gate(1) });
    let room = Room::open(&redis, &seats).await;
    let alice = room.join("alice").await;
    assert_eq!((alice["state"].as_str(), alice["position"].as_u64()), (Some("pre_sale"), Some(1)), "{alice}");
    assert!((1..=3).contains(&alice["sale_starts_in"].as_u64().unwrap()), "{alice}");
    let answer = room.until_state(&session(&alice), "admitted").await;
    let claims = room.passes.pass(answer["token"].as_str().unwrap(), EVENT, &user("alice"), now()).unwrap();
    assert!(claims.iat * 1_000 >= seats_start(&seats) - 1_000, "let in before the sale");
    assert!(claims.exp - claims.iat <= 300);
    room.stop().await;
}

fn seats_start(seats: &Seats) -> u64 {
    let mut start = 0;
    seats.change(|state| start = state.gates[0].on_sale_at.0);
    start
}

#[tokio::test]
async fn the_store_going_away_changes_nothing_for_those_who_wait_and_an_event_taken_down_closes() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    let room = Room::open(&redis, &seats).await;
    let alice = session(&room.join("alice").await);
    seats.change(|state| state.down = true);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(room.status(&alice).await["position"], 1);
    assert_eq!(room.join("bob").await["position"], 2);
    seats.change(|state| {
        state.down = false;
        state.gates[0].status = GateStatus::Closed;
    });
    room.until_state(&alice, "closed").await;
    seats.change(|state| state.gates.clear());
    until("the event is gone", || async { (room.try_join("alice").await.status == 404).then_some(()) }).await;
    room.stop().await;
}

#[tokio::test]
async fn before_the_store_has_ever_answered_nobody_is_told_that_an_event_does_not_exist() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(1));
    seats.change(|state| state.down = true);
    let open = Room::open(&redis, &seats);
    let come_up = async {
        // `Room::open` waits for the store; meanwhile nothing can be known.
        tokio::time::sleep(Duration::from_millis(500)).await;
        seats.change(|state| state.down = false);
    };
    let (room, ()) = tokio::join!(open, come_up);
    room.join("alice").await;
    room.stop().await;
}

#[tokio::test]
async fn a_room_that_is_full_says_so() {
    let redis = RedisServer::start().await;
    let config = Config { max_waiting: 2, max_sockets: 1, ..config(&redis) };
    let room = Room::with(config, &Seats::with(gate(0))).await;
    let alice = session(&room.join("alice").await);
    room.join("bob").await;
    let reply = room.try_join("carol").await;
    reply.refuses(503, "QUEUE_FULL");
    assert!(reply.header("retry-after").is_some());
    // Who is in already is not in the way of themselves.
    assert_eq!(room.join("alice").await["position"], 1);
    let url = room.url(&format!("/api/v1/events/1/queue/status?session={alice}&wait_ms=3000"));
    let both = tokio::join!(room.send(|http| http.get(&url)), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        room.send(|http| http.get(&url)).await
    });
    assert_eq!(both.0.status, 200);
    both.1.refuses(503, "QUEUE_FULL");
    room.stop().await;
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_is_cut_off() {
    let redis = RedisServer::start().await;
    let config = Config { header_timeout_ms: 300, ..config(&redis) };
    let room = Room::with(config, &Seats::with(gate(0))).await;
    let mut slow = tokio::net::TcpStream::connect(room.address).await.unwrap();
    slow.write_all(b"GET /api/v1/events/1/queue/join HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, slow.read_to_end(&mut answer)).await.expect("it is cut off").unwrap();
    room.join("alice").await;
    room.stop().await;
}

#[tokio::test]
async fn every_process_says_how_it_is() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(1));
    seats.change(|state| state.stock = Stock { free: 5, held: 0, total: 5 });
    let room = Room::open(&redis, &seats).await;
    let alice = session(&room.join("alice").await);
    room.until_state(&alice, "admitted").await;
    room.join("bob").await;
    until("metrics tell", || async {
        let inside = room.metric("encore_queue_inside{event=\"1\"}").await?;
        let waiting = room.metric("encore_queue_waiting{event=\"1\"}").await?;
        let admitted = room.metric("encore_queue_admitted_total{event=\"1\"}").await?;
        ((inside, waiting, admitted) == (1.0, 1.0, 1.0)).then_some(())
    })
    .await;
    let reply = room.send(|http| http.get(room.url("/healthz"))).await;
    assert_eq!(reply.status, 200);
    until("ready", || async { (room.send(|http| http.get(room.url("/readyz"))).await.status == 200).then_some(()) })
        .await;
    room.stop().await;
}
