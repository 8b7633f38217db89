//! The description is complete and true: every address that it names is answered, and none besides.

use super::fakes::Shop;
use super::{Answer, get};
use crate::router::{admin_document, public_document};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::Value;
use tower::ServiceExt;

async fn is_routed(router: &Router, method: Method, path: &str) -> bool {
    let path = path.replace("{id}", "1").replace("{provider}", "stripe").replace("{code}", "X");
    let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("a router never fails");
    match response.status().as_u16() {
        405 => false,
        404 => Answer::of(response).await.problem().1 != "NOT_FOUND",
        // Not read to its end: a stream has none.
        _ => true,
    }
}

async fn walk(router: &Router, document: &Value) -> usize {
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        // The waiting room's, which another process answers.
        if path.contains("/queue/") {
            continue;
        }
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let described = item.get(method.as_str().to_lowercase()).is_some();
            assert_eq!(is_routed(router, method.clone(), path).await, described, "{method} {path}");
            operations += usize::from(described);
        }
    }
    operations
}

#[tokio::test]
async fn every_described_address_is_answered_and_no_other_method_is() {
    let shop = Shop::open();
    let document = serde_json::to_value(public_document()).expect("a document");
    assert_eq!(walk(&shop.router, &document).await, 18);
    let document = serde_json::to_value(admin_document()).expect("a document");
    assert_eq!(walk(&shop.admin, &document).await, 8);
}

/// Every schema that is referred to is there.
fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let pointer = reference.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            fields.values().for_each(|field| check_references(field, document));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(item, document)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_served_and_whole() {
    let shop = Shop::open();
    let document = get(&shop, "/openapi.json").await.json();
    let standing = &document["components"]["schemas"]["QueueStanding"]["properties"];
    assert!(standing["reservation_id"].is_object() && standing["token"].is_object(), "{standing}");
    check_references(&document, &document);
    for schema in
        ["ReserveRequest", "Reservation", "Problem", "PayRequest", "PaymentAccepted", "Ticket", "SectionSeats"]
    {
        assert!(document["components"]["schemas"].get(schema).is_some(), "{schema} is missing");
    }
    // Unknown fields are refused, and the description says so.
    assert_eq!(document["components"]["schemas"]["ReserveRequest"]["additionalProperties"], false);
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let mutates =
                matches!(method.as_str(), "post" | "delete") && !path.contains("webhooks") && !path.contains("/queue/");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let keyed = parameters.iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            assert_eq!(keyed, mutates, "{method} {path}");
        }
    }
}
