//! The JSON of the HTTP contract, and nothing else: every request and response, and their conversion from and to domain types.
//!
//! Requests refuse unknown fields. Ids and labels are strings, amounts integers in minor units (`*_cents`, also where a
//! currency has no cents), moments RFC 3339 in UTC.

pub mod admin;
pub mod catalogue;
pub mod payment;
pub mod problem;
pub mod reservation;
pub mod ticket;

use domain::time::WallMs;
use time::OffsetDateTime;
use time::macros::format_description;

/// RFC 3339 in UTC with milliseconds, such as `2026-11-30T20:00:00.000Z`.
pub fn timestamp(at: WallMs) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    i64::try_from(at.0)
        .ok()
        .and_then(|ms| OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok())
        .and_then(|moment| moment.format(format).ok())
        .unwrap_or_else(|| "9999-12-31T23:59:59.999Z".to_owned())
}

/// The wall clock, for people and for `sent_at`. Nothing in this crate decides the end of a hold by it.
pub fn wall_now() -> WallMs {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_utc_with_milliseconds_and_never_fail() {
        assert_eq!(timestamp(WallMs(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(WallMs(1_764_532_800_123)), "2025-11-30T20:00:00.123Z");
        assert_eq!(timestamp(WallMs(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
