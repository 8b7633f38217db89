//! What an audit reads: the store by linearizable queries, the ledger by its audit reads, the provider's own books and
//! the gates' entries.

use anyhow::{Context, Result};
use domain::ids::{EventId, PromotionCode, ReservationId, SectionId, TicketId};
use domain::inventory::query::Owner;
use domain::inventory::{EventRecord, ReservationView};
use domain::money::Minor;
use ledger::audit::{Balance, LiveSeat};
use ledger::tickets::Ticket;
use ledger::{Audit, Catalogue, Postgres, Tickets};
use raft_store::client::Client;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where an audit reads.
pub struct Sources {
    /// The store.
    pub store: Client,
    /// The ledger, as its owner.
    pub ledger: Postgres,
    /// The provider's simulator, if the provider is one: a real one is not asked for its whole books.
    pub provider_url: Option<String>,
    /// Gates, if they can be reached.
    pub gates: Vec<String>,
    /// For both.
    pub http: reqwest::Client,
    /// Reservations that somebody was told are held, and the ends that he was told.
    pub acknowledged: Vec<ReservationId>,
}

/// Everything about one event.
#[derive(Clone, Debug)]
pub struct EventEvidence {
    /// The catalogue's record.
    pub record: EventRecord,
    /// Who owns which seat, by section.
    pub owners: BTreeMap<SectionId, Vec<Owner>>,
    /// Every reservation.
    pub reservations: BTreeMap<ReservationId, ReservationView>,
    /// Cap and uses of each promotion.
    pub promotions: BTreeMap<PromotionCode, (u32, Vec<ReservationId>)>,
    /// What the ledger says is sold.
    pub live_seats: Vec<LiveSeat>,
    /// Where the money is.
    pub balances: Vec<Balance>,
    /// Tickets, revoked ones too.
    pub tickets: Vec<Ticket>,
}

/// One payment in the provider's books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPayment {
    /// Its id there.
    pub id: String,
    /// Our payment, as its metadata says.
    pub payment: Option<String>,
    /// Captured.
    pub captured: Minor,
    /// Given back.
    pub refunded: Minor,
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// By event.
    pub events: Vec<EventEvidence>,
    /// The provider's books; `None` if it was not asked.
    pub provider: Option<Vec<ProviderPayment>>,
    /// Tickets that were let in, once for each time; `None` if no gate was asked.
    pub entries: Option<Vec<TicketId>>,
    /// Reservations that somebody was told are held.
    pub acknowledged: Vec<ReservationId>,
}

impl Sources {
    /// Read everything once.
    pub async fn gather(&self) -> Result<Evidence> {
        let mut events = Vec::new();
        for record in self.store.events().await.context("the store's catalogue")? {
            events.push(self.event(record).await?);
        }
        let provider = match &self.provider_url {
            Some(url) => Some(self.provider_books(url).await.context("the provider's books")?),
            None => None,
        };
        let entries = self.entries().await?;
        Ok(Evidence { events, provider, entries, acknowledged: self.acknowledged.clone() })
    }

    async fn event(&self, record: EventRecord) -> Result<EventEvidence> {
        let event = record.id;
        let mut owners = BTreeMap::new();
        for section in &record.sections {
            owners.insert(section.id, self.store.owners(event, section.id).await.context("the store's seats")?);
        }
        let reservations = self.store.records(event).await.context("the store's reservations")?;
        Ok(EventEvidence {
            owners,
            reservations: reservations.into_iter().map(|view| (view.id, view)).collect(),
            promotions: self.promotions(event).await?,
            live_seats: self.ledger.live_seats(event).await.context("the ledger's seats")?,
            balances: self.ledger.balances(Some(event)).await.context("the ledger's payments")?,
            tickets: self.ledger.tickets_of_event(event).await.context("the ledger's tickets")?,
            record,
        })
    }

    async fn promotions(&self, event: EventId) -> Result<BTreeMap<PromotionCode, (u32, Vec<ReservationId>)>> {
        let publication = self.ledger.publication(event).await.context("the ledger's catalogue")?;
        let mut uses = BTreeMap::new();
        for promotion in publication.map(|publication| publication.promotions).unwrap_or_default() {
            let used = self.store.promotion_uses(event, promotion.code.clone()).await?;
            uses.insert(promotion.code, (promotion.cap, used));
        }
        Ok(uses)
    }

    async fn provider_books(&self, url: &str) -> Result<Vec<ProviderPayment>> {
        let answer = self.http.get(format!("{url}/simulator/ledger")).send().await?.error_for_status()?;
        let books: Books = answer.json().await?;
        let payments = books.intents.into_iter().map(|intent| ProviderPayment {
            payment: intent.metadata.get("payment_id").cloned(),
            id: intent.id,
            captured: intent.received,
            refunded: intent.refunded,
        });
        Ok(payments.collect())
    }

    /// Who was let in. All gates of a venue share one ledger, so any one of them knows every entry; the first that
    /// answers is asked.
    async fn entries(&self) -> Result<Option<Vec<TicketId>>> {
        let Some(gate) = self.gates.first() else { return Ok(None) };
        let (mut entries, mut since) = (Vec::new(), 0);
        loop {
            let url = format!("{gate}/scans?since={since}&limit=10000");
            let page: Page =
                self.http.get(url).send().await?.error_for_status()?.json().await.context("a gate's entries")?;
            if page.scans.is_empty() {
                return Ok(Some(entries));
            }
            entries.extend(page.scans.into_iter().map(|entry| entry.ticket));
            since = page.next;
        }
    }
}

#[derive(Deserialize)]
struct Books {
    intents: Vec<Intent>,
}

#[derive(Deserialize)]
struct Intent {
    id: String,
    received: Minor,
    refunded: Minor,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Page {
    scans: Vec<Entry>,
    next: u64,
}

#[derive(Deserialize)]
struct Entry {
    ticket: TicketId,
}
