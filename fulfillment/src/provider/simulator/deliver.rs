//! Delivering events: signed, at least once, again after a failure, and charging those who pay late.

use super::books::Event;
use super::{Shared, now_ms};
use domain::order::webhook::sign;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long to wait at most before looking again.
const LOOK_AGAIN_MS: u64 = 250;
/// Longest pause between two deliveries of one event.
const LONGEST_PAUSE_MS: u64 = 30_000;
/// After so many failures an event is given up, as a real provider does after days.
const MOST_TRIES: u32 = 200;

pub(super) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    let http = http.expect("a client without TLS can be built");
    let mut running = JoinSet::new();
    loop {
        charge_late_payers(&shared);
        let hold = shared.switches().hold_events;
        for event in if hold { Vec::new() } else { take_due(&shared) } {
            let (shared, http) = (shared.clone(), http.clone());
            running.spawn(async move { deliver(&shared, &http, event).await });
        }
        while running.try_join_next().is_some() {}
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = shared.events.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(pause(&shared))) => {}
        }
    }
}

fn charge_late_payers(shared: &Shared) {
    let now = now_ms();
    let mut books = shared.books();
    let due = books.intents.values().filter(|intent| intent.charge_at.is_some_and(|at| at <= now));
    let due: Vec<_> = due.map(|intent| intent.id.clone()).collect();
    for id in due {
        books.charge(&id, 0);
    }
}

/// Events whose time has come. Each is put off until its delivery has had time, so that it is not sent twice by us.
fn take_due(shared: &Shared) -> Vec<Event> {
    let now = now_ms();
    let mut books = shared.books();
    let due = books.events.values_mut().filter(|event| event.due <= now);
    due.map(|event| {
        let taken = event.clone();
        event.due = now + LONGEST_PAUSE_MS;
        taken
    })
    .collect()
}

fn pause(shared: &Shared) -> u64 {
    let now = now_ms();
    let books = shared.books();
    let events = books.events.values().map(|event| event.due);
    let charges = books.intents.values().filter_map(|intent| intent.charge_at);
    let next = events.chain(charges).map(|due| due.saturating_sub(now)).min();
    next.map_or(LOOK_AGAIN_MS, |wait| wait.clamp(5, LOOK_AGAIN_MS))
}

async fn deliver(shared: &Shared, http: &reqwest::Client, event: Event) {
    let secret = if event.forged { "whsec_somebody_else" } else { shared.config.webhook_secret.as_str() };
    let mut copies = JoinSet::new();
    for _ in 0..event.copies {
        let signature = sign(secret.as_bytes(), now_ms() / 1000, event.body.as_bytes());
        let request = http
            .post(&shared.config.webhook_url)
            .header("Stripe-Signature", signature)
            .header("Content-Type", "application/json")
            .body(event.body.clone());
        copies.spawn(async move { request.send().await.is_ok_and(|answer| answer.status().is_success()) });
    }
    let accepted = copies.join_all().await.into_iter().all(|accepted| accepted);
    let mut books = shared.books();
    if accepted || event.forged || event.tries >= MOST_TRIES {
        books.delivered(&event.id);
    } else if let Some(again) = books.events.get_mut(&event.id) {
        again.tries += 1;
        again.due = now_ms() + (200_u64 << again.tries.min(10)).min(LONGEST_PAUSE_MS);
        drop(books);
        shared.events.notify_one();
    }
}
