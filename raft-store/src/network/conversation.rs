//! One client's conversation with this node: asks come in frames and in any number, answers leave as they become known,
//! many to a frame. Knows nothing of gRPC, so the simulation runs it over its own link.

use super::caller::Caller;
use crate::client::{GroupStatus, NodeStatus, Role};
use crate::group::{self, GroupHandle, LeaderHint, ProposeError, ReadError};
use crate::node::Node;
use crate::wire;
use crate::wire::frames::{self, Answer, AnswerFrame, Ask, AskFrame, answer, ask};
use domain::ids::{EventId, GroupId, NodeId, Partition, SeatIndex, SectionId};
use domain::inventory::{Answer as Told, Query, Request};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;

/// Unanswered asks of one conversation. Past it nothing more is read; the client has its own, smaller bound.
const UNANSWERED: usize = 16_384;
/// Asks that one frame may carry.
const ASKS_PER_FRAME: usize = 1_024;
/// Answers in one frame, and roughly its bytes, so that large answers do not pass the receiver's limit together.
const ANSWERS_PER_FRAME: usize = 1_024;
/// Entries that a replica may have in its log and not applied when it answers from its applied state.
const LAG: u64 = 1_000;
const FRAME_BYTES: usize = 1 << 20;

type Working = FuturesUnordered<BoxFuture<'static, Answer>>;

/// Answers somebody on this machine; see [`converse_as`].
pub async fn converse(
    node: Node,
    asks: BoxStream<'static, Result<AskFrame, String>>,
    frames: mpsc::Sender<AnswerFrame>,
) {
    converse_as(Caller::Loopback, node, asks, frames).await;
}

/// Answers asks until the client's stream ends, breaks, or says something that is no frame.
pub async fn converse_as(
    caller: Caller,
    node: Node,
    mut asks: BoxStream<'static, Result<AskFrame, String>>,
    frames: mpsc::Sender<AnswerFrame>,
) {
    let mut working = Working::new();
    let mut ready = Vec::new();
    loop {
        tokio::select! {
            biased;
            permit = frames.reserve(), if !ready.is_empty() => match permit {
                Ok(permit) => permit.send(gather(&mut ready)),
                Err(_) => return,
            },
            Some(answer) = working.next(), if !working.is_empty() => {
                ready.push(answer);
                while let Some(Some(answer)) = working.next().now_or_never() {
                    ready.push(answer);
                }
            }
            frame = asks.next(), if working.len() + ready.len() < UNANSWERED => match frame {
                Some(Ok(frame)) if frame.asks.len() <= ASKS_PER_FRAME => {
                    for ask in frame.asks {
                        match take(caller, &node, ask) {
                            Taken::Answered(answer) => ready.push(answer),
                            Taken::Working(answer) => working.push(answer),
                        }
                    }
                }
                Some(Ok(frame)) => {
                    tracing::warn!(asks = frame.asks.len(), "a client's frame is too long; its stream is closed");
                    return;
                }
                Some(Err(reason)) => {
                    tracing::debug!(reason, "a client's stream broke");
                    return;
                }
                // What was asked is still answered.
                None => break,
            },
        }
    }
    while let Some(answer) = working.next().await {
        ready.push(answer);
    }
    while !ready.is_empty() && frames.send(gather(&mut ready)).await.is_ok() {}
}

fn gather(ready: &mut Vec<Answer>) -> AnswerFrame {
    let mut bytes = 0;
    let mut count = 0;
    for answer in ready.iter().take(ANSWERS_PER_FRAME) {
        bytes += size(answer);
        count += 1;
        if bytes >= FRAME_BYTES {
            break;
        }
    }
    AnswerFrame { answers: ready.drain(..count).collect() }
}

fn size(answer: &Answer) -> usize {
    match &answer.what {
        Some(
            answer::What::Outcome(bytes)
            | answer::What::Answer(bytes)
            | answer::What::Status(bytes)
            | answer::What::History(bytes),
        ) => bytes.len(),
        _ => 16,
    }
}

enum Taken {
    Answered(Answer),
    Working(BoxFuture<'static, Answer>),
}

fn take(caller: Caller, node: &Node, ask: Ask) -> Taken {
    let Ask { id, group, what } = ask;
    let answered = |what| Taken::Answered(Answer { id, what: Some(what) });
    if let Some(ask::What::Status(_)) = what {
        return answered(answer::What::Status(wire::encode(&status(node))));
    }
    if let Some(ask::What::History(seat)) = what {
        return history(id, node, seat);
    }
    let Some(group) = node.group(GroupId(group)) else {
        return answered(answer::What::NoSuchGroup(frames::NoSuchGroup {}));
    };
    match what {
        Some(ask::What::Request(bytes)) => command(caller, id, &group, &bytes),
        Some(ask::What::Read(read)) => question(id, &group, &read),
        Some(ask::What::Status(_) | ask::What::History(_)) | None => answered(malformed("an ask without a question")),
    }
}

fn command(caller: Caller, id: u64, group: &GroupHandle, bytes: &[u8]) -> Taken {
    let answered = |what| Taken::Answered(Answer { id, what: Some(what) });
    let request: Request = match wire::decode("request", bytes) {
        Ok(request) => request,
        Err(error) => return answered(malformed(&error.to_string())),
    };
    if let Err(reason) = caller.may_submit(&request) {
        return answered(answer::What::Denied(frames::Denied { reason }));
    }
    let outcome = match group.submit(request, bytes.len()) {
        Ok(outcome) => outcome,
        Err(error) => return answered(not_proposed(error)),
    };
    Taken::Working(Box::pin(async move {
        let what = match outcome.await {
            Ok(Ok(outcome)) => answer::What::Outcome(wire::encode(&outcome)),
            Ok(Err(error)) => not_proposed(error),
            Err(_) => unknown("the node is stopping"),
        };
        Answer { id, what: Some(what) }
    }))
}

fn question(id: u64, group: &GroupHandle, read: &frames::Read) -> Taken {
    let (partition, query): (Partition, Query) = match wire::decode("question", &read.question) {
        Ok(question) => question,
        Err(error) => return Taken::Answered(Answer { id, what: Some(malformed(&error.to_string())) }),
    };
    if !read.linearizable && group.lag() > LAG {
        // Just restarted, for instance: what it has applied may be hours old.
        return Taken::Answered(Answer { id, what: Some(answer::What::Behind(frames::Behind { version: 0 })) });
    }
    if !read.linearizable {
        let what = match group.read_applied(&partition, &query) {
            Told::SeatMap(map) if map.version < read.min_version => {
                answer::What::Behind(frames::Behind { version: map.version })
            }
            told => answer::What::Answer(wire::encode(&told)),
        };
        return Taken::Answered(Answer { id, what: Some(what) });
    }
    let group = group.clone();
    Taken::Working(Box::pin(async move {
        let what = match group.read(&partition, &query).await {
            Ok(told) => answer::What::Answer(wire::encode(&told)),
            Err(ReadError::NotLeader(hint)) => not_leader(hint),
            Err(ReadError::NoSuchGroup(_)) => answer::What::NoSuchGroup(frames::NoSuchGroup {}),
            Err(ReadError::Unavailable(reason)) => answer::What::Unavailable(frames::Unavailable { reason }),
        };
        Answer { id, what: Some(what) }
    }))
}

/// Everything that was applied here before the question is in the answer.
fn history(id: u64, node: &Node, seat: frames::HistoryRequest) -> Taken {
    let history = node.history().cloned();
    Taken::Working(Box::pin(async move {
        let told = match history {
            Some(history) => {
                history.settle().await;
                let section = SectionId(u16::try_from(seat.section).unwrap_or(u16::MAX));
                let found = history.seat(EventId(seat.event), section, SeatIndex(seat.seat));
                found.map_err(|error| error.to_string())
            }
            None => Err("this node keeps no seat history".to_owned()),
        };
        let what = match told {
            Ok(history) => answer::What::History(wire::encode(&history)),
            Err(reason) => answer::What::Unavailable(frames::Unavailable { reason }),
        };
        Answer { id, what: Some(what) }
    }))
}

fn not_proposed(error: ProposeError) -> answer::What {
    match error {
        ProposeError::NotLeader(hint) => not_leader(hint),
        ProposeError::Overloaded { retry_after_ms } => answer::What::Overloaded(frames::Overloaded { retry_after_ms }),
        too_large @ ProposeError::TooLarge { .. } => malformed(&too_large.to_string()),
        ProposeError::Unknown { reason, .. } => unknown(&reason),
        ProposeError::NoSuchGroup(_) => answer::What::NoSuchGroup(frames::NoSuchGroup {}),
    }
}

fn not_leader(hint: LeaderHint) -> answer::What {
    answer::What::NotLeader(frames::NotLeader {
        node: hint.leader.map_or(0, |node| node.0),
        address: hint.address.unwrap_or_default(),
    })
}

fn unknown(reason: &str) -> answer::What {
    answer::What::Unknown(frames::Unknown { reason: reason.to_owned() })
}

fn malformed(reason: &str) -> answer::What {
    answer::What::Malformed(frames::Malformed { reason: reason.to_owned() })
}

/// This node about itself.
pub fn status(node: &Node) -> NodeStatus {
    let groups = node.groups().iter().map(|group| replica(node.id(), group.status(), group)).collect();
    NodeStatus {
        node: node.id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        groups,
        moves: node.moves().notes(),
        clock_ahead_ms: node.clocks().ahead_ms(),
    }
}

fn replica(node: NodeId, status: group::GroupStatus, handle: &GroupHandle) -> GroupStatus {
    let role = if status.stopped.is_some() {
        Role::Stopped
    } else if status.is_leader {
        Role::Leader
    } else if !status.members.contains_key(&node) || handle.has_departed() {
        Role::Outside
    } else if status.learners.contains(&node) {
        Role::Learner
    } else if status.leader.is_none() {
        Role::Candidate
    } else {
        Role::Follower
    };
    GroupStatus {
        group: status.group,
        role,
        leader: status.leader,
        term: status.term,
        last_log: status.last_log,
        applied: status.applied,
        snapshot: status.snapshot,
        purged: status.purged,
        voters: status.voters,
        learners: status.learners,
        members: status.members,
        joint: status.joint,
        queued: handle.queued() as u64,
        partitions: handle.partitions(),
        served: handle.served(),
    }
}
