//! Looking around: the catalogue, geometry, maps in both forms, streams, and the pages.

use super::fakes::Shop;
use super::{Answer, get, hold, id_of, seat, send};
use crate::Config;
use crate::wire::catalogue::PageConfig;
use axum::body::Body;
use axum::http::{Request, header};
use domain::ids::{EventId, Partition, SectionId};
use http_body_util::BodyExt;
use raft_store::client::WatchItem;
use serde_json::json;
use tower::ServiceExt;

async fn get_with(shop: &Shop, path: &str, name: header::HeaderName, value: &str) -> Answer {
    send(&shop.router, Request::get(path).header(name, value).body(Body::empty()).expect("a request")).await
}

#[tokio::test]
async fn the_catalogue_says_what_a_page_needs() {
    let shop = Shop::open();
    let list = get(&shop, "/api/v1/events").await.json();
    assert_eq!(list["events"][0]["title"], "An evening");
    assert_eq!(list["events"][0]["status"], "on_sale");
    assert_eq!(list["events"][0]["capacity"], 25);
    let one = get(&shop, "/api/v1/events/1").await.json();
    assert_eq!(one["sections"][1], json!({"section": "Floor", "kind": "standing", "tier": "Stalls", "capacity": 5}));
    assert_eq!(one["hold_seconds"], 60);
    assert_eq!(one["links"]["layout"], "/api/v1/events/1/layout?version=3");
}

#[tokio::test]
async fn a_layout_is_kept_for_ever_under_its_version() {
    let shop = Shop::open();
    let layout = get(&shop, "/api/v1/events/1/layout?version=3").await;
    assert_eq!(layout.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(layout.json()["sections"][0]["rows"][1]["seats"][4], json!({"seat": "5", "x": 250, "y": 200}));
    let again =
        get_with(&shop, "/api/v1/events/1/layout?version=3", header::IF_NONE_MATCH, layout.header("etag")).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!(get(&shop, "/api/v1/events/1/layout").await.header("cache-control"), "public, max-age=60");
    let floor = get(&shop, "/api/v1/events/1/layout?section=Floor").await.json();
    assert_eq!(floor["sections"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn seats_are_two_bits_each_or_words_and_unchanged_ones_are_not_sent() {
    let shop = Shop::open();
    id_of(&hold(&shop, "alice", "k", &[seat("1", "1"), seat("1", "4")]).await);
    let path = "/api/v1/events/1/seats?section=A";
    let words = get(&shop, path).await;
    assert_eq!(words.header("cache-control"), "public, max-age=2");
    assert_eq!(words.json()["counts"], json!({"free": 18, "held": 2, "sold": 0, "blocked": 0}));
    assert_eq!(words.json()["seats"][3], json!({"row": "1", "seat": "4", "status": "held"}));
    assert_eq!(words.json()["price_cents"], 5_000);
    let bits = get_with(&shop, path, header::ACCEPT, "application/octet-stream").await;
    assert_eq!(bits.header("content-type"), "application/octet-stream");
    assert_eq!((bits.header("x-seat-count"), bits.header("x-seat-order")), ("20", "plan-3"));
    assert_eq!(bits.body, [0b01_00_00_01, 0, 0, 0, 0]);
    assert_ne!(words.header("etag"), bits.header("etag"));
    let again = get_with(&shop, path, header::IF_NONE_MATCH, words.header("etag")).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
}

#[tokio::test]
async fn an_announced_version_is_shown_and_never_taken_back() {
    let shop = Shop::open();
    let path = "/api/v1/events/1/seats?section=A";
    let before = get(&shop, path).await.json()["version"].as_u64().expect("a version");
    id_of(&hold(&shop, "alice", "k", &[seat("1", "1")]).await);
    // The watch tells this process; a map that is asked for with the announced version then shows the change.
    let wanted = format!("{path}&version={}", before + 1);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let now = get(&shop, &wanted).await.json();
        if now["version"].as_u64() > Some(before) {
            assert_eq!(now["counts"]["held"], 1);
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the change was never shown: {now}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(get(&shop, path).await.json()["version"].as_u64() > Some(before));
}

#[tokio::test]
async fn browsing_goes_on_from_memory_while_the_store_is_away() {
    let shop = Shop::with(Config { catalogue_refresh_ms: 0, seats_refresh_ms: 0, ..Config::default() });
    for path in ["/api/v1/events/1", "/api/v1/events/1/layout", "/api/v1/events/1/seats?section=A"] {
        assert_eq!(get(&shop, path).await.status, 200, "{path}");
    }
    *shop.store.down.lock().expect("a lock") = true;
    for path in ["/api/v1/events", "/api/v1/events/1/layout", "/api/v1/events/1/seats?section=A"] {
        assert_eq!(get(&shop, path).await.status, 200, "{path}");
    }
    // What was never known cannot be shown.
    let unknown = get(&shop, "/api/v1/events/1/seats?section=Floor").await;
    assert_eq!(unknown.problem(), (503, "STORE_UNAVAILABLE".to_owned()));
}

/// The next message of a stream.
async fn message(body: &mut Body) -> String {
    let wait = std::time::Duration::from_secs(10);
    let frame = tokio::time::timeout(wait, body.frame()).await.expect("a message in time");
    let data = frame.expect("the stream is open").expect("a frame").into_data().expect("data");
    String::from_utf8(data.to_vec()).expect("text")
}

#[tokio::test]
async fn a_stream_opens_with_a_reset_and_then_says_what_changed() {
    let shop = Shop::open();
    let request = Request::get("/api/v1/events/1/stream").body(Body::empty()).expect("a request");
    let response = shop.router.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    assert_eq!(message(&mut body).await, "event: reset\ndata: {}\n\n");
    let changed = |version| WatchItem::Changed {
        partition: Partition::Seats { event: EventId(1), section: SectionId(0) },
        version,
    };
    while shop.store.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    for version in [7, 9, 8] {
        shop.store.changes.send(changed(version)).expect("a watcher");
    }
    // Gathered into one message, with the newest version.
    assert_eq!(message(&mut body).await, "event: invalidate\ndata: {\"section\":\"A\",\"version\":9}\n\n");
    shop.store.changes.send(WatchItem::Reset).expect("a watcher");
    assert_eq!(message(&mut body).await, "event: reset\ndata: {}\n\n");
}

#[tokio::test]
async fn a_viewer_who_does_not_keep_up_is_disconnected() {
    let shop = Shop::with(Config { push_interval_ms: 1, ..Config::default() });
    let request = Request::get("/api/v1/events/1/stream").body(Body::empty()).expect("a request");
    let mut body = shop.router.clone().oneshot(request).await.expect("an answer").into_body();
    assert_eq!(message(&mut body).await, "event: reset\ndata: {}\n\n");
    let mut sent = 0;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // More messages than a viewer may be behind; then reading finds the end.
    while sent < 40 && std::time::Instant::now() < deadline {
        sent += usize::from(shop.store.changes.send(WatchItem::Reset).is_ok());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    while let Some(frame) =
        tokio::time::timeout(std::time::Duration::from_secs(10), body.frame()).await.expect("an end")
    {
        frame.expect("a frame");
    }
}

#[tokio::test]
async fn pages_come_with_a_policy_that_allows_only_our_planes() {
    let public = PageConfig { queue: "http://127.0.0.1:7001".into(), buy: "http://127.0.0.1:7002".into() };
    let shop = Shop::with(Config { public, ..Config::default() });
    let page = get(&shop, "/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("http://127.0.0.1:7002") && policy.contains("ws://127.0.0.1:7001"), "{policy}");
    assert_eq!(get(&shop, "/checkout").await.status, 200);
    assert_eq!(get(&shop, "/config.json").await.json()["buy"], "http://127.0.0.1:7002");
    assert_eq!(get(&shop, "/../Cargo.toml").await.problem().0, 404);
}

#[tokio::test]
async fn only_known_origins_may_call_from_a_page() {
    let config = Config { allowed_origins: vec!["http://shop.example".into()], ..Config::default() };
    let shop = Shop::with(config);
    let preflight = |origin: &'static str| {
        Request::options("/api/v1/reservations")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .body(Body::empty())
            .expect("a request")
    };
    let allowed = send(&shop.router, preflight("http://shop.example")).await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), "http://shop.example");
    assert!(allowed.header("access-control-allow-headers").contains("x-queue-token"));
    let other = send(&shop.router, preflight("http://evil.example")).await;
    assert_eq!(other.header("access-control-allow-origin"), "");
    let answer = get_with(&shop, "/api/v1/events", header::ORIGIN, "http://shop.example").await;
    assert_eq!(answer.header("access-control-allow-origin"), "http://shop.example");
    // Errors too: a page must be able to read why it was refused.
    let refused = get_with(&shop, "/api/v1/events/99", header::ORIGIN, "http://shop.example").await;
    assert_eq!(refused.header("access-control-allow-origin"), "http://shop.example");
}
