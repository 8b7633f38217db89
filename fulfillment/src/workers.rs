//! The host loops: one task per kind of work, so that a slow provider delays no ticket and a full mailbox no refund.

use crate::feed::Feed;
use crate::initialize::{self, Opening};
use crate::metrics::Metrics;
use crate::notify::{FileSink, Notifier};
use crate::provider::Provider;
use crate::provider::counted::Counted;
use crate::settlement::{self, Extender};
use crate::step::Done;
use crate::store::Store;
use crate::{Config, Parts, cancellation, consumers, refunds, relay};
use domain::time::WallMs;
use ledger::Ledger;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use telemetry::Operations;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Pause between two looks at slow things: silent payments, ages.
const SLOW_MS: u64 = 2_000;
/// Pause between two rounds of extensions.
const EXTEND_MS: u64 = 500;
/// Pause between two looks at what was handled long ago.
const PRUNE_MS: u64 = 60_000;
/// How much more seldom than payments and tickets, which a fan waits for, the rest is looked at.
const UNHURRIED: u64 = 3;
/// Longest pause after failures.
const LONGEST_PAUSE_MS: u64 = 2_000;

fn now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Repeats a step until shutdown: at once while there is work, after a pause otherwise, after a longer one on failure.
#[derive(Clone)]
struct Loop {
    metrics: Metrics,
    shutdown: CancellationToken,
}

impl Loop {
    async fn run(self, step: &'static str, pause_ms: u64, mut pass: impl AsyncFnMut() -> Done) {
        let mut failures: u32 = 0;
        while !self.shutdown.is_cancelled() {
            let done = pass().await;
            let pause = match &done {
                Ok(0) => pause_ms,
                Ok(_) => pause_ms / 4,
                Err(_) => (pause_ms << failures.min(5)).clamp(pause_ms, LONGEST_PAUSE_MS.max(pause_ms)),
            };
            match done {
                Ok(count) => {
                    self.metrics.did(step, count);
                    failures = 0;
                }
                Err(error) => {
                    self.metrics.failed(step);
                    // Said once, then counted: an outage must not drown the log.
                    if failures == 0 {
                        tracing::warn!(step, %error, "will be tried again");
                    }
                    failures += 1;
                }
            }
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }
}

/// Start every loop.
pub(crate) fn start<S: Store, L: Ledger, P: Provider>(
    config: &Config,
    parts: Parts<S, L, P>,
    sink: FileSink,
    operations: &Operations,
    shutdown: &CancellationToken,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let host = Loop { metrics: Metrics::new(operations), shutdown: shutdown.clone() };
    let parts = Parts {
        provider: Counted::new(parts.provider, host.metrics.clone()),
        store: parts.store,
        ledger: parts.ledger,
        sealer: parts.sealer,
    };
    money(&mut workers, &host, config, &parts);
    effects(&mut workers, &host, config, &parts, sink);
    let (metrics, operations, ledger) = (host.metrics.clone(), operations.clone(), parts.ledger);
    workers.spawn(host.run("backlog", SLOW_MS, async move || match ledger.backlog(now()).await {
        Ok(backlog) => {
            metrics.backlog(&backlog);
            operations.set_ready("ledger");
            Ok(0)
        }
        Err(error) => {
            operations.set_unready("ledger", error.to_string());
            Err(error.into())
        }
    }));
    workers
}

fn money<S: Store, L: Ledger, P: Provider>(
    workers: &mut JoinSet<()>,
    host: &Loop,
    config: &Config,
    parts: &Parts<S, L, P>,
) {
    let Parts { store, ledger, provider, .. } = parts.clone();
    let opened = store.clone();
    let unhurried = config.poll_ms * UNHURRIED;
    let opening = Opening::default();
    let mut tasks = JoinSet::new();
    workers.spawn(host.clone().run("initialize", config.poll_ms, async move || {
        opening.start(&opened, &ledger, &provider, &mut tasks, now()).await
    }));
    let Parts { store: settling, ledger, .. } = parts.clone();
    workers.spawn(
        host.clone().run("settle", config.poll_ms, async move || settlement::settle(&settling, &ledger, now()).await),
    );
    let Parts { ledger, .. } = parts.clone();
    workers.spawn(host.clone().run("release", unhurried, async move || settlement::release(&store, &ledger).await));
    let Parts { store, ledger, .. } = parts.clone();
    workers.spawn(
        host.clone().run("cancel", unhurried, async move || cancellation::carry_out(&store, &ledger, now()).await),
    );
    let Parts { store, ledger, provider, .. } = parts.clone();
    workers.spawn(
        host.clone().run("ask", SLOW_MS, async move || initialize::ask(&store, &ledger, &provider, now()).await),
    );
    let Parts { ledger, provider, .. } = parts.clone();
    workers.spawn(host.clone().run("refund", unhurried, async move || refunds::send(&ledger, &provider, now()).await));
    let Parts { store, ledger, .. } = parts.clone();
    workers.spawn(
        host.clone().run("return", unhurried, async move || refunds::return_seats(&store, &ledger, now()).await),
    );
    if config.extend_holds {
        let Parts { store, ledger, .. } = parts.clone();
        let mut extender = Extender::default();
        workers
            .spawn(host.clone().run("extend", EXTEND_MS, async move || extender.extend(&store, &ledger, now()).await));
    }
}

fn effects<S: Store, L: Ledger, P: Provider>(
    workers: &mut JoinSet<()>,
    host: &Loop,
    config: &Config,
    parts: &Parts<S, L, P>,
    sink: FileSink,
) {
    let unhurried = config.poll_ms * UNHURRIED;
    let ledger = parts.ledger.clone();
    workers.spawn(host.clone().run("relay", config.poll_ms, async move || relay::relay(&ledger, now()).await));
    let ledger = parts.ledger.clone();
    workers.spawn(host.clone().run("prune", PRUNE_MS, async move || relay::prune(&ledger, now()).await));
    let (ledger, sealer) = (parts.ledger.clone(), parts.sealer.clone());
    workers.spawn(
        host.clone()
            .run("tickets", config.poll_ms, async move || consumers::tickets::issue(&ledger, &sealer, now()).await),
    );
    let ledger = parts.ledger.clone();
    workers
        .spawn(host.clone().run("messages", unhurried, async move || consumers::messages::write(&ledger, now()).await));
    let ledger = parts.ledger.clone();
    let mut notifier = Notifier::default();
    workers.spawn(host.clone().run("notify", unhurried, async move || notifier.send(&ledger, &sink, now()).await));
    let Parts { store, ledger, .. } = parts.clone();
    let mut feed = Feed::default();
    workers.spawn(host.clone().run("feed", config.feed_ms, async move || feed.consume(&store, &ledger, now()).await));
}
