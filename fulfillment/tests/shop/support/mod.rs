//! One shop for a test: a real PostgreSQL, the provider's simulator over HTTP, a webhook door that does what the webhook
//! plane does, and the inventory's own machine as the store.

#[path = "../../../../ledger/tests/postgres/support.rs"]
pub mod postgres;
pub mod provider;
pub mod store;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use domain::ids::{PaymentId, ReservationId};
use domain::inventory::ReservationView;
use domain::money::Currency;
use domain::order::payment::PaymentStatus;
use domain::order::refund::RefundReason;
use domain::order::webhook;
use domain::time::WallMs;
use fulfillment::feed::Feed;
use fulfillment::initialize::{self, open};
use fulfillment::notify::{FileSink, Notifier};
use fulfillment::provider::simulator::{self, SimulatorConfig};
use fulfillment::provider::stripe::{Stripe, StripeConfig};
use fulfillment::{cancellation, consumers, refunds, relay, settlement};
use ledger::catalogue::Publication;
use ledger::payments::{BeginOutcome, BeginPayment, SeatLine, WebhookOutcome};
use ledger::refunds::{RefundOrder, RefundOutcome};
use ledger::tickets::Ticket;
use ledger::{Audit, Catalogue, Notices, Outbox, Payments, Postgres, Refunds, Sealer, Tickets};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::TestStore;
use telemetry::Operations;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const SECRETS: [&str; 2] = ["whsec_next", "whsec_test"];
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct Shop {
    pub server: postgres::Server,
    pub store: TestStore,
    /// As the buy plane, the webhook plane, fulfilment, and an operator.
    pub buy: Postgres,
    pub relay: Postgres,
    pub owner: Postgres,
    pub provider: Stripe,
    pub provider_url: String,
    pub webhook_url: String,
    pub sealer: Sealer,
    pub mail: PathBuf,
    pub http: reqwest::Client,
    folder: tempfile::TempDir,
    shutdown: CancellationToken,
    notifier: tokio::sync::Mutex<Notifier>,
    feed: tokio::sync::Mutex<Feed>,
}

pub fn now() -> WallMs {
    WallMs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

impl Shop {
    pub async fn open(currency: Currency) -> Self {
        Self::open_with(currency, false).await
    }

    pub async fn open_with(currency: Currency, durable: bool) -> Self {
        let server = postgres::Server::start(durable).await;
        let folder = tempfile::tempdir().unwrap();
        let shutdown = CancellationToken::new();
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let webhook_url = format!("http://{}/webhook", door.local_addr().unwrap());
        let webhooks = server.impatient_ledger("encore_webhook", 3_000);
        let router = Router::new().route("/webhook", post(receive)).with_state(webhooks);
        tokio::spawn(async move { axum::serve(door, router).await });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider_url = format!("http://{}", listener.local_addr().unwrap());
        let config = SimulatorConfig {
            journal: folder.path().join("books.jsonl"),
            webhook_url: webhook_url.clone(),
            webhook_secret: SECRETS[1].into(),
            hang_ms: 2_000,
            ..SimulatorConfig::default()
        };
        tokio::spawn(simulator::serve(config, listener, Operations::new("provider"), shutdown.clone()));
        let stripe = StripeConfig { base_url: provider_url.clone(), timeout_ms: 700, ..StripeConfig::default() };
        let store = TestStore::new(currency);
        let owner = server.ledger("encore_owner");
        let publication =
            Publication { event: store.record.clone(), plans: vec![store::plan()], promotions: Vec::new() };
        owner.publish(&publication).await.unwrap();
        Self {
            buy: server.ledger("encore_buy"),
            // Cut off in one test, which must not wait a minute to notice.
            relay: server.impatient_ledger("encore_relay", if durable { 3_000 } else { 60_000 }),
            owner,
            provider: Stripe::new(stripe).unwrap(),
            provider_url,
            webhook_url,
            sealer: Sealer::new([9; 32]),
            mail: folder.path().join("mail"),
            http: reqwest::Client::new(),
            server,
            store,
            folder,
            shutdown,
            notifier: tokio::sync::Mutex::default(),
            feed: tokio::sync::Mutex::default(),
        }
    }

    /// Hold places and ask to pay for them with this card, as the buy plane does.
    pub async fn order(&self, user: &str, count: u32, token: Option<&str>) -> (ReservationView, PaymentId) {
        let held = self.store.hold(&user.parse().unwrap(), count);
        let payment = self.pay(&held, token).await;
        (held, payment)
    }

    pub async fn pay(&self, held: &ReservationView, token: Option<&str>) -> PaymentId {
        let line = |quoted: &domain::inventory::record::QuotedSeat| SeatLine {
            seat: quoted.seat,
            section: "Floor".into(),
            row: String::new(),
            label: (quoted.seat.seat.0 + 1).to_string(),
            price: quoted.net(),
        };
        let request = BeginPayment {
            payment: PaymentId(uuid::Uuid::new_v4().as_u128()),
            key: uuid::Uuid::new_v4().to_string().parse().unwrap(),
            fingerprint: "content".into(),
            reservation: held.id,
            user: held.user.clone(),
            email: Some(format!("{}@example.org", held.user)),
            method: "card".into(),
            token: token.map(str::to_owned),
            amount: held.total,
            currency: held.currency,
            seats: held.seats.iter().map(line).collect(),
            retry_declined: self.store.record.retry_declined,
            now: now(),
        };
        match self.buy.begin_payment(&request).await.unwrap() {
            BeginOutcome::Begun(view) => view.id,
            other => panic!("{other:?}"),
        }
    }

    /// Every step of fulfilment once, at this moment, and once more: each must be safe to repeat.
    pub async fn pass(&self, at: WallMs) {
        for _ in 0..2 {
            self.money(at).await;
            settlement::release(&self.store, &self.relay).await.unwrap();
            cancellation::carry_out(&self.store, &self.relay, at).await.unwrap();
            let _later = refunds::send(&self.relay, &self.provider, at).await;
            refunds::return_seats(&self.store, &self.relay, at).await.unwrap();
            relay::relay(&self.relay, at).await.unwrap();
            consumers::tickets::issue(&self.relay, &self.sealer, at).await.unwrap();
            consumers::messages::write(&self.relay, at).await.unwrap();
            let sink = FileSink::new(&self.mail, "Encore <tickets@encore.invalid>").unwrap();
            self.notifier.lock().await.send(&self.relay, &sink, at).await.unwrap();
            self.feed.lock().await.consume(&self.store, &self.relay, at).await.unwrap();
        }
    }

    /// An operator refunds all of an order.
    pub async fn refund(&self, reservation: ReservationId, key: &str) -> RefundOutcome {
        let order = RefundOrder {
            reservation,
            seats: None,
            reason: RefundReason::Operator,
            operator: "operator".parse().unwrap(),
            key: format!("{key}-{reservation}").parse().unwrap(),
            fingerprint: "all".into(),
            now: now(),
        };
        self.owner.request_refund(&order).await.unwrap()
    }

    /// Opening, asking and settling once.
    pub async fn money(&self, at: WallMs) {
        for task in self.relay.to_initialize(at, 100).await.unwrap() {
            let _tried_again = open(&self.store, &self.relay, &self.provider, task, at).await;
        }
        let _later = initialize::ask(&self.store, &self.relay, &self.provider, at).await;
        let _later = settlement::settle(&self.store, &self.relay, at).await.unwrap();
    }

    /// Passes until the payment has this status and its mail is written.
    pub async fn until(&self, payment: PaymentId, status: PaymentStatus) {
        self.until_at(payment, status, 0).await;
    }

    /// The same, `ahead_ms` in the future, where time goes faster.
    pub async fn until_at(&self, payment: PaymentId, status: PaymentStatus, ahead_ms: u64) {
        let deadline = Instant::now() + DEADLINE;
        for round in 0.. {
            self.pass(WallMs(now().0 + ahead_ms + round * ahead_ms / 50)).await;
            let view = self.buy.payment(payment).await.unwrap().unwrap();
            if view.status() == status {
                return;
            }
            assert!(Instant::now() < deadline, "it is {view:?}, not {status:?}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Wait until the simulator has delivered (or given up) every event.
    pub async fn delivered(&self) {
        let deadline = Instant::now() + DEADLINE;
        while self.books().await["undelivered_events"] != 0 {
            assert!(Instant::now() < deadline, "events are not delivered");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub async fn status(&self, payment: PaymentId) -> PaymentStatus {
        self.buy.payment(payment).await.unwrap().unwrap().status()
    }

    pub async fn tickets(&self, user: &str) -> Vec<Ticket> {
        self.buy.tickets_of_user(&user.parse().unwrap()).await.unwrap()
    }

    /// Subjects of the mail that this fan got.
    pub fn mail_to(&self, user: &str) -> Vec<String> {
        let mut subjects = Vec::new();
        for file in std::fs::read_dir(&self.mail).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            if file.path().extension().is_some_and(|end| end == "eml") && text.contains(&format!("To: {user}@")) {
                let subject = text.lines().find_map(|line| line.strip_prefix("Subject: "));
                subjects.push(subject.unwrap_or_default().to_owned());
            }
        }
        subjects.sort();
        subjects
    }

    pub async fn books(&self) -> serde_json::Value {
        self.http.get(format!("{}/simulator/ledger", self.provider_url)).send().await.unwrap().json().await.unwrap()
    }

    /// The provider's entry for a payment.
    pub async fn intent(&self, payment: PaymentId) -> serde_json::Value {
        let books = self.books().await;
        let intents = books["intents"].as_array().unwrap().clone();
        let ours: Vec<_> =
            intents.into_iter().filter(|i| i["metadata"]["payment_id"] == payment.to_string().as_str()).collect();
        assert_eq!(ours.len(), 1, "one intent a payment: {ours:?}");
        ours.into_iter().next().unwrap()
    }

    pub async fn refund_count(&self) -> usize {
        self.books().await["refunds"].as_array().unwrap().len()
    }

    pub async fn post(&self, path: &str, body: serde_json::Value) -> reqwest::Response {
        self.http.post(format!("{}{path}", self.provider_url)).json(&body).send().await.unwrap()
    }

    pub async fn incidents(&self) -> Vec<String> {
        self.incidents_at(now()).await
    }

    pub async fn incidents_at(&self, at: WallMs) -> Vec<String> {
        let open = self.owner.incidents(at).await.unwrap();
        open.into_iter().map(|incident| incident.kind).collect()
    }

    /// Every captured cent is in a ticket or went back, and the provider says the same.
    pub async fn assert_money_is_conserved(&self) {
        self.delivered().await;
        self.pass(now()).await;
        let books = self.books().await;
        for balance in self.owner.balances(None).await.unwrap() {
            assert!(balance.is_conserved(), "{balance:?}");
            let ours = books["intents"].as_array().unwrap().iter();
            let theirs: Vec<_> =
                ours.filter(|i| i["metadata"]["payment_id"] == balance.payment.to_string().as_str()).collect();
            let sum = |field: &str| theirs.iter().map(|i| i[field].as_i64().unwrap()).sum::<i64>();
            assert_eq!((sum("received"), sum("refunded")), (balance.captured.0, balance.refunded.0), "{balance:?}");
        }
        let backlog = self.relay.backlog(now()).await.unwrap();
        assert_eq!((backlog.unpublished_ms, backlog.undelivered_ms, backlog.unticketed_ms), (0, 0, 0));
    }

    /// Who owns places of a reservation.
    pub fn owned_by(&self, reservation: ReservationId) -> usize {
        self.store.owners().into_iter().filter(|(_, owner)| *owner == reservation).count()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let _keeps_until_here = self.folder.path();
    }
}

/// What the webhook plane does: check the signature over the raw bytes, then record.
async fn receive(State(ledger): State<Postgres>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = headers.get("Stripe-Signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if webhook::verify(header, &body, &SECRETS, now()).is_err() {
        return StatusCode::BAD_REQUEST;
    }
    let Ok(event) = webhook::parse(&body) else { return StatusCode::BAD_REQUEST };
    match ledger.record_event(&event, now()).await {
        Ok(WebhookOutcome::UnknownReference) => StatusCode::SERVICE_UNAVAILABLE,
        Ok(WebhookOutcome::ConflictingDuplicate) => StatusCode::CONFLICT,
        Ok(_) => StatusCode::OK,
        Err(error) if error.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
        Err(error) => panic!("{error}"),
    }
}
