//! The venue's own ledger: one SQLite file that says who is in. All gates of a venue share it.
//!
//! WAL with `synchronous=FULL`: an admission that was answered survives a power cut. An admission is one INSERT keyed by the
//! ticket, so that of two scanners at one instant the database lets one win. Whatever goes wrong here admits nobody.

use crate::manifest::{GateKey, Manifest, SealError};
use crate::scan::{Known, Refusal, Use, judge};
use domain::ids::{EventId, TicketId};
use domain::ticket_code::TicketCode;
use domain::time::WallMs;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one writer waits for another, before it gives up and admits nobody.
const BUSY: Duration = Duration::from_secs(2);
const VERSION: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE manifests (
        event INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL, title TEXT NOT NULL,
        issued_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, imported_at INTEGER NOT NULL) STRICT;
    CREATE TABLE tickets (
        ticket TEXT PRIMARY KEY, event INTEGER NOT NULL REFERENCES manifests, label TEXT NOT NULL,
        sealed_secret BLOB NOT NULL, revoked INTEGER NOT NULL CHECK (revoked IN (0, 1))) STRICT, WITHOUT ROWID;
    CREATE INDEX tickets_by_event ON tickets (event);
    CREATE TABLE scans (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, ticket TEXT NOT NULL UNIQUE REFERENCES tickets,
        gate TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE TABLE conflicts (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT, ticket TEXT NOT NULL REFERENCES tickets,
        kind TEXT NOT NULL CHECK (kind IN ('already_used', 'revoked_after_entry')),
        gate TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    PRAGMA user_version = 1;
";

/// The ledger cannot be asked; nobody is admitted until it can.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite says no: disk full, file damaged, another writer for too long.
    #[error("the gate's ledger does not work: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file was deleted or replaced under us; what we write would be lost, or known to us alone.
    #[error("the gate's ledger file {0} was removed or replaced while in use")]
    Replaced(PathBuf),
    /// Written by a newer version of Encore.
    #[error("the gate's ledger has version {0}; this program knows version {VERSION}")]
    Version(i64),
    /// The file system cannot keep the promise of durability.
    #[error("the gate's ledger needs SQLite's write-ahead log, and the file system allows only {0:?}")]
    Journal(String),
    /// A row that this program did not write, or wrote with another key.
    #[error("the gate's ledger cannot be read with this manifest key (ticket {0})")]
    Key(TicketId),
    /// A row that makes no sense.
    #[error("the gate's ledger is damaged: {0}")]
    Damaged(String),
    /// No randomness to seal secrets with.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// More is waiting than the disk can take.
    #[error("the gate's ledger has too much to do")]
    Busy,
    /// No answer in time; whether the entry was written is unknown.
    #[error("the gate's ledger does not answer")]
    TimedOut,
}

/// Why an authentic manifest is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It has run out.
    #[error("the manifest has expired")]
    Expired,
    /// A later one of this event is here.
    #[error("manifest {offered} of the event is older than {current}, which is already here")]
    Older {
        /// The number of what came.
        offered: u64,
        /// The number of what is here.
        current: u64,
    },
    /// Two different manifests claim to be the same one.
    #[error("manifest {0} of the event is already here, with other content")]
    Conflict(u64),
    /// The ledger failed; nothing was taken.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl From<rusqlite::Error> for ImportError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(error.into())
    }
}

/// What an import changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The event.
    pub event: EventId,
    /// The manifest that holds now.
    pub sequence: u64,
    /// Whether it was already here.
    pub unchanged: bool,
    /// Tickets of the event that are known now.
    pub tickets: u64,
    /// Of them revoked.
    pub revoked: u64,
    /// Tickets that were revoked only after somebody had come in on them.
    pub conflicts: u64,
}

/// A person who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// On which ticket.
    pub ticket: TicketId,
    /// Section, row and seat in words.
    pub label: String,
    /// The event's title.
    pub title: String,
    /// Which gate.
    pub gate: String,
    /// When.
    pub at: WallMs,
}

/// A row to be sent back to the organiser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Rises with every row; ask for what follows it.
    pub sequence: u64,
    /// The ticket.
    pub ticket: TicketId,
    /// Of which event.
    pub event: EventId,
    /// Which gate.
    pub gate: String,
    /// When.
    pub at: WallMs,
    /// For a conflict, what happened: `already_used` or `revoked_after_entry`.
    pub kind: Option<String>,
}

/// The state of one event at this venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStatus {
    /// The event.
    pub event: EventId,
    /// Its title.
    pub title: String,
    /// The manifest that holds.
    pub sequence: u64,
    /// Until when.
    pub expires_at: WallMs,
    /// Tickets known.
    pub tickets: u64,
    /// Of them revoked.
    pub revoked: u64,
    /// Of them used.
    pub admitted: u64,
}

/// Switch to the write-ahead log. Of two gates that open a new file at once SQLite turns the later one away without
/// waiting, whatever its patience, because both hold a lock that the other needs gone; so the waiting is done here.
fn write_ahead(db: &Connection) -> Result<String, rusqlite::Error> {
    let begun = Instant::now();
    loop {
        match db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) && begun.elapsed() < BUSY =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// The open file. One thread uses it; other processes may have the same file open.
pub struct Ledger {
    db: Connection,
    path: PathBuf,
    file: (u64, u64),
    key: GateKey,
}

impl Ledger {
    /// Open the file, or create it.
    pub fn open(path: &Path, key: GateKey) -> Result<Self, LedgerError> {
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY)?;
        let journal = write_ahead(&db)?;
        if journal != "wal" {
            return Err(LedgerError::Journal(journal));
        }
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")?;
        let schema = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match schema.query_row("PRAGMA user_version", [], |row| row.get(0))? {
            0 => schema.execute_batch(SCHEMA)?,
            VERSION => {}
            other => return Err(LedgerError::Version(other)),
        }
        schema.commit()?;
        let check: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if check != "ok" {
            return Err(LedgerError::Damaged(check));
        }
        let file = identity(path).ok_or_else(|| LedgerError::Replaced(path.to_owned()))?;
        Ok(Self { db, path: path.to_owned(), file, key })
    }

    /// Take an authentic manifest: tickets are added or updated, revocations with them, all or nothing.
    pub fn import(&mut self, manifest: &Manifest, now: WallMs) -> Result<Imported, ImportError> {
        if manifest.expires_at <= now {
            return Err(ImportError::Expired);
        }
        self.same_file()?;
        let key = self.key.clone();
        let digest = manifest.digest();
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let current: Option<(i64, Vec<u8>)> = change
            .query_row("SELECT sequence, digest FROM manifests WHERE event = ?1", [manifest.event.0], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let unchanged = match current {
            Some((sequence, _)) if sequence as u64 > manifest.sequence => {
                return Err(ImportError::Older { offered: manifest.sequence, current: sequence as u64 });
            }
            Some((sequence, known)) if sequence as u64 == manifest.sequence => {
                if known != digest {
                    return Err(ImportError::Conflict(manifest.sequence));
                }
                true
            }
            _ => false,
        };
        let conflicts = if unchanged { 0 } else { write_manifest(&change, &key, manifest, &digest, now)? };
        let (tickets, revoked) = change.query_row(
            "SELECT count(*), coalesce(sum(revoked), 0) FROM tickets WHERE event = ?1",
            [manifest.event.0],
            |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)),
        )?;
        change.commit()?;
        Ok(Imported { event: manifest.event, sequence: manifest.sequence, unchanged, tickets, revoked, conflicts })
    }

    /// Judge a code and, if all is well, write the admission down. The outer error means nobody knows: do not admit.
    pub fn scan(
        &mut self,
        code: &TicketCode,
        gate: &str,
        now: WallMs,
    ) -> Result<Result<Admission, Refusal>, LedgerError> {
        self.same_file()?;
        let known = self.known(code.ticket)?;
        let known = match judge(code, known.as_ref(), now) {
            Ok(known) => known,
            Err(refusal) => return self.refused(code.ticket, gate, now, refusal),
        };
        let written = self.db.execute(
            "INSERT INTO scans (ticket, gate, at) SELECT ticket, ?2, ?3 FROM tickets WHERE ticket = ?1 AND revoked = 0
             ON CONFLICT (ticket) DO NOTHING",
            params![code.ticket.to_string(), gate, millis(now)],
        )?;
        if written == 1 {
            let (label, title) = (known.label.clone(), known.title.clone());
            return Ok(Ok(Admission { ticket: code.ticket, label, title, gate: gate.to_owned(), at: now }));
        }
        // Another gate or a revocation came between the look and the insert: look again, to say which.
        let known = self.known(code.ticket)?;
        match judge(code, known.as_ref(), now) {
            Err(refusal) => self.refused(code.ticket, gate, now, refusal),
            Ok(_) => Err(LedgerError::Damaged(format!("ticket {} can neither be used nor is it", code.ticket))),
        }
    }

    fn refused(
        &self,
        ticket: TicketId,
        gate: &str,
        now: WallMs,
        refusal: Refusal,
    ) -> Result<Result<Admission, Refusal>, LedgerError> {
        if matches!(refusal, Refusal::AlreadyUsed(_)) {
            self.db.execute(
                "INSERT INTO conflicts (ticket, kind, gate, at) VALUES (?1, 'already_used', ?2, ?3)",
                params![ticket.to_string(), gate, millis(now)],
            )?;
        }
        Ok(Err(refusal))
    }

    fn known(&self, ticket: TicketId) -> Result<Option<Known>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT t.sealed_secret, t.label, m.title, m.expires_at, t.revoked, s.gate, s.at
             FROM tickets t JOIN manifests m USING (event) LEFT JOIN scans s USING (ticket) WHERE t.ticket = ?1",
        )?;
        let row = query
            .query_row([ticket.to_string()], |row| {
                let sealed: Vec<u8> = row.get(0)?;
                let used = match row.get::<_, Option<String>>(5)? {
                    Some(gate) => Some(Use { gate, at: wall(row, 6)? }),
                    None => None,
                };
                Ok((sealed, row.get(1)?, row.get(2)?, wall(row, 3)?, row.get(4)?, used))
            })
            .optional()?;
        let Some((sealed, label, title, expires_at, revoked, used)) = row else { return Ok(None) };
        let secret = self.key.open_secret(ticket, &sealed).ok_or(LedgerError::Key(ticket))?;
        Ok(Some(Known { secret, label, title, expires_at, revoked, used }))
    }

    /// Admissions after `since`, in order, at most `limit`.
    pub fn scans(&self, since: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        self.rows(
            "SELECT s.sequence, s.ticket, t.event, s.gate, s.at, NULL FROM scans s JOIN tickets t USING (ticket)
             WHERE s.sequence > ?1 ORDER BY s.sequence LIMIT ?2",
            since,
            limit,
        )
    }

    /// Conflicts after `since`, in order, at most `limit`.
    pub fn conflicts(&self, since: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        self.rows(
            "SELECT c.sequence, c.ticket, t.event, c.gate, c.at, c.kind FROM conflicts c JOIN tickets t USING (ticket)
             WHERE c.sequence > ?1 ORDER BY c.sequence LIMIT ?2",
            since,
            limit,
        )
    }

    fn rows(&self, query: &str, since: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        self.same_file()?;
        let mut query = self.db.prepare_cached(query)?;
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let rows = query.query_map(params![since, limit], |row| {
            let ticket: String = row.get(1)?;
            Ok((row.get::<_, i64>(0)? as u64, ticket, row.get(2)?, row.get(3)?, wall(row, 4)?, row.get(5)?))
        })?;
        let entry = |row: rusqlite::Result<(u64, String, u32, String, WallMs, Option<String>)>| {
            let (sequence, ticket, event, gate, at, kind) = row?;
            let ticket = ticket.parse().map_err(|error| LedgerError::Damaged(format!("{error}")))?;
            Ok(Entry { sequence, ticket, event: EventId(event), gate, at, kind })
        };
        rows.map(entry).collect()
    }

    /// Every event that a manifest has come for.
    pub fn status(&self) -> Result<Vec<EventStatus>, LedgerError> {
        self.same_file()?;
        let mut query = self.db.prepare_cached(
            "SELECT m.event, m.title, m.sequence, m.expires_at, count(t.ticket), coalesce(sum(t.revoked), 0),
                    count(s.ticket)
             FROM manifests m LEFT JOIN tickets t USING (event) LEFT JOIN scans s USING (ticket)
             GROUP BY m.event ORDER BY m.event",
        )?;
        let rows = query.query_map([], |row| {
            let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)? as u64);
            Ok(EventStatus {
                event: EventId(row.get(0)?),
                title: row.get(1)?,
                sequence: number(2)?,
                expires_at: wall(row, 3)?,
                tickets: number(4)?,
                revoked: number(5)?,
                admitted: number(6)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn same_file(&self) -> Result<(), LedgerError> {
        match identity(&self.path) {
            Some(file) if file == self.file => Ok(()),
            _ => Err(LedgerError::Replaced(self.path.clone())),
        }
    }
}

/// Which file a path leads to: device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Writes a manifest's tickets; returns how many were revoked after somebody had come in on them.
fn write_manifest(
    change: &Transaction<'_>,
    key: &GateKey,
    manifest: &Manifest,
    digest: &[u8; 32],
    now: WallMs,
) -> Result<u64, LedgerError> {
    change.execute(
        "INSERT INTO manifests (event, sequence, digest, title, issued_at, expires_at, imported_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (event) DO UPDATE SET sequence = excluded.sequence, digest = excluded.digest,
            title = excluded.title, issued_at = excluded.issued_at, expires_at = excluded.expires_at,
            imported_at = excluded.imported_at",
        params![
            manifest.event.0,
            i64::try_from(manifest.sequence)
                .map_err(|_| LedgerError::Damaged("a sequence number past i64".to_owned()))?,
            digest.as_slice(),
            manifest.title,
            millis(manifest.issued_at),
            millis(manifest.expires_at),
            millis(now),
        ],
    )?;
    // Noted before the update, so that a ticket that was revoked earlier is not noted again.
    let mut late = change.prepare(
        "INSERT INTO conflicts (ticket, kind, gate, at)
         SELECT s.ticket, 'revoked_after_entry', s.gate, s.at FROM scans s JOIN tickets t USING (ticket)
         WHERE s.ticket = ?1 AND t.revoked = 0",
    )?;
    let mut upsert = change.prepare(
        "INSERT INTO tickets (ticket, event, label, sealed_secret, revoked) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (ticket) DO UPDATE SET event = excluded.event, label = excluded.label,
            sealed_secret = excluded.sealed_secret, revoked = excluded.revoked",
    )?;
    let mut conflicts = 0;
    for ticket in &manifest.tickets {
        let id = ticket.ticket.to_string();
        if ticket.revoked {
            conflicts += late.execute([&id])? as u64;
        }
        let sealed = key.seal_secret(ticket.ticket, &ticket.secret)?;
        upsert.execute(params![id, manifest.event.0, ticket.label, sealed, ticket.revoked])?;
    }
    Ok(conflicts)
}

fn millis(at: WallMs) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn wall(row: &Row<'_>, column: usize) -> rusqlite::Result<WallMs> {
    row.get::<_, i64>(column).map(|ms| WallMs(ms.max(0) as u64))
}
