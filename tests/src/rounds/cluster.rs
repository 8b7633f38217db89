//! Nodes of one store as real processes, with certificates, on loopback. Nodes may join later and be thrown away for good;
//! a folder is never used under another id, nor an id with another folder.

use crate::binary;
use anyhow::{Context, Result, ensure};
use domain::ids::NodeId;
use encore::certificates;
use encore::supervise::ports::Ports;
use encore::supervise::process::{Process, Spec};
use futures::future::try_join_all;
use raft_store::client::{Client, ClientConfig};
use raft_store::tls::{Role, TlsFiles};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const FOUNDERS: u64 = 3;
/// Data groups beside the meta group.
pub const GROUPS: u32 = 3;
/// So few that snapshots, purges and nodes that need a snapshot to catch up are part of every run.
const SNAPSHOT_EVERY: u32 = 400;
/// So small that many segments of the log are begun and deleted.
const SEGMENT_BYTES: u32 = 256 << 10;
const CERTIFICATE_DAYS: u32 = 30;

/// A folder in memory, where there is one: a process that is killed loses nothing that it has written, synced or not, so that
/// a disk would add nothing but the waits for what others write to it.
fn memory() -> Option<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    tempfile::tempfile_in(&memory).is_ok().then_some(memory)
}

/// The processes; dropping it kills them and deletes their data.
pub struct Cluster {
    nodes: BTreeMap<NodeId, Node>,
    founders: BTreeMap<NodeId, String>,
    last: NodeId,
    encore: PathBuf,
    dir: PathBuf,
    // Below the processes, so that they are deleted after these are gone.
    claims: Ports,
    _folder: Option<TempDir>,
}

struct Node {
    process: Process,
    address: String,
    data: PathBuf,
}

impl Cluster {
    /// Starts the founders.
    pub fn start() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("encore-rounds-")
            .tempdir_in(memory().unwrap_or_else(std::env::temp_dir))?;
        let dir = folder.path().to_path_buf();
        let folder = match std::env::var_os("ENCORE_TEST_KEEP") {
            Some(_) => {
                let _kept = folder.keep();
                None
            }
            None => Some(folder),
        };
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            founders: BTreeMap::new(),
            last: NodeId(FOUNDERS),
            encore: binary()?,
            dir,
            claims: Ports::default(),
            _folder: folder,
        };
        println!("the nodes' folders and logs are in {}", cluster.dir.display());
        let ids: Vec<NodeId> = (1..=FOUNDERS).map(NodeId).collect();
        for id in &ids {
            cluster.founders.insert(*id, format!("127.0.0.1:{}", cluster.claims.claim()?));
        }
        for (id, address) in cluster.founders.clone() {
            cluster.begin(id, address, false)?;
        }
        cluster.write_operator()?;
        Ok(cluster)
    }

    /// Starts a node that is in no group yet, under an id that was never used.
    pub fn join(&mut self) -> Result<NodeId> {
        self.last = NodeId(self.last.0 + 1);
        let address = format!("127.0.0.1:{}", self.claims.claim()?);
        self.begin(self.last, address, true)?;
        self.write_operator()?;
        Ok(self.last)
    }

    /// Kills a node and throws its folder away.
    pub async fn discard(&mut self, id: NodeId) -> Result<()> {
        let mut node = self.nodes.remove(&id).with_context(|| format!("there is no node {id}"))?;
        node.process.kill().await?;
        fs::remove_dir_all(&node.data).with_context(|| format!("{}", node.data.display()))?;
        self.write_operator()
    }

    fn begin(&mut self, id: NodeId, address: String, join: bool) -> Result<()> {
        certificates::issue(&self.certificates(), &[id], CERTIFICATE_DAYS)?;
        let name = format!("node-{id}");
        let (data, file) = (self.dir.join(&name), self.dir.join(format!("{name}.toml")));
        let peers = if join { BTreeMap::from([(id, address.clone())]) } else { self.founders.clone() };
        let mut settings = format!(
            "listen = \"127.0.0.1:{}\"\n\n[log]\nfilter = \"info,openraft=warn\"\n\n[node]\nid = {id}\ndata = \"{}\"\njoin = {join}\n\
             groups = {GROUPS}\nsnapshot_every = {SNAPSHOT_EVERY}\nsegment_bytes = {SEGMENT_BYTES}\n\n{}\n[node.peers]\n",
            self.claims.claim()?,
            data.display(),
            self.tls("node", &name),
        );
        for (peer, address) in peers {
            writeln!(settings, "{peer} = \"{address}\"")?;
        }
        fs::write(&file, settings)?;
        let arguments = ["node".into(), "--exit-on-stdin-eof".into(), "--config".into(), file.into()].into();
        let log = self.dir.join(format!("{name}.log"));
        let spec = Spec { name, program: self.encore.clone(), arguments, log, grace: Duration::from_secs(30) };
        let mut process = Process::new(spec);
        process.start()?;
        self.nodes.insert(id, Node { process, address, data });
        Ok(())
    }

    fn certificates(&self) -> PathBuf {
        self.dir.join("tls")
    }

    fn tls(&self, table: &str, holder: &str) -> String {
        let TlsFiles { ca, cert, key } = TlsFiles::of(&self.certificates(), holder);
        let (ca, cert, key) = (ca.display(), cert.display(), key.display());
        format!("[{table}.tls]\nca = \"{ca}\"\ncert = \"{cert}\"\nkey = \"{key}\"\n")
    }

    fn write_operator(&self) -> Result<()> {
        let endpoints = self.endpoints();
        let text = format!("[store]\nendpoints = {endpoints:?}\n\n{}", self.tls("store", Role::Operator.word()));
        // Commands may be reading it: they find the old or the new one.
        let draft = self.dir.join("operator.draft");
        fs::write(&draft, text)?;
        Ok(fs::rename(draft, self.operator_config())?)
    }

    /// The operator's settings: all nodes that there are.
    pub fn operator_config(&self) -> PathBuf {
        self.dir.join("operator.toml")
    }

    /// The program.
    pub fn encore(&self) -> &Path {
        &self.encore
    }

    fn endpoints(&self) -> Vec<String> {
        self.nodes.values().map(|node| node.address.clone()).collect()
    }

    /// A client with a certificate of this role, which knows the nodes of this moment.
    pub fn client(&self, role: Role) -> Client {
        let tls = Some(TlsFiles::of(&self.certificates(), role.word()));
        let config = ClientConfig::with_endpoints(self.endpoints());
        Client::connect(ClientConfig { request_timeout_ms: 10_000, tls, ..config })
    }

    /// Where a node listens.
    pub fn address(&self, id: NodeId) -> Option<&str> {
        self.nodes.get(&id).map(|node| node.address.as_str())
    }

    /// Every node that was not thrown away.
    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// `kill -9` of these, all at once.
    pub async fn kill(&mut self, victims: &[NodeId]) -> Result<()> {
        // One that has ended by itself is no victim.
        self.nobody_ended()?;
        let victims = self.nodes.iter_mut().filter(|(id, _)| victims.contains(id));
        try_join_all(victims.map(|(_, node)| node.process.kill())).await.map(drop)
    }

    /// Starts those that were killed.
    pub fn revive(&mut self, ids: &[NodeId]) -> Result<()> {
        self.nobody_ended()?;
        self.nodes.iter_mut().filter(|(id, _)| ids.contains(id)).try_for_each(|(_, node)| node.process.start())
    }

    /// Stops a node where it stands.
    pub fn freeze(&self, id: NodeId) -> Result<()> {
        self.nodes.get(&id).map_or(Ok(()), |node| node.process.freeze())
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self, id: NodeId) -> Result<()> {
        self.nodes.get(&id).map_or(Ok(()), |node| node.process.thaw())
    }

    /// Fails if a node has ended by itself, with its last words.
    pub fn nobody_ended(&mut self) -> Result<()> {
        for (id, node) in &mut self.nodes {
            let ended = node.process.ended()?;
            let words = || node.process.last_words();
            ensure!(ended.is_none(), "node {id} ended by itself ({}):\n{}", ended.unwrap_or_default(), words());
        }
        Ok(())
    }

    /// Fails if a node's log tells of a panic.
    pub fn nobody_panicked(&self) -> Result<()> {
        for entry in
            fs::read_dir(&self.dir)?.flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "log"))
        {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            let panic = text.lines().find(|line| line.contains("panicked"));
            ensure!(panic.is_none(), "{}: {}", entry.path().display(), panic.unwrap_or_default());
        }
        Ok(())
    }
}
