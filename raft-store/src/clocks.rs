//! Whether this node's wall clock is right, as far as its peers can tell. No hold ends by a wall clock, but sales open and
//! prices change by the leader's; so a node asks its peers for the time every few seconds, and says by metric and log when
//! its own is far from theirs. It changes nothing by itself.

use crate::node::Node;
use crate::runtime::{millis_since, now, sleep};
use crate::transport::{Lane, PeerCall, PeerRequest, Transport};
use crate::wire;
use bytes::Bytes;
use domain::ids::{GroupId, NodeId};
use domain::time::WallMs;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A clock that is further from its peers' is said to be wrong.
pub const CLOCK_WRONG_MS: u64 = 500;
/// One that was wrong is right again when it is as near as this, so that one at the brink does not fill the log.
const RIGHT_MS: u64 = 400;
/// Between two looks.
const PERIOD: Duration = Duration::from_secs(3);
/// An answer that took longer says too little: the time of the other end is known to half of it only.
const SLOWEST_MS: u64 = 250;
/// A peer's time is counted for so many looks when it does not answer.
const REMEMBERED: u32 = 5;

/// What a node found about its wall clock. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Clocks(Arc<Mutex<Option<i64>>>);

impl Clocks {
    /// Milliseconds that this node's clock is ahead of the median of its peers; `None` while none has told the time.
    pub fn ahead_ms(&self) -> Option<i64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, ahead_ms: Option<i64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ahead_ms;
    }
}

/// Compares until the node stops.
pub(crate) async fn run(node: Node, transport: Arc<dyn Transport>, stop: CancellationToken) {
    let mut peers = Peers::default();
    let mut verdict = Verdict::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            heard = ask(&node, &transport) => peers.hear(heard),
        }
        let ahead_ms = ahead_of_median(&peers.ahead());
        node.clocks().found(ahead_ms);
        let id = node.id();
        match ahead_ms.and_then(|ahead_ms| verdict.turns(ahead_ms)) {
            Some(Turn::Wrong(ahead_ms)) => tracing::warn!(
                node = %id,
                ahead_ms,
                leads = node.groups().iter().any(crate::group::GroupHandle::is_leader),
                "the wall clock of this node is far from its peers': sales open and prices change by the leader's clock"
            ),
            Some(Turn::Right(ahead_ms)) => {
                tracing::info!(node = %id, ahead_ms, "the wall clock agrees with its peers'");
            }
            None => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
    }
}

/// How far each peer that answers is ahead of this node now; `None` for one that does not.
async fn ask(node: &Node, transport: &Arc<dyn Transport>) -> BTreeMap<NodeId, Option<i64>> {
    let members = node.groups().into_iter().flat_map(|group| group.status().members);
    let known: BTreeMap<NodeId, String> = members.chain(node.config().peers.clone()).collect();
    let asked = known.into_iter().filter(|(peer, _)| *peer != node.id()).map(|(peer, address)| async move {
        let request = PeerRequest {
            to: peer,
            address,
            lane: Lane::Heartbeat,
            group: GroupId::META,
            call: PeerCall::Clock,
            body: Bytes::new(),
            timeout: Duration::from_millis(SLOWEST_MS),
        };
        let (wall, begun) = (node.clock().now(), now());
        let answer = transport.call(request).await.ok();
        let took_ms = millis_since(begun);
        let theirs = answer.and_then(|bytes| wire::decode::<WallMs>("time", &bytes).ok());
        (peer, theirs.filter(|_| took_ms <= SLOWEST_MS).map(|theirs| ahead_by(wall, took_ms, theirs)))
    });
    join_all(asked).await.into_iter().collect()
}

/// How far a peer is ahead that said `theirs` in answer to a question that was asked at `asked` and took so long: half of
/// it, at best, on the way there.
fn ahead_by(asked: WallMs, took_ms: u64, theirs: WallMs) -> i64 {
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    signed(theirs.0).saturating_sub(signed(asked.0.saturating_add(took_ms / 2)))
}

/// How far this clock is ahead of the median of its peers, of which each is so far ahead of it. With an even number of them
/// the median is anything between the two in the middle, and the clock is compared with the nearer end: of three clocks
/// only the wrong one then finds itself wrong.
fn ahead_of_median(peers: &[i64]) -> Option<i64> {
    let mut peers = peers.to_vec();
    peers.sort_unstable();
    let (low, high) = (peers.get(peers.len().checked_sub(1)? / 2)?, peers.get(peers.len() / 2)?);
    Some(0_i64.saturating_sub(0_i64.clamp(*low, *high)))
}

/// What the peers last said, and for how many looks they have been silent.
#[derive(Default)]
struct Peers(BTreeMap<NodeId, (i64, u32)>);

impl Peers {
    fn hear(&mut self, heard: BTreeMap<NodeId, Option<i64>>) {
        self.0.retain(|peer, (_, silent)| {
            *silent += 1;
            heard.contains_key(peer) && *silent <= REMEMBERED
        });
        self.0.extend(heard.into_iter().filter_map(|(peer, ahead)| Some((peer, (ahead?, 0)))));
    }

    fn ahead(&self) -> Vec<i64> {
        self.0.values().map(|(ahead, _)| *ahead).collect()
    }
}

/// Whether the clock was last said to be wrong.
#[derive(Default)]
struct Verdict {
    wrong: bool,
}

/// What there is to say; once, when it changes.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Wrong(i64),
    Right(i64),
}

impl Verdict {
    fn turns(&mut self, ahead_ms: i64) -> Option<Turn> {
        let off = ahead_ms.unsigned_abs();
        let (wrong, turn) = if self.wrong {
            (off > RIGHT_MS, Turn::Right(ahead_ms))
        } else {
            (off > CLOCK_WRONG_MS, Turn::Wrong(ahead_ms))
        };
        (std::mem::replace(&mut self.wrong, wrong) != wrong).then_some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn only_the_wrong_clock_finds_itself_wrong() {
        assert_eq!(ahead_of_median(&[]), None);
        // Of two, nobody can tell which.
        assert_eq!(ahead_of_median(&[HOUR]), Some(-HOUR));
        // Of three, one an hour ahead: as it sees the others, and as they see it.
        assert_eq!(ahead_of_median(&[-HOUR - 3, -HOUR + 2]), Some(HOUR - 2));
        assert_eq!(ahead_of_median(&[HOUR, 5]), Some(-5));
        assert_eq!(ahead_of_median(&[HOUR, -5]), Some(0));
        // An hour behind.
        assert_eq!(ahead_of_median(&[HOUR + 1, HOUR]), Some(-HOUR));
        // Of four: the median of the other three.
        assert_eq!(ahead_of_median(&[700, 20, HOUR]), Some(-700));
        // Of five: between the two in the middle.
        assert_eq!(ahead_of_median(&[-HOUR, -10, 30, HOUR]), Some(0));
        assert_eq!(ahead_of_median(&[i64::MIN]), Some(i64::MAX));
    }

    #[test]
    fn half_of_the_way_is_taken_off() {
        assert_eq!(ahead_by(WallMs(1_000), 40, WallMs(1_020)), 0);
        assert_eq!(ahead_by(WallMs(1_000), 0, WallMs(400)), -600);
        assert_eq!(ahead_by(WallMs(1_000), 200, WallMs(2_000)), 900);
    }

    #[test]
    fn it_is_said_once_when_it_changes() {
        let mut verdict = Verdict::default();
        let said: Vec<_> =
            [0, 500, -501, -700, 450, HOUR, 400, 501, 0].into_iter().map(|ahead| verdict.turns(ahead)).collect();
        let expected = [
            None,
            None,
            Some(Turn::Wrong(-501)),
            None,
            None,
            None,
            Some(Turn::Right(400)),
            Some(Turn::Wrong(501)),
            Some(Turn::Right(0)),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_silent_peer_counts_for_a_while_and_one_that_left_no_more() {
        let (two, three) = (NodeId(2), NodeId(3));
        let mut peers = Peers::default();
        peers.hear([(two, Some(7)), (three, Some(9))].into());
        for _ in 0..REMEMBERED {
            peers.hear([(two, None), (three, Some(10))].into());
        }
        assert_eq!(peers.ahead(), [7, 10]);
        peers.hear([(two, None), (three, Some(11))].into());
        assert_eq!(peers.ahead(), [11]);
        peers.hear([(two, Some(1))].into());
        assert_eq!(peers.ahead(), [1]);
    }
}
