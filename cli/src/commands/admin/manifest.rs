//! Manifests: what the gates must know, sealed, to a file or straight to the gates, once or as tickets are sold.

use super::{Desk, now};
use crate::commands::process;
use crate::draft::Draft;
use anyhow::{Context, Result, bail};
use domain::ids::EventId;
use domain::inventory::EventRecord;
use domain::ticket_code::TicketSecret;
use domain::time::WallMs;
use gate::manifest::{Manifest, ManifestTicket, OrganiserKey};
use ledger::tickets::{Ticket, TicketState};
use ledger::{Catalogue, Sealer, Tickets};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often tickets are looked at with `--watch`.
const WATCH: Duration = Duration::from_millis(1_000);
/// How long after its event a manifest is good for.
const GRACE_MS: u64 = 24 * 3_600_000;

/// Arguments of `encore admin manifest`.
#[derive(clap::Args, Debug)]
pub struct ManifestArguments {
    /// The event; all of them when none is named
    event: Option<EventId>,
    /// Write it to this file (one event only)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Send it to this gate, such as http://10.0.0.5:7500; may be repeated; the configured gates otherwise
    #[arg(long, value_name = "URL")]
    push: Vec<String>,
    /// Go on, and send a new one whenever tickets were issued, revoked or given another secret
    #[arg(long)]
    watch: bool,
}

pub async fn run(desk: &Desk, arguments: ManifestArguments, shutdown: CancellationToken) -> Result<()> {
    let exporter = Exporter {
        desk,
        sealer: Sealer::new(process::read_key(&desk.settings.sealing_key_file)?),
        organiser: process::read(&desk.settings.organiser_key_file)?.parse().context("organiser_key_file")?,
        gates: if arguments.push.is_empty() { desk.settings.gates.clone() } else { arguments.push.clone() },
    };
    if let Some(file) = &arguments.out {
        let event = arguments.event.context("--out wants the number of one event")?;
        return exporter.write(event, file).await;
    }
    if exporter.gates.is_empty() {
        bail!("no gate is known: use --push URL, --out FILE, or the setting gates");
    }
    if let Some(event) = arguments.event {
        exporter.record(event).await?;
    }
    let mut sent = BTreeMap::new();
    loop {
        let done = exporter.send_changed(arguments.event, &mut sent).await;
        if !arguments.watch {
            return done;
        }
        if let Err(error) = done {
            tracing::warn!(error = format!("{error:#}"), "manifests could not be sent; they will be tried again");
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(WATCH) => {}
        }
    }
}

/// Tells whether an event's tickets changed since a manifest was made of them: issued, revoked, or given another secret.
type Seen = (usize, usize, u64);

struct Exporter<'a> {
    desk: &'a Desk,
    sealer: Sealer,
    organiser: OrganiserKey,
    gates: Vec<String>,
}

impl Exporter<'_> {
    async fn write(&self, event: EventId, file: &Path) -> Result<()> {
        let record = self.record(event).await?;
        let (manifest, _) = self.manifest(&record).await?;
        Draft::of(file)?.replace(&self.organiser.seal(&manifest)?)?;
        println!("{}: {} tickets of “{}”.", file.display(), manifest.tickets.len(), manifest.title);
        Ok(())
    }

    async fn record(&self, event: EventId) -> Result<EventRecord> {
        let events = self.desk.ledger.events().await?;
        let record = events.into_iter().find(|record| record.id == event);
        record.with_context(|| format!("there is no event {event}"))
    }

    /// Send what changed since `sent` to every gate. A gate that is down is tried again with the next change or look.
    async fn send_changed(&self, only: Option<EventId>, sent: &mut BTreeMap<(String, EventId), Seen>) -> Result<()> {
        let mut failed = None;
        for record in self.desk.ledger.events().await? {
            if only.is_some_and(|only| only != record.id) {
                continue;
            }
            // One event that cannot be exported is no reason to leave the gates without the others.
            let (manifest, seen) = match self.manifest(&record).await {
                Ok(made) => made,
                Err(error) => {
                    failed = Some(error.context(format!("event {}", record.id)));
                    continue;
                }
            };
            let stale = self.gates.iter().filter(|gate| sent.get(&((*gate).clone(), record.id)) != Some(&seen));
            let stale: Vec<&String> = stale.collect();
            if stale.is_empty() {
                continue;
            }
            let sealed = self.organiser.seal(&manifest)?;
            for gate in stale {
                match self.push(gate, sealed.clone()).await {
                    Ok(()) => {
                        sent.insert((gate.clone(), record.id), seen);
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn push(&self, gate: &str, sealed: Vec<u8>) -> Result<()> {
        let request = self.desk.http.post(format!("{gate}/manifests")).body(sealed).timeout(Duration::from_secs(30));
        let answer = request.send().await.with_context(|| format!("gate {gate}"))?;
        let status = answer.status();
        if !status.is_success() {
            bail!("gate {gate} answered {status}: {}", answer.text().await.unwrap_or_default());
        }
        Ok(())
    }

    async fn manifest(&self, record: &EventRecord) -> Result<(Manifest, Seen)> {
        // Before the tickets are read: a slower exporter must not put an older list under a later number.
        let issued_at = now();
        let tickets = self.desk.ledger.tickets_of_event(record.id).await?;
        let revoked = tickets.iter().filter(|ticket| ticket.state == TicketState::Revoked).count();
        let secrets = tickets.iter().map(|ticket| u64::from(ticket.secret_version)).sum();
        let seen = (tickets.len(), revoked, secrets);
        let tickets = tickets.into_iter().map(|ticket| self.ticket(ticket)).collect::<Result<_>>()?;
        let manifest = Manifest {
            event: record.id,
            title: record.title.clone(),
            // The clock as the number: it rises with every export, also over restarts of the exporter.
            sequence: issued_at.0,
            issued_at,
            expires_at: WallMs(record.starts_at.0.max(issued_at.0).saturating_add(GRACE_MS)),
            tickets,
        };
        Ok((manifest, seen))
    }

    fn ticket(&self, ticket: Ticket) -> Result<ManifestTicket> {
        let secret = self.sealer.open(ticket.id, &ticket.sealed_secret);
        let seat = &ticket.seat;
        let label = match seat.row.as_str() {
            "" => format!("{}, place {}", seat.section, seat.label),
            row => format!("{}, row {row}, seat {}", seat.section, seat.label),
        };
        Ok(ManifestTicket {
            ticket: ticket.id,
            secret: TicketSecret(secret.with_context(|| format!("the secret of {}", ticket.id))?),
            label,
            revoked: ticket.state == TicketState::Revoked,
        })
    }
}
