//! What hits the nodes: `kill -9` of one, of a leader, of two, of all at once, and a leader that stops breathing for a while.

use super::cluster::{Cluster, GROUPS};
use super::history::Recorder;
use anyhow::Result;
use domain::ids::{GroupId, NodeId};
use raft_store::client::Client;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Between a death and the restart.
const DEAD_MS: std::ops::Range<u64> = 0..600;
/// How long a leader does not breathe: from less than anybody notices to several elections.
const BREATHLESS_MS: std::ops::Range<u64> = 50..2_500;
/// For how many rounds a node may stay down.
const ROUNDS_DOWN: std::ops::RangeInclusive<u32> = 1..=3;

/// The kinds of blows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// Any node dies.
    One,
    /// The leader of some group dies.
    Leader,
    /// Two nodes die at once.
    Two,
    /// All nodes die at once.
    All,
    /// The leader of some group stops breathing.
    Freeze,
}

impl Blow {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::One, Self::Leader, Self::Two, Self::All, Self::Freeze];
}

/// Who strikes.
pub struct Blows {
    cluster: Arc<Mutex<Cluster>>,
    client: Client,
    recorder: Recorder,
    random: StdRng,
    /// Who is down, and for how many more rounds.
    down: Option<(NodeId, u32)>,
    struck: BTreeMap<Blow, u32>,
}

impl Blows {
    /// With a client of its own, to see who leads.
    pub fn new(cluster: Arc<Mutex<Cluster>>, client: Client, recorder: Recorder, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { cluster, client, recorder, random, down: None, struck: BTreeMap::new() }
    }

    /// How many there were of each kind.
    pub fn struck(&self, blow: Blow) -> u32 {
        self.struck.get(&blow).copied().unwrap_or(0)
    }

    /// One blow. Afterwards at most one node is down.
    pub async fn strike(&mut self, round: u32) -> Result<()> {
        let blow = match self.random.random_range(0..100) {
            0..30 => Blow::One,
            30..55 => Blow::Leader,
            55..65 => Blow::Two,
            65..78 => Blow::All,
            _ => Blow::Freeze,
        };
        let victims = self.victims(blow).await;
        println!("{:>7} ms  round {round}: {blow:?} {}", self.recorder.now_ms(), names(&victims));
        *self.struck.entry(blow).or_default() += 1;
        if blow == Blow::Freeze {
            return self.freeze(&victims).await;
        }
        self.cluster.lock().await.kill(&victims).await?;
        let dead = self.random.random_range(DEAD_MS);
        sleep(Duration::from_millis(dead)).await;
        self.age();
        if let (Blow::One | Blow::Leader, [victim], None) = (blow, &victims[..], self.down)
            && self.random.random_bool(0.4)
        {
            self.down = Some((*victim, self.random.random_range(ROUNDS_DOWN)));
        } else if matches!(blow, Blow::Two | Blow::All) {
            self.down = None;
        }
        self.revive_others().await
    }

    /// Everybody runs.
    pub async fn revive_all(&mut self) -> Result<()> {
        self.down = None;
        self.revive_others().await
    }

    async fn victims(&mut self, blow: Blow) -> Vec<NodeId> {
        let ids = self.cluster.lock().await.ids();
        let down = self.down.map(|(down, _)| down);
        let up: Vec<NodeId> = ids.iter().copied().filter(|id| Some(*id) != down).collect();
        let any = |random: &mut StdRng, count| up.choose_multiple(random, count).copied().collect();
        match blow {
            Blow::One => any(&mut self.random, 1),
            Blow::Two => any(&mut self.random, 2),
            Blow::All => ids,
            Blow::Leader | Blow::Freeze => {
                let group = GroupId(self.random.random_range(0..=GROUPS));
                let leader = self.client.status().await.leaders().get(&group).copied();
                // Nobody leads it now: anybody will do.
                leader.map_or_else(|| any(&mut self.random, 1), |leader| vec![leader])
            }
        }
    }

    async fn freeze(&mut self, victims: &[NodeId]) -> Result<()> {
        let breathless = self.random.random_range(BREATHLESS_MS);
        for victim in victims.iter().filter(|victim| self.down.is_none_or(|(down, _)| down != **victim)) {
            // Thrown away meanwhile, or ended by itself, which is found out elsewhere.
            let _gone = self.cluster.lock().await.freeze(*victim);
            sleep(Duration::from_millis(breathless)).await;
            let _gone = self.cluster.lock().await.thaw(*victim);
        }
        self.age();
        self.revive_others().await
    }

    /// One round more for whoever is down.
    fn age(&mut self) {
        self.down = self.down.and_then(|(node, rounds)| Some((node, rounds.checked_sub(1)?)));
    }

    async fn revive_others(&mut self) -> Result<()> {
        let mut cluster = self.cluster.lock().await;
        let down = self.down.map(|(node, _)| node);
        let up: Vec<NodeId> = cluster.ids().into_iter().filter(|id| Some(*id) != down).collect();
        cluster.revive(&up)
    }
}

fn names(nodes: &[NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
