//! gRPC: the way between nodes, and the door for clients. Frames in, frames out; what they mean is decided elsewhere.

mod conversation;
mod dialer;
mod peers;
mod serve;
mod store;
mod watching;

pub use conversation::{converse, status};
pub use dialer::GrpcDial;
pub use peers::{GrpcTransport, PeerService};
pub use serve::{ServeError, Server, serve};
pub use store::StoreService;
pub use watching::watch;
