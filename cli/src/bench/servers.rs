//! The servers of a bench, private to it: three store nodes, PostgreSQL, Redis and three etcd members. A peer that is not
//! installed is remarked upon and left out.

use super::memory;
use crate::commands::node::NodeSettings;
use crate::config::LogSettings;
use crate::supervise::ports::Ports;
use crate::supervise::postgres::{self, Postgres};
use crate::supervise::probe;
use crate::supervise::process::{Process, Spec};
use anyhow::{Context, Result};
use domain::ids::NodeId;
use raft_store::NodeConfig;
use raft_store::client::{Client, ClientConfig};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Members of a replicated contender.
const NODES: u64 = 3;
const READY_WITHIN: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(45);
/// Connections to PostgreSQL: more only wait for the same few cores.
pub const CONNECTIONS: u32 = 32;

/// How large a store.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Its nodes.
    pub nodes: u64,
    /// Its groups, besides the meta group.
    pub groups: u32,
    /// Entries after which a group is snapshotted.
    pub snapshot_every: u64,
}

/// A peer that runs.
pub struct Peer {
    /// Where its clients connect.
    pub urls: Vec<String>,
    processes: Vec<Process>,
}

impl Peer {
    /// Its processes' numbers.
    pub fn ids(&self) -> Vec<u32> {
        self.processes.iter().filter_map(Process::id).collect()
    }
}

/// All servers; dropping them kills them and deletes their data.
pub struct Servers {
    nodes: BTreeMap<NodeId, (Process, String)>,
    endpoints: Vec<String>,
    /// PostgreSQL, if it is installed.
    pub postgres: Option<Peer>,
    /// Redis, if it is installed.
    pub redis: Option<Peer>,
    /// etcd, if it is installed.
    pub etcd: Option<Peer>,
    // Below the processes, so that it is deleted after they are gone.
    _claims: Ports,
    _folder: TempDir,
}

impl Servers {
    /// Starts a store, and nothing else.
    pub async fn start_store(dir: &Path, size: Size) -> Result<Self> {
        eprintln!("starting {} store nodes", size.nodes);
        let (folder, mut make) = Maker::in_folder(dir)?;
        let (nodes, endpoints) = make.nodes(size).await?;
        let claims = make.claims;
        Ok(Self { nodes, endpoints, postgres: None, redis: None, etcd: None, _claims: claims, _folder: folder })
    }

    /// Starts the store with so many groups, and every peer that is installed.
    pub async fn start(dir: &Path, groups: u32, remarks: &mut Vec<String>) -> Result<Self> {
        eprintln!("starting three store nodes, and the peers that are installed");
        let (folder, mut make) = Maker::in_folder(dir)?;
        let snapshot_every = NodeConfig::default().snapshot_every;
        let (nodes, endpoints) = make.nodes(Size { nodes: NODES, groups, snapshot_every }).await?;
        let mut missing = |name: &str, package: &str, found: bool| {
            if !found {
                remarks
                    .push(format!("{name} is not installed and was left out (on Debian: apt-get install {package})"));
            }
            found
        };
        let postgres = match missing("PostgreSQL", "postgresql", postgres::program("initdb").is_ok()) {
            true => Some(make.postgres().await?),
            false => None,
        };
        let redis = match missing("Redis", "redis-server", installed("redis-server")) {
            true => Some(make.redis().await?),
            false => None,
        };
        let etcd = match missing("etcd", "etcd-server", installed("etcd")) {
            true => Some(make.etcd().await?),
            false => None,
        };
        Ok(Self { nodes, endpoints, postgres, redis, etcd, _claims: make.claims, _folder: folder })
    }

    /// What runs, for people.
    pub fn names(&self) -> Vec<String> {
        let nodes = Some(format!("{} store nodes", self.nodes.len()));
        let postgres = self.postgres.as_ref().map(|_| "one PostgreSQL without a replica".to_owned());
        let redis = self.redis.as_ref().map(|_| "one Redis without a replica".to_owned());
        let etcd = self.etcd.as_ref().map(|peer| format!("{} etcd members", peer.processes.len()));
        [nodes, postgres, redis, etcd].into_iter().flatten().collect()
    }

    /// A client of the store.
    pub fn client(&self) -> Client {
        let config = ClientConfig { request_timeout_ms: 30_000, ..ClientConfig::with_endpoints(&self.endpoints) };
        Client::connect(config)
    }

    /// The nodes' processes' numbers.
    pub fn node_ids(&self) -> Vec<u32> {
        self.nodes.values().filter_map(|(process, _)| process.id()).collect()
    }

    /// Bytes of each node in memory, from the kernel. A node that has ended by itself is an error.
    pub fn resident(&self) -> Result<Vec<u64>> {
        let resident = |(id, (process, _)): (&NodeId, &(Process, String))| {
            process.id().and_then(memory::resident).with_context(|| format!("node {id} does not run"))
        };
        self.nodes.iter().map(resident).collect()
    }

    /// `kill -9` of a node.
    pub async fn kill_node(&mut self, id: NodeId) -> Result<()> {
        self.nodes.get_mut(&id).with_context(|| format!("there is no node {id}"))?.0.kill().await
    }

    /// Starts a killed node and waits until it is ready.
    pub async fn start_node(&mut self, id: NodeId) -> Result<()> {
        let (process, base) = self.nodes.get_mut(&id).with_context(|| format!("there is no node {id}"))?;
        process.start()?;
        ready(process, base).await
    }

    /// Stops everything in order.
    pub async fn stop(mut self) {
        let peers = [&mut self.postgres, &mut self.redis, &mut self.etcd].into_iter().flatten();
        let peers = peers.flat_map(|peer| &mut peer.processes);
        for process in self.nodes.values_mut().map(|(process, _)| process).chain(peers) {
            if let Err(error) = process.stop().await {
                eprintln!("{error:#}");
            }
        }
    }
}

fn installed(program: &str) -> bool {
    std::env::var_os("PATH").iter().flat_map(std::env::split_paths).any(|folder| folder.join(program).is_file())
}

async fn ready(process: &mut Process, base: &str) -> Result<()> {
    let http = reqwest::Client::new();
    probe::until_ready(process, READY_WITHIN, || probe::ask(&http, base)).await
}

async fn listens(process: &mut Process, port: u16) -> Result<()> {
    let connect =
        || async move { TcpStream::connect(("127.0.0.1", port)).await.map(drop).map_err(|error| error.to_string()) };
    probe::until_ready(process, READY_WITHIN, connect).await
}

struct Maker {
    encore: PathBuf,
    dir: PathBuf,
    claims: Ports,
}

impl Maker {
    fn in_folder(dir: &Path) -> Result<(TempDir, Self)> {
        let folder = tempfile::Builder::new().prefix("encore-bench-").tempdir_in(dir);
        let folder = folder.with_context(|| format!("no folder can be made in {}", dir.display()))?;
        // PostgreSQL's user must pass through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
        let (encore, dir) = (std::env::current_exe()?, folder.path().to_owned());
        Ok((folder, Self { encore, dir, claims: Ports::default() }))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// A program of others, which ends with us.
    fn keep(&self, name: &str, program: &str, arguments: impl IntoIterator<Item = String>) -> Process {
        let before = ["keep", "--", program].map(OsString::from);
        let arguments = before.into_iter().chain(arguments.into_iter().map(OsString::from)).collect();
        let (program, log) = (self.encore.clone(), self.log(name));
        Process::new(Spec { name: name.to_owned(), program, arguments, log, grace: GRACE })
    }

    async fn nodes(&mut self, size: Size) -> Result<(BTreeMap<NodeId, (Process, String)>, Vec<String>)> {
        let ids: Vec<NodeId> = (1..=size.nodes).map(NodeId).collect();
        let mut peers = BTreeMap::new();
        for id in &ids {
            peers.insert(*id, format!("127.0.0.1:{}", self.claims.claim()?));
        }
        let mut nodes = BTreeMap::new();
        for id in ids {
            let name = format!("node-{id}");
            let data = self.dir.join(&name);
            let Size { groups, snapshot_every, .. } = size;
            let node = NodeConfig { id, data, peers: peers.clone(), groups, snapshot_every, ..NodeConfig::default() };
            let listen = ([127, 0, 0, 1], self.claims.claim()?).into();
            let log = LogSettings { filter: "warn".into(), ..LogSettings::default() };
            let file = self.dir.join(format!("{name}.toml"));
            // Through JSON's value, so that what is not set can be left out: TOML has no word for it.
            let mut settings = serde_json::to_value(NodeSettings { listen, log, node })?;
            crate::config::redact::drop_nulls(&mut settings);
            fs::write(&file, toml::to_string(&settings)?)?;
            let arguments = ["node".into(), "--exit-on-stdin-eof".into(), "--config".into(), file.into()].into();
            let (program, log) = (self.encore.clone(), self.log(&name));
            let mut process = Process::new(Spec { name, program, arguments, log, grace: GRACE });
            process.start()?;
            nodes.insert(id, (process, format!("http://{listen}")));
        }
        for (process, base) in nodes.values_mut() {
            ready(process, base).await?;
        }
        Ok((nodes, peers.into_values().collect()))
    }

    async fn postgres(&mut self) -> Result<Peer> {
        let port = self.claims.claim()?;
        let server = Postgres { data: self.dir.join("postgres"), port, password: uuid::Uuid::new_v4().to_string() };
        server.init(&self.log("initdb")).await?;
        let mut process = server.process(&self.encore, self.log("postgres"))?;
        process.start()?;
        let answers = || async { if server.is_ready().await { Ok(()) } else { Err("it does not answer".to_owned()) } };
        probe::until_ready(&mut process, READY_WITHIN, answers).await?;
        server.create_database().await?;
        Ok(Peer { urls: vec![server.url()], processes: vec![process] })
    }

    async fn redis(&mut self) -> Result<Peer> {
        let port = self.claims.claim()?;
        let data = self.dir.join("redis");
        fs::create_dir_all(&data)?;
        let settings = [
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--dir", data.to_string_lossy().into_owned()),
            ("--appendonly", "yes".to_owned()),
            ("--appendfsync", "always".to_owned()),
            ("--save", String::new()),
        ];
        let words = settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        let mut process = self.keep("redis", "redis-server", words);
        process.start()?;
        listens(&mut process, port).await?;
        Ok(Peer { urls: vec![format!("redis://127.0.0.1:{port}/")], processes: vec![process] })
    }

    async fn etcd(&mut self) -> Result<Peer> {
        let mut members = Vec::new();
        for number in 1..=NODES {
            members.push((format!("etcd-{number}"), self.claims.claim()?, self.claims.claim()?));
        }
        let cluster: Vec<String> =
            members.iter().map(|(name, _, peer)| format!("{name}=http://127.0.0.1:{peer}")).collect();
        let cluster = cluster.join(",");
        let mut peer = Peer { urls: Vec::new(), processes: Vec::new() };
        for (name, client, inner) in &members {
            let (client_url, inner_url) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{inner}"));
            let data = self.dir.join(name).to_string_lossy().into_owned();
            let settings = [
                ("--name", name.clone()),
                ("--data-dir", data),
                ("--listen-client-urls", client_url.clone()),
                ("--advertise-client-urls", client_url.clone()),
                ("--listen-peer-urls", inner_url.clone()),
                ("--initial-advertise-peer-urls", inner_url),
                ("--initial-cluster", cluster.clone()),
                ("--quota-backend-bytes", (4u64 << 30).to_string()),
            ];
            let words = settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
            let mut process = self.keep(name, "etcd", words);
            process.start()?;
            peer.urls.push(client_url);
            peer.processes.push(process);
        }
        // The client's port is opened once the members have found each other.
        for (process, (_, client, _)) in peer.processes.iter_mut().zip(&members) {
            listens(process, *client).await?;
        }
        Ok(peer)
    }
}
