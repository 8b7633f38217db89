//! `encore admin certs`: a private authority and certificates for nodes and clients.

use crate::certificates;
use anyhow::Result;
use domain::ids::NodeId;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Arguments of `encore admin certs`.
#[derive(clap::Args, Debug)]
pub struct CertsArguments {
    /// Where the files are written; what is there already stays as it is
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Ids of the nodes that get a certificate, besides those whose certificates are revoked
    #[arg(long, value_name = "ID,…", value_delimiter = ',', default_value = "1,2,3")]
    nodes: Vec<NodeId>,
    /// How long the certificates are valid: up to 3650 days, as the authority is
    #[arg(long, default_value_t = 397, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,
    /// Whose certificates are good no more, such as node-3 or service: they go on the list that nodes read (node.revoked),
    /// and new ones are issued
    #[arg(long, value_name = "HOLDER,…", value_delimiter = ',')]
    revoke: Vec<String>,
}

pub fn run(arguments: &CertsArguments) -> Result<()> {
    let CertsArguments { out, nodes, days, revoke } = arguments;
    for holder in revoke {
        let serial = certificates::revoke(out, holder)?;
        println!("revoked {holder}, serial {serial}");
    }
    let revoked = revoke.iter().filter_map(|holder| holder.strip_prefix("node-")?.parse().ok());
    let nodes: BTreeSet<NodeId> = nodes.iter().copied().chain(revoked).collect();
    let issued = certificates::issue(out, &Vec::from_iter(nodes), *days)?;
    for file in &issued.written {
        println!("wrote {}", file.display());
    }
    if !issued.kept.is_empty() {
        println!("kept what was there: {}", issued.kept.join(", "));
        println!("To renew one, move its .pem and .key away and run this again.");
    }
    if !revoke.is_empty() {
        let list = out.join(certificates::REVOKED);
        println!("Copy {} to every node (node.revoked): it is read again when it changes.", list.display());
    }
    println!("Keep ca.key away from the nodes: whoever has it can be a node or an operator.");
    Ok(())
}
