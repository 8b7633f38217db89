//! Three nodes on loopback ports and in temporary folders, as `encore node` would run them, and an event to sell.
#![allow(dead_code)]

use domain::ids::{EventId, GroupId, IdempotencyKey, NodeId, PassId, SeatIndex, SeatRef, SectionId, UserId};
use domain::inventory::command::{Begin, Cart, Purpose};
use domain::inventory::record::{
    EventRecord, EventStatus, PlanRow, PlanSeat, Point, QueueMode, SectionKind, SectionPlan, SectionSummary, Tier,
};
use domain::money::{Currency, Minor};
use domain::time::WallMs;
use raft_store::client::{Client, ClientConfig};
use raft_store::runtime::WallClock;
use raft_store::tls::TlsFiles;
use raft_store::{NodeConfig, Server};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub const EVENT: EventId = EventId(1);
pub const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// The nodes; those that run are stopped when this is dropped.
pub struct Store {
    folder: TempDir,
    pub peers: BTreeMap<NodeId, String>,
    /// Nodes that came later, and where they listen.
    pub joined: BTreeMap<NodeId, String>,
    servers: BTreeMap<NodeId, Server>,
    shutdown: CancellationToken,
    tuned: NodeConfig,
    /// What each node takes for the time of day, through all its lives.
    clocks: BTreeMap<NodeId, WallClock>,
    /// Where the nodes' certificates are, if they have any.
    certificates: Option<PathBuf>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Store {
    pub async fn start() -> Self {
        Self::tuned(NodeConfig::default()).await
    }

    /// Nodes with settings other than the usual; identity and addresses are set here.
    pub async fn tuned(tuned: NodeConfig) -> Self {
        Self::begin(tuned, None).await
    }

    /// Nodes with certificates from this folder, as `encore admin certs` writes them.
    pub async fn secured(certificates: &Path) -> Self {
        Self::begin(NodeConfig::default(), Some(certificates.to_path_buf())).await
    }

    async fn begin(tuned: NodeConfig, certificates: Option<PathBuf>) -> Self {
        let folder = TempDir::new().unwrap();
        let mut listeners = BTreeMap::new();
        let mut peers = BTreeMap::new();
        for id in IDS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            peers.insert(id, listener.local_addr().unwrap().to_string());
            listeners.insert(id, listener);
        }
        let mut store = Self {
            folder,
            peers,
            servers: BTreeMap::new(),
            shutdown: CancellationToken::new(),
            tuned,
            joined: BTreeMap::new(),
            clocks: BTreeMap::new(),
            certificates,
        };
        for (id, listener) in listeners {
            store.run(id, listener).await;
        }
        store
    }

    async fn run(&mut self, id: NodeId, listener: TcpListener) {
        let join = self.joined.get(&id).map(|address| BTreeMap::from([(id, address.clone())]));
        let config = NodeConfig {
            id,
            data: self.folder.path().join(format!("node-{id}")),
            join: join.is_some(),
            peers: join.unwrap_or_else(|| self.peers.clone()),
            groups: 2,
            tls: self.certificates.as_ref().map(|folder| TlsFiles::of(folder, &format!("node-{id}"))),
            revoked: self.certificates.as_ref().map(|folder| folder.join("revoked")).filter(|file| file.exists()),
            ..self.tuned.clone()
        };
        let clock = self.clocks.entry(id).or_default().clone();
        let server = Server::start_by(clock, config, listener, self.shutdown.clone()).await.unwrap();
        self.servers.insert(id, server);
    }

    /// Starts a node that is in no group yet.
    pub async fn join_node(&mut self, id: NodeId) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.joined.insert(id, listener.local_addr().unwrap().to_string());
        self.run(id, listener).await;
    }

    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    pub async fn start_node(&mut self, id: NodeId) {
        let address = self.peers.get(&id).or(self.joined.get(&id)).unwrap().clone();
        let deadline = Instant::now() + Duration::from_secs(20);
        let listener = loop {
            match TcpListener::bind(&address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{address} is not free again: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.run(id, listener).await;
    }

    pub async fn stop_node(&mut self, id: NodeId) {
        let server = self.servers.remove(&id).unwrap();
        server.stop();
        server.stopped().await.unwrap();
        // The folder is free once every task has let go of the node.
        let folder = self.folder.path().join(format!("node-{id}"));
        eventually("the data folder is free", || {
            ["lock", "history/db"].iter().all(|file| {
                match std::fs::OpenOptions::new().append(true).open(folder.join(file)) {
                    Ok(file) => file.try_lock().is_ok(),
                    Err(_) => true,
                }
            })
        })
        .await;
    }

    /// The server of a node, which is expected to end by itself.
    pub fn take(&mut self, id: NodeId) -> Server {
        self.servers.remove(&id).unwrap()
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.peers.values().chain(self.joined.values()).cloned().collect()
    }

    /// The folder of one node.
    pub fn data(&self, id: NodeId) -> PathBuf {
        self.folder.path().join(format!("node-{id}"))
    }

    /// A client that shows this holder's certificate.
    pub fn client_as(&self, holder: &str) -> Client {
        let tls = self.certificates.as_ref().map(|folder| TlsFiles::of(folder, holder));
        let config = ClientConfig::with_endpoints(self.endpoints());
        Client::connect(ClientConfig { request_timeout_ms: 60_000, tls, ..config })
    }

    pub fn client(&self) -> Client {
        Client::connect(ClientConfig { request_timeout_ms: 60_000, ..ClientConfig::with_endpoints(self.endpoints()) })
    }

    pub async fn leader(&self, group: GroupId) -> NodeId {
        let leader = || {
            let groups = self.servers.values().filter_map(|server| server.node().group(group));
            let leading = groups.filter(|group| group.status().is_leader && group.is_leader());
            leading.max_by_key(|group| group.status().term).and_then(|group| group.status().leader)
        };
        eventually("the group has a leader", || leader().is_some()).await;
        leader().unwrap()
    }

    /// The wall clock of a node.
    pub fn clock(&self, id: NodeId) -> &WallClock {
        &self.clocks[&id]
    }

    /// Lets this node lead the group; returns once it does.
    pub async fn let_lead(&self, group: GroupId, to: NodeId) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let leader = self.leader(group).await;
            if leader == to {
                return;
            }
            assert!(Instant::now() < deadline, "node {to} never led group {group}");
            // A refusal or a lost message: asked again.
            let _ = self.servers[&leader].node().group(group).expect("it leads it").transfer_leader(to).await;
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if self.servers[&to].node().group(group).is_some_and(|group| group.is_leader()) {
                    return;
                }
            }
        }
    }

    pub fn server(&self, id: NodeId) -> &Server {
        &self.servers[&id]
    }
}

/// Waits for a condition; long, because a busy machine is no failure.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn wall_now() -> WallMs {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    WallMs(now.as_millis() as u64)
}

/// A section of `rows` rows of ten seats.
pub fn plan(section: u16, rows: u32) -> SectionPlan {
    let seat = |row: u32, seat: u32| PlanSeat {
        label: (seat + 1).to_string(),
        at: Point { x: seat as i32 * 100, y: row as i32 * 100 },
        accessible: false,
        aisle_after: false,
    };
    SectionPlan {
        section: SectionId(section),
        name: format!("Section {section}"),
        kind: SectionKind::Seated,
        tier: 0,
        focal: Point { x: 450, y: -500 },
        rows: (0..rows)
            .map(|row| PlanRow { label: (row + 1).to_string(), seats: (0..10).map(|n| seat(row, n)).collect() })
            .collect(),
        capacity: rows * 10,
    }
}

pub fn event(plans: &[SectionPlan]) -> EventRecord {
    EventRecord {
        id: EVENT,
        version: 1,
        title: "A test".into(),
        venue: "Hall".into(),
        starts_at: WallMs(wall_now().0 + 30 * 86_400_000),
        on_sale_at: WallMs(0),
        status: EventStatus::Scheduled,
        currency: Currency::EUR,
        plan_version: 1,
        hold_ttl_ms: 600_000,
        user_limit: 6,
        buckets: 8,
        dynamic_pricing: false,
        retry_declined: false,
        queue_capacity: 100,
        queue_mode: QueueMode::Fifo,
        tiers: vec![Tier { name: "A".into(), base: Minor(5_000) }],
        sections: plans.iter().map(SectionSummary::of).collect(),
    }
}

pub fn user(number: usize) -> UserId {
    format!("user-{number}").parse().unwrap()
}

/// A fan's wish for these seats, under a key of his own.
pub fn begin(number: usize, seats: &[(u16, u32)]) -> Begin {
    let key: IdempotencyKey = format!("key-{number}").parse().unwrap();
    let pass: PassId = format!("pass-{number}").parse().unwrap();
    let seats =
        seats.iter().map(|(section, seat)| SeatRef { section: SectionId(*section), seat: SeatIndex(*seat) }).collect();
    Begin {
        key,
        fingerprint: [0; 16],
        user: user(number),
        cart: Cart::Chosen { seats, places: Vec::new() },
        promotion: None,
        pass: Some(pass),
        sent_at: wall_now(),
        hold_ttl_ms: None,
        purpose: Purpose::Checkout,
        note: None,
    }
}
