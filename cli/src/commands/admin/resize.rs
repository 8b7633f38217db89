//! Growing, shrinking and spreading the running store. Each command plans from what the nodes say, shows the plan, and carries
//! it out step by step; one that was interrupted is given again and goes on from where things are.

use super::Desk;
use anyhow::{Context, Error, Result, bail};
use clap::Subcommand;
use domain::ids::{EventId, GroupId, NodeId, Partition};
use domain::inventory::query::Placement;
use raft_store::client::{Client, ClientConfig, NodeAnswer};
use raft_store::operate::{self, Plan, Step, Topology};
use std::str::FromStr;
use std::time::Instant;

/// Commands that change where partitions live, who is in a group and who leads it.
#[derive(Subcommand, Debug)]
pub enum ResizeTask {
    /// Move a partition, such as seats/1/3, to another group, while it is on sale
    Move {
        /// Which: seats/EVENT/SECTION, checkouts/EVENT/BUCKET or promotion/EVENT/CODE
        partition: Partition,
        /// Where to
        #[arg(long, value_name = "GROUP", required_unless_present = "cancel")]
        to: Option<GroupId>,
        /// Give up a move that is under way and not yet decided
        #[arg(long, conflicts_with = "to")]
        cancel: bool,
        #[command(flatten)]
        how: How,
    },
    /// Spread an event's sections and buckets over so many groups, while it is on sale; 1 brings them together again
    Spread {
        /// Its number
        event: EventId,
        /// Over how many groups
        #[arg(long, value_name = "N")]
        groups: usize,
        #[command(flatten)]
        how: How,
    },
    /// Even out how many groups each node leads
    Rebalance {
        #[command(flatten)]
        how: How,
    },
    /// Take leaders, and replicas where another node can have them, away from a node
    Drain {
        /// Which
        node: NodeId,
        #[command(flatten)]
        how: How,
    },
    /// Let another node lead a group
    TransferLeader {
        /// Which group
        group: GroupId,
        /// The new leader
        #[arg(long, value_name = "NODE")]
        to: NodeId,
        #[command(flatten)]
        how: How,
    },
    /// Make groups, and change which nodes are in them
    #[command(subcommand)]
    Group(GroupTask),
}

/// Commands about a group's members.
#[derive(Subcommand, Debug)]
pub enum GroupTask {
    /// Make a group for events
    Create {
        /// On these nodes, such as 1,2,3; otherwise on the three that have the fewest groups
        #[arg(long, value_delimiter = ',', value_name = "NODES")]
        nodes: Vec<NodeAt>,
        /// Finish the group of this number, which was reserved by a command that was interrupted
        #[arg(long, value_name = "GROUP")]
        number: Option<GroupId>,
        #[command(flatten)]
        how: How,
    },
    /// Add a node to a group: it learns, then it votes
    AddNode {
        /// Which group
        group: GroupId,
        /// The node, such as 4, or 4@10.0.0.4:7001 while no group has it
        node: NodeAt,
        #[command(flatten)]
        how: How,
    },
    /// Take a node out of a group
    RemoveNode {
        /// Which group
        group: GroupId,
        /// The node
        node: NodeId,
        #[command(flatten)]
        how: How,
    },
    /// Put a node in another one's place, in all its groups
    ReplaceNode {
        /// The node that goes
        old: NodeId,
        /// The node that comes, such as 4, or 4@10.0.0.4:7001 while no group has it
        new: NodeAt,
        /// Only in this group
        #[arg(long, value_name = "GROUP")]
        group: Option<GroupId>,
        #[command(flatten)]
        how: How,
    },
}

/// How a plan is carried out.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct How {
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
}

/// A node, and where it listens if nobody else can tell.
#[derive(Clone, Debug)]
pub struct NodeAt {
    id: NodeId,
    address: Option<String>,
}

impl FromStr for NodeAt {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (id, address) = match text.split_once('@') {
            Some((id, address)) => (id, Some(address.to_owned())),
            None => (text, None),
        };
        let id = id.parse().map_err(|_| format!("{id} is no node's number"))?;
        Ok(Self { id, address })
    }
}

pub async fn run(desk: &Desk, task: ResizeTask) -> Result<()> {
    match task {
        ResizeTask::Move { partition, cancel: true, .. } => cancel(&desk.store, &partition).await,
        ResizeTask::Move { partition, to, how, .. } => {
            let to = to.context("--to names a group")?;
            let moving = desk.store.moves().await?.iter().any(|open| open.partition == partition);
            let plan = move_one(&desk.store.placement().await?, &partition, to, moving)?;
            carry_out(&desk.store, plan, how).await
        }
        ResizeTask::Spread { event, groups, how } => {
            let plan = spread(&desk.store, event, groups).await?;
            carry_out(&desk.store, plan, how).await?;
            let rest = spread(&desk.store, event, groups).await?.steps.len();
            if rest > 0 && !how.dry_run {
                bail!(
                    "somebody else has moved partitions of event {event} meanwhile, so that it is not spread as was planned: \
                     {rest} are elsewhere; see to it that only one command moves them, and give this one again"
                );
            }
            Ok(())
        }
        ResizeTask::Rebalance { how } => {
            let plan = operate::rebalance(&desk.store.topology().await);
            carry_out(&desk.store, plan, how).await
        }
        ResizeTask::Drain { node, how } => {
            let topology = desk.store.topology().await;
            operate::all_seen(&topology, &desk.store.placement().await?.groups)?;
            carry_out(&desk.store, operate::drain(&topology, node)?, how).await
        }
        ResizeTask::TransferLeader { group, to, how } => {
            let plan = operate::transfer_leader(&desk.store.topology().await, group, to)?;
            carry_out(&desk.store, plan, how).await
        }
        ResizeTask::Group(task) => members(desk, task).await,
    }
}

async fn members(desk: &Desk, task: GroupTask) -> Result<()> {
    match task {
        GroupTask::Create { nodes, number, how } => {
            let (store, topology) = look(desk, &nodes).await?;
            let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
            let plan = operate::create_group(&topology, &store.known_groups().await?, number, &ids)?;
            carry_out(&store, plan, how).await
        }
        GroupTask::AddNode { group, node, how } => {
            let (store, topology) = look(desk, std::slice::from_ref(&node)).await?;
            carry_out(&store, operate::add_node(&topology, group, node.id)?, how).await
        }
        GroupTask::RemoveNode { group, node, how } => {
            let plan = operate::remove_node(&desk.store.topology().await, group, node)?;
            carry_out(&desk.store, plan, how).await
        }
        GroupTask::ReplaceNode { old, new, group, how } => {
            let (store, topology) = look(desk, std::slice::from_ref(&new)).await?;
            if group.is_none() {
                operate::all_seen(&topology, &store.placement().await?.groups)?;
            }
            carry_out(&store, operate::replace_node(&topology, group, old, new.id)?, how).await
        }
    }
}

/// The cluster, with nodes that are in no group yet. At an address that is given must be the node that is meant.
async fn look(desk: &Desk, nodes: &[NodeAt]) -> Result<(Client, Topology)> {
    let addresses: Vec<String> = nodes.iter().filter_map(|node| node.address.clone()).collect();
    let store = if addresses.is_empty() {
        desk.store.clone()
    } else {
        let endpoints = desk.settings.store.endpoints.iter().cloned().chain(addresses).collect();
        Client::connect(ClientConfig { endpoints, ..desk.settings.store.clone() })
    };
    let status = store.status().await;
    for NodeAt { id, address } in nodes {
        match address.as_ref().and_then(|address| Some((address, status.nodes.get(address)?))) {
            Some((address, NodeAnswer::Down(why))) => bail!("node {id} does not answer at {address}: {why}"),
            Some((address, NodeAnswer::Up(found))) if found.node != *id => {
                bail!("at {address} is node {}, not node {id}", found.node)
            }
            _ => {}
        }
    }
    Ok((store, Topology::seen(&status)))
}

fn move_one(placement: &Placement, partition: &Partition, to: GroupId, moving: bool) -> Result<Plan> {
    let placed = partition.event().and_then(|event| Some((event, placement.events.get(&event)?)));
    let Some((event, placed)) = placed else { bail!("{partition} belongs to no published event") };
    if !placed.partitions(event).contains(partition) {
        bail!("event {event} has no partition {partition}");
    }
    if !placement.groups.contains_key(&to) || to == GroupId::META {
        bail!("there is no group {to} for events");
    }
    let from = placed.locate(partition).0;
    if from == to && !moving {
        return Ok(Plan { notes: vec![format!("{partition} is in group {to} already")], ..Plan::default() });
    }
    // Also where it is there: a move that is under way is waited for.
    Ok(Plan { steps: vec![Step::Move { partition: partition.clone(), from, to }], ..Plan::default() })
}

async fn cancel(store: &Client, partition: &Partition) -> Result<()> {
    match store.cancel_move(partition).await? {
        true => println!("The move of {partition} is given up; it serves where it was."),
        false => println!("No move of {partition} can be given up."),
    }
    Ok(())
}

async fn spread(store: &Client, event: EventId, groups: usize) -> Result<Plan> {
    let placement = store.placement().await?;
    let placed = placement.events.get(&event).with_context(|| format!("there is no event {event}"))?;
    let record = store.event(event).await?.with_context(|| format!("there is no event {event}"))?;
    let groups = operate::choose_groups(&placement, event, groups)?;
    Ok(operate::spread(&record, placed, &groups))
}

async fn carry_out(store: &Client, plan: Plan, how: How) -> Result<()> {
    let Plan { steps, notes, unfinished } = plan;
    for note in &notes {
        println!("Note: {note}.");
    }
    if steps.is_empty() && !unfinished {
        println!("Nothing to do.");
        return Ok(());
    }
    let total = steps.len();
    if how.dry_run {
        for (at, step) in steps.iter().enumerate() {
            println!("[{}/{total}] {step}", at + 1);
        }
        println!("Nothing was done: this was a dry run.");
        return Ok(());
    }
    for (at, step) in steps.iter().enumerate() {
        println!("[{}/{total}] {step}", at + 1);
        let begun = Instant::now();
        let mut progress = |text: &str| println!("        {text}");
        store.carry_out(step, &mut progress).await.map_err(|error| {
            let again = if error.is_passing() { "; give the command again to go on" } else { "" };
            Error::from(error).context(format!("step {} of {total} is not done{again}", at + 1))
        })?;
        println!("        done in {} ms", begun.elapsed().as_millis());
    }
    if unfinished {
        bail!("that was not all that was asked for; give the command again once what the notes say is mended");
    }
    println!("Done.");
    Ok(())
}
