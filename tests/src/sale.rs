//! A running sale of one test.

use crate::binary;
use crate::event::Event;
use crate::eventually;
use crate::webhook;
use anyhow::{Context, Result, bail};
use encore::audit::{Sources, audit};
use encore::crowd::sources_of;
use encore::demo::{self, doors};
use encore::fan::{Answer, Fan, Seat, read};
use encore::supervise::{Options, Part, Stack};
use futures::future::try_join_all;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How long a fan may wait for a pass in a test.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a payment may take to settle in a test.
const SETTLES: Duration = Duration::from_secs(60);

/// How a sale is set up.
pub struct Builder {
    events: Vec<Event>,
    buys: u8,
    gates: u8,
    overrides: Vec<(Part, String)>,
}

/// A running sale: every process of it is real, and ends with this value.
pub struct Sale {
    /// Its processes: kill, stop, freeze, restart them.
    pub stack: Stack,
    /// For requests that no fan would make.
    pub http: reqwest::Client,
    // Removed after the processes are gone: fields are dropped in this order.
    folder: TempDir,
}

impl Sale {
    /// A sale of this event: two processes of the buy plane, two gates that share one ledger.
    pub fn of(event: Event) -> Builder {
        Builder { events: vec![event], buys: 2, gates: 2, overrides: Vec::new() }
    }

    /// The demo's two events, the hall (1) and the arena (2).
    pub fn of_the_demo() -> Builder {
        Builder { events: Vec::new(), buys: 2, gates: 2, overrides: Vec::new() }
    }

    /// A fan of this name; the same name is the same identity.
    pub fn fan(&self, name: &str) -> Fan {
        let token = self.stack.secrets().token(name, false, Duration::from_secs(3_600)).expect("a name makes a token");
        Fan::new(name, token, self.http.clone(), doors(&self.stack))
    }

    /// A fan whose identity provider vouches for no e-mail address.
    pub fn fan_without_address(&self, name: &str) -> Fan {
        let token = self.stack.secrets().token_without_address(name, Duration::from_secs(3_600));
        Fan::new(name, token.expect("a name makes a token"), self.http.clone(), doors(&self.stack))
    }

    /// An operator.
    pub fn operator(&self) -> Fan {
        let token = self.stack.secrets().token("olga", true, Duration::from_secs(3_600)).expect("a name makes a token");
        Fan::new("olga", token, self.http.clone(), doors(&self.stack))
    }

    /// A pass of event 1 for this fan.
    pub async fn pass(&self, fan: &Fan) -> Result<String> {
        fan.pass(1, PATIENCE).await?.context("the event is sold out or closed")
    }

    /// That many fans with their passes, spread over the buy plane's processes.
    pub async fn fans_with_passes(&self, name: &str, count: usize) -> Result<Vec<(Fan, String)>> {
        let fans = (0..count).map(|number| self.fan(&format!("{name}-{number}")).through(number));
        try_join_all(fans.map(|fan| async move {
            let pass = self.pass(&fan).await?;
            Ok((fan, pass))
        }))
        .await
    }

    /// Seats of one row.
    pub fn row(&self, section: &str, row: &str, seats: RangeInclusive<u32>) -> Vec<Seat> {
        seats.map(|seat| (section.to_owned(), row.to_owned(), seat.to_string())).collect()
    }

    /// Pay for a hold with this card and wait for what comes of it: `succeeded`, `failed` or `refunded`.
    pub async fn buy(&self, fan: &Fan, held: &Value, card: &str) -> Result<String> {
        let key = format!("pay-{}", held["reservation_id"].as_str().unwrap_or_default());
        // A fan who is told to come back comes back, with the same key.
        let paying = eventually("the payment is taken", SETTLES, || async {
            let answer = fan.pay(held, card, &key).await?;
            if answer.status == 503 { answer.expect(202).map(Ok) } else { Ok(answer.expect(202)) }
        })
        .await??;
        fan.settled(paying.text("payment_id"), SETTLES).await
    }

    /// From nothing to tickets: pass, hold, pay. Returns the reservation.
    pub async fn buys(&self, fan: &Fan, seats: &[Seat]) -> Result<Value> {
        let pass = self.pass(fan).await?;
        let held = fan.hold(1, seats, &pass, &format!("hold-{}-{}", fan.name, seats[0].2)).await?.expect(201)?;
        match self.buy(fan, &held.body, "tok_visa").await?.as_str() {
            "succeeded" => Ok(held.body),
            other => bail!("{} paid, and it {other}", fan.name),
        }
    }

    /// The map shows these counts of free, held, sold and blocked. It follows the store by moments, so they are waited for.
    pub async fn shows(&self, section: &str, wanted: (u64, u64, u64, u64)) -> Result<()> {
        eventually(&format!("{section} shows {wanted:?}"), Duration::from_secs(20), || async {
            let found = self.counts(section).await?;
            anyhow::ensure!(found == wanted, "it shows {found:?}");
            Ok(())
        })
        .await
    }

    /// How many seats of a section of event 1 are free, held, sold, blocked, as the browse plane shows them.
    pub async fn counts(&self, section: &str) -> Result<(u64, u64, u64, u64)> {
        let path = format!("/api/v1/events/1/seats?section={}", section.replace(' ', "%20"));
        let answer = self.fan("somebody").browse(&path).await?.expect(200)?;
        let count = |state: &str| answer.body["counts"][state].as_u64().context("the counts of a section");
        Ok((count("free")?, count("held")?, count("sold")?, count("blocked")?))
    }

    /// What an audit of this sale reads.
    pub fn sources(&self) -> Result<Sources> {
        sources_of(&self.stack)
    }

    /// Deliver this event to the webhook plane, signed as the provider signs.
    pub async fn webhook(&self, event: &Value) -> Result<Answer> {
        let body = event.to_string();
        let signature = webhook::signature(&self.stack.secrets().webhook_secret, webhook::now_s(), &body);
        webhook::deliver(&self.http, &self.stack.url(Part::Webhook), &body, &signature).await
    }

    /// The provider's books: its payments, by our payment id.
    pub async fn provider_payments(&self) -> Result<BTreeMap<String, Value>> {
        let url = format!("{}/simulator/ledger", self.stack.url(Part::Provider));
        let books = read(self.http.get(url).send().await?).await?.expect(200)?;
        let intents = books.body["intents"].as_array().context("the books list payments")?;
        let id = |intent: &Value| intent["metadata"]["payment_id"].as_str().unwrap_or_default().to_owned();
        Ok(intents.iter().map(|intent| (id(intent), intent.clone())).collect())
    }

    /// Tell the provider how to behave, such as `{"hold_events": true}`.
    pub async fn provider_switches(&self, switches: Value) -> Result<()> {
        let url = format!("{}/simulator/switches", self.stack.url(Part::Provider));
        read(self.http.post(url).json(&switches).send().await?).await?.expect(200)?;
        Ok(())
    }

    /// Scan a code at a gate (from 1).
    pub async fn scan(&self, gate: u8, code: &str, name: &str) -> Result<Answer> {
        let url = format!("{}/scan", self.stack.url(Part::Gate(gate)));
        read(self.http.post(url).json(&serde_json::json!({"code": code, "gate": name})).send().await?).await
    }

    /// Every rule, checked against store, ledger, provider and gates. What is under way may take a minute to settle.
    pub async fn audit(&self) -> Result<()> {
        let report = audit(&self.sources()?, Duration::from_secs(60)).await?;
        if report.faults() > 0 {
            bail!("the audit found differences:\n{report}");
        }
        Ok(())
    }

    /// The e-mails that were sent so far.
    pub fn mails(&self) -> Result<Vec<String>> {
        let mut mails = Vec::new();
        for entry in std::fs::read_dir(self.stack.places().mail())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "eml") {
                mails.push(std::fs::read_to_string(path)?);
            }
        }
        Ok(mails)
    }

    /// The folder of this sale.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stop in order. A test that does not call this leaves its processes to be killed.
    pub async fn stop(mut self) {
        self.stack.stop(&|text| eprintln!("{text}")).await;
    }
}

impl Builder {
    /// And this event.
    pub fn and(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// With a setting of one part changed, such as `queue.silence_ms=2000`.
    pub fn set(mut self, part: Part, setting: &str) -> Self {
        self.overrides.push((part, setting.to_owned()));
        self
    }

    /// Start everything.
    pub async fn start(self) -> Result<Sale> {
        let mut folder = TempDir::with_prefix("encore-test-")?;
        folder.disable_cleanup(std::env::var_os("ENCORE_TEST_KEEP").is_some());
        let mut events = if self.events.is_empty() { demo::events::unpack(folder.path())? } else { Vec::new() };
        for event in &self.events {
            let path = folder.path().join(format!("event-{}.json", event.id()));
            std::fs::write(&path, event.text())?;
            events.push(path);
        }
        // Many fans at once come through one door; the admitter's tick is shorter than in life, so that tests are.
        let mut overrides =
            vec![(Part::Queue, "queue.batch=500".to_owned()), (Part::Queue, "queue.tick_every_ms=200".to_owned())];
        overrides.extend(self.overrides);
        let options = Options {
            dir: folder.path().join("sale"),
            encore: binary::encore()?,
            buys: self.buys,
            gates: self.gates,
            events,
            publish: Vec::new(),
            republish: false,
            fixed_ports: Vec::new(),
            preferred_ports: Vec::new(),
            overrides,
            log_filter: "info".to_owned(),
        };
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
        let stack = Stack::start(options, &|_| {}).await?;
        let http = reqwest::Client::builder().pool_max_idle_per_host(128).build()?;
        Ok(Sale { stack, http, folder })
    }
}
