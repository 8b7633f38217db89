//! A fan over the public doors, as a browser or `curl` would be: joins, waits, looks, holds, pays, fetches tickets. Used
//! by the demo's crowd and by the process-level tests.

use anyhow::{Context, Result, bail};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Where the doors of one sale are.
#[derive(Clone, Debug)]
pub struct Doors {
    /// The browse plane.
    pub browse: String,
    /// The buy plane's processes.
    pub buys: Vec<String>,
    /// The waiting room.
    pub queue: String,
}

/// An answer, as the fan sees it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The body; null when it was not JSON.
    pub body: Value,
}

impl Answer {
    /// The `error` of a refusal; empty otherwise.
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// A text field of the body; empty when it is not there.
    pub fn text(&self, field: &str) -> &str {
        self.body[field].as_str().unwrap_or_default()
    }

    /// Insist on a status.
    pub fn expect(self, status: u16) -> Result<Self> {
        if self.status != status {
            bail!("{status} was expected, and the answer was {}: {}", self.status, self.body);
        }
        Ok(self)
    }
}

/// A seat, as printed: section, row, seat.
pub type Seat = (String, String, String);

/// One fan.
#[derive(Clone)]
pub struct Fan {
    /// The `sub` of the token.
    pub name: String,
    /// The identity provider's token.
    pub token: String,
    /// Which of the buy plane's processes this fan's requests go to.
    pub buy: usize,
    http: reqwest::Client,
    doors: Doors,
}

impl Fan {
    /// A fan with this token.
    pub fn new(name: impl Into<String>, token: String, http: reqwest::Client, doors: Doors) -> Self {
        Self { name: name.into(), token, buy: 0, http, doors }
    }

    /// The same fan, through another process of the buy plane.
    pub fn through(mut self, buy: usize) -> Self {
        self.buy = buy;
        self
    }

    /// Where the buy plane is for this fan.
    pub fn buy_door(&self) -> &str {
        &self.doors.buys[self.buy % self.doors.buys.len()]
    }

    /// Any request with this fan's token.
    pub async fn call(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer> {
        let mut request = self.http.request(method, url).bearer_auth(&self.token).timeout(Duration::from_secs(40));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        read(request.send().await.with_context(|| format!("{url} did not answer"))?).await
    }

    /// Join the queue of an event.
    pub async fn join(&self, event: u32) -> Result<Answer> {
        self.call(Method::POST, &format!("{}/api/v1/events/{event}/queue/join", self.doors.queue), &[], None).await
    }

    /// Ask for the place in the queue, waiting for news for a while.
    pub async fn queue_status(&self, event: u32, session: &str, wait_ms: u64) -> Result<Answer> {
        let base = format!("{}/api/v1/events/{event}/queue/status", self.doors.queue);
        self.call(Method::GET, &format!("{base}?session={session}&wait_ms={wait_ms}"), &[], None).await
    }

    /// Join and wait until a pass is given; `None` when the event is sold out or closed meanwhile.
    pub async fn pass(&self, event: u32, patience: Duration) -> Result<Option<String>> {
        let begun = Instant::now();
        let mut session = String::new();
        while begun.elapsed() < patience {
            let answer = match session.as_str() {
                "" => self.join(event).await?,
                session => self.queue_status(event, session, 5_000).await?,
            };
            if answer.status == StatusCode::SERVICE_UNAVAILABLE || answer.status == StatusCode::TOO_MANY_REQUESTS {
                tokio::time::sleep(Duration::from_secs(answer.retry_after.unwrap_or(1))).await;
                continue;
            }
            let answer = answer.expect(200)?;
            if let Some(pass) = answer.body["token"].as_str() {
                return Ok(Some(pass.to_owned()));
            }
            match answer.text("state") {
                "sold_out" | "closed" => return Ok(None),
                // The pass ran out unused, or the place was lost: to the front, or to the end, again.
                "expired" | "gone" => session.clear(),
                _ => answer.text("session").clone_into(&mut session),
            }
        }
        bail!("{} had no pass for event {event} after {} s", self.name, patience.as_secs())
    }

    /// Hold these seats.
    pub async fn hold(&self, event: u32, seats: &[Seat], pass: &str, key: &str) -> Result<Answer> {
        self.hold_body(&hold_body(event, seats), pass, key).await
    }

    /// Hold what this body asks for.
    pub async fn hold_body(&self, body: &Value, pass: &str, key: &str) -> Result<Answer> {
        let url = format!("{}/api/v1/reservations", self.buy_door());
        self.call(Method::POST, &url, &[("Idempotency-Key", key), ("X-Queue-Token", pass)], Some(body)).await
    }

    /// Hold the best seats.
    pub async fn best(&self, event: u32, body: &Value, pass: &str, key: &str) -> Result<Answer> {
        let url = format!("{}/api/v1/events/{event}/best-available", self.buy_door());
        self.call(Method::POST, &url, &[("Idempotency-Key", key), ("X-Queue-Token", pass)], Some(body)).await
    }

    /// Read a reservation.
    pub async fn reservation(&self, id: &str) -> Result<Answer> {
        self.call(Method::GET, &format!("{}/api/v1/reservations/{id}", self.buy_door()), &[], None).await
    }

    /// Give a reservation up.
    pub async fn cancel(&self, id: &str, key: &str) -> Result<Answer> {
        let url = format!("{}/api/v1/reservations/{id}", self.buy_door());
        self.call(Method::DELETE, &url, &[("Idempotency-Key", key)], None).await
    }

    /// Pay for a reservation, as it was answered, with this card.
    pub async fn pay(&self, reservation: &Value, card: &str, key: &str) -> Result<Answer> {
        let id = reservation["reservation_id"].as_str().context("a reservation has an id")?;
        let body = json!({
            "payment_method": "card", "payment_token": card,
            "amount_cents": reservation["total_cents"], "currency": reservation["currency"],
        });
        let url = format!("{}/api/v1/reservations/{id}/payment", self.buy_door());
        self.call(Method::POST, &url, &[("Idempotency-Key", key)], Some(&body)).await
    }

    /// Where a payment stands.
    pub async fn payment(&self, id: &str) -> Result<Answer> {
        self.call(Method::GET, &format!("{}/api/v1/payments/{id}/status", self.buy_door()), &[], None).await
    }

    /// Poll a payment until it is no longer `processing` or `refund_pending`; its last word.
    pub async fn settled(&self, id: &str, patience: Duration) -> Result<String> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < patience {
            let answer = self.payment(id).await?;
            if answer.status == 200 {
                answer.text("status").clone_into(&mut last);
                if !matches!(last.as_str(), "processing" | "refund_pending") {
                    return Ok(last);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!("payment {id} of {} still said {last:?} after {} s", self.name, patience.as_secs())
    }

    /// The tickets of this fan.
    pub async fn tickets(&self) -> Result<Vec<Value>> {
        let url = format!("{}/api/v1/me/tickets", self.buy_door());
        let answer = self.call(Method::GET, &url, &[], None).await?.expect(200)?;
        Ok(answer.body["tickets"].as_array().cloned().unwrap_or_default())
    }

    /// What a wallet needs to show this ticket's code on this device.
    pub async fn wallet(&self, ticket: &str, device: &str) -> Result<Answer> {
        let url = format!("{}/api/v1/tickets/{ticket}/wallet?device={device}", self.buy_door());
        self.call(Method::GET, &url, &[], None).await
    }

    /// This device carries the ticket no more.
    pub async fn remove_device(&self, ticket: &str, device: &str, key: &str) -> Result<Answer> {
        let url = format!("{}/api/v1/tickets/{ticket}/wallet?device={device}", self.buy_door());
        self.call(Method::DELETE, &url, &[("Idempotency-Key", key)], None).await
    }

    /// Anything of the browse plane.
    pub async fn browse(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, &format!("{}{path}", self.doors.browse), &[], None).await
    }
}

/// The body of a hold for these seats.
pub fn hold_body(event: u32, seats: &[Seat]) -> Value {
    let seats: Vec<Value> =
        seats.iter().map(|(section, row, seat)| json!({"section": section, "row": row, "seat": seat})).collect();
    json!({"event_id": event, "seats": seats})
}

/// What came back.
pub async fn read(response: reqwest::Response) -> Result<Answer> {
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let text = response.text().await?;
    Ok(Answer { status, retry_after, body: serde_json::from_str(&text).unwrap_or(Value::Null) })
}
