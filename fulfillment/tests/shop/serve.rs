//! Fulfilment as it runs in production, with PostgreSQL killed in the middle of the work.

use crate::support::Shop;
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use fulfillment::{Config, Parts};
use ledger::Payments;
use serde_json::json;
use std::time::{Duration, Instant};
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

async fn wait_for(shop: &Shop, payment: domain::ids::PaymentId, status: PaymentStatus) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = shop.buy.payment(payment).await;
        if found.as_ref().is_ok_and(|view| view.as_ref().is_some_and(|view| view.status() == status)) {
            return;
        }
        assert!(Instant::now() < deadline, "{payment} is {found:?}, not {status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_settles_when_the_ledger_returns() {
    let mut shop = Shop::open_with(Currency::EUR, true).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let parts = Parts {
        store: shop.store.clone(),
        ledger: shop.relay.clone(),
        provider: shop.provider.clone(),
        sealer: shop.sealer.clone(),
    };
    let config = Config { mail_folder: shop.mail.clone(), ..Config::default() };
    let operations = Operations::new("fulfillment");
    let serving = tokio::spawn(fulfillment::serve(config, parts, listener, operations, shutdown.clone()));

    let (_, before) = shop.order("ann", 2, Some("tok_visa")).await;
    wait_for(&shop, before, PaymentStatus::Succeeded).await;
    // Two that are charged, and whose events come while the ledger is down.
    shop.post("/simulator/switches", json!({"hold_events": true})).await;
    let (_, charged) = shop.order("bob", 2, Some("tok_visa")).await;
    let (late_hold, late) = shop.order("cid", 2, Some("tok_late_1")).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while shop.books().await["undelivered_events"].as_u64() < Some(3) {
        assert!(Instant::now() < deadline, "the provider was not asked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shop.server.kill();
    shop.post("/simulator/switches", json!({})).await;
    let ready = async || shop.http.get(format!("{url}/readyz")).send().await.unwrap().status().as_u16();
    let deadline = Instant::now() + Duration::from_secs(30);
    while ready().await != 503 {
        assert!(Instant::now() < deadline, "it does not say that the ledger is gone");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shop.server.run().await;
    wait_for(&shop, charged, PaymentStatus::Succeeded).await;
    wait_for(&shop, late, PaymentStatus::Succeeded).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while shop.tickets("bob").await.len() + shop.tickets("cid").await.len() < 4 || ready().await != 200 {
        assert!(Instant::now() < deadline, "tickets are missing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(shop.owned_by(late_hold.id), 2);
    let metrics = shop.http.get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("encore_fulfillment_outbox_oldest_unpublished_ms"), "{metrics}");
    shutdown.cancel();
    serving.await.unwrap().unwrap();
    shop.assert_money_is_conserved().await;
}
