//! What has no outcome for a day: somebody is told, and it ends in a way that is known.

use crate::support::{Shop, now};
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use domain::time::WallMs;
use serde_json::json;

const HOUR_MS: u64 = 3_600_000;

/// The bank takes more than a day: an operator is told, the payment stays what it is, and its outcome closes the matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_processing_is_an_incident_and_no_outcome() {
    let shop = Shop::open(Currency::EUR).await;
    let (_, payment) = shop.order("ann", 1, Some("tok_processing")).await;
    shop.pass(WallMs(now().0 + 23 * HOUR_MS)).await;
    assert_eq!(shop.incidents().await, Vec::<String>::new());
    for hours in 24..27 {
        shop.pass(WallMs(now().0 + hours * HOUR_MS)).await;
    }
    assert_eq!(shop.incidents_at(WallMs(now().0 + 27 * HOUR_MS)).await, ["payment_unresolved"], "told once");
    assert_eq!(shop.status(payment).await, PaymentStatus::Processing);
    let reference = shop.intent(payment).await["id"].as_str().unwrap().to_owned();
    shop.post(&format!("/simulator/payment_intents/{reference}/finish"), json!({"succeed": true})).await;
    shop.until(payment, PaymentStatus::Succeeded).await;
    assert_eq!(shop.tickets("ann").await.len(), 1);
    assert_eq!(shop.incidents_at(WallMs(now().0 + 27 * HOUR_MS)).await, Vec::<String>::new());
    shop.assert_money_is_conserved().await;
}

/// The provider was never reached: given up, asked about for a day, and then an operator's task.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_nobody_can_tell_about_ends_as_an_operators_task() {
    let shop = Shop::open(Currency::EUR).await;
    shop.post("/simulator/switches", json!({"down": true})).await;
    let (held, payment) = shop.order("ann", 1, Some("tok_visa")).await;
    shop.until_at(payment, PaymentStatus::Failed, 10_000).await;
    shop.pass(WallMs(now().0 + 10_000)).await;
    assert_eq!(shop.owned_by(held.id), 0);
    shop.pass(WallMs(now().0 + 23 * HOUR_MS)).await;
    assert_eq!(shop.incidents_at(WallMs(now().0 + 27 * HOUR_MS)).await, Vec::<String>::new());
    shop.pass(WallMs(now().0 + 25 * HOUR_MS)).await;
    assert_eq!(shop.incidents_at(WallMs(now().0 + 27 * HOUR_MS)).await, ["payment_lost"]);
    assert_eq!(shop.status(payment).await, PaymentStatus::Failed);
}
