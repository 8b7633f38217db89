//! The inventory as its hosts see it: golden scripts, any sequence of commands, any delivery of messages, pinned bytes.

mod any_delivery;
mod any_sequence;
mod bytes;
mod fixture;
mod parse;
mod placement;
mod refused_refund;
mod say;
mod scripts;
mod time;
mod watermark;
mod world;
