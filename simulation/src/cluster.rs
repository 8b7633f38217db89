//! Three simulated machines: each has a disk that outlives it, a clock of its own, and runs a node while it is up.

use crate::checkers::Witness;
use crate::link::{Net, address};
use crate::trace::Trace;
use domain::ids::{GroupId, NodeId};
use futures::FutureExt;
use madsim::rand::{Rng, thread_rng};
use madsim::runtime::{Handle, NodeHandle};
use raft_store::Node;
use raft_store::client::{Client, ClientConfig};
use raft_store::config::{KnownBugs, NodeConfig, Timing};
use raft_store::disk::memory::MemoryDisk;
use raft_store::node::World;
use raft_store::runtime::{WallClock, set_clock};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The nodes.
pub const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// Data groups.
pub const GROUPS: u32 = 2;

/// What differs from seed to seed, besides the faults.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Entries between snapshots.
    pub snapshot_every: u64,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// Longest ordinary sync.
    pub sync_us: u64,
    /// Whether the event's sections are spread over two groups, so that carts go through all messages.
    pub spread: bool,
    /// Faults to switch back on.
    pub known_bugs: KnownBugs,
}

/// The machines.
pub struct Cluster {
    /// The links between them.
    pub net: Net,
    trace: Trace,
    machines: BTreeMap<NodeId, Machine>,
}

struct Machine {
    host: NodeHandle,
    disk: MemoryDisk,
    up: Arc<Mutex<bool>>,
}

impl Cluster {
    /// Builds the machines and switches them on.
    pub fn start(shape: Shape, witness: &Witness, trace: &Trace) -> Self {
        let net = Net::new();
        let machines = NODES.into_iter().map(|id| (id, Machine::build(id, shape, &net, witness, trace)));
        Self { net: net.clone(), trace: trace.clone(), machines: machines.collect() }
    }

    /// A client on a machine of its own, which keeps good time.
    pub fn client(&self, id: NodeId) -> Client {
        Client::over(client_config(), self.net.dial(id))
    }

    /// Ends a node's process. What it wrote stays, synced or not.
    pub fn kill(&self, id: NodeId) {
        let machine = &self.machines[&id];
        *machine.up.lock().expect("no holder of this lock panics") = false;
        self.net.leave(id);
        Handle::current().kill(machine.host.id());
        self.trace.note(format_args!("node {id} killed"));
    }

    /// Stops a node's process where it stands, or lets it go on. Its clocks do not stop.
    pub fn pause(&self, id: NodeId, stopped: bool) {
        let host = self.machines[&id].host.id();
        if stopped {
            Handle::current().pause(host)
        } else {
            Handle::current().resume(host)
        }
        self.trace.note(format_args!("node {id} {}", if stopped { "stands still" } else { "goes on" }));
    }

    /// Ends a node's process and takes from its disk what was not synced.
    pub fn cut_power(&self, id: NodeId) {
        self.kill(id);
        let disk = &self.machines[&id].disk;
        let mut random = thread_rng();
        disk.cut_power(&mut |bound| random.gen_range(0..bound));
        self.trace.note(format_args!("node {id} lost power, {} bytes lost so far", disk.lost_bytes()));
    }

    /// Waits, a little, for a moment when a power cut would take something.
    pub async fn worst_moment(&self, id: NodeId) {
        for _ in 0..300 {
            if self.machines[&id].disk.is_dirty() {
                return;
            }
            madsim::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Starts a node that is down.
    pub fn restart(&self, id: NodeId) {
        let machine = &self.machines[&id];
        let was_up = std::mem::replace(&mut *machine.up.lock().expect("no holder of this lock panics"), true);
        if !was_up {
            self.trace.note(format_args!("node {id} restarts"));
            Handle::current().restart(machine.host.id());
        }
    }

    /// Changes how a node's clock runs.
    pub fn set_clock(&self, id: NodeId, fast_ppm: i64, wall_ahead_ms: i64) {
        set_clock(self.machines[&id].host.id(), fast_ppm, wall_ahead_ms);
        self.trace.note(format_args!("node {id} clock {fast_ppm} ppm fast, wall {wall_ahead_ms} ms ahead"));
    }

    /// Bytes that power cuts have taken from all disks.
    pub fn lost_bytes(&self) -> u64 {
        self.machines.values().map(|machine| machine.disk.lost_bytes()).sum()
    }

    /// Who leads, by the newest term that any node knows.
    pub fn leader(&self, group: GroupId) -> Option<NodeId> {
        let nodes = NODES.into_iter().filter_map(|id| self.net.node(id));
        let statuses = nodes.filter_map(|node| Some((node.id(), node.group(group)?.status())));
        statuses.filter(|(_, status)| status.is_leader).max_by_key(|(_, status)| status.term).map(|(id, _)| id)
    }

    /// Every node's last applied entry and state, if all are up.
    pub fn states(&self, group: GroupId) -> Option<Vec<(Option<u64>, [u8; 32])>> {
        NODES.into_iter().map(|id| Some(self.net.node(id)?.group(group)?.state_hash())).collect()
    }
}

/// How clients behave here.
pub fn client_config() -> ClientConfig {
    ClientConfig { attempt_timeout_ms: 1_000, ..ClientConfig::with_endpoints(NODES.into_iter().map(address)) }
}

impl Machine {
    fn build(id: NodeId, shape: Shape, net: &Net, witness: &Witness, trace: &Trace) -> Self {
        let disk = MemoryDisk::default();
        let config = NodeConfig {
            id,
            data: PathBuf::from("/node"),
            peers: NODES.into_iter().map(|id| (id, address(id))).collect(),
            groups: GROUPS,
            snapshot_every: shape.snapshot_every,
            segment_bytes: shape.segment_bytes,
            timing: Timing { heartbeat_ms: 100, election_min_ms: 500, election_max_ms: 1_000 },
            seat_history: false,
            known_bugs: shape.known_bugs,
            ..NodeConfig::default()
        };
        let (net, witness, trace) = (net.clone(), witness.clone(), trace.clone());
        let slow_disk = disk.delayed(Arc::new(move || sync_delay(shape.sync_us).boxed()));
        let init = move || {
            let world = World {
                disk: Arc::new(slow_disk.clone()),
                transport: net.transport(id),
                observers: vec![witness.at(id)],
                elsewhere: Some(Client::over(client_config(), net.dial(id))),
                clock: WallClock::default(),
            };
            run(config.clone(), world, net.clone(), trace.clone())
        };
        let host = Handle::current().create_node().name(format!("node-{id}")).init(init).build();
        Self { host, disk, up: Arc::new(Mutex::new(true)) }
    }
}

async fn run(config: NodeConfig, world: World, net: Net, trace: Trace) {
    let id = config.id;
    match Node::start(config, world).await {
        Ok(node) => {
            let host = Handle::current().get_node(madsim::plugin::node()).expect("it runs");
            trace.note(format_args!("node {id} is up"));
            net.join(node, host);
            std::future::pending::<()>().await;
        }
        Err(error) => trace.broken(format_args!("node {id} does not start: {error}")),
    }
}

/// A sync takes a while, and now and then a long one.
async fn sync_delay(longest_us: u64) {
    let us = {
        let mut random = thread_rng();
        if random.gen_bool(0.01) { random.gen_range(50_000..300_000) } else { random.gen_range(300..=longest_us) }
    };
    madsim::time::sleep(Duration::from_micros(us)).await;
}
