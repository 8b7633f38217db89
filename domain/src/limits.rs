//! Every maximum in one place. A limit that is not here is not enforced, and a limit here is enforced where input is read
//! and again where the replicated state would grow.

/// Seats and standing places in one cart.
pub const CART_SEATS: usize = 6;
/// Characters of an idempotency key.
pub const KEY_LEN: usize = 128;
/// Characters of a user id (the `sub` of a token).
pub const USER_LEN: usize = 128;
/// Characters of a pass id (the `jti` of a pass).
pub const PASS_ID_LEN: usize = 64;
/// Characters of a promotion code.
pub const PROMOTION_LEN: usize = 40;
/// Sections of one event.
pub const SECTIONS: usize = 2_000;
/// Seats of one section.
pub const SECTION_SEATS: usize = 10_000;
/// Seats of one event.
pub const EVENT_SEATS: usize = 200_000;
/// Devices that may carry one ticket.
pub const TICKET_DEVICES: usize = 5;
/// Removed devices that one ticket remembers; the oldest one is forgotten first.
pub const REMOVED_DEVICES: usize = 20;
/// Characters of a device's name.
pub const DEVICE_LEN: usize = 64;
/// Characters of a section, row or seat label.
pub const LABEL_LEN: usize = 64;
/// `checkouts` buckets of one event.
pub const BUCKETS: u16 = 64;
/// Shortest and longest hold an event may set.
pub const HOLD_TTL_MS: std::ops::RangeInclusive<u32> = 1_000..=3_600_000;
/// How long a cart may stay PREPARING.
pub const PREPARE_TTL_MS: u64 = 5_000;
/// What one entry may add to a partition's clock.
pub const TICK_CLAMP_MS: u32 = 5_000;
/// Reservations ended by one entry's tick.
pub const ENDED_PER_ENTRY: usize = 256;
/// A hold in payment is extended when less than this is left, and by this much.
pub const EXTEND_MS: u64 = 120_000;
/// How far past its first deadline a hold in payment may be extended.
pub const EXTEND_BOUND_MS: u64 = 300_000;
/// How long a finished record and its key stay, at least.
pub const RECORD_TTL_MS: u64 = 86_400_000;
/// Assumed bound on the difference between two wall clocks, for the floor of `Begin`.
pub const CLOCK_MARGIN_MS: u64 = 60_000;
/// Feed entries kept by one partition before it refuses new holds as overloaded.
pub const FEED_ENTRIES: usize = 1_000_000;
/// Groups of one store: ids go from 0 (meta) to here.
pub const GROUPS: u32 = 1_024;
/// Nodes that one store ever knows: a lost one comes back under a new id.
pub const NODES: usize = 1_024;
/// How long a fact is kept in the ledger's outbox after it was published.
pub const OUTBOX_KEPT_MS: u64 = 7 * 24 * 3_600_000;
/// How long a consumer remembers what it handled: longer than the outbox could deliver it again.
pub const INBOX_KEPT_MS: u64 = 14 * 24 * 3_600_000;
/// How long an event of the provider is remembered: longer than it, or somebody at its console, sends one again (30 days).
pub const WEBHOOKS_KEPT_MS: u64 = 35 * 24 * 3_600_000;
/// Commands in one replicated entry.
pub const ENTRY_REQUESTS: usize = 256;
/// Encoded bytes of the requests gathered into one replicated entry; a larger request has an entry of its own.
pub const ENTRY_BYTES: usize = 4 << 20;
/// Encoded bytes of one request. A full section of 10,000 seats exports about 1 MiB and a bucket of 200,000 records about
/// 30 MiB; half of what one record of the log and one message between nodes can carry.
pub const REQUEST_BYTES: usize = 32 << 20;
/// Keys that one bucket remembers before it refuses new ones as overloaded; a key is kept for [`RECORD_TTL_MS`].
pub const KEYS: usize = 2_000_000;
