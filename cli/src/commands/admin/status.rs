//! `encore admin status`: nodes, groups, partitions, moves and stock on one screen, or as JSON.

use super::{Desk, now as wall_now};
use anyhow::{Result, ensure};
use domain::ids::{Attempt, Epoch, EventId, GroupId, NodeId, Partition};
use domain::inventory::EventRecord;
use domain::inventory::Stage;
use domain::inventory::query::{Move, MoveStage, Stock};
use domain::inventory::record::EventStatus;
use raft_store::CLOCK_WRONG_MS;
use raft_store::client::{ClusterStatus, NodeAnswer, Role};
use raft_store::mover::{MoveNote, MoveResult, median_frozen_ms};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Rates are counted over this time.
const SAMPLE: Duration = Duration::from_secs(1);

/// How to show it.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct StatusArguments {
    /// As JSON, for machines
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
#[derive(Serialize)]
struct Report {
    nodes: Vec<NodeLine>,
    groups: Vec<GroupLine>,
    partitions: Vec<PartitionLine>,
    open_moves: Vec<MoveLine>,
    last_moves: Vec<NoteLine>,
    median_frozen_ms: Option<u64>,
    events: Vec<EventLine>,
}

#[derive(Serialize)]
struct NodeLine {
    address: String,
    node: Option<NodeId>,
    version: Option<String>,
    leads: Vec<GroupId>,
    hosts: Vec<GroupId>,
    down: Option<String>,
    /// How far its wall clock is ahead of its peers'.
    clock_ahead_ms: Option<i64>,
}

#[derive(Serialize)]
struct GroupLine {
    group: GroupId,
    leader: Option<NodeId>,
    term: u64,
    voters: Vec<NodeId>,
    learners: Vec<NodeId>,
    changing_voters: bool,
    queued: u64,
    replicas: Vec<ReplicaLine>,
}

#[derive(Serialize)]
struct ReplicaLine {
    node: NodeId,
    role: Role,
    last_log: Option<u64>,
    applied: Option<u64>,
    snapshot: Option<u64>,
    purged: Option<u64>,
    /// Entries of the leader's log that it has not applied.
    lag: u64,
}

#[derive(Serialize)]
struct PartitionLine {
    #[serde(serialize_with = "in_words")]
    partition: Partition,
    group: GroupId,
    epoch: Epoch,
    stage: Stage,
    size: u64,
    requests_per_second: f64,
    alarms: u64,
}

/// A move that is under way.
#[derive(Serialize)]
struct MoveLine {
    #[serde(serialize_with = "in_words")]
    partition: Partition,
    attempt: Attempt,
    from: GroupId,
    to: GroupId,
    stage: MoveStage,
}

/// A move that ended.
#[derive(Serialize)]
struct NoteLine {
    #[serde(serialize_with = "in_words")]
    partition: Partition,
    attempt: Attempt,
    from: GroupId,
    to: GroupId,
    result: MoveResult,
}

/// A partition as commands take it, such as `seats/1/3`.
fn in_words<S: Serializer>(partition: &Partition, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(partition)
}

#[derive(Serialize)]
struct EventLine {
    event: EventId,
    title: String,
    status: &'static str,
    /// Left out while its partitions do not answer.
    stock: Option<Stock>,
}

pub async fn run(desk: &Desk, arguments: StatusArguments) -> Result<()> {
    let report = gather(desk).await;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", report.screen()),
    }
    ensure!(report.nodes.iter().any(|node| node.down.is_none()), "no node of the store answers");
    Ok(())
}

/// A store in trouble is when a status is wanted most: what does not answer is left out.
async fn gather(desk: &Desk) -> Report {
    let before = desk.store.status().await;
    let begun = Instant::now();
    tokio::time::sleep(SAMPLE).await;
    let now = desk.store.status().await;
    let seconds = begun.elapsed().as_secs_f64();
    let mut events = Vec::new();
    for record in desk.store.events().await.unwrap_or_default() {
        let stock = desk.store.stock(record.id).await.ok();
        let status = word(&record);
        events.push(EventLine { event: record.id, title: record.title, status, stock });
    }
    let notes = now.nodes.values().filter_map(|answer| match answer {
        NodeAnswer::Up(node) => Some(node.moves.clone()),
        NodeAnswer::Down(_) => None,
    });
    let last_moves: Vec<MoveNote> = notes.flatten().collect();
    Report {
        nodes: nodes(&now),
        groups: groups(&now),
        partitions: partitions(&before, &now, seconds),
        open_moves: desk.store.moves().await.unwrap_or_default().into_iter().map(MoveLine::from).collect(),
        median_frozen_ms: median_frozen_ms(&last_moves),
        last_moves: last_moves.into_iter().map(NoteLine::from).collect(),
        events,
    }
}

impl From<Move> for MoveLine {
    fn from(Move { partition, attempt, from, to, stage, .. }: Move) -> Self {
        Self { partition, attempt, from, to, stage }
    }
}

impl From<MoveNote> for NoteLine {
    fn from(MoveNote { partition, attempt, from, to, result }: MoveNote) -> Self {
        Self { partition, attempt, from, to, result }
    }
}

/// The word that the API has for it.
fn word(event: &EventRecord) -> &'static str {
    match event.status {
        EventStatus::Scheduled if event.on_sale_at <= wall_now() => "on_sale",
        EventStatus::Scheduled => "scheduled",
        EventStatus::Closed => "closed",
        EventStatus::Cancelled => "cancelled",
    }
}

fn nodes(status: &ClusterStatus) -> Vec<NodeLine> {
    let leaders = status.leaders();
    // Who is down is known by those who have it as a member.
    let members: BTreeMap<&String, NodeId> = status
        .replicas()
        .flat_map(|(_, replica)| replica.members.iter().map(|(node, address)| (address, *node)))
        .collect();
    let line = |(address, answer): (&String, &NodeAnswer)| match answer {
        NodeAnswer::Up(node) => NodeLine {
            address: address.clone(),
            node: Some(node.node),
            version: Some(node.version.clone()),
            leads: leaders.iter().filter(|(_, leader)| **leader == node.node).map(|(group, _)| *group).collect(),
            hosts: node.groups.iter().filter(|group| group.role != Role::Outside).map(|group| group.group).collect(),
            down: None,
            clock_ahead_ms: node.clock_ahead_ms,
        },
        NodeAnswer::Down(why) => NodeLine {
            address: address.clone(),
            node: members.get(address).copied(),
            version: None,
            leads: Vec::new(),
            hosts: Vec::new(),
            down: Some(why.clone()),
            clock_ahead_ms: None,
        },
    };
    status.nodes.iter().map(line).collect()
}

fn groups(status: &ClusterStatus) -> Vec<GroupLine> {
    let leaders = status.leaders();
    let mut groups: BTreeMap<GroupId, GroupLine> = BTreeMap::new();
    let last = |group: GroupId| {
        let logs = status.replicas().filter(|(node, replica)| {
            replica.group == group && leaders.get(&group).is_none_or(|leader| leader == node)
        });
        logs.filter_map(|(_, replica)| replica.last_log).max().unwrap_or(0)
    };
    for (node, replica) in status.replicas().filter(|(_, replica)| replica.role != Role::Outside) {
        let leader = leaders.get(&replica.group).copied();
        let line = groups.entry(replica.group).or_insert_with(|| GroupLine {
            group: replica.group,
            leader,
            term: 0,
            voters: Vec::new(),
            learners: Vec::new(),
            changing_voters: false,
            queued: 0,
            replicas: Vec::new(),
        });
        if leader == Some(node) || line.voters.is_empty() {
            line.voters.clone_from(&replica.voters);
            line.learners.clone_from(&replica.learners);
            line.changing_voters = replica.joint;
            line.queued = replica.queued;
        }
        line.term = line.term.max(replica.term);
        line.replicas.push(ReplicaLine {
            node,
            role: replica.role,
            last_log: replica.last_log,
            applied: replica.applied,
            snapshot: replica.snapshot,
            purged: replica.purged,
            lag: last(replica.group).saturating_sub(replica.applied.unwrap_or(0)),
        });
    }
    groups.into_values().collect()
}

/// Partitions as the leaders of their groups have them; a dropped copy is none.
fn partitions(before: &ClusterStatus, now: &ClusterStatus, seconds: f64) -> Vec<PartitionLine> {
    let leaders = now.leaders();
    let served = |node: NodeId, group: GroupId, partition: &Partition| {
        let replica = before.replicas().find(|(id, replica)| *id == node && replica.group == group);
        replica.and_then(|(_, replica)| replica.served.get(partition).copied())
    };
    let mut lines = Vec::new();
    for (node, replica) in now.replicas().filter(|(node, replica)| leaders.get(&replica.group) == Some(node)) {
        for hosted in replica.partitions.iter().filter(|hosted| hosted.stage != Stage::Dropped) {
            let count = replica.served.get(&hosted.partition).copied().unwrap_or(0);
            let earlier = served(node, replica.group, &hosted.partition).unwrap_or(0);
            lines.push(PartitionLine {
                partition: hosted.partition.clone(),
                group: replica.group,
                epoch: hosted.epoch,
                stage: hosted.stage,
                size: hosted.size,
                requests_per_second: (count.saturating_sub(earlier) as f64 / seconds * 10.0).round() / 10.0,
                alarms: hosted.alarms,
            });
        }
    }
    lines.sort_by(|a, b| a.partition.cmp(&b.partition));
    lines
}

fn list<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "–".to_owned(),
        items => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}

fn at(index: Option<u64>) -> String {
    index.map_or_else(|| "–".to_owned(), |index| index.to_string())
}

/// Whether two partitions, neighbours in the list, differ in nothing but number, size and rate.
fn alike(one: &PartitionLine, next: &PartitionLine) -> bool {
    let kind = |partition: &Partition| {
        let text = partition.to_string();
        text.rsplit_once('/').map(|(kind, _)| kind.to_owned())
    };
    let key = |line: &PartitionLine| (line.group, line.epoch, line.stage, line.alarms);
    kind(&one.partition).is_some_and(|one| kind(&next.partition) == Some(one)) && key(one) == key(next)
}

fn write_partitions(out: &mut String, name: &str, first: &PartitionLine, lines: &[PartitionLine]) -> std::fmt::Result {
    let size: u64 = lines.iter().map(|line| line.size).sum();
    let rate: f64 = lines.iter().map(|line| line.requests_per_second).sum();
    let stage = format!("{:?}", first.stage).to_lowercase();
    let alarm = if first.alarms > 0 { format!("  {} ALARMS", first.alarms) } else { String::new() };
    writeln!(out, "{name:<24} {:<6} {:<6} {size:<9} {rate:<11.1} {stage}{alarm}", first.group, first.epoch)
}

impl Report {
    fn screen(&self) -> String {
        let mut out = String::new();
        // Writing to a string has no way to fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "NODE  ADDRESS                 LEADS         HOSTS")?;
        for node in &self.nodes {
            let id = node.node.map_or_else(|| "?".to_owned(), |node| node.to_string());
            match &node.down {
                None => {
                    writeln!(out, "{id:<5} {:<23} {:<13} {}", node.address, list(&node.leads), list(&node.hosts))?;
                }
                Some(why) => writeln!(out, "{id:<5} {:<23} down: {why}", node.address)?,
            }
        }
        writeln!(
            out,
            "\nGROUP  VOTERS      LEARNERS  TERM  QUEUED  NODE  ROLE      LOG       APPLIED   SNAPSHOT  LAG"
        )?;
        for group in &self.groups {
            let changing = if group.changing_voters { "*" } else { "" };
            let voters = format!("{}{changing}", list(&group.voters));
            let head = format!(
                "{:<6} {voters:<11} {:<9} {:<5} {:<7}",
                group.group,
                list(&group.learners),
                group.term,
                group.queued
            );
            for (line, replica) in group.replicas.iter().enumerate() {
                let head = if line == 0 { head.as_str() } else { "" };
                let role = format!("{:?}", replica.role).to_lowercase();
                writeln!(
                    out,
                    "{head:<42} {:<5} {role:<9} {:<9} {:<9} {:<9} {}",
                    replica.node,
                    at(replica.last_log),
                    at(replica.applied),
                    at(replica.snapshot),
                    replica.lag
                )?;
            }
        }
        writeln!(out, "\nPARTITION                GROUP  EPOCH  SIZE      PER SECOND  STAGE")?;
        for lines in self.partitions.chunk_by(alike) {
            let [first, .., last] = lines else {
                lines.iter().try_for_each(|line| write_partitions(out, &line.partition.to_string(), line, lines))?;
                continue;
            };
            let last = last.partition.to_string();
            let name = format!("{}…{}", first.partition, last.rsplit('/').next().unwrap_or_default());
            write_partitions(out, &name, first, lines)?;
        }
        self.write_rest(out)
    }

    fn write_rest(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out)?;
        for node in &self.nodes {
            let wrong = node.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() > CLOCK_WRONG_MS);
            if let (Some(id), Some(ahead)) = (node.node, wrong) {
                let side = if ahead > 0 { "ahead of" } else { "behind" };
                let seconds = ahead.unsigned_abs() as f64 / 1e3;
                writeln!(out, "the wall clock of node {id} is {seconds:.1} s {side} its peers'")?;
            }
        }
        for open in &self.open_moves {
            let stage = format!("{:?}", open.stage).to_lowercase();
            let MoveLine { partition, attempt, from, to, .. } = open;
            writeln!(out, "moving {partition} from group {from} to group {to}: attempt {attempt}, {stage}")?;
        }
        if let Some(median) = self.median_frozen_ms {
            writeln!(out, "{} attempts to move, frozen for {median} ms at the median", self.last_moves.len())?;
        }
        for line in &self.events {
            let EventLine { event, title, status, stock } = line;
            match stock {
                Some(Stock { free, held, sold, blocked }) => {
                    writeln!(
                        out,
                        "event {event}, “{title}” ({status}): {free} free, {held} held, {sold} sold, {blocked} blocked"
                    )?;
                }
                None => writeln!(out, "event {event}, “{title}” ({status}): its partitions do not answer")?,
            }
        }
        Ok(())
    }
}
