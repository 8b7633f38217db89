//! Live hints for viewers of seat maps: what changed, never how. A hint says "pull", and a lost one costs nothing, because
//! every stream opens with a reset.

mod hub;
mod viewer;

pub use hub::Hub;
