//! The words of the waiting room's memory: a visit and what came of it, a tick and what it did, the operator's dial.

use crate::connection::RedisLost;
use domain::ids::{PassId, ReservationId};
use domain::time::WallMs;
use serde::{Deserialize, Serialize};

/// Where a fan stands, as Redis saw it.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Let in, until then.
    Inside {
        /// When the lease ends: the pass's end, or the hold's.
        until: WallMs,
        /// The pass, if it is still known.
        pass: Option<PassRecord>,
        /// The reservation, once seats are held.
        reservation: Option<ReservationId>,
    },
    /// In line.
    Waiting {
        /// How many are before this fan.
        ahead: u64,
        /// How many are let in a second, lately.
        per_second: f64,
    },
    /// In the draw of a lottery.
    Drawing {
        /// How many wait for their lots.
        joined: u64,
    },
    /// The pass ran out unused; who joins again goes first, once.
    Expired,
    /// Not here: never joined, dropped, or finished.
    Gone,
    /// Not here, and no room to wait.
    Full,
}

/// A pass as it was granted. The same record always gives the same signed pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassRecord {
    /// Its id.
    pub jti: PassId,
    /// When it was granted, in seconds since the epoch.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
}

/// One fan's visit: where, and when by Redis's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The standing.
    pub standing: Standing,
    /// Redis's clock.
    pub now: WallMs,
}

/// What a tick may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickOrder {
    /// The most that may be inside.
    pub capacity: u32,
    /// The most to let in now.
    pub batch: u32,
    /// When the sale starts.
    pub on_sale_at: WallMs,
}

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// False if this second had its tick already; then nothing was done.
    pub counted: bool,
    /// Redis's clock.
    pub now: WallMs,
    /// Leases.
    pub inside: u64,
    /// Fans in line or in the draw.
    pub waiting: u64,
    /// Let in by this tick.
    pub admitted: u64,
    /// Dropped by this tick for silence.
    pub dropped: u64,
    /// Leases that ended by this tick.
    pub expired: u64,
    /// Fans away when their turn came, who may still come back to their place.
    pub parked: u64,
}

/// What the operator set; what is not set is left to the event and to adaptation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dial {
    /// How many may be inside, instead of the event's own number.
    pub capacity: Option<u32>,
    /// How many are let in a second, instead of the adapted number.
    pub batch: Option<u32>,
    /// True lets nobody in; false lets fans in even where adaptation would pause.
    pub paused: Option<bool>,
}

/// A dial with the number of times it was turned. Redis may forget it; whoever remembers a higher number puts it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionedDial {
    pub(crate) version: u64,
    pub(crate) dial: Dial,
}

/// A reply of Redis as our scripts give it: a name or number first, then text.
pub(crate) type Reply = Vec<Text>;

/// An element of a reply, whichever type Redis gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl redis::FromRedisValue for Text {
    fn from_redis_value(value: redis::Value) -> Result<Self, redis::ParsingError> {
        match value {
            redis::Value::Int(number) => Ok(Self(number.to_string())),
            other => String::from_redis_value(other).map(Self),
        }
    }
}

impl Visit {
    /// Read a reply of the script `visit`.
    pub(crate) fn read(reply: &Reply) -> Result<Self, RedisLost> {
        let words: Vec<&str> = reply.iter().map(|text| text.0.as_str()).collect();
        let read = || -> Option<Self> {
            let standing = match words.as_slice() {
                ["inside", _, until, pass, bound] => Standing::Inside {
                    until: WallMs(until.parse::<f64>().ok()? as u64),
                    pass: if pass.is_empty() { None } else { Some(PassRecord::read(pass)?) },
                    reservation: if bound.is_empty() { None } else { Some(bound.parse().ok()?) },
                },
                ["waiting", _, rank, rate] => {
                    Standing::Waiting { ahead: rank.parse().ok()?, per_second: rate.parse().ok()? }
                }
                ["drawing", _, joined] => Standing::Drawing { joined: joined.parse().ok()? },
                ["expired", _] => Standing::Expired,
                ["gone", _] => Standing::Gone,
                ["full", _] => Standing::Full,
                _ => return None,
            };
            Some(Self { standing, now: WallMs(words.get(1)?.parse().ok()?) })
        };
        read().ok_or_else(|| RedisLost::Garbled(format!("{words:?}")))
    }
}

impl PassRecord {
    /// Read the form in which the script `admit` writes it.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let record = Self {
            jti: parts.next()?.parse().ok()?,
            iat: parts.next()?.parse().ok()?,
            exp: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(record)
    }
}

impl Tick {
    /// Read a reply of the script `admit`.
    pub(crate) fn read(reply: &Reply) -> Result<Self, RedisLost> {
        let numbers: Option<Vec<u64>> = reply.iter().map(|text| text.0.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[counted, now, inside, waiting, admitted, dropped, expired, parked]) => Ok(Self {
                counted: counted == 1,
                now: WallMs(now),
                inside,
                waiting,
                admitted,
                dropped,
                expired,
                parked,
            }),
            _ => Err(RedisLost::Garbled(format!("{reply:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(words: &[&str]) -> Reply {
        words.iter().map(|word| Text((*word).to_owned())).collect()
    }

    #[test]
    fn a_visit_reads_every_standing_and_refuses_the_rest() {
        let visit = Visit::read(&reply(&["inside", "5", "9000", "n-1|5|9", ""])).unwrap();
        let pass = PassRecord { jti: "n-1".parse().unwrap(), iat: 5, exp: 9 };
        assert_eq!(visit.standing, Standing::Inside { until: WallMs(9_000), pass: Some(pass), reservation: None });
        let visit = Visit::read(&reply(&["waiting", "5", "3", "1.5"])).unwrap();
        assert_eq!(visit, Visit { standing: Standing::Waiting { ahead: 3, per_second: 1.5 }, now: WallMs(5) });
        for wrong in [&["waiting", "5"][..], &[], &["inside", "5", "9", "garbled", ""], &["gone", "x"]] {
            assert!(Visit::read(&reply(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_misspelt_dial_is_refused() {
        assert!(serde_json::from_str::<Dial>(r#"{"capacty": 3}"#).is_err());
    }
}
