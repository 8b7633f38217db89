//! Money in integer minor units with its currency. All arithmetic is checked; there are no floating point amounts.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An ISO 4217 currency code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

/// A text that is not three ASCII letters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a currency: three letters such as EUR are expected")]
pub struct NotACurrency(pub String);

impl Currency {
    /// The euro.
    pub const EUR: Self = Self(*b"EUR");
    /// The yen, which has no minor unit.
    pub const JPY: Self = Self(*b"JPY");

    /// The code in upper case.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency is ASCII")
    }

    /// Decimal places between the major and the minor unit (ISO 4217).
    pub fn exponent(&self) -> u32 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG" | b"RWF" | b"UGX"
            | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            _ => 2,
        }
    }
}

impl FromStr for Currency {
    type Err = NotACurrency;
    fn from_str(text: &str) -> Result<Self, NotACurrency> {
        match text.as_bytes() {
            &[a, b, c] if text.bytes().all(|x| x.is_ascii_alphabetic()) => {
                Ok(Self([a, b, c].map(|x| x.to_ascii_uppercase())))
            }
            _ => Err(NotACurrency(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Currency {
    type Error = NotACurrency;
    fn try_from(text: String) -> Result<Self, NotACurrency> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.code().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// An amount in minor units (cents, or yen). Never negative in any state that Encore keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Minor(pub i64);

impl Minor {
    /// The sum, or `None` past `i64`.
    pub fn checked_add(self, other: Minor) -> Option<Minor> {
        self.0.checked_add(other.0).map(Minor)
    }

    /// The difference, or `None` below zero.
    pub fn checked_sub(self, other: Minor) -> Option<Minor> {
        self.0.checked_sub(other.0).filter(|left| *left >= 0).map(Minor)
    }

    /// The sum of all, or `None` past `i64`.
    pub fn checked_sum(amounts: impl IntoIterator<Item = Minor>) -> Option<Minor> {
        amounts.into_iter().try_fold(Minor(0), Minor::checked_add)
    }

    /// For people: `12.50 EUR`, `80 JPY`.
    pub fn display(self, currency: Currency) -> String {
        match currency.exponent() {
            0 => format!("{} {currency}", self.0),
            places => {
                let unit = 10_i64.pow(places);
                format!("{}.{:0width$} {currency}", self.0 / unit, self.0 % unit, width = places as usize)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_each_currency_with_its_own_decimals() {
        assert_eq!(Minor(1250).display(Currency::EUR), "12.50 EUR");
        assert_eq!(Minor(80).display(Currency::JPY), "80 JPY");
        assert_eq!(Minor(1005).display("kwd".parse().unwrap()), "1.005 KWD");
    }

    #[test]
    fn refuses_what_is_not_a_currency_and_what_overflows() {
        assert!("EURO".parse::<Currency>().is_err());
        assert!("E1R".parse::<Currency>().is_err());
        assert_eq!(Minor(i64::MAX).checked_add(Minor(1)), None);
        assert_eq!(Minor(1).checked_sub(Minor(2)), None);
    }
}
