//! What an operator does to a running store: grow, shrink and lead groups, and put partitions elsewhere. Plans are pure
//! functions of what the nodes say; carrying a plan out is a series of steps, each of which may be done again. So a command
//! that was interrupted is given again: it plans anew from where things are.

mod balance;
mod membership;
mod orders;
mod plan;
mod spread;
#[cfg(test)]
mod tests;
mod topology;

pub use balance::{drain, rebalance};
pub use membership::{add_node, all_seen, create_group, remove_node, replace_node, transfer_leader};
pub use orders::carry;
pub use plan::{Plan, Refusal, Step};
pub use spread::{choose_groups, spread};
pub use topology::{Member, Shape, Topology};
