//! `encore admin status`: the store's nodes and groups, the catalogue and its stock.

use super::Desk;
use anyhow::Result;
use raft_store::client::NodeAnswer;

pub async fn run(desk: &Desk) -> Result<()> {
    let status = desk.store.status().await;
    for (address, answer) in &status.nodes {
        match answer {
            NodeAnswer::Up(node) => {
                println!("node {} at {address}, version {}", node.node, node.version);
                for group in &node.groups {
                    let at = |index: Option<u64>| index.map_or_else(|| "–".to_owned(), |index| index.to_string());
                    println!(
                        "  group {}: {:?}, term {}, log {}, applied {}, snapshot {}, {} partitions",
                        group.group,
                        group.role,
                        group.term,
                        at(group.last_log),
                        at(group.applied),
                        at(group.snapshot),
                        group.partitions.len()
                    );
                }
            }
            NodeAnswer::Down(why) => println!("node at {address} is down: {why}"),
        }
    }
    for (group, leader) in status.leaders() {
        println!("group {group} is led by node {leader}");
    }
    for event in desk.store.events().await? {
        let stock = desk.store.stock(event.id).await?;
        println!(
            "event {}, “{}” ({:?}): {} free, {} held, {} sold, {} blocked",
            event.id, event.title, event.status, stock.free, stock.held, stock.sold, stock.blocked
        );
    }
    Ok(())
}
