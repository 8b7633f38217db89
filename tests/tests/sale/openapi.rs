//! The API describes itself: the description is served, complete and consistent in itself.

use anyhow::{Context, Result};
use encore_tests::{Event, Sale};
use serde_json::Value;

/// Every `$ref` in the document, wherever it stands.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                found.push(target.clone());
            }
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_is_served_and_holds_together() -> Result<()> {
    let sale = Sale::of(Event::new().section("Block 1", 1, 2)).start().await?;
    let document = sale.fan("anybody").browse("/openapi.json").await?.expect(200)?.body;
    let version = document["openapi"].as_str().context("a version")?;
    assert!(version.starts_with("3."), "{version}");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());

    let paths = document["paths"].as_object().context("paths")?;
    for path in [
        "/api/v1/reservations",
        "/api/v1/reservations/{id}",
        "/api/v1/reservations/{id}/payment",
        "/api/v1/payments/{id}/status",
        "/api/v1/events",
        "/api/v1/events/{id}",
        "/api/v1/events/{id}/layout",
        "/api/v1/events/{id}/seats",
        "/api/v1/events/{id}/stream",
        "/api/v1/events/{id}/best-available",
        "/api/v1/me/tickets",
        "/api/v1/tickets/{id}",
        "/api/v1/tickets/{id}/wallet",
        "/api/v1/webhooks/payments/{provider}",
        "/api/v1/events/{id}/queue/join",
        "/api/v1/events/{id}/queue/status",
        "/api/v1/events/{id}/queue/ws",
    ] {
        let operations = paths.get(path).with_context(|| format!("{path} is not described"))?;
        for (method, operation) in operations.as_object().context("operations")? {
            if !["get", "post", "delete", "put", "patch"].contains(&method.as_str()) {
                continue;
            }
            let responses = operation["responses"].as_object().with_context(|| format!("{method} {path}"))?;
            assert!(!responses.is_empty(), "{method} {path} answers nothing");
            let named = path.matches('{').count();
            let given = operation["parameters"].as_array().map_or(0, |parameters| {
                parameters.iter().filter(|parameter| parameter["in"] == "path" && parameter["required"] == true).count()
            });
            assert_eq!(given, named, "{method} {path}: each part of the path is a required parameter");
        }
    }
    // The waiting room is another process than the one that describes it: what it says is what is described.
    let said = sale.fan("anybody").join(1).await?.expect(200)?.body;
    let said: Vec<&String> = said.as_object().context("an object")?.keys().collect();
    let described = &document["components"]["schemas"]["QueueStanding"]["properties"];
    let described: Vec<&String> = described.as_object().context("its fields")?.keys().collect();
    assert_eq!(said, described);

    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let pointer = target.strip_prefix('#').with_context(|| format!("{target} leads out of the document"))?;
        assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
    }
    Ok(())
}
