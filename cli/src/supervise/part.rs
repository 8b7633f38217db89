//! The parts of a whole sale on one machine, by name.

use std::fmt;

/// One process of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The private PostgreSQL.
    Postgres,
    /// The private Redis.
    Redis,
    /// A node of the store, from 1.
    Node(u8),
    /// The payment provider.
    Provider,
    /// The waiting room.
    Queue,
    /// The browse plane.
    Browse,
    /// A buy plane, from 1.
    Buy(u8),
    /// The webhook plane.
    Webhook,
    /// The operators' listener, alone: the role that may refund is in no process that fans reach.
    Operators,
    /// Settlement, tickets, refunds, mail.
    Fulfillment,
    /// A gate, from 1.
    Gate(u8),
    /// Sends manifests to the gates as tickets are sold.
    Manifests,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres => f.write_str("postgres"),
            Self::Redis => f.write_str("redis"),
            Self::Node(number) => write!(f, "node-{number}"),
            Self::Provider => f.write_str("provider"),
            Self::Queue => f.write_str("queue"),
            Self::Browse => f.write_str("browse"),
            Self::Buy(number) => write!(f, "buy-{number}"),
            Self::Webhook => f.write_str("webhook"),
            Self::Operators => f.write_str("operators"),
            Self::Fulfillment => f.write_str("fulfillment"),
            Self::Gate(number) => write!(f, "gate-{number}"),
            Self::Manifests => f.write_str("manifests"),
        }
    }
}
