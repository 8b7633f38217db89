//! The rotating code of a ticket: what the wallet shows and the gate checks, both without a network.
//!
//! `{ticket}.{window}.{hex HMAC-SHA256(secret, "ticket:window")}`. The secret is the ticket's own and is never derived from
//! anything public, so that a code cannot be made from what is printed on the ticket. A screenshot dies within two windows.

use crate::ids::TicketId;
use crate::time::WallMs;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use std::str::FromStr;

/// How long one code is shown.
pub const WINDOW_MS: u64 = 15_000;
/// How many windows a code may be early or late: clocks of phones and gates differ.
pub const WINDOWS_TOLERATED: u64 = 1;
/// No code is longer; longer input is refused unread.
pub const CODE_LEN: usize = 36 + 1 + 20 + 1 + 64;

/// The secret of one ticket: 32 random bytes. Its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret(pub [u8; 32]);

/// A code, read but not yet believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketCode {
    /// The ticket it speaks for.
    pub ticket: TicketId,
    /// The 15-second window since the Unix epoch it was made in.
    pub window: u64,
    mac: [u8; 32],
}

/// A text that is not a ticket code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCode {
    /// It cannot be one: far too long.
    #[error("this is not a ticket code: it is too long")]
    TooLong,
    /// Not three parts.
    #[error("this is not a ticket code: ticket, window and proof are expected, with dots between")]
    Parts,
    /// The first part is no ticket id.
    #[error("this is not a ticket code: it does not begin with a ticket id")]
    Ticket,
    /// The second part is no window.
    #[error("this is not a ticket code: its time window is not a number")]
    Window,
    /// The third part is no MAC.
    #[error("this is not a ticket code: its proof is not 64 lower-case hex digits")]
    Proof,
}

/// Why a well-formed code is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeRefused {
    /// Not made with this ticket's secret.
    #[error("the code was not made by this ticket's wallet")]
    Forged,
    /// Made with the secret, but for another time.
    #[error("the code is from another time: open the ticket again for a fresh one")]
    WrongTime,
}

/// The window that `now` lies in.
pub fn window_at(now: WallMs) -> u64 {
    now.0 / WINDOW_MS
}

impl TicketCode {
    /// The code that the wallet shows at `now`.
    pub fn at(ticket: TicketId, secret: &TicketSecret, now: WallMs) -> Self {
        let window = window_at(now);
        let mac = proof(ticket, secret, window).finalize().into_bytes().into();
        Self { ticket, window, mac }
    }

    /// Whether the code was made with `secret`, for a window near `now`. The comparison takes the same time wherever the
    /// first difference is.
    pub fn check(&self, secret: &TicketSecret, now: WallMs) -> Result<(), CodeRefused> {
        proof(self.ticket, secret, self.window).verify_slice(&self.mac).map_err(|_| CodeRefused::Forged)?;
        if self.window.abs_diff(window_at(now)) > WINDOWS_TOLERATED {
            return Err(CodeRefused::WrongTime);
        }
        Ok(())
    }
}

fn proof(ticket: TicketId, secret: &TicketSecret, window: u64) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes a key of any length");
    mac.update(format!("{ticket}:{window}").as_bytes());
    mac
}

impl fmt::Display for TicketCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.ticket, self.window, hex::encode(self.mac))
    }
}

impl FromStr for TicketCode {
    type Err = BadCode;
    fn from_str(text: &str) -> Result<Self, BadCode> {
        if text.len() > CODE_LEN {
            return Err(BadCode::TooLong);
        }
        let mut parts = text.split('.');
        let (Some(ticket), Some(window), Some(proof), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadCode::Parts);
        };
        let ticket = ticket.parse().map_err(|_| BadCode::Ticket)?;
        // One text a window: no sign, no leading zero.
        let window = window.parse().ok().filter(|n: &u64| n.to_string() == window).ok_or(BadCode::Window)?;
        let mac = lower_hex(proof).ok_or(BadCode::Proof)?;
        Ok(Self { ticket, window, mac })
    }
}

fn lower_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    (!text.bytes().any(|byte| byte.is_ascii_uppercase())).then_some(bytes)
}

impl FromStr for TicketSecret {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        lower_hex(text).map(Self).ok_or("a ticket secret is 64 lower-case hex digits")
    }
}

impl Serialize for TicketSecret {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str(&hex::encode(self.0)) } else { self.0.serialize(s) }
    }
}

impl<'de> Deserialize<'de> for TicketSecret {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
        } else {
            Deserialize::deserialize(d).map(Self)
        }
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICKET: TicketId = TicketId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    const NOW: WallMs = WallMs(1_764_000_007_000);

    fn secret() -> TicketSecret {
        TicketSecret(std::array::from_fn(|i| i as u8))
    }

    /// Computed by another implementation (OpenSSL), so that wallets and gates of other versions agree.
    #[test]
    fn the_code_is_pinned() {
        let code = TicketCode::at(TICKET, &secret(), NOW).to_string();
        assert_eq!(
            code,
            concat!(
                "tic_0123456789abcdef0011223344556677.117600000.",
                "e2c51a5a735703e51360439f417c6e22e7dc9ba4ec3eb5a6dd602852d166d7bf"
            )
        );
        assert!(code.parse::<TicketCode>().unwrap().check(&secret(), NOW).is_ok());
    }

    #[test]
    fn a_neighbouring_window_is_accepted_and_no_other() {
        let code = TicketCode::at(TICKET, &secret(), NOW);
        for (off_ms, accepted) in [(-15_000, true), (15_000, true), (-30_000, false), (30_000, false)] {
            let then = WallMs(NOW.0.checked_add_signed(off_ms).unwrap());
            let expected = if accepted { Ok(()) } else { Err(CodeRefused::WrongTime) };
            assert_eq!(code.check(&secret(), then), expected, "{off_ms}");
        }
    }

    #[test]
    fn a_malformed_code_says_which_part_is_wrong() {
        let good = TicketCode::at(TICKET, &secret(), NOW).to_string();
        let upper = format!("{}A", &good[..good.len() - 1]);
        let cases = [
            ("", BadCode::Parts),
            ("hello", BadCode::Parts),
            ("a.b.c.d", BadCode::Parts),
            ("tic_1.2.3", BadCode::Ticket),
            ("tic_0123456789abcdef0011223344556677.007.00", BadCode::Window),
            ("tic_0123456789abcdef0011223344556677.+7.00", BadCode::Window),
            ("tic_0123456789abcdef0011223344556677.7.00", BadCode::Proof),
            (upper.as_str(), BadCode::Proof),
        ];
        for (text, why) in cases {
            assert_eq!(text.parse::<TicketCode>(), Err(why), "{text:?}");
        }
        assert_eq!("x".repeat(10_000).parse::<TicketCode>(), Err(BadCode::TooLong));
    }

    #[test]
    fn the_secret_is_not_shown_by_accident() {
        assert_eq!(format!("{:?}", secret()), "TicketSecret(…)");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ticket: u128, bytes: [u8; 32], now in 0..u64::MAX) {
            let code = TicketCode::at(TicketId(ticket), &TicketSecret(bytes), WallMs(now));
            let text = code.to_string();
            prop_assert!(text.len() <= CODE_LEN);
            prop_assert_eq!(text.parse::<TicketCode>(), Ok(code));
        }

        /// All that is public (ticket, time, the format) does not make a code; only the secret does.
        #[test]
        fn a_code_from_public_data_is_refused(ticket: u128, bytes: [u8; 32], now in 0..u64::MAX) {
            use sha2::Digest;
            let (ticket, secret, now) = (TicketId(ticket), TicketSecret(bytes), WallMs(now));
            let message = format!("{ticket}:{}", window_at(now));
            let plain_hash = Sha256::digest(message.as_bytes());
            let guesses = [
                TicketCode { ticket, window: window_at(now), mac: plain_hash.into() },
                TicketCode::at(ticket, &TicketSecret([0; 32]), now),
                TicketCode::at(ticket, &TicketSecret(Sha256::digest(ticket.to_string().as_bytes()).into()), now),
            ];
            for guess in guesses {
                prop_assert_eq!(guess.check(&secret, now), Err(CodeRefused::Forged));
            }
        }

        #[test]
        fn any_changed_bit_is_refused(bytes: [u8; 32], bit in 0..256_usize) {
            let secret = TicketSecret(bytes);
            let mut code = TicketCode::at(TICKET, &secret, NOW);
            code.mac[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(code.check(&secret, NOW), Err(CodeRefused::Forged));
        }

        #[test]
        fn another_tickets_code_is_refused(a: [u8; 32], b: [u8; 32]) {
            prop_assume!(a != b);
            let code = TicketCode::at(TICKET, &TicketSecret(a), NOW);
            prop_assert_eq!(code.check(&TicketSecret(b), NOW), Err(CodeRefused::Forged));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,200}") {
            let _read = text.parse::<TicketCode>();
        }
    }
}
