//! gRPC: the way between nodes, and the door for clients. Frames in, frames out; what they mean is decided elsewhere.

mod caller;
mod conversation;
mod dialer;
mod keep;
mod operating;
mod peers;
mod revoked;
mod serve;
mod store;
mod watching;

pub use crate::identity::Identity;
pub use crate::lives::Lives;
pub use caller::{Caller, operators_only};
pub use conversation::{converse, status};
pub use dialer::GrpcDial;
pub use keep::{KeepService, export};
pub use operating::OperateService;
pub use peers::{GrpcTransport, PeerService};
pub use serve::{ServeError, Server, serve};
pub use store::StoreService;
pub use watching::watch;
