//! What one fan does, as fans do: waits, looks, collides, hesitates, gives up, pays, pays late, clicks twice.

use super::seats::Hall;
use super::tally::Tally;
use crate::fan::{Answer, Fan, hold_body};
use anyhow::{Result, bail};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a fan waits in line before going home.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a fan watches a payment.
const PAYING: Duration = Duration::from_secs(60);
/// How often a fan looks again after a collision.
const TRIES: u32 = 8;

/// What a fan came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Buys, with this card.
    Buy(&'static str),
    /// Lets the shop choose, and buys.
    BestAvailable,
    /// Holds and wanders off.
    Abandon,
    /// Holds and gives the seats back.
    Cancel,
    /// Starts paying in the last second.
    PayLate,
    /// Pays, and gives the seats up while the payment runs: the money must come back.
    PayAndCancel,
    /// Waits, looks, and leaves.
    Look,
}

impl Plan {
    /// One at random, in the proportions of a sale.
    pub fn draw(random: &mut StdRng) -> Self {
        match random.random_range(0..100) {
            0..40 => Self::Buy("tok_visa"),
            40..44 => Self::Buy("tok_duplicate"),
            44..47 => Self::Buy("tok_out_of_order"),
            47..50 => Self::Buy("tok_late_700"),
            50..52 => Self::Buy("tok_timeout_after_charge"),
            52..60 => Self::Buy("tok_declined"),
            60..70 => Self::BestAvailable,
            70..80 => Self::Abandon,
            80..86 => Self::Cancel,
            86..91 => Self::PayLate,
            91..94 => Self::PayAndCancel,
            _ => Self::Look,
        }
    }
}

/// A fan's whole visit. Every answer that no fan should ever get is an error.
pub async fn live(fan: &Fan, plan: Plan, hall: &Hall, tally: &Tally, mut random: StdRng) -> Result<()> {
    tally.joined();
    let Some(mut pass) = fan.pass(hall.event, PATIENCE).await? else {
        tally.sold_out();
        return Ok(());
    };
    tally.admitted();
    for attempt in 0..TRIES {
        think(&mut random, 50..800).await;
        let count = [1, 2, 2, 2, 3, 4][random.random_range(0..6)];
        if plan == Plan::Look {
            hall.choose(fan, count, &mut random).await?;
            return Ok(());
        }
        let key = format!("{}-{attempt}", fan.name);
        let answer = match ask(fan, plan, hall, count, &pass, &key, tally, &mut random).await? {
            Some(answer) => answer,
            None => {
                tally.sold_out();
                return Ok(());
            }
        };
        match (answer.status, answer.error()) {
            (201, _) => {
                tally.held(&answer);
                return afterwards(fan, plan, &answer.body, &key, tally, &mut random).await;
            }
            (409, "SEAT_UNAVAILABLE") | (404, "NO_MATCHING_SEATS") => tally.collided(),
            (403, "QUEUE_TOKEN_INVALID" | "QUEUE_TOKEN_USED") => {
                // Looked for too long: back in line.
                tally.sent_back();
                match fan.pass(hall.event, PATIENCE).await? {
                    Some(again) => pass = again,
                    None => {
                        tally.sold_out();
                        return Ok(());
                    }
                }
            }
            (503 | 429, _) => {
                tally.told_to_wait();
                tokio::time::sleep(Duration::from_secs(answer.retry_after.unwrap_or(1).min(3))).await;
            }
            _ => bail!("a hold was answered {}: {}", answer.status, answer.body),
        }
    }
    tally.gave_up();
    Ok(())
}

/// Ask for seats; one in ten clicks twice, and both clicks must get the same answer.
#[expect(clippy::too_many_arguments, reason = "one step of one visit, called once")]
async fn ask(
    fan: &Fan,
    plan: Plan,
    hall: &Hall,
    count: usize,
    pass: &str,
    key: &str,
    tally: &Tally,
    random: &mut StdRng,
) -> Result<Option<Answer>> {
    let begun = Instant::now();
    if plan == Plan::BestAvailable {
        let body = json!({"count": count, "preferences": {}});
        let answer = fan.best(hall.event, &body, pass, key).await?;
        tally.hold_took(begun.elapsed());
        return Ok(Some(answer));
    }
    let Some(seats) = hall.choose(fan, count, random).await? else { return Ok(None) };
    let body = hold_body(hall.event, &seats);
    let begun = Instant::now();
    if random.random_range(0..10) > 0 {
        let answer = fan.hold_body(&body, pass, key).await?;
        tally.hold_took(begun.elapsed());
        return Ok(Some(answer));
    }
    let twin = fan.clone().through(fan.buy + 1);
    let (one, two) = tokio::try_join!(fan.hold_body(&body, pass, key), twin.hold_body(&body, pass, key))?;
    tally.hold_took(begun.elapsed());
    tally.hold_took(begun.elapsed());
    for granted in [&one, &two].into_iter().filter(|answer| answer.status == 201) {
        tally.acknowledge(granted);
    }
    // The second may be told that the first is still being decided; two grants must be one reservation.
    if (one.status, two.status) == (201, 201) && one.body["reservation_id"] != two.body["reservation_id"] {
        bail!("one click twice gave two reservations: {} and {}", one.body, two.body);
    }
    Ok(Some(if two.status == 201 { two } else { one }))
}

async fn afterwards(fan: &Fan, plan: Plan, held: &Value, key: &str, tally: &Tally, random: &mut StdRng) -> Result<()> {
    let id = held["reservation_id"].as_str().unwrap_or_default();
    match plan {
        Plan::Buy(card) => {
            think(random, 100..3_000).await;
            pay(fan, held, card, key, tally).await
        }
        Plan::BestAvailable => {
            think(random, 100..1_500).await;
            pay(fan, held, "tok_visa", key, tally).await
        }
        Plan::Abandon | Plan::Look => {
            tally.abandoned();
            Ok(())
        }
        Plan::Cancel => {
            think(random, 200..2_000).await;
            cancel(fan, id, key, tally).await
        }
        Plan::PayLate => {
            let left = held["remaining_ms"].as_u64().unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(left.saturating_sub(random.random_range(0..600)))).await;
            pay(fan, held, "tok_late_1500", key, tally).await
        }
        Plan::PayAndCancel => {
            let paying = fan.pay(held, "tok_late_1000", &format!("{key}-pay")).await?;
            cancel(fan, id, key, tally).await?;
            match paying.status {
                202 => outcome(fan, &paying, tally).await,
                503 | 429 | 410 => Ok(()),
                _ => bail!("paying was answered {}: {}", paying.status, paying.body),
            }
        }
    }
}

async fn cancel(fan: &Fan, id: &str, key: &str, tally: &Tally) -> Result<()> {
    let answer = fan.cancel(id, &format!("{key}-cancel")).await?;
    match answer.status {
        200 | 204 => tally.cancelled(),
        // Paid, or run out, before the fan was done thinking.
        409 | 410 | 503 | 429 => {}
        _ => bail!("cancelling was answered {}: {}", answer.status, answer.body),
    }
    Ok(())
}

async fn pay(fan: &Fan, held: &Value, card: &str, key: &str, tally: &Tally) -> Result<()> {
    for attempt in 0..4 {
        let answer = fan.pay(held, card, &format!("{key}-pay")).await?;
        match answer.status {
            202 => return outcome(fan, &answer, tally).await,
            410 => {
                tally.too_late();
                return Ok(());
            }
            503 | 429 if attempt < 3 => {
                tokio::time::sleep(Duration::from_secs(answer.retry_after.unwrap_or(1).min(3))).await;
            }
            503 | 429 => return Ok(()),
            _ => bail!("paying was answered {}: {}", answer.status, answer.body),
        }
    }
    Ok(())
}

async fn outcome(fan: &Fan, paying: &Answer, tally: &Tally) -> Result<()> {
    match fan.settled(paying.text("payment_id"), PAYING).await?.as_str() {
        "succeeded" => tally.bought(fan),
        "failed" => tally.declined(),
        "refunded" => tally.refunded(),
        other => bail!("a payment ended as {other:?}"),
    }
    Ok(())
}

async fn think(random: &mut StdRng, ms: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.random_range(ms))).await;
}
