//! Moments in an event file: a date for a real event, or an offset from its publication for a rehearsal.

use crate::time::WallMs;
use serde::{Deserialize, Deserializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment as it is written: `now`, `+90s`, `+2h`, `+30d`, or RFC 3339 such as `2027-05-01T20:00:00+02:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This long after publication, in milliseconds.
    After(u64),
    /// On the day that is so many days after publication, at this time of day, in milliseconds. Days are those of UTC.
    OnDay {
        /// Days.
        days: u64,
        /// Milliseconds since midnight.
        time: u64,
    },
    /// A date.
    At(WallMs),
}

const DAY_MS: u64 = 86_400_000;

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no moment: `now`, an offset such as `+30m` or `+30d`, a day and a time in UTC such as `+30d 19:30`, or a date such as `2027-05-01T20:00:00+02:00`"
)]
pub struct BadMoment(pub String);

impl Moment {
    /// The moment itself, for a publication at `now`.
    pub fn resolve(self, now: WallMs) -> WallMs {
        match self {
            Self::After(ms) => WallMs(now.0.saturating_add(ms)),
            Self::OnDay { days, time } => {
                WallMs((now.0 / DAY_MS).saturating_add(days).saturating_mul(DAY_MS).saturating_add(time))
            }
            Self::At(wall) => wall,
        }
    }
}

impl std::str::FromStr for Moment {
    type Err = BadMoment;
    fn from_str(text: &str) -> Result<Self, BadMoment> {
        let bad = || BadMoment(text.chars().take(80).collect());
        if text == "now" {
            return Ok(Self::After(0));
        }
        if let Some((day, time)) = text.strip_prefix('+').and_then(|text| text.split_once(' ')) {
            let days = offset_ms(day).filter(|_| day.ends_with('d')).map(|ms| ms / DAY_MS);
            let moment = days.zip(time_ms(time)).map(|(days, time)| Self::OnDay { days, time });
            return moment.ok_or_else(bad);
        }
        if let Some(offset) = text.strip_prefix('+') {
            return offset_ms(offset).map(Self::After).ok_or_else(bad);
        }
        let date = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| bad())?;
        let ms = date.unix_timestamp_nanos() / 1_000_000;
        u64::try_from(ms).map(|ms| Self::At(WallMs(ms))).map_err(|_| bad())
    }
}

/// `19:30`.
fn time_ms(text: &str) -> Option<u64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str, below: u64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| digits && *number < below)
    };
    Some((number(hour, 24)? * 60 + number(minute, 60)?) * 60_000)
}

fn offset_ms(text: &str) -> Option<u64> {
    let unit_ms: u64 = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY_MS,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(unit_ms)
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dates_and_offsets() {
        let now = WallMs(1_000);
        let at = |text: &str| text.parse::<Moment>().map(|moment| moment.resolve(now).0);
        assert_eq!(at("now"), Ok(1_000));
        assert_eq!(at("+90s"), Ok(91_000));
        assert_eq!(at("+2d"), Ok(172_801_000));
        assert_eq!(at("1970-01-01T01:00:01+01:00"), Ok(1_000));
        assert_eq!(at("+2d 19:30"), Ok(2 * DAY_MS + (19 * 60 + 30) * 60_000));
        assert_eq!("+0d 00:00".parse::<Moment>().map(|day| day.resolve(WallMs(3 * DAY_MS + 7)).0), Ok(3 * DAY_MS));
        for bad in ["+2d 24:00", "+2d 9:30", "+2d 19:60", "+2d  19:30", "+2h 19:30", "+2d ", "+d 19:30"] {
            assert!(at(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "tomorrow", "+", "+d", "+-1d", "+1w", "+٣d", "1969-01-01T00:00:00Z", "+999999999999999999999d"]
        {
            assert!(at(bad).is_err(), "{bad:?}");
        }
    }
}
