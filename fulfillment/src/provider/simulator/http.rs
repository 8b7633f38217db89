//! The simulator's HTTP door: Stripe's subset under `/v1`, its own switches and books under `/simulator`.

use super::books::{Answered, Books, Intent, Refund, intent_json, refund_json};
use super::form::{self, Form};
use super::trouble::{Switches, Trouble};
use super::{Shared, now_ms};
use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Attempts that an unavailable card answers 500.
const UNAVAILABLE_TRIES: u32 = 3;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let stripe = Router::new()
        .route("/v1/payment_intents", post(create_intent))
        .route("/v1/payment_intents/search", get(search_intents))
        .route("/v1/payment_intents/{id}", get(read_intent))
        .route("/v1/payment_intents/{id}/confirm", post(confirm_intent))
        .route("/v1/payment_intents/{id}/cancel", post(cancel_intent))
        .route("/v1/refunds", post(create_refund).get(list_refunds))
        .route("/v1/refunds/{id}", get(read_refund))
        .layer(from_fn_with_state(shared.clone(), when_down));
    let own = Router::new()
        .route("/simulator/switches", get(read_switches).post(set_switches))
        .route("/simulator/payment_intents/{id}/finish", post(finish_intent))
        .route("/simulator/refunds/{id}/finish", post(finish_refund))
        .route("/simulator/ledger", get(ledger));
    let unknown = || async { Refusal::new(404, "resource_missing", "unrecognized request URL") };
    let router = stripe.merge(own).fallback(unknown).method_not_allowed_fallback(unknown);
    router.with_state(shared).layer(from_fn(any_origin))
}

/// A browser confirms with its client secret from another origin.
async fn any_origin(request: Request, next: Next) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    response
}

async fn when_down(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if shared.switches().down {
        return Refusal::new(503, "api_error", "the provider is down").into_response();
    }
    next.run(request).await
}

/// An answer that is not what was asked for.
struct Refusal(StatusCode, Value);

impl Refusal {
    fn new(status: u16, code: &str, message: &str) -> Self {
        let kind = match (status, code) {
            (402, _) => "card_error",
            (_, "idempotency_error") => "idempotency_error",
            (500.., _) => "api_error",
            _ => "invalid_request_error",
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        Self(status, json!({"error": {"type": kind, "code": code, "message": message}}))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

/// A JSON body; what is not one is refused like everything else.
struct Sent<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Refusal::new(400, "parameter_unknown", &rejection.body_text())),
        }
    }
}

type Answer = Result<Json<Value>, Refusal>;

impl Shared {
    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let known = bearer.and_then(|value| value.strip_prefix("Bearer ")) == Some(&self.config.api_key);
        if known { Ok(()) } else { Err(Refusal::new(401, "invalid_api_key", "no such API key")) }
    }

    fn event_delay(&self) -> u64 {
        self.config.webhook_delay_ms + self.switches().event_delay_ms
    }

    /// Do `work` once under the request's key: the same request gets the same answer, another one is refused.
    fn once(&self, headers: &HeaderMap, path: &str, body: &str, work: impl FnOnce(&mut Books) -> Answer) -> Answer {
        let key = headers.get("Idempotency-Key").and_then(|value| value.to_str().ok());
        let request = format!("{path}?{body}");
        let mut books = self.books();
        if let Some(known) = key.and_then(|key| books.answers.get(key)) {
            if known.request != request {
                let message = "this key was used with other parameters";
                return Err(Refusal::new(400, "idempotency_error", message));
            }
            let status = StatusCode::from_u16(known.status).unwrap_or(StatusCode::OK);
            let body = known.body.clone();
            return if status.is_success() { Ok(Json(body)) } else { Err(Refusal(status, body)) };
        }
        let answer = work(&mut books);
        let (status, body) = match &answer {
            Ok(Json(body)) => (StatusCode::OK, body),
            Err(Refusal(status, body)) => (*status, body),
        };
        // What failed before anything was done is not bound to the key.
        if let Some(key) = key.filter(|_| !status.is_server_error()) {
            books.keep_answer(Answered { key: key.into(), request, status: status.as_u16(), body: body.clone() });
        }
        drop(books);
        self.events.notify_one();
        answer
    }
}

fn number(form: &Form, name: &str) -> Result<i64, Refusal> {
    let found = form.get(name).and_then(|text| text.parse().ok()).filter(|number| *number >= 0);
    found.ok_or_else(|| Refusal::new(400, "parameter_invalid_integer", &format!("{name} must be an integer")))
}

fn missing(what: &str) -> Refusal {
    Refusal::new(404, "resource_missing", &format!("no such {what}"))
}

fn read_form(body: &str) -> Result<Form, Refusal> {
    form::read(body).ok_or_else(|| Refusal::new(400, "parameter_unknown", "the body is not a form"))
}

async fn create_intent(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Answer {
    shared.authorize(&headers)?;
    let form = read_form(&body)?;
    let (amount, metadata) = (number(&form, "amount")?, form::metadata(&form));
    let currency = form.get("currency").filter(|code| code.len() == 3).cloned();
    let currency = currency.ok_or_else(|| Refusal::new(400, "parameter_missing", "currency is required"))?;
    let key = headers.get("Idempotency-Key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let token = form.get("payment_method").cloned();
    let confirm = form.get("confirm").is_some_and(|confirm| confirm == "true");
    let forced = shared.switches().trouble;
    let trouble = forced.unwrap_or_else(|| token.as_deref().map_or(Trouble::Smooth, Trouble::of_token));
    let delay = shared.event_delay();
    let answer = shared.once(&headers, "/v1/payment_intents", &body, |books| {
        let failures = books.failures.entry(key).or_default();
        if trouble == Trouble::Unavailable && *failures < UNAVAILABLE_TRIES {
            *failures += 1;
            return Err(Refusal::new(500, "api_error", "try again"));
        }
        let id = Books::fresh_id("pi");
        books.keep_intent(Intent {
            client_secret: format!("{id}_secret_{}", uuid::Uuid::new_v4().simple()),
            id: id.clone(),
            amount,
            currency: currency.to_ascii_lowercase(),
            status: "requires_payment_method".into(),
            received: 0,
            refunded: 0,
            error: None,
            metadata,
            created: now_ms(),
            trouble,
            charge_at: None,
        });
        if confirm { confirm_in(books, &id, trouble, delay) } else { Ok(Json(intent_json(&books.intents[&id]))) }
    });
    hang(&shared, trouble, confirm).await;
    answer
}

/// Keep the caller waiting longer than it will.
async fn hang(shared: &Shared, trouble: Trouble, charged: bool) {
    if charged && trouble == Trouble::TimeoutAfterCharge {
        tokio::time::sleep(Duration::from_millis(shared.config.hang_ms)).await;
    }
}

fn confirm_in(books: &mut Books, id: &str, trouble: Trouble, delay: u64) -> Answer {
    let Some(mut intent) = books.intents.get(id).cloned() else { return Err(missing("payment_intent")) };
    if intent.status != "requires_payment_method" {
        let message = format!("this payment is {}", intent.status);
        return Err(Refusal::new(400, "payment_intent_unexpected_state", &message));
    }
    intent.trouble = trouble;
    match trouble {
        Trouble::Processing | Trouble::Late(_) => {
            intent.status = "processing".into();
            intent.charge_at = if let Trouble::Late(ms) = trouble { Some(now_ms() + ms) } else { None };
            books.keep_intent(intent.clone());
            books.announce("payment_intent.processing", &intent_json(&intent), delay, trouble);
        }
        Trouble::Declined => {
            books.keep_intent(intent);
            books.decline(id, "generic_decline", delay);
            let mut refusal = Refusal::new(402, "card_declined", "Your card was declined.");
            refusal.1["error"]["decline_code"] = "generic_decline".into();
            refusal.1["error"]["payment_intent"] = intent_json(&books.intents[id]);
            return Err(refusal);
        }
        Trouble::Forged => {
            let mut claimed = intent_json(&intent);
            claimed["status"] = "succeeded".into();
            claimed["amount_received"] = intent.amount.into();
            books.keep_intent(intent);
            books.announce("payment_intent.succeeded", &claimed, delay, Trouble::Forged);
        }
        _ => {
            books.keep_intent(intent);
            books.charge(id, delay);
        }
    }
    Ok(Json(intent_json(&books.intents[id])))
}

#[derive(Deserialize)]
struct Search {
    query: String,
}

/// Finds by `metadata["payment_id"]:"…"`, the one query that is asked.
async fn search_intents(State(shared): State<Arc<Shared>>, headers: HeaderMap, Query(search): Query<Search>) -> Answer {
    shared.authorize(&headers)?;
    let mut parts = search.query.split('"');
    let (Some(name), Some(value)) = (parts.nth(1), parts.nth(1)) else {
        return Err(Refusal::new(400, "parameter_invalid", "the query is not understood"));
    };
    let books = shared.books();
    let found = books.intents.values().filter(|intent| intent.metadata.get(name).is_some_and(|has| has == value));
    let found: Vec<_> = found.map(intent_json).collect();
    Ok(Json(json!({"object": "search_result", "data": found, "has_more": false})))
}

#[derive(Deserialize)]
struct ClientSecret {
    client_secret: Option<String>,
}

/// With the API key, or by a browser that has the client secret.
async fn read_intent(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<ClientSecret>,
) -> Answer {
    let books = shared.books();
    let intent = books.intents.get(&id);
    let by_secret = intent.is_some_and(|intent| query.client_secret.as_ref() == Some(&intent.client_secret));
    if !by_secret {
        shared.authorize(&headers)?;
    }
    intent.map(|intent| Json(intent_json(intent))).ok_or_else(|| missing("payment_intent"))
}

/// With the API key, or by a browser that has the client secret.
async fn confirm_intent(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    body: String,
) -> Answer {
    let form = read_form(&body)?;
    let secret = form.get("client_secret");
    let by_secret = {
        let books = shared.books();
        secret.is_some_and(|secret| books.intents.get(&id).is_some_and(|intent| intent.client_secret == *secret))
    };
    if !by_secret {
        shared.authorize(&headers)?;
    }
    let token = form.get("payment_method").cloned();
    let token = token.ok_or_else(|| Refusal::new(400, "parameter_missing", "payment_method is required"))?;
    let trouble = shared.switches().trouble.unwrap_or_else(|| Trouble::of_token(&token));
    let delay = shared.event_delay();
    let path = format!("/v1/payment_intents/{id}/confirm");
    let answer = shared.once(&headers, &path, &body, |books| confirm_in(books, &id, trouble, delay));
    hang(&shared, trouble, true).await;
    answer
}

async fn cancel_intent(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    body: String,
) -> Answer {
    shared.authorize(&headers)?;
    let delay = shared.event_delay();
    let path = format!("/v1/payment_intents/{id}/cancel");
    shared.once(&headers, &path, &body, |books| {
        let Some(mut intent) = books.intents.get(&id).cloned() else { return Err(missing("payment_intent")) };
        if intent.status != "requires_payment_method" {
            let message = format!("a payment that is {} cannot be cancelled", intent.status);
            return Err(Refusal::new(400, "payment_intent_unexpected_state", &message));
        }
        intent.status = "canceled".into();
        let (object, trouble) = (intent_json(&intent), intent.trouble);
        books.keep_intent(intent);
        books.announce("payment_intent.canceled", &object, delay, trouble);
        Ok(Json(object))
    })
}

async fn create_refund(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Answer {
    shared.authorize(&headers)?;
    let form = read_form(&body)?;
    let delay = shared.event_delay();
    shared.once(&headers, "/v1/refunds", &body, |books| {
        let intent = form.get("payment_intent").and_then(|id| books.intents.get(id)).cloned();
        let Some(mut intent) = intent else { return Err(missing("payment_intent")) };
        let left = intent.received - intent.refunded;
        let amount = if form.contains_key("amount") { number(&form, "amount")? } else { left };
        if left == 0 {
            return Err(Refusal::new(400, "charge_already_refunded", "the charge has been refunded"));
        }
        if amount == 0 || amount > left {
            return Err(Refusal::new(400, "amount_too_large", &format!("at most {left} can be refunded")));
        }
        let refund = Refund {
            id: Books::fresh_id("re"),
            intent: intent.id.clone(),
            amount,
            currency: intent.currency.clone(),
            status: "pending".into(),
            metadata: form::metadata(&form),
            created: now_ms(),
        };
        let (id, waits) = (refund.id.clone(), intent.trouble == Trouble::RefundPending);
        intent.refunded += amount;
        books.keep_intent(intent);
        books.keep_refund(refund);
        if !waits {
            books.finish_refund(&id, "succeeded", delay);
        }
        Ok(Json(refund_json(&books.refunds[&id])))
    })
}

async fn read_refund(State(shared): State<Arc<Shared>>, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    shared.authorize(&headers)?;
    let books = shared.books();
    books.refunds.get(&id).map(|refund| Json(refund_json(refund))).ok_or_else(|| missing("refund"))
}

async fn list_refunds(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(query): Query<BTreeMap<String, String>>,
) -> Answer {
    shared.authorize(&headers)?;
    let books = shared.books();
    let wanted = query.get("payment_intent");
    let found = books.refunds.values().filter(|refund| wanted.is_none_or(|wanted| *wanted == refund.intent));
    let found: Vec<_> = found.map(refund_json).collect();
    Ok(Json(json!({"object": "list", "data": found, "has_more": false})))
}

async fn read_switches(State(shared): State<Arc<Shared>>) -> Json<Switches> {
    Json(shared.switches().clone())
}

async fn set_switches(State(shared): State<Arc<Shared>>, Sent(switches): Sent<Switches>) -> Json<Switches> {
    *shared.switches() = switches.clone();
    shared.events.notify_one();
    Json(switches)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finish {
    succeed: bool,
}

/// The bank has made up its mind about a payment that is `processing`.
async fn finish_intent(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Sent(finish): Sent<Finish>,
) -> Answer {
    let delay = shared.event_delay();
    let mut books = shared.books();
    if !books.intents.contains_key(&id) {
        return Err(missing("payment_intent"));
    }
    if finish.succeed {
        books.charge(&id, delay);
    } else {
        books.decline(&id, "generic_decline", delay);
    }
    shared.events.notify_one();
    Ok(Json(intent_json(&books.intents[&id])))
}

/// The bank has made up its mind about a refund that is `pending`.
async fn finish_refund(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Sent(finish): Sent<Finish>,
) -> Answer {
    let delay = shared.event_delay();
    let mut books = shared.books();
    if !books.finish_refund(&id, if finish.succeed { "succeeded" } else { "failed" }, delay) {
        return Err(missing("pending refund"));
    }
    shared.events.notify_one();
    Ok(Json(refund_json(&books.refunds[&id])))
}

/// The whole books, for audits.
async fn ledger(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let books = shared.books();
    let intent = |intent: &Intent| {
        json!({
            "id": intent.id, "amount": intent.amount, "currency": intent.currency, "status": intent.status,
            "received": intent.received, "refunded": intent.refunded, "metadata": intent.metadata,
        })
    };
    let refunds: Vec<_> = books.refunds.values().map(refund_json).collect();
    let intents: Vec<_> = books.intents.values().map(intent).collect();
    Json(json!({"intents": intents, "refunds": refunds, "undelivered_events": books.events.len()}))
}
