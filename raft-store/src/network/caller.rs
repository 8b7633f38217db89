//! Who calls, by the certificate of the connection, and what that one may do. Every service of a node asks here.

use crate::tls::{Role, Subject};
use domain::ids::NodeId;
use domain::inventory::command::{Checkout, Manage};
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

    /// Whether it may send this command; otherwise why not. Services do what fans and payments need; moving, creating and
    /// what participants are told come from nodes and operators alone.
    pub fn may_submit(self, request: &StoreRequest) -> Result<(), String> {
        let ordinary = match &request.command {
            Command::Checkout(Checkout::Vote { .. } | Checkout::Ack { .. } | Checkout::Marked { .. }) => false,
            Command::Checkout(_) | Command::Manage(Manage::AckFeed { .. }) => true,
            Command::Participate(_) | Command::Manage(_) | Command::Meta(_) => false,
        };
        match self {
            Self::Loopback | Self::Node(_) | Self::Client(Role::Operator) => Ok(()),
            Self::Client(Role::Service) if ordinary => Ok(()),
            Self::Client(Role::Service) => Err("a service's certificate does not allow this command".to_owned()),
            Self::Client(Role::Reader) => Err("a reader's certificate allows reading only".to_owned()),
        }
    }

    /// Whether it may make an operator's call.
    #[allow(clippy::result_large_err)]
    pub fn may_operate(self) -> Result<(), Status> {
        match self {
            Self::Loopback | Self::Node(_) | Self::Client(Role::Operator) => Ok(()),
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
