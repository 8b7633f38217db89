//! The Redis keys of one event. All share the hash tag `{e<ID>}`, so that one script may touch them all on a cluster.

use domain::ids::EventId;

/// What each key holds, in the order in which every script receives them.
const NAMES: [&str; 12] = [
    "seq",    // the counter that orders those who join
    "line",   // who waits, by place
    "beat",   // when each of them was last heard of
    "parked", // who was away when the turn came before anybody may be dropped, by place
    "draw",   // who joined a lottery before the sale, by counter
    "inside", // leases, by their end
    "pass",   // the pass of each lease
    "bound",  // the reservation of each lease that has one
    "owed",   // whose pass ran out: priority owed, or spent
    "meta",   // last second, rate, seed, pace, number of passes
    "news",   // who was admitted, lately
    "dial",   // what the operator set
];

/// The names of one event's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys(pub(crate) [String; NAMES.len()]);

impl Keys {
    pub(crate) fn of(event: EventId) -> Self {
        Self(NAMES.map(|name| format!("encore:{{e{event}}}:{name}")))
    }

    /// The key that holds `name`, one of the list above.
    pub(crate) fn named(&self, name: &str) -> &str {
        let at = NAMES.iter().position(|known| *known == name).expect("only names of the list are asked for");
        &self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_an_event_live_in_one_slot() {
        for key in Keys::of(EventId(7)).0 {
            assert!(key.starts_with("encore:{e7}:"), "{key}");
        }
        assert_eq!(Keys::of(EventId(7)).named("dial"), "encore:{e7}:dial");
    }
}
