//! The contract as a client sees it, over a shop in memory.

mod bad_input;
mod browse;
mod buying;
mod contract;
mod fakes;
mod money;
mod office;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use fakes::Shop;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// What came back.
struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        Self { status: head.status, headers: head.headers, body }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }

    /// Status and code of an error, which must have the one shape and a sentence.
    fn problem(&self) -> (u16, String) {
        let body = self.json();
        let code = body["error"].as_str().unwrap_or_else(|| panic!("no code in {body}"));
        let message = body["message"].as_str().unwrap_or_else(|| panic!("no message in {body}"));
        assert!(message.ends_with('.') && message.len() > 10, "not a sentence: {message:?}");
        if matches!(self.status.as_u16(), 429 | 503) {
            assert!(self.header("retry-after").parse::<u64>().is_ok_and(|s| s > 0), "no Retry-After on {body}");
        }
        (self.status.as_u16(), code.to_owned())
    }
}

async fn send(router: &Router, request: Request<Body>) -> Answer {
    Answer::of(router.clone().oneshot(request).await.expect("a router never fails")).await
}

async fn get(shop: &Shop, path: &str) -> Answer {
    send(&shop.router, Request::get(path).body(Body::empty()).expect("a request")).await
}

/// A signed-in request; `extra` are more headers.
async fn ask(shop: &Shop, method: &str, path: &str, user: &str, extra: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", shop.token(user)))
        .header(header::CONTENT_TYPE, "application/json");
    for (name, value) in extra {
        request = request.header(*name, *value);
    }
    send(&shop.router, request.body(Body::from(body.to_owned())).expect("a request")).await
}

async fn office(shop: &Shop, method: &str, path: &str, key: &str, body: &Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", shop.operator()))
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body.to_string()))
        .expect("a request");
    send(&shop.admin, request).await
}

fn seat(row: &str, seat: &str) -> Value {
    json!({"section": "A", "row": row, "seat": seat})
}

/// Hold these seats as a fan who was just let in.
async fn hold(shop: &Shop, user: &str, key: &str, seats: &[Value]) -> Answer {
    let pass = shop.admit(user);
    hold_with(shop, user, key, &pass, &json!({"event_id": 1, "seats": seats})).await
}

async fn hold_with(shop: &Shop, user: &str, key: &str, pass: &str, body: &Value) -> Answer {
    let extra = [("idempotency-key", key), ("x-queue-token", pass)];
    ask(shop, "POST", "/api/v1/reservations", user, &extra, &body.to_string()).await
}

/// The reservation id of a hold that was granted.
fn id_of(answer: &Answer) -> String {
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.json());
    answer.json()["reservation_id"].as_str().expect("an id").to_owned()
}
