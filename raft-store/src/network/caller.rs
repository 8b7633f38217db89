//! Who calls, by the certificate of the connection, and what that one may do. Every service of a node asks here.

use crate::tls::{Role, Subject};
use domain::ids::NodeId;
use domain::inventory::command::{Checkout, Manage, Meta};
use domain::inventory::{Command, Request as StoreRequest};
use tonic::{Request, Status};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Without certificates a node listens on loopback only, and whoever is on this machine may do everything.
    Loopback,
    /// Another node.
    Node(NodeId),
    /// A client.
    Client(Role),
}

impl Caller {
    /// Who sent this request.
    #[allow(clippy::result_large_err)]
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let Some(chain) = request.peer_certs() else { return Ok(Self::Loopback) };
        let subject = chain.first().and_then(|certificate| {
            let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
            Subject::of(certificate.valid_dns_names())
        });
        match subject {
            Some(Subject::Node(node)) => Ok(Self::Node(node)),
            Some(Subject::Client(role)) => Ok(Self::Client(role)),
            None => Err(Status::permission_denied("the certificate names neither a node nor a client's role")),
        }
    }

    /// Whether it may send this command; otherwise why not. Services do what fans and payments need. Nodes send what
    /// partitions in other groups are owed, the steps of a move, and who they and the groups that they are in are; never
    /// what decides about a reservation, which its own group's leader proposes itself. All else is the operators'.
    pub fn may_submit(self, request: &StoreRequest) -> Result<(), String> {
        let ordinary = match &request.command {
            Command::Checkout(Checkout::Vote { .. } | Checkout::Ack { .. } | Checkout::Marked { .. }) => false,
            Command::Checkout(_) | Command::Manage(Manage::AckFeed { .. }) => true,
            Command::Participate(_) | Command::Manage(_) | Command::Meta(_) => false,
        };
        match self {
            Self::Loopback | Self::Client(Role::Operator) => Ok(()),
            Self::Node(node) if sent_by(node, &request.command) => Ok(()),
            Self::Node(node) => Err(format!("node {node}'s certificate does not allow this command")),
            Self::Client(Role::Service) if ordinary => Ok(()),
            Self::Client(Role::Service) => Err("a service's certificate does not allow this command".to_owned()),
            Self::Client(Role::Reader) => Err("a reader's certificate allows reading only".to_owned()),
        }
    }

    /// Whether it may make an operator's call.
    #[allow(clippy::result_large_err)]
    pub fn may_operate(self) -> Result<(), Status> {
        match self {
            Self::Loopback | Self::Client(Role::Operator) => Ok(()),
            Self::Node(_) => {
                Err(Status::permission_denied("an operator's certificate is needed, and this is a node's"))
            }
            Self::Client(role) => {
                let text = format!("an operator's certificate is needed, and this is a {}'s", role.word());
                Err(Status::permission_denied(text))
            }
        }
    }

    /// Whether it may speak as this node.
    #[allow(clippy::result_large_err)]
    pub fn may_speak_as(self, node: NodeId) -> Result<(), Status> {
        match self {
            Self::Loopback => Ok(()),
            Self::Node(id) if id == node => Ok(()),
            Self::Node(id) => {
                Err(Status::permission_denied(format!("the certificate is node {id}'s, not node {node}'s")))
            }
            Self::Client(role) => {
                Err(Status::permission_denied(format!("a {}'s certificate is no node's", role.word())))
            }
        }
    }
}

/// An interceptor for services that only operators may call; others answer `permission_denied`.
#[allow(clippy::result_large_err)]
pub fn operators_only(request: Request<()>) -> Result<Request<()>, Status> {
    Caller::of(&request)?.may_operate()?;
    Ok(request)
}

/// What a node's own tasks send to other groups: the driver, the mover, and those that register.
fn sent_by(node: NodeId, command: &Command) -> bool {
    match command {
        Command::Participate(_) => true,
        Command::Manage(
            Manage::Freeze { .. }
            | Manage::Unfreeze { .. }
            | Manage::Install { .. }
            | Manage::Activate { .. }
            | Manage::Drop { .. },
        ) => true,
        Command::Meta(Meta::RegisterNode { node: named, .. }) => *named == node,
        Command::Meta(Meta::RegisterGroup { nodes, .. }) => nodes.contains_key(&node),
        Command::Checkout(_) | Command::Manage(_) | Command::Meta(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Attempt, Bucket, Epoch, EventId, GroupId, Partition, ReservationId};
    use domain::inventory::command::{Done, Participate};
    use domain::inventory::record::EventStatus;

    const SEVEN: NodeId = NodeId(7);

    fn reservation() -> ReservationId {
        ReservationId { event: EventId(1), bucket: Bucket(0), incarnation: 0, sequence: 1 }
    }

    fn seats() -> Partition {
        Partition::Seats { event: EventId(1), section: domain::ids::SectionId(0) }
    }

    fn may(caller: Caller, command: Command) -> bool {
        caller.may_submit(&StoreRequest { partition: seats(), command }).is_ok()
    }

    fn nodes(ids: &[u64]) -> std::collections::BTreeMap<NodeId, String> {
        ids.iter().map(|id| (NodeId(*id), format!("node-{id}:1"))).collect()
    }

    /// What nodes send, and nobody but them and operators.
    fn of_nodes() -> Vec<Command> {
        let (attempt, reservation) = (Attempt(1), reservation());
        vec![
            Command::Participate(Participate::Release { reservation }),
            Command::Participate(Participate::Sell { reservation }),
            Command::Manage(Manage::Freeze { attempt }),
            Command::Manage(Manage::Unfreeze { attempt }),
            Command::Manage(Manage::Install { attempt, epoch: Epoch(2), exported: Vec::new() }),
            Command::Manage(Manage::Activate { attempt }),
            Command::Manage(Manage::Drop { attempt }),
            Command::Meta(Meta::RegisterNode { node: SEVEN, life: 1 }),
            Command::Meta(Meta::RegisterGroup { group: GroupId(1), nodes: nodes(&[6, 7]) }),
        ]
    }

    /// What services send, and nodes do not.
    fn of_services() -> Vec<Command> {
        let reservation = reservation();
        vec![
            Command::Checkout(Checkout::Cancel { reservation, user: None }),
            Command::Checkout(Checkout::LedgerAck { reservation }),
            Command::Manage(Manage::AckFeed { upto: 1 }),
        ]
    }

    /// What only operators send.
    fn of_operators() -> Vec<Command> {
        let attempt = Attempt(1);
        let done = Done::Sold;
        vec![
            Command::Checkout(Checkout::Ack { reservation: reservation(), participant: seats(), done }),
            Command::Manage(Manage::Restore { state: Vec::new() }),
            Command::Meta(Meta::SetStatus { event: EventId(1), status: EventStatus::Cancelled }),
            Command::Meta(Meta::MoveBegin { partition: seats(), to: GroupId(2) }),
            Command::Meta(Meta::MoveCommit { partition: seats(), attempt }),
            Command::Meta(Meta::MoveAbort { partition: seats(), attempt }),
            Command::Meta(Meta::MoveDone { partition: seats(), attempt }),
            Command::Meta(Meta::ReserveGroup { group: GroupId(2), nodes: nodes(&[7]) }),
            // In another node's name, and about a group that is not its own.
            Command::Meta(Meta::RegisterNode { node: NodeId(8), life: 1 }),
            Command::Meta(Meta::RegisterGroup { group: GroupId(1), nodes: nodes(&[6, 8]) }),
        ]
    }

    #[test]
    fn each_certificate_allows_what_its_holder_sends_and_nothing_else() {
        for (commands, by_node, by_service) in
            [(of_nodes(), true, false), (of_services(), false, true), (of_operators(), false, false)]
        {
            for command in commands {
                assert!(may(Caller::Client(Role::Operator), command.clone()), "{command:?}");
                assert!(may(Caller::Loopback, command.clone()), "{command:?}");
                assert_eq!(may(Caller::Node(SEVEN), command.clone()), by_node, "{command:?}");
                assert_eq!(may(Caller::Client(Role::Service), command.clone()), by_service, "{command:?}");
                assert!(!may(Caller::Client(Role::Reader), command.clone()), "{command:?}");
            }
        }
        let refused = Caller::Node(SEVEN).may_operate().unwrap_err();
        assert!(refused.message().contains("an operator's certificate is needed"), "{refused}");
        assert!(Caller::Node(SEVEN).may_speak_as(NodeId(8)).is_err());
    }
}
