//! gRPC: the way between nodes, and the door for clients. Frames in, frames out; what they mean is decided elsewhere.

mod dialer;

pub use dialer::GrpcDial;
