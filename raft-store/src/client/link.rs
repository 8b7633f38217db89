//! One long-lived stream to one node. What is waiting goes into one frame; answers come back by id.

use super::dial::{Conversation, Dial};
use crate::runtime;
use crate::wire::frames::{Ask, AskFrame, answer, ask};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Asks in one frame.
const ASKS_PER_FRAME: usize = 256;
/// Bytes of one frame, roughly, so that a few large asks do not pass the receiver's limit together.
const FRAME_BYTES: usize = 1 << 20;

/// Why an ask has no answer from this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkError {
    /// It was not sent.
    NotSent(String),
    /// It was sent and the stream broke: unknown.
    Broken(String),
    /// Too many asks wait for this node.
    Full,
}

struct Pending {
    group: u32,
    what: ask::What,
    reply: oneshot::Sender<Result<answer::What, LinkError>>,
}

/// A handle to the stream to one node. The stream is opened by the first ask and again after it broke.
pub(super) struct Link {
    queue: mpsc::UnboundedSender<Pending>,
    unanswered: Arc<AtomicUsize>,
    limit: usize,
}

/// Counts an ask until its caller has the answer or has given up.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    /// A link to this address; its task ends when the handle is dropped.
    pub(super) fn new(address: String, dial: Arc<dyn Dial>, connect_timeout: Duration, limit: usize) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        runtime::spawn(run(address, dial, connect_timeout, waiting));
        Self { queue, unanswered: Arc::default(), limit }
    }

    /// Sends one ask and waits for its answer. The caller bounds the time.
    pub(super) async fn ask(&self, group: u32, what: ask::What) -> Result<answer::What, LinkError> {
        let before = self.unanswered.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.unanswered);
        if before >= self.limit {
            return Err(LinkError::Full);
        }
        let (reply, answer) = oneshot::channel();
        self.queue
            .send(Pending { group, what, reply })
            .map_err(|_| LinkError::NotSent("the client is shutting down".into()))?;
        answer.await.unwrap_or_else(|_| Err(LinkError::Broken("the stream ended".into())))
    }
}

async fn run(
    address: String,
    dial: Arc<dyn Dial>,
    connect_timeout: Duration,
    mut waiting: mpsc::UnboundedReceiver<Pending>,
) {
    while let Some(first) = waiting.recv().await {
        let opened = runtime::timeout(connect_timeout, dial.converse(&address)).await;
        match opened.unwrap_or_else(|| Err("connecting took too long".into())) {
            Ok(conversation) => {
                tracing::debug!(address, "stream to store node opened");
                let reason = converse(conversation, first, &mut waiting).await;
                tracing::debug!(address, reason, "stream to store node ended");
            }
            Err(reason) => {
                let failed = LinkError::NotSent(format!("{address}: {reason}"));
                let _ = first.reply.send(Err(failed.clone()));
                while let Ok(pending) = waiting.try_recv() {
                    let _ = pending.reply.send(Err(failed.clone()));
                }
            }
        }
    }
}

type Replies = BTreeMap<u64, oneshot::Sender<Result<answer::What, LinkError>>>;

/// Asks that were sent and not answered. Closed when the stream ended: nothing may be added that nobody would fail.
#[derive(Default)]
struct Unanswered {
    replies: Replies,
    closed: Option<String>,
}

async fn converse(
    conversation: Conversation,
    first: Pending,
    waiting: &mut mpsc::UnboundedReceiver<Pending>,
) -> String {
    let Conversation { asks, mut answers } = conversation;
    let unanswered = Arc::new(Mutex::new(Unanswered::default()));

    let reading = unanswered.clone();
    let reader = async move {
        let reason = loop {
            match answers.next().await {
                Some(Ok(frame)) => {
                    let mut open = reading.lock().unwrap_or_else(PoisonError::into_inner);
                    for answer in frame.answers {
                        let reply = open.replies.remove(&answer.id);
                        if let (Some(reply), Some(what)) = (reply, answer.what) {
                            let _ = reply.send(Ok(what));
                        }
                    }
                }
                Some(Err(reason)) => break reason,
                None => break "the node closed the stream".to_owned(),
            }
        };
        let mut open = reading.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, reply) in std::mem::take(&mut open.replies) {
            let _ = reply.send(Err(LinkError::Broken(reason.clone())));
        }
        open.closed = Some(reason.clone());
        reason
    };
    // The reader runs beside the writer: were they one loop, a full outgoing stream could keep answers from being read.
    let (ended, end) = oneshot::channel();
    runtime::spawn(async move {
        let _ = ended.send(reader.await);
    });
    write(asks, first, waiting, &unanswered, end).await
}

/// Gathers what is waiting into frames until the stream ends or all handles are gone.
async fn write(
    asks: mpsc::Sender<AskFrame>,
    first: Pending,
    waiting: &mut mpsc::UnboundedReceiver<Pending>,
    unanswered: &Mutex<Unanswered>,
    mut end: oneshot::Receiver<String>,
) -> String {
    let mut next_id = 0;
    let mut next = Some(first);
    loop {
        let pending = match next.take() {
            Some(pending) => Some(pending),
            None => tokio::select! {
                biased;
                reason = &mut end => return reason.unwrap_or_default(),
                pending = waiting.recv() => pending,
            },
        };
        let Some(first) = pending else { return "no handle is left".into() };
        // Room first, then gather: whatever arrives while the stream is busy joins this frame.
        let permit = tokio::select! {
            biased;
            permit = asks.reserve() => permit.ok(),
            _ = &mut end => None,
        };
        let Some(permit) = permit else {
            let _ = first.reply.send(Err(LinkError::NotSent("the stream ended".into())));
            return "the stream ended".into();
        };
        let frame = gather(first, waiting, unanswered, &mut next_id);
        if !frame.asks.is_empty() {
            permit.send(frame);
        }
    }
}

fn gather(
    first: Pending,
    waiting: &mut mpsc::UnboundedReceiver<Pending>,
    unanswered: &Mutex<Unanswered>,
    next_id: &mut u64,
) -> AskFrame {
    let mut frame = AskFrame::default();
    let mut bytes = 0;
    let mut open = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pending = Some(first);
    while let Some(Pending { group, what, reply }) = pending {
        if let Some(reason) = &open.closed {
            let _ = reply.send(Err(LinkError::NotSent(reason.clone())));
        } else if !reply.is_closed() {
            *next_id += 1;
            bytes += size(&what);
            open.replies.insert(*next_id, reply);
            frame.asks.push(Ask { id: *next_id, group, what: Some(what) });
        }
        let full = frame.asks.len() >= ASKS_PER_FRAME || bytes >= FRAME_BYTES;
        pending = if full { None } else { waiting.try_recv().ok() };
    }
    frame
}

fn size(what: &ask::What) -> usize {
    match what {
        ask::What::Request(bytes) => bytes.len(),
        ask::What::Read(read) => read.question.len(),
        ask::What::Status(_) | ask::What::History(_) => 0,
    }
}
