//! Waiting over a WebSocket: told at intervals and at once, bounded, and dismissed politely.

#![allow(missing_docs)]

mod support;

use futures::{SinkExt, StreamExt};
use queue::{Config, Stock};
use serde_json::Value;
use std::time::Duration;
use support::{DEADLINE, RedisServer, Room, Seats, config, gate, session, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(room: &Room, session: &str) -> Self {
        let url = format!("ws://{}/api/v1/events/1/queue/ws?session={session}", room.address);
        Self(tokio_tungstenite::connect_async(url).await.unwrap().0)
    }

    async fn frame(&mut self) -> Option<Message> {
        tokio::time::timeout(DEADLINE, self.0.next()).await.expect("a frame in time").and_then(Result::ok)
    }

    async fn told(&mut self) -> Value {
        loop {
            match self.frame().await {
                Some(Message::Text(text)) => return serde_json::from_str(&text).unwrap(),
                Some(Message::Ping(_)) => {}
                other => panic!("{other:?} instead of an answer"),
            }
        }
    }

    async fn until(&mut self, state: &str) -> Value {
        loop {
            let answer = self.told().await;
            if answer["state"] == state {
                return answer;
            }
        }
    }

    async fn closed_with(&mut self) -> CloseCode {
        loop {
            match self.frame().await {
                Some(Message::Close(Some(frame))) => return frame.code,
                Some(Message::Text(_) | Message::Ping(_)) => {}
                other => panic!("{other:?} instead of a goodbye"),
            }
        }
    }
}

const SOCKETS: &str = "encore_queue_sockets{event=\"1\"}";

#[tokio::test]
async fn a_socket_is_told_the_place_again_and_again_and_the_turn_at_once() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    // The next push by itself would come too late for this test.
    let room = Room::with(Config { push_every_ms: 600_000, ..config(&redis) }, &seats).await;
    let (alice, bob) = (session(&room.join("alice").await), session(&room.join("bob").await));
    let mut first = Socket::open(&room, &alice).await;
    let mut second = Socket::open(&room, &bob).await;
    assert_eq!(first.told().await["position"], 1);
    assert_eq!(second.told().await["position"], 2);
    seats.change(|state| state.gates[0].capacity = 1);
    let answer = first.until("admitted").await;
    assert!(answer["token"].is_string() && answer["session"] == alice.as_str(), "{answer}");
    // The line has moved, and the one behind knows it too.
    loop {
        if second.told().await["position"] == 1 {
            break;
        }
    }
    seats.change(|state| state.stock = Stock { free: 0, held: 0, total: 9 });
    assert_eq!(second.until("sold_out").await["position"], Value::Null);
    assert_eq!(second.closed_with().await, CloseCode::Normal);
    room.stop().await;
}

#[tokio::test]
async fn an_open_socket_is_a_heartbeat_and_a_closed_one_is_not() {
    let redis = RedisServer::start().await;
    let seats = Seats::with(gate(0));
    let room = Room::with(Config { silence_ms: 1_500, ..config(&redis) }, &seats).await;
    let (alice, bob) = (session(&room.join("alice").await), session(&room.join("bob").await));
    let left = Socket::open(&room, &alice).await;
    let mut stays = Socket::open(&room, &bob).await;
    drop(left);
    loop {
        let answer = stays.told().await;
        assert_eq!(answer["state"], "waiting", "{answer}");
        if answer["position"] == 1 {
            break;
        }
    }
    assert_eq!(room.status(&alice).await["state"], "gone");
    assert!(room.metric("encore_queue_dropped_total{event=\"1\"}").await.is_some_and(|dropped| dropped >= 1.0));
    room.stop().await;
}

#[tokio::test]
async fn a_reader_that_never_reads_is_let_go() {
    let redis = RedisServer::start().await;
    let room = Room::with(Config { push_every_ms: 200, ..config(&redis) }, &Seats::with(gate(0))).await;
    let alice = session(&room.join("alice").await);
    // A client that upgrades and then neither reads nor answers a ping.
    let mut mute = TcpStream::connect(room.address).await.unwrap();
    let request = format!(
        "GET /api/v1/events/1/queue/ws?session={alice} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: \
         websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    mute.write_all(request.as_bytes()).await.unwrap();
    until("the socket is open", || async { (room.metric(SOCKETS).await? == 1.0).then_some(()) }).await;
    until("the socket is let go", || async { (room.metric(SOCKETS).await? == 0.0).then_some(()) }).await;
    let mut rest = Vec::new();
    tokio::time::timeout(DEADLINE, mute.read_to_end(&mut rest)).await.expect("the server hangs up").unwrap();
    assert!(rest.len() < 64 * 1024, "{} bytes were piled up for a client that reads nothing", rest.len());
    room.stop().await;
}

#[tokio::test]
async fn a_client_with_too_much_to_say_is_dismissed() {
    let redis = RedisServer::start().await;
    let room = Room::with(Config { push_every_ms: 600_000, ..config(&redis) }, &Seats::with(gate(0))).await;
    let alice = session(&room.join("alice").await);
    let mut chatty = Socket::open(&room, &alice).await;
    for _ in 0..100 {
        if chatty.0.send(Message::text("hello")).await.is_err() {
            break;
        }
    }
    assert_eq!(chatty.closed_with().await, CloseCode::Policy);
    let mut huge = Socket::open(&room, &alice).await;
    let _refused_half_way = huge.0.send(Message::binary(vec![0_u8; 1 << 20])).await;
    until("both are gone", || async { (room.metric(SOCKETS).await? == 0.0).then_some(()) }).await;
    assert_eq!(room.status(&alice).await["position"], 1, "the place does not hang on the socket");
    room.stop().await;
}

#[tokio::test]
async fn one_fan_has_a_few_sockets_and_not_more() {
    let redis = RedisServer::start().await;
    let room = Room::with(Config { max_sockets_per_fan: 2, ..config(&redis) }, &Seats::with(gate(0))).await;
    let alice = session(&room.join("alice").await);
    let mut open = vec![Socket::open(&room, &alice).await, Socket::open(&room, &alice).await];
    for socket in &mut open {
        assert_eq!(socket.told().await["position"], 1);
    }
    let url = format!("ws://{}/api/v1/events/1/queue/ws?session={alice}", room.address);
    let third = tokio_tungstenite::connect_async(&url).await;
    match third {
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => assert_eq!(response.status(), 429),
        other => panic!("a third socket was {other:?}"),
    }
    drop(open.pop());
    until("one is free again", || async { tokio_tungstenite::connect_async(&url).await.ok().map(drop) }).await;
    room.stop().await;
}

#[tokio::test]
async fn a_socket_outlives_a_lost_redis_and_says_what_is_wrong() {
    let mut redis = RedisServer::start().await;
    let room = Room::open(&redis, &Seats::with(gate(0))).await;
    let alice = session(&room.join("alice").await);
    let mut socket = Socket::open(&room, &alice).await;
    assert_eq!(socket.told().await["position"], 1);
    redis.stop();
    loop {
        let answer = socket.told().await;
        if answer["error"] == "QUEUE_UNAVAILABLE" {
            break;
        }
    }
    redis.run().await;
    // This Redis remembers nothing: the page is told to join again.
    socket.until("gone").await;
    room.join("alice").await;
    socket.until("waiting").await;
    room.stop().await;
}

#[tokio::test]
async fn a_stopping_server_says_that_it_goes_away() {
    let redis = RedisServer::start().await;
    let room = Room::with(Config { push_every_ms: 600_000, ..config(&redis) }, &Seats::with(gate(0))).await;
    let mut sockets = Vec::new();
    for n in 0..20 {
        let session = session(&room.join(&format!("fan-{n}")).await);
        sockets.push(Socket::open(&room, &session).await);
    }
    for socket in &mut sockets {
        socket.told().await;
    }
    room.begin_stop();
    for socket in &mut sockets {
        assert_eq!(socket.closed_with().await, CloseCode::Away);
    }
    tokio::time::timeout(Duration::from_secs(20), room.stop()).await.expect("stops in time");
}
