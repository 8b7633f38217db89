//! The gate as a scanner and an organiser see it: over HTTP, with SQLite on a real disk.

use domain::ids::{EventId, TicketId};
use domain::ticket_code::{TicketCode, TicketSecret, WINDOW_MS};
use domain::time::WallMs;
use gate::manifest::{Manifest, ManifestTicket, OrganiserKey};
use gate::{Clock, Config};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use telemetry::Operations;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const START: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

/// One gate process on a port of its own; stopped when dropped.
struct Gate {
    url: String,
    shutdown: CancellationToken,
    served: JoinHandle<Result<(), gate::GateError>>,
    client: reqwest::Client,
}

impl Gate {
    async fn open(database: &Path, key: &OrganiserKey, now: &Arc<AtomicU64>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let config = Config { database: database.to_owned(), manifest_key: key.gate_key().to_text() };
        let (now, shutdown) = (Arc::clone(now), CancellationToken::new());
        let clock: Clock = Arc::new(move || WallMs(now.load(Ordering::SeqCst)));
        let served = gate::serve_with_clock(config, listener, Operations::new("gate"), shutdown.clone(), clock);
        Self { url, shutdown, served: tokio::spawn(served), client: reqwest::Client::new() }
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
        answer(self.client.post(format!("{}{path}", self.url)).body(body)).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.client.get(format!("{}{path}", self.url))).await
    }

    async fn scan(&self, code: impl ToString, gate: &str) -> (StatusCode, Value) {
        self.post("/scan", json!({"code": code.to_string(), "gate": gate}).to_string()).await
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.served.await.expect("no panic").expect("a clean stop");
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.gate.shutdown.cancel();
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.expect("the gate answers");
    let status = response.status();
    let text = response.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} is not JSON: {text}")))
}

struct Venue {
    folder: tempfile::TempDir,
    key: OrganiserKey,
    now: Arc<AtomicU64>,
    gate: Gate,
}

impl Venue {
    /// A gate that knows tickets 1 to 3, the third of them revoked.
    async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = OrganiserKey::generate().expect("randomness");
        let now = Arc::new(AtomicU64::new(START));
        let gate = Gate::open(&folder.path().join("gate.sqlite"), &key, &now).await;
        let venue = Self { folder, key, now, gate };
        let (status, body) = venue.import(&manifest(1)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        venue
    }

    async fn import(&self, manifest: &Manifest) -> (StatusCode, Value) {
        self.gate.post("/manifests", self.key.seal(manifest).expect("sealed")).await
    }

    fn code(&self, ticket: u128) -> TicketCode {
        TicketCode::at(TicketId(ticket), &secret(ticket), WallMs(self.now.load(Ordering::SeqCst)))
    }

    fn pass_ms(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("gate.sqlite")
    }
}

fn secret(ticket: u128) -> TicketSecret {
    TicketSecret([ticket as u8 + 100; 32])
}

fn manifest(sequence: u64) -> Manifest {
    let ticket = |n: u128| ManifestTicket {
        ticket: TicketId(n),
        secret: secret(n),
        label: format!("Stalls, row A, seat {n}"),
        revoked: n == 3,
    };
    Manifest {
        event: EventId(1),
        title: "Winter Concert".to_owned(),
        sequence,
        issued_at: WallMs(START),
        expires_at: WallMs(START + DAY_MS),
        tickets: (1..=3).map(ticket).collect(),
    }
}

fn refused(answer: &(StatusCode, Value), status: StatusCode, code: &str) {
    assert_eq!((answer.0, answer.1["error"].as_str()), (status, Some(code)), "{}", answer.1);
    assert!(answer.1["message"].as_str().is_some_and(|message| message.ends_with('.')), "{}", answer.1);
}

#[tokio::test]
async fn a_ticket_is_admitted_once_and_the_second_scan_says_where_and_when() {
    let venue = Venue::open().await;
    let (status, body) = venue.gate.scan(venue.code(1), "north").await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!((&body["admitted"], &body["seat"]), (&json!(true), &json!("Stalls, row A, seat 1")));
    venue.pass_ms(3 * WINDOW_MS);
    let second = venue.gate.scan(venue.code(1), "south").await;
    refused(&second, StatusCode::CONFLICT, "ALREADY_USED");
    assert_eq!((&second.1["gate"], &second.1["at_ms"]), (&json!("north"), &json!(START)));
    assert_eq!(second.1["message"], "Already used, at gate north, at 2027-01-15T08:00:00.000Z.");
    assert_eq!(venue.gate.scan(venue.code(2), "south").await.0, StatusCode::OK);
}

/// An invalid code of a used ticket is invalid; it learns nothing about the use. And each check in its order.
#[tokio::test]
async fn what_is_wrong_first_is_what_is_said() {
    let venue = Venue::open().await;
    assert_eq!(venue.gate.scan(venue.code(1), "north").await.0, StatusCode::OK);
    let forged = TicketCode::at(TicketId(1), &secret(2), WallMs(START));
    let answer = venue.gate.scan(forged, "south").await;
    refused(&answer, StatusCode::FORBIDDEN, "CODE_INVALID");
    assert!(answer.1.get("gate").is_none() && answer.1.get("at").is_none(), "{}", answer.1);
    let unknown = TicketCode::at(TicketId(9), &secret(9), WallMs(START));
    refused(&venue.gate.scan(unknown, "south").await, StatusCode::NOT_FOUND, "TICKET_UNKNOWN");
    let forged_revoked = TicketCode::at(TicketId(3), &secret(1), WallMs(START));
    refused(&venue.gate.scan(forged_revoked, "south").await, StatusCode::FORBIDDEN, "CODE_INVALID");
    refused(&venue.gate.scan(venue.code(3), "south").await, StatusCode::GONE, "TICKET_REVOKED");
    let old = venue.code(2);
    venue.pass_ms(2 * WINDOW_MS);
    refused(&venue.gate.scan(old, "south").await, StatusCode::FORBIDDEN, "CODE_EXPIRED");
    refused(&venue.gate.scan("tic_1", "south").await, StatusCode::UNPROCESSABLE_ENTITY, "CODE_MALFORMED");
}

/// Two scanners, one ticket, the same instant; ten times, through two processes' handles on one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_scanners_at_one_instant_one_admits() {
    let venue = Venue::open().await;
    let other = Gate::open(&venue.database(), &venue.key, &venue.now).await;
    let tickets = 10..30_u128;
    let many = Manifest {
        sequence: 2,
        tickets: tickets
            .clone()
            .map(|n| ManifestTicket {
                ticket: TicketId(n),
                secret: secret(n),
                label: format!("Seat {n}"),
                revoked: false,
            })
            .collect(),
        ..manifest(2)
    };
    assert_eq!(venue.import(&many).await.0, StatusCode::OK);
    for ticket in tickets {
        let code = venue.code(ticket);
        // Even tickets race inside one process, odd ones between two.
        let second = if ticket % 2 == 0 { &venue.gate } else { &other };
        let (a, b) = tokio::join!(venue.gate.scan(&code, "north"), second.scan(&code, "south"));
        let (winner, loser, won_at) = if a.0 == StatusCode::OK { (a, b, "north") } else { (b, a, "south") };
        assert_eq!(winner.0, StatusCode::OK, "{}", winner.1);
        refused(&loser, StatusCode::CONFLICT, "ALREADY_USED");
        assert_eq!(loser.1["gate"], won_at);
    }
    let (_, body) = other.get("/scans").await;
    assert_eq!(body["scans"].as_array().map(Vec::len), Some(20), "{body}");
    other.close().await;
}

/// Ticket id, time and format are public; a code made of them alone is refused.
#[tokio::test]
async fn a_code_from_public_data_is_refused() {
    let venue = Venue::open().await;
    let ticket = TicketId(1);
    for guess in [[0; 32], *b"tic_0000000000000000000000000000"] {
        let code = TicketCode::at(ticket, &TicketSecret(guess), WallMs(START));
        refused(&venue.gate.scan(code, "north").await, StatusCode::FORBIDDEN, "CODE_INVALID");
    }
    assert_eq!(venue.gate.scan(venue.code(1), "north").await.0, StatusCode::OK, "the guesses used nothing up");
}

#[tokio::test]
async fn entries_survive_a_restart_and_are_sent_back_in_pages() {
    let venue = Venue::open().await;
    assert_eq!(venue.gate.scan(venue.code(1), "north").await.0, StatusCode::OK);
    assert_eq!(venue.gate.scan(venue.code(2), "north").await.0, StatusCode::OK);
    assert_eq!(venue.gate.scan(venue.code(2), "south").await.0, StatusCode::CONFLICT);
    venue.gate.shutdown.cancel();
    let again = Gate::open(&venue.database(), &venue.key, &venue.now).await;
    refused(&again.scan(venue.code(1), "south").await, StatusCode::CONFLICT, "ALREADY_USED");
    let (_, first) = again.get("/scans?since=0&limit=1").await;
    assert_eq!(first["scans"][0]["ticket"], TicketId(1).to_string());
    let (_, rest) = again.get(&format!("/scans?since={}", first["next"])).await;
    assert_eq!(rest["scans"].as_array().map(Vec::len), Some(1));
    assert_eq!((&rest["scans"][0]["event_id"], &rest["scans"][0]["gate"]), (&json!(1), &json!("north")));
    let (_, conflicts) = again.get("/conflicts").await;
    let kinds: Vec<_> = conflicts["conflicts"].as_array().expect("rows").iter().map(|row| &row["kind"]).collect();
    assert_eq!(kinds, ["already_used", "already_used"]);
    let (_, status) = again.get("/status").await;
    let event = &status["events"][0];
    assert_eq!((&event["tickets"], &event["revoked"], &event["admitted"]), (&json!(3), &json!(1), &json!(2)));
    again.close().await;
}

#[tokio::test]
async fn only_authentic_current_manifests_are_taken() {
    let venue = Venue::open().await;
    let stranger = OrganiserKey::generate().expect("randomness");
    let forged = stranger.seal(&manifest(9)).expect("sealed");
    refused(&venue.gate.post("/manifests", forged).await, StatusCode::FORBIDDEN, "MANIFEST_NOT_AUTHENTIC");
    refused(
        &venue.gate.post("/manifests", "tickets please").await,
        StatusCode::UNPROCESSABLE_ENTITY,
        "MANIFEST_UNREADABLE",
    );
    let mut damaged = venue.key.seal(&manifest(9)).expect("sealed");
    damaged[60] ^= 1;
    refused(&venue.gate.post("/manifests", damaged).await, StatusCode::FORBIDDEN, "MANIFEST_NOT_AUTHENTIC");
    let expired = Manifest { expires_at: WallMs(START), ..manifest(9) };
    refused(&venue.import(&expired).await, StatusCode::UNPROCESSABLE_ENTITY, "MANIFEST_EXPIRED");
    let (status, body) = venue.import(&manifest(1)).await;
    assert_eq!((status, &body["unchanged"]), (StatusCode::OK, &json!(true)), "the same one again is harmless");
    let other = Manifest { title: "Other".to_owned(), ..manifest(1) };
    refused(&venue.import(&other).await, StatusCode::CONFLICT, "MANIFEST_CONFLICT");
    assert_eq!(venue.gate.scan(venue.code(1), "north").await.0, StatusCode::OK, "what was refused changed nothing");
}

#[tokio::test]
async fn an_older_manifest_does_not_undo_a_revocation() {
    let venue = Venue::open().await;
    assert_eq!(venue.gate.scan(venue.code(2), "north").await.0, StatusCode::OK);
    let mut newer = manifest(5);
    newer.tickets.iter_mut().for_each(|ticket| ticket.revoked = true);
    newer.tickets.push(ManifestTicket {
        ticket: TicketId(4),
        secret: secret(4),
        label: "A late sale".to_owned(),
        revoked: false,
    });
    let (_, body) = venue.import(&newer).await;
    // Ticket 2 was revoked after somebody had come in on it: recorded, not dropped.
    assert_eq!((&body["tickets"], &body["revoked"], &body["conflicts"]), (&json!(4), &json!(3), &json!(1)), "{body}");
    let older = venue.import(&manifest(4)).await;
    refused(&older, StatusCode::CONFLICT, "MANIFEST_OLDER");
    assert_eq!(older.1["sequence"], 5);
    refused(&venue.gate.scan(venue.code(1), "north").await, StatusCode::GONE, "TICKET_REVOKED");
    assert_eq!(venue.gate.scan(venue.code(4), "north").await.0, StatusCode::OK);
    let (_, conflicts) = venue.gate.get("/conflicts").await;
    assert_eq!(conflicts["conflicts"][0]["kind"], "revoked_after_entry", "{conflicts}");
}

#[tokio::test]
async fn nothing_is_admitted_by_an_expired_manifest() {
    let venue = Venue::open().await;
    venue.pass_ms(DAY_MS);
    refused(&venue.gate.scan(venue.code(1), "north").await, StatusCode::CONFLICT, "MANIFEST_EXPIRED");
    let fresh = Manifest { expires_at: WallMs(START + 2 * DAY_MS), ..manifest(2) };
    assert_eq!(venue.import(&fresh).await.0, StatusCode::OK);
    assert_eq!(venue.gate.scan(venue.code(1), "north").await.0, StatusCode::OK);
}

#[tokio::test]
async fn without_its_ledger_the_gate_admits_nobody_and_says_so() {
    let venue = Venue::open().await;
    std::fs::remove_file(venue.database()).expect("the file was there");
    let answer = venue.gate.scan(venue.code(1), "north").await;
    refused(&answer, StatusCode::SERVICE_UNAVAILABLE, "LEDGER_UNAVAILABLE");
    assert_eq!(answer.1["admitted"], json!(false));
    let (status, ready) = venue.gate.get("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready["waiting_for"]["ledger"].as_str().is_some(), "{ready}");
    assert_eq!(venue.gate.get("/healthz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn another_writer_that_never_ends_admits_nobody() {
    let venue = Venue::open().await;
    let lock = rusqlite::Connection::open(venue.database()).expect("opened");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let code = venue.code(1);
    refused(&venue.gate.scan(&code, "north").await, StatusCode::SERVICE_UNAVAILABLE, "LEDGER_UNAVAILABLE");
    lock.execute_batch("ROLLBACK").expect("unlocked");
    assert_eq!(venue.gate.scan(&code, "north").await.0, StatusCode::OK);
    assert_eq!(venue.gate.get("/readyz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn bad_input_is_refused_in_words() {
    let venue = Venue::open().await;
    let gate = &venue.gate;
    let code = venue.code(1).to_string();
    let listed = json!([code, "n"]).to_string();
    for body in ["", "{", "[]", "{\"code\": 5, \"gate\": \"n\"}", "{\"code\": \"x\"}", listed.as_str()] {
        refused(&gate.post("/scan", body.to_owned()).await, StatusCode::BAD_REQUEST, "BAD_REQUEST");
    }
    let extra = json!({"code": code, "gate": "n", "force": true}).to_string();
    refused(&gate.post("/scan", extra).await, StatusCode::BAD_REQUEST, "BAD_REQUEST");
    for name in ["", " ", "a\nb", &"x".repeat(65)] {
        refused(&gate.scan(&code, name).await, StatusCode::UNPROCESSABLE_ENTITY, "BAD_GATE");
    }
    refused(&gate.post("/scan", "x".repeat(10_000)).await, StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE");
    for query in ["since=-1", "since=x", "limit=0", "limit=99999999", "upto=3"] {
        refused(&gate.get(&format!("/scans?{query}")).await, StatusCode::BAD_REQUEST, "BAD_REQUEST");
    }
    refused(&gate.get("/nowhere").await, StatusCode::NOT_FOUND, "NOT_FOUND");
    refused(&gate.get("/scan").await, StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
    let (status, answer) = gate.scan(format!(" {code}\n"), "north").await;
    assert_eq!(status, StatusCode::OK, "nothing above used the ticket; a scanner's white space is forgiven: {answer}");
}

#[tokio::test]
async fn a_gate_with_a_bad_key_or_another_organisers_ledger_does_not_pretend() {
    let venue = Venue::open().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let config = Config { database: venue.database(), manifest_key: "secret".to_owned() };
    let error = gate::serve(config, listener, Operations::new("gate"), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("manifest_key: not a manifest key"), "{error}");
    let stranger = OrganiserKey::generate().expect("randomness");
    let other = Gate::open(&venue.database(), &stranger, &venue.now).await;
    refused(&other.scan(venue.code(1), "north").await, StatusCode::SERVICE_UNAVAILABLE, "LEDGER_UNAVAILABLE");
    other.close().await;
}
