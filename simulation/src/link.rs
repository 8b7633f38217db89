//! The link between hosts: encoded bytes that are lost, delayed, repeated and reordered, by the seed. Peers' messages are
//! lost one by one; a client's stream breaks as a connection does.

use bytes::Bytes;
use domain::ids::{EventId, NodeId};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use madsim::rand::{Rng, thread_rng};
use madsim::runtime::NodeHandle;
use prost::Message;
use raft_store::Node;
use raft_store::client::dial::{Conversation, Dial, FRAMES_AHEAD};
use raft_store::transport::{PeerRequest, Transport, TransportError};
use raft_store::wire::frames::{AnswerFrame, AskFrame, WatchFrame};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc;

/// How bad the link is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Of a message to be lost.
    pub loss: f64,
    /// Of a message to come twice.
    pub repeat: f64,
    /// The longest ordinary delay.
    pub delay_us: u64,
    /// Of a delay to be a hundred times as long.
    pub slow: f64,
}

impl Weather {
    /// Nothing is lost.
    pub const FAIR: Self = Self { loss: 0.0, repeat: 0.0, delay_us: 800, slow: 0.0 };
}

/// What the link has done; a fault that never fired proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fired {
    /// Messages lost, cuts included.
    pub lost: u64,
    /// Messages repeated.
    pub repeated: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Client streams broken.
    pub broken: u64,
}

struct State {
    nodes: BTreeMap<NodeId, (Node, NodeHandle)>,
    cut: BTreeSet<(NodeId, NodeId)>,
    weather: Weather,
    fired: Fired,
}

/// All links. Clones share them.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>);

/// Where node `id` "listens".
pub fn address(id: NodeId) -> String {
    format!("node-{id}")
}

fn listener(address: &str) -> Option<NodeId> {
    address.strip_prefix("node-")?.parse().ok()
}

enum Fate {
    Lost,
    Arrives { after: Duration, again: Option<Duration> },
}

impl Net {
    /// Fair weather, nobody there.
    pub fn new() -> Self {
        let state =
            State { nodes: BTreeMap::new(), cut: BTreeSet::new(), weather: Weather::FAIR, fired: Fired::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A node is up.
    pub fn join(&self, node: Node, host: NodeHandle) {
        self.state().nodes.insert(node.id(), (node, host));
    }

    /// A node is down.
    pub fn leave(&self, id: NodeId) {
        self.state().nodes.remove(&id);
    }

    /// A node that is up.
    pub fn node(&self, id: NodeId) -> Option<Node> {
        self.state().nodes.get(&id).map(|(node, _)| node.clone())
    }

    /// Cuts, or mends, what goes from one to another.
    pub fn cut(&self, from: NodeId, to: NodeId, off: bool) {
        let mut state = self.state();
        if off {
            state.cut.insert((from, to))
        } else {
            state.cut.remove(&(from, to))
        };
    }

    /// Mends everything.
    pub fn mend(&self) {
        let mut state = self.state();
        state.cut.clear();
        state.weather = Weather::FAIR;
    }

    /// From now on.
    pub fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// What happened so far.
    pub fn fired(&self) -> Fired {
        self.state().fired
    }

    /// A node's way to its peers.
    pub fn transport(&self, from: NodeId) -> Arc<dyn Transport> {
        Arc::new(PeerEnd { from, net: self.clone() })
    }

    /// A client's way to the nodes.
    pub fn dial(&self, from: NodeId) -> Arc<dyn Dial> {
        Arc::new(ClientEnd { from, net: self.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    fn listening(&self, id: NodeId) -> Option<(Node, NodeHandle)> {
        self.state().nodes.get(&id).cloned()
    }

    fn send(&self, from: NodeId, to: NodeId) -> Fate {
        let mut random = thread_rng();
        let mut state = self.state();
        let weather = state.weather;
        if state.cut.contains(&(from, to)) || random.gen_bool(weather.loss) {
            state.fired.lost += 1;
            return Fate::Lost;
        }
        state.fired.delivered += 1;
        let mut delay = || {
            let stretch = if random.gen_bool(weather.slow) { 100 } else { 1 };
            Duration::from_micros(random.gen_range(100..=weather.delay_us.max(101)) * stretch)
        };
        let after = delay();
        let second = delay();
        let again = random.gen_bool(weather.repeat).then_some(after + second);
        state.fired.repeated += u64::from(again.is_some());
        Fate::Arrives { after, again }
    }
}

async fn wait(duration: Duration) {
    madsim::time::sleep(duration).await;
}

struct PeerEnd {
    from: NodeId,
    net: Net,
}

impl Transport for PeerEnd {
    fn call(&self, request: PeerRequest) -> BoxFuture<'static, Result<Bytes, TransportError>> {
        let (from, net) = (self.from, self.net.clone());
        let (to, timeout) = (request.to, request.timeout);
        async move {
            let failed = |reason: &str| TransportError { to, reason: reason.to_owned() };
            match raft_store::runtime::timeout(timeout, exchange(net, from, request)).await {
                Some(Ok(answer)) => Ok(answer),
                Some(Err(reason)) => Err(failed(&reason)),
                None => Err(failed("time-out")),
            }
        }
        .boxed()
    }
}

async fn exchange(net: Net, from: NodeId, request: PeerRequest) -> Result<Bytes, String> {
    let to = request.to;
    let Fate::Arrives { after, again } = net.send(from, to) else { return std::future::pending().await };
    wait(after).await;
    let (node, host) = net.listening(to).ok_or("nobody listens")?;
    if let Some(again) = again {
        let (node, body) = (node.clone(), request.body.clone());
        host.spawn(async move {
            wait(again).await;
            drop(node.answer_peer(request.group, request.call, body).await);
        });
    }
    let working = host.spawn(async move {
        let answer = node.answer_peer(request.group, request.call, request.body).await;
        // Nothing that the simulation does makes a node forget what it has synced.
        assert_eq!(node.failure(), None);
        answer
    });
    let answer = working.await.map_err(|_| "the node died")?.map_err(|refusal| refusal.to_string())?;
    match net.send(to, from) {
        Fate::Lost => std::future::pending().await,
        Fate::Arrives { after, .. } => wait(after).await,
    }
    Ok(answer)
}

struct ClientEnd {
    from: NodeId,
    net: Net,
}

impl Dial for ClientEnd {
    fn converse(&self, address: &str) -> BoxFuture<'static, Result<Conversation, String>> {
        let (from, net, to) = (self.from, self.net.clone(), listener(address));
        async move {
            let to = to.ok_or("no such address")?;
            let Fate::Arrives { after, .. } = net.send(from, to) else { return std::future::pending().await };
            wait(after).await;
            let (node, host) = net.listening(to).ok_or("connection refused")?;
            let (asks, outgoing) = mpsc::channel::<AskFrame>(FRAMES_AHEAD);
            let (arriving, arrived) = mpsc::channel::<Result<AskFrame, String>>(FRAMES_AHEAD);
            let (answers, leaving) = mpsc::channel::<AnswerFrame>(FRAMES_AHEAD);
            let (delivered, answered) = mpsc::channel::<Result<AnswerFrame, String>>(FRAMES_AHEAD);
            host.spawn(raft_store::network::converse(node, channel_stream(arrived), answers));
            raft_store::runtime::spawn(pump(net.clone(), from, to, outgoing, arriving));
            raft_store::runtime::spawn(pump(net, to, from, leaving, delivered));
            Ok(Conversation { asks, answers: channel_stream(answered) })
        }
        .boxed()
    }

    fn watch(
        &self,
        _address: &str,
        _event: EventId,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Result<WatchFrame, String>>, String>> {
        async { Err("nobody watches here".to_owned()) }.boxed()
    }
}

fn channel_stream<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> BoxStream<'static, T> {
    futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) }).boxed()
}

/// Carries frames one way, in order, as bytes; the first loss breaks the connection.
async fn pump<F: Message + Default>(
    net: Net,
    from: NodeId,
    to: NodeId,
    mut frames: mpsc::Receiver<F>,
    sink: mpsc::Sender<Result<F, String>>,
) {
    while let Some(frame) = frames.recv().await {
        let bytes = frame.encode_to_vec();
        let Fate::Arrives { after, .. } = net.send(from, to) else {
            net.state().fired.broken += 1;
            let _ = sink.send(Err("the connection broke".to_owned())).await;
            return;
        };
        wait(after).await;
        let decoded = F::decode(bytes.as_slice()).map_err(|error| error.to_string());
        if sink.send(decoded).await.is_err() {
            return;
        }
    }
}
