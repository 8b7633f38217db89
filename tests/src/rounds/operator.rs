//! The operator, who never rests: real `encore admin` commands that move partitions, change members and leaders, each
//! sometimes interrupted in the middle and given again. A node that was replaced is thrown away with its folder, and the
//! next one comes under a new id.

use super::cluster::{Cluster, GROUPS};
use super::history::Recorder;
use anyhow::{Context, Result, bail};
use domain::ids::{EventId, GroupId, NodeId, Partition};
use raft_store::client::Client;
use raft_store::operate::Topology;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// A command that takes longer is given up and given again: nodes die while it waits for them.
const PATIENCE: Duration = Duration::from_secs(60);
/// Commands that are interrupted are stopped within so many milliseconds.
const INTERRUPTED_MS: u64 = 700;
/// Once nodes do not die any more, whatever was begun is finished within this.
const FINISHES: Duration = Duration::from_secs(120);
/// Largest group: beyond this a node leaves before another one comes.
const LARGEST: usize = 4;

/// More nodes than these are not kept.
const MOST: usize = 5;

/// The kinds of commands that are given.
pub const COMMANDS: [&str; 8] =
    ["move", "spread", "transfer-leader", "rebalance", "drain", "add-node", "remove-node", "replace-node"];

/// How commands ended, by their kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    /// Done.
    pub done: u32,
    /// Stopped in the middle.
    pub interrupted: u32,
    /// Refused, or given up.
    pub failed: u32,
}

/// What became of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Interrupted,
    Failed,
    /// Refused, and it would be again.
    Pointless,
}

/// The operator.
pub struct Operator {
    cluster: Arc<Mutex<Cluster>>,
    client: Client,
    recorder: Recorder,
    random: StdRng,
    event: Arc<AtomicU32>,
    /// What was begun and not finished: who takes whose place.
    replacing: Option<(NodeId, NodeId)>,
    ended: BTreeMap<&'static str, Ended>,
}

impl Operator {
    /// With a client of his own, to see what there is to do.
    pub fn new(
        cluster: Arc<Mutex<Cluster>>,
        client: Client,
        recorder: Recorder,
        event: Arc<AtomicU32>,
        seed: u64,
    ) -> Self {
        let random = StdRng::seed_from_u64(seed ^ 0x6f70_6572);
        Self { cluster, client, recorder, random, event, replacing: None, ended: BTreeMap::new() }
    }

    /// Gives commands until told to stop, and finishes what was begun. Gives how many there were of each kind.
    pub async fn work(mut self, stop: Arc<AtomicBool>) -> Result<BTreeMap<&'static str, Ended>> {
        while !stop.load(Ordering::Relaxed) {
            let rest = self.random.random_range(50..500);
            sleep(Duration::from_millis(rest)).await;
            self.act().await?;
        }
        let finish = async {
            loop {
                match (self.replacing, self.undone().first()) {
                    (Some(_), _) => self.replace().await?,
                    (None, Some(kind)) => self.give(kind).await?,
                    (None, None) => break,
                }
                sleep(Duration::from_millis(200)).await;
            }
            anyhow::Ok(())
        };
        timeout(FINISHES, finish).await.context("a command never came to its end")??;
        Ok(self.ended)
    }

    /// Any command, or more likely one that has never come to its end.
    async fn act(&mut self) -> Result<()> {
        let undone = self.undone();
        let kind = match undone.choose(&mut self.random) {
            Some(kind) if self.random.random_bool(0.4) => *kind,
            _ => match self.random.random_range(0..100) {
                0..45 => "move",
                45..53 => "spread",
                53..65 => "transfer-leader",
                65..70 => "rebalance",
                70..76 => "drain",
                76..90 => "add-node",
                _ => "replace-node",
            },
        };
        self.give(kind).await
    }

    fn undone(&self) -> Vec<&'static str> {
        let done = |kind: &&str| self.ended.get(*kind).is_some_and(|ended| ended.done > 0);
        COMMANDS.into_iter().filter(|kind| !done(kind)).collect()
    }

    async fn give(&mut self, kind: &str) -> Result<()> {
        let topology = self.client.topology().await;
        let group = GroupId(self.random.random_range(0..=GROUPS));
        self.discard_idle(&topology).await?;
        match kind {
            "move" => self.move_one().await,
            "spread" => self.spread().await,
            "transfer-leader" => self.transfer(&topology, group).await,
            "rebalance" => self.command("rebalance", vec!["rebalance".into()]).await.map(drop),
            "drain" => self.drain().await,
            "replace-node" => self.replace().await,
            _ => self.resize(&topology, group).await,
        }
    }

    /// Of many nodes those that are in no group are thrown away, once every group says so.
    async fn discard_idle(&mut self, topology: &Topology) -> Result<()> {
        let mut cluster = self.cluster.lock().await;
        let shapes: Vec<_> = topology.groups.values().filter(|shape| shape.leader.is_some() && !shape.joint).collect();
        if cluster.ids().len() <= MOST || shapes.len() <= GROUPS as usize {
            return Ok(());
        }
        // Whoever takes another's place, and that other, are not idle: the command that moves them is given again.
        let moving = |id: &NodeId| self.replacing.is_some_and(|(old, new)| [old, new].contains(id));
        let idle = |id: &NodeId| !moving(id) && !shapes.iter().any(|shape| shape.has(*id));
        if let Some(idle) = cluster.ids().into_iter().find(idle) {
            println!("{:>7} ms  node {idle} is in no group and is thrown away", self.recorder.now_ms());
            cluster.discard(idle).await?;
        }
        Ok(())
    }

    async fn move_one(&mut self) -> Result<()> {
        let newest = self.event.load(Ordering::Relaxed);
        let event = EventId(self.random.random_range(newest.saturating_sub(1).max(1)..=newest));
        // While the meta group does not answer, there is nothing to be moved.
        let Ok(partitions) = self.client.partitions(event).await else { return Ok(()) };
        let Some(partition) = partitions.choose(&mut self.random).map(Partition::to_string) else { return Ok(()) };
        let to = self.random.random_range(1..=GROUPS).to_string();
        self.command("move", vec!["move".into(), partition, "--to".into(), to]).await.map(drop)
    }

    async fn spread(&mut self) -> Result<()> {
        let (event, groups) = (self.event.load(Ordering::Relaxed), self.random.random_range(1..=GROUPS));
        let words = vec!["spread".into(), event.to_string(), "--groups".into(), groups.to_string()];
        self.command("spread", words).await.map(drop)
    }

    async fn transfer(&mut self, topology: &Topology, group: GroupId) -> Result<()> {
        let Some(shape) = topology.groups.get(&group) else { return Ok(()) };
        let voters: Vec<&NodeId> = shape.voters.iter().collect();
        let Some(to) = voters.choose(&mut self.random).map(ToString::to_string) else { return Ok(()) };
        let words = vec!["transfer-leader".into(), group.to_string(), "--to".into(), to];
        self.command("transfer-leader", words).await.map(drop)
    }

    async fn drain(&mut self) -> Result<()> {
        let ids = self.cluster.lock().await.ids();
        let Some(node) = ids.choose(&mut self.random).map(ToString::to_string) else { return Ok(()) };
        self.command("drain", vec!["drain".into(), node]).await.map(drop)
    }

    /// A group gets a node more, or less.
    async fn resize(&mut self, topology: &Topology, group: GroupId) -> Result<()> {
        let Some(shape) = topology.groups.get(&group) else { return Ok(()) };
        if shape.voters.len() >= LARGEST {
            let voters: Vec<&NodeId> = shape.voters.iter().collect();
            let Some(node) = voters.choose(&mut self.random).map(ToString::to_string) else { return Ok(()) };
            let words = vec!["group".into(), "remove-node".into(), group.to_string(), node];
            return self.command("remove-node", words).await.map(drop);
        }
        let node = {
            let mut cluster = self.cluster.lock().await;
            let outside: Vec<NodeId> = cluster.ids().into_iter().filter(|id| !shape.has(*id)).collect();
            let node = match outside.choose(&mut self.random) {
                Some(node) => *node,
                None => cluster.join()?,
            };
            at(&cluster, node)?
        };
        let words = vec!["group".into(), "add-node".into(), group.to_string(), node];
        self.command("add-node", words).await.map(drop)
    }

    /// A node's place is taken by one under a new id; then the old one is thrown away.
    async fn replace(&mut self) -> Result<()> {
        let (old, new, address) = {
            let mut cluster = self.cluster.lock().await;
            let (old, new) = match self.replacing {
                Some(begun) => begun,
                None => {
                    let ids = cluster.ids();
                    let old = *ids.choose(&mut self.random).context("a store has nodes")?;
                    (old, cluster.join()?)
                }
            };
            (old, new, at(&cluster, new)?)
        };
        self.replacing = Some((old, new));
        let words = vec!["group".into(), "replace-node".into(), old.to_string(), address];
        match self.command("replace-node", words).await? {
            End::Done => {
                self.replacing = None;
                self.cluster.lock().await.discard(old).await?;
                println!("{:>7} ms  node {old} is thrown away", self.recorder.now_ms());
            }
            // Another command has brought it into a group meanwhile: it stays beside the old one.
            End::Pointless => self.replacing = None,
            End::Interrupted | End::Failed => {}
        }
        Ok(())
    }

    /// Runs `encore admin …`, or the first part of it.
    async fn command(&mut self, kind: &'static str, words: Vec<String>) -> Result<End> {
        let (program, config) = {
            let cluster = self.cluster.lock().await;
            (cluster.encore().to_path_buf(), cluster.operator_config())
        };
        let limit = match self.random.random_bool(0.25) {
            true => Duration::from_millis(self.random.random_range(0..INTERRUPTED_MS)),
            false => PATIENCE,
        };
        let mut command = Command::new(program);
        command.arg("admin").args(&words).arg("--config").arg(config).stdin(Stdio::null()).kill_on_drop(true);
        let begun = self.recorder.now_ms();
        let (end, all) = match timeout(limit, command.output()).await {
            Ok(output) => {
                let output = output.context("`encore admin` did not start")?;
                let all = [output.stdout, output.stderr].concat();
                let all = String::from_utf8_lossy(&all).into_owned();
                let end = match output.status.success() {
                    true => End::Done,
                    false if all.contains("already: without") => End::Pointless,
                    false => End::Failed,
                };
                (end, all)
            }
            Err(_) if limit == PATIENCE => (End::Failed, "no end".to_owned()),
            Err(_) => (End::Interrupted, String::new()),
        };
        let took = self.recorder.now_ms() - begun;
        println!("{begun:>7} ms  {}: {end:?} after {took} ms. {}", words.join(" "), last_line(&all));
        if all.contains("panicked") {
            bail!("{}: {all}", words.join(" "));
        }
        let ended = self.ended.entry(kind).or_default();
        match end {
            End::Done => ended.done += 1,
            End::Interrupted => ended.interrupted += 1,
            End::Failed | End::Pointless => ended.failed += 1,
        }
        Ok(end)
    }
}

/// A node and where it listens, as commands want it.
fn at(cluster: &Cluster, node: NodeId) -> Result<String> {
    let address = cluster.address(node).with_context(|| format!("node {node} is gone"))?;
    Ok(format!("{node}@{address}"))
}

fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()
}
