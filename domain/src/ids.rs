//! A type for every identifier, so that a seat is never mistaken for a section, with the one text form of each.

use crate::limits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A text that is not the identifier it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct BadId {
    /// What was expected.
    pub what: &'static str,
    /// What came.
    pub text: String,
}

impl BadId {
    fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(80).collect() }
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.parse().map(Self).map_err(|_| BadId::new($what, text))
            }
        }
    };
}

number_id!(
    /// An event: one show on one date.
    EventId(u32), "event id"
);
number_id!(
    /// A section of an event, in the order of its plan.
    SectionId(u16), "section id"
);
number_id!(
    /// A seat (or standing place) of a section, in plan order: its place in the section's geometry.
    SeatIndex(u32), "seat index"
);
number_id!(
    /// One of an event's `checkouts` partitions.
    Bucket(u16), "bucket"
);
number_id!(
    /// A Raft group.
    GroupId(u32), "group id"
);
number_id!(
    /// A store node.
    NodeId(u64), "node id"
);
number_id!(
    /// How often a partition has been moved.
    Epoch(u64), "epoch"
);
number_id!(
    /// One attempt to move a partition, numbered by the meta group.
    Attempt(u64), "move attempt"
);

impl Bucket {
    /// Where the box office's blocks live: no user is hashed there, so that a block without an end holds back no fan's
    /// watermark.
    pub const BOX_OFFICE: Self = Self(u16::MAX);
}

impl GroupId {
    /// The meta group: catalogue and placement.
    pub const META: Self = Self(0);
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                let fits = !text.is_empty() && text.len() <= $max && text.bytes().all(|b| b.is_ascii_graphic());
                if fits { Ok(Self(text)) } else { Err(BadId::new($what, &text)) }
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// A fan, an operator or a box office: the `sub` of their token.
    UserId, "user id", limits::USER_LEN
);
text_id!(
    /// What a client sends so that a repeated request is one request.
    IdempotencyKey, "idempotency key", limits::KEY_LEN
);
text_id!(
    /// The `jti` of a waiting-room pass.
    PassId, "pass id", limits::PASS_ID_LEN
);
text_id!(
    /// A promotion code, as printed.
    PromotionCode, "promotion code", limits::PROMOTION_LEN
);

impl PromotionCode {
    /// A code as people type it: in any case, with blanks around it. Codes are published in the form that this gives.
    pub fn typed(text: &str) -> Result<Self, BadId> {
        text.trim().to_ascii_uppercase().parse()
    }
}

impl UserId {
    /// The `checkouts` bucket that judges this user, of `buckets`: FNV-1a, fixed for ever, because records live there.
    pub fn bucket(&self, buckets: u16) -> Bucket {
        let hash = self
            .0
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Bucket((hash % u64::from(buckets.max(1))) as u16)
    }
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{:032x}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .filter(|hex| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
                    .and_then(|hex| u128::from_str_radix(hex, 16).ok())
                    .map(Self)
                    .ok_or_else(|| BadId::new($what, text))
            }
        }

        as_text_for_people!($name);
    };
}

/// Human-readable formats carry the text form, binary ones the value itself.
macro_rules! as_text_for_people {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { self.0.serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
                } else {
                    Deserialize::deserialize(d).map(Self)
                }
            }
        }
    };
}

wide_id!(
    /// One attempt to pay for one reservation; also the idempotency key at the provider.
    PaymentId, "pay", "payment id"
);
wide_id!(
    /// One refund.
    RefundId, "ref", "refund id"
);
wide_id!(
    /// One ticket: one seat of one paid reservation.
    TicketId, "tic", "ticket id"
);
wide_id!(
    /// One booking: a paid reservation in the ledger.
    BookingId, "boo", "booking id"
);

/// A seat of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeatRef {
    /// Its section.
    pub section: SectionId,
    /// Its place in the section.
    pub seat: SeatIndex,
}

/// A reservation, minted at apply by its `checkouts` partition and never reused: the sequence moves with the partition,
/// a restore raises the incarnation. Text form `event-bucket-incarnation-sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId {
    /// The event.
    pub event: EventId,
    /// Which of its `checkouts` partitions judges it.
    pub bucket: Bucket,
    /// Raised by each restore.
    pub incarnation: u16,
    /// Rises by one per reservation.
    pub sequence: u64,
}

impl ReservationId {
    /// The partition that owns the record.
    pub fn partition(&self) -> Partition {
        Partition::Checkouts { event: self.event, bucket: self.bucket }
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.event, self.bucket, self.incarnation, self.sequence)
    }
}

impl FromStr for ReservationId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parse = || {
            let mut parts = text.split('-');
            let id = Self {
                event: EventId(parts.next()?.parse().ok()?),
                bucket: Bucket(parts.next()?.parse().ok()?),
                incarnation: parts.next()?.parse().ok()?,
                sequence: parts.next()?.parse().ok()?,
            };
            // One text per id: no leading zeros or signs.
            (parts.next().is_none() && id.to_string() == text).then_some(id)
        };
        parse().ok_or_else(|| BadId::new("reservation id", text))
    }
}

impl Serialize for ReservationId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.collect_str(self)
        } else {
            (self.event, self.bucket, self.incarnation, self.sequence).serialize(s)
        }
    }
}

impl<'de> Deserialize<'de> for ReservationId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
        } else {
            let (event, bucket, incarnation, sequence) = Deserialize::deserialize(d)?;
            Ok(Self { event, bucket, incarnation, sequence })
        }
    }
}

/// The smallest unit of placement: a small deterministic state machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Partition {
    /// Catalogue and placement; lives in the meta group and never moves.
    Meta,
    /// The seats of one section.
    Seats {
        /// The event.
        event: EventId,
        /// The section.
        section: SectionId,
    },
    /// The reservations and limits of the users of one bucket.
    Checkouts {
        /// The event.
        event: EventId,
        /// The bucket.
        bucket: Bucket,
    },
    /// The uses of one promotion code.
    Promotion {
        /// The event.
        event: EventId,
        /// The code.
        code: PromotionCode,
    },
}

impl Partition {
    /// The event it belongs to; the meta partition belongs to none.
    pub fn event(&self) -> Option<EventId> {
        match self {
            Self::Meta => None,
            Self::Seats { event, .. } | Self::Checkouts { event, .. } | Self::Promotion { event, .. } => Some(*event),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Seats { event, section } => write!(f, "seats/{event}/{section}"),
            Self::Checkouts { event, bucket } => write!(f, "checkouts/{event}/{bucket}"),
            Self::Promotion { event, code } => write!(f, "promotion/{event}/{code}"),
        }
    }
}

impl FromStr for Partition {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parse = || {
            let mut parts = text.splitn(3, '/');
            Some(match (parts.next()?, parts.next(), parts.next()) {
                ("meta", None, None) => Self::Meta,
                ("seats", Some(event), Some(section)) => {
                    Self::Seats { event: event.parse().ok()?, section: section.parse().ok()? }
                }
                ("checkouts", Some(event), Some(bucket)) => {
                    Self::Checkouts { event: event.parse().ok()?, bucket: bucket.parse().ok()? }
                }
                ("promotion", Some(event), Some(code)) => {
                    Self::Promotion { event: event.parse().ok()?, code: code.parse().ok()? }
                }
                _ => return None,
            })
        };
        parse().ok_or_else(|| BadId::new("partition", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_id_has_exactly_one_text() {
        let id = ReservationId { event: EventId(7), bucket: Bucket(3), incarnation: 0, sequence: 42 };
        assert_eq!(id.to_string(), "7-3-0-42");
        assert_eq!("7-3-0-42".parse(), Ok(id));
        for wrong in ["", "7-3-0", "07-3-0-42", "7-3-0-42-1", "7-3-0--42", "7-3-0-+42", "a-b-c-d"] {
            assert!(wrong.parse::<ReservationId>().is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn a_payment_id_reads_back_and_refuses_others() {
        let id = PaymentId(0xabc);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(RefundId(1).to_string().parse::<PaymentId>().is_err());
    }

    #[test]
    fn a_user_stays_in_his_bucket() {
        let user: UserId = "alice".parse().unwrap();
        // Pinned: records live where this says, so it may never change.
        assert_eq!(user.bucket(8), Bucket(7));
        assert!("".parse::<UserId>().is_err());
        assert!("a b".parse::<UserId>().is_err());
    }

    #[test]
    fn partitions_read_back() {
        for text in ["meta", "seats/1/2", "checkouts/1/0", "promotion/1/EARLY-10"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
        assert!("seats/1".parse::<Partition>().is_err());
    }
}
