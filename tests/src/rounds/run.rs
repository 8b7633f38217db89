//! One run from the founding of the store to the judgement.

use super::blows::{Blow, Blows};
use super::checker::check;
use super::cluster::{Cluster, GROUPS};
use super::crowd::Crowd;
use super::event::publication;
use super::feeds::Feeds;
use super::history::{Count, Recorder};
use super::operator::{COMMANDS, Ended, Operator};
use super::world;
use crate::eventually;
use anyhow::{Context, Result, bail, ensure};
use domain::ids::{EventId, GroupId};
use raft_store::client::Client;
use raft_store::operate::{self, Topology};
use raft_store::tls::Role;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Fans at a time.
const FANS: u64 = 16;
/// Clients that they share, each with its own connections and its own idea of who leads.
const CLIENTS: usize = 3;
/// Answers after each blow before the next one falls.
const ANSWERS: u64 = 20;
/// How long they may take to come.
const RECOVERS: Duration = Duration::from_secs(90);
/// How long what was begun may take to come to its end, once nobody dies any more.
const SETTLES: Duration = Duration::from_secs(120);
/// Rounds after which another event is on sale.
const EVENT_EVERY: u32 = 25;
/// From so many rounds on, every kind of blow and of command must have come about.
const TELLING: u32 = 60;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Blows.
    pub rounds: u32,
    /// Of all choices.
    pub seed: u64,
}

/// Runs them. An error is a broken promise, or a run that proves nothing.
pub async fn run(plan: Rounds) -> Result<()> {
    println!("{} rounds, seed {}", plan.rounds, plan.seed);
    let mut run = Run::begin(plan).await?;
    let endured = run.endure().await;
    if endured.is_err() {
        run.show().await;
    }
    endured?;
    let judged = run.judge().await;
    if judged.is_err() {
        run.show().await;
    }
    judged
}

struct Run {
    plan: Rounds,
    cluster: Arc<Mutex<Cluster>>,
    admin: Client,
    recorder: Recorder,
    blows: Blows,
    event: Arc<AtomicU32>,
    crowd: Option<Crowd>,
    stop: Arc<AtomicBool>,
    operating: Option<JoinHandle<Result<BTreeMap<&'static str, Ended>>>>,
    feeding: Option<JoinHandle<Feeds>>,
    begun: Instant,
}

impl Run {
    async fn begin(plan: Rounds) -> Result<Self> {
        let cluster = Cluster::start()?;
        let admin = cluster.client(Role::Operator);
        let clients: Vec<Client> = (0..CLIENTS).map(|_| cluster.client(Role::Service)).collect();
        let (for_operator, for_blows) = (cluster.client(Role::Operator), cluster.client(Role::Operator));
        let cluster = Arc::new(Mutex::new(cluster));
        let recorder = Recorder::default();
        let event = Arc::new(AtomicU32::new(1));
        publish(&admin, EventId(1)).await?;
        let operator = Operator::new(cluster.clone(), for_operator, recorder.clone(), event.clone(), plan.seed);
        let stop = Arc::new(AtomicBool::new(false));
        let feeding = feed(clients[0].clone(), recorder.clone(), event.clone(), stop.clone());
        Ok(Self {
            plan,
            blows: Blows::new(cluster.clone(), for_blows, recorder.clone(), plan.seed),
            cluster,
            admin,
            crowd: Some(Crowd::gather(FANS, plan.seed, EventId(1), &clients, &recorder)),
            recorder,
            event,
            operating: Some(tokio::spawn(operator.work(stop.clone()))),
            feeding: Some(tokio::spawn(feeding)),
            stop,
            begun: Instant::now(),
        })
    }

    /// Round after round, each until there were answers after its blow.
    async fn endure(&mut self) -> Result<()> {
        for round in 1..=self.plan.rounds {
            if round.is_multiple_of(EVENT_EVERY) {
                let next = EventId(self.event.load(Ordering::Relaxed) + 1);
                publish(&self.admin, next).await.with_context(|| format!("event {next} is not published"))?;
                self.event.store(next.0, Ordering::Relaxed);
                self.crowd.iter().for_each(|crowd| crowd.turn_to(next));
            }
            self.blows.strike(round).await?;
            self.recovers().await.with_context(|| format!("in round {round}"))?;
        }
        Ok(())
    }

    async fn recovers(&mut self) -> Result<()> {
        let (before, begun) = (self.recorder.answers(), Instant::now());
        while self.recorder.answers() < before + ANSWERS {
            self.unbroken().await?;
            let came = self.recorder.answers() - before;
            ensure!(begun.elapsed() < RECOVERS, "only {came} answers came within {} s", RECOVERS.as_secs());
            sleep(Duration::from_millis(20)).await;
        }
        self.unbroken().await
    }

    async fn unbroken(&mut self) -> Result<()> {
        self.cluster.lock().await.nobody_ended()?;
        if self.operating.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(operating) = self.operating.take()
        {
            operating.await??;
            bail!("the operator went home early");
        }
        self.recorder.complaints().map_or(Ok(()), |complaints| bail!("{complaints}"))
    }

    fn events(&self) -> Vec<EventId> {
        (1..=self.event.load(Ordering::Relaxed)).map(EventId).collect()
    }

    /// Everybody goes home, everything is finished, all nodes die once more, and then each of them is asked.
    async fn judge(&mut self) -> Result<()> {
        println!("{:>7} ms  the rounds are over", self.recorder.now_ms());
        self.blows.revive_all().await?;
        if let Some(crowd) = self.crowd.take() {
            crowd.go_home(&self.recorder).await;
        }
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.operating.take().context("the operator works")?.await??;
        let mut feeds = self.feeding.take().context("the feeds are read")?.await?;
        self.unbroken().await?;
        self.settled().await?;
        {
            let mut cluster = self.cluster.lock().await;
            let all = cluster.ids();
            cluster.kill(&all).await?;
            cluster.revive(&all)?;
        }
        self.drained(&mut feeds).await?;
        self.everywhere(&feeds).await?;
        self.unbroken().await?;
        self.cluster.lock().await.nobody_panicked()?;
        self.sum_up(&ended)
    }

    /// No move and no change of members is under way, every group is led, and nobody who was thrown away is in one.
    async fn settled(&self) -> Result<()> {
        let ids = self.cluster.lock().await.ids();
        eventually("everything that was begun is finished", SETTLES, || async {
            let moves = self.admin.moves().await?;
            ensure!(moves.is_empty(), "moves are open: {moves:?}");
            let status = self.admin.status().await;
            let leaders = status.leaders();
            for group in (0..=GROUPS).map(GroupId) {
                ensure!(leaders.contains_key(&group), "nobody leads group {group}");
            }
            for (node, replica) in status.replicas() {
                let (group, leads) = (replica.group, leaders.get(&replica.group) == Some(&node));
                ensure!(!leads || !replica.joint, "group {group} is changing its voters");
                let gone = replica.members.keys().find(|member| leads && !ids.contains(member));
                ensure!(gone.is_none(), "group {group} has node {}, which was thrown away", gone.unwrap_or(&node));
                let alarms = replica.partitions.iter().find(|hosted| hosted.alarms > 0);
                ensure!(alarms.is_none(), "node {node} raised an alarm: {alarms:?}");
            }
            Ok(())
        })
        .await
    }

    async fn drained(&self, feeds: &mut Feeds) -> Result<()> {
        let (events, begun) = (self.events(), Instant::now());
        while !feeds.consume(&self.admin, &events, &self.recorder).await {
            ensure!(begun.elapsed() < SETTLES, "the feeds have no end");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The judgement, with each voter of each group leading once: what one replica says is not what the others have.
    async fn everywhere(&self, feeds: &Feeds) -> Result<()> {
        let (events, history) = (self.events(), self.recorder.history());
        for turn in 0..self.most_voters().await? {
            self.lead(turn).await?;
            eventually("the store says what fans were told", SETTLES, || async {
                let world = world::read(&self.admin, &events, feeds.said(), &self.recorder).await?;
                let faults = check(&history, &world);
                let first: Vec<String> = faults.iter().take(20).map(ToString::to_string).collect();
                ensure!(faults.is_empty(), "{} faults:\n{}", faults.len(), first.join("\n"));
                Ok(())
            })
            .await?;
            println!("{:>7} ms  judged, turn {}", self.recorder.now_ms(), turn + 1);
        }
        Ok(())
    }

    /// Voters of the group that has most, once all groups answer.
    async fn most_voters(&self) -> Result<usize> {
        eventually("every group answers", SETTLES, || async {
            let Topology { groups, .. } = self.admin.topology().await;
            ensure!(groups.len() > GROUPS as usize, "only {} groups answer", groups.len());
            groups.values().map(|shape| shape.voters.len()).max().filter(|most| *most > 0).context("nobody votes")
        })
        .await
    }

    /// In every group the voter whose turn it is leads.
    async fn lead(&self, turn: usize) -> Result<()> {
        for group in (0..=GROUPS).map(GroupId) {
            eventually("a leader is changed", SETTLES, || async {
                let topology = self.admin.topology().await;
                let shape = topology.groups.get(&group).context("a group does not answer")?;
                let to = *shape.voters.iter().nth(turn % shape.voters.len()).context("a group has voters")?;
                let plan = operate::transfer_leader(&topology, group, to)?;
                for step in &plan.steps {
                    self.admin.carry_out(step, &mut |_| {}).await?;
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    fn sum_up(&self, ended: &BTreeMap<&'static str, Ended>) -> Result<()> {
        println!("{} rounds, seed {}, in {} s", self.plan.rounds, self.plan.seed, self.begun.elapsed().as_secs());
        println!("answers: {}", self.recorder);
        let mut never = Vec::new();
        for blow in Blow::ALL {
            println!("blow {blow:?}: {}", self.blows.struck(blow));
            if self.blows.struck(blow) == 0 {
                never.push(format!("{blow:?}"));
            }
        }
        for kind in COMMANDS {
            let Ended { done, interrupted, failed } = ended.get(kind).copied().unwrap_or_default();
            println!("command {kind}: {done} done, {interrupted} interrupted, {failed} refused or given up");
            if done == 0 {
                never.push(kind.to_owned());
            }
        }
        let telling = self.plan.rounds >= TELLING;
        ensure!(!telling || never.is_empty(), "these never came about, so that the run proves little: {never:?}");
        let silent =
            Count::ALL.into_iter().find(|count| *count != Count::Unanswered && self.recorder.counted(*count) == 0);
        ensure!(!telling || silent.is_none(), "fans were never answered {silent:?}");
        Ok(())
    }

    /// What an operator would see now.
    async fn show(&self) {
        let (program, config) = {
            let cluster = self.cluster.lock().await;
            (cluster.encore().to_path_buf(), cluster.operator_config())
        };
        let mut command = tokio::process::Command::new(program);
        command.args(["admin", "status", "--config"]).arg(config).kill_on_drop(true);
        match timeout(Duration::from_secs(30), command.output()).await {
            Ok(Ok(said)) => println!("$ encore admin status\n{}", String::from_utf8_lossy(&said.stdout)),
            other => println!("`encore admin status` has no end: {other:?}"),
        }
        println!("answers: {}", self.recorder);
        println!("the last calls without an answer:\n{}", self.recorder.last_unanswered().join("\n"));
    }
}

/// Puts an event on sale, whoever dies meanwhile.
async fn publish(admin: &Client, event: EventId) -> Result<()> {
    let (record, plans, promotions) = publication(event);
    let groups: Vec<GroupId> = match event.0 % 2 {
        // Every second event is in one group until the operator spreads it.
        0 => Vec::new(),
        _ => (1..=GROUPS).map(GroupId).collect(),
    };
    eventually("an event is published", RECOVERS, || async {
        let published = admin.publish(record.clone(), plans.clone(), promotions.clone(), groups.clone()).await;
        Ok(published?)
    })
    .await
}

/// Reads the feeds of the events that are on sale until told to stop.
async fn feed(client: Client, recorder: Recorder, event: Arc<AtomicU32>, stop: Arc<AtomicBool>) -> Feeds {
    let mut feeds = Feeds::default();
    while !stop.load(Ordering::Relaxed) {
        let newest = event.load(Ordering::Relaxed);
        let events: Vec<EventId> = (newest.saturating_sub(1).max(1)..=newest).map(EventId).collect();
        feeds.consume(&client, &events, &recorder).await;
        sleep(Duration::from_millis(300)).await;
    }
    feeds
}
