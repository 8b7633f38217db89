//! Sealing of ticket secrets at rest: ChaCha20-Poly1305 bound to the ticket, so that rows cannot be swapped.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use domain::ids::TicketId;
use rand::RngCore;

const NONCE_LEN: usize = 12;

/// A sealed secret that does not open: another key, another ticket, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ticket's sealed secret does not open with this key")]
pub struct DoesNotOpen;

/// Seals and opens the secrets of tickets' rotating codes.
#[derive(Clone)]
pub struct Sealer(ChaCha20Poly1305);

impl Sealer {
    /// With this key.
    pub fn new(key: [u8; 32]) -> Self {
        Self(ChaCha20Poly1305::new(&Key::from(key)))
    }

    /// A fresh secret.
    pub fn fresh_secret() -> [u8; 32] {
        let mut secret = [0; 32];
        rand::rng().fill_bytes(&mut secret);
        secret
    }

    /// Nonce and ciphertext of `secret` for `ticket`.
    pub fn seal(&self, ticket: TicketId, secret: &[u8; 32]) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload { msg: secret, aad: &ticket.0.to_be_bytes() };
        let sealed = self.0.encrypt(&Nonce::from(nonce), payload).expect("32 bytes are not too long to encrypt");
        [nonce.as_slice(), &sealed].concat()
    }

    /// The secret of `ticket`.
    pub fn open(&self, ticket: TicketId, sealed: &[u8]) -> Result<[u8; 32], DoesNotOpen> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(DoesNotOpen)?;
        let payload = Payload { msg: ciphertext, aad: &ticket.0.to_be_bytes() };
        let opened = self.0.decrypt(&Nonce::from(*nonce), payload).map_err(|_| DoesNotOpen)?;
        opened.try_into().map_err(|_| DoesNotOpen)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_for_its_ticket_and_key() {
        let sealer = Sealer::new([1; 32]);
        let secret = Sealer::fresh_secret();
        let mut sealed = sealer.seal(TicketId(7), &secret);
        assert_eq!(sealer.open(TicketId(7), &sealed), Ok(secret));
        assert_eq!(sealer.open(TicketId(8), &sealed), Err(DoesNotOpen));
        assert_eq!(Sealer::new([2; 32]).open(TicketId(7), &sealed), Err(DoesNotOpen));
        *sealed.last_mut().unwrap() ^= 1;
        assert_eq!(sealer.open(TicketId(7), &sealed), Err(DoesNotOpen));
        assert_eq!(sealer.open(TicketId(7), &[]), Err(DoesNotOpen));
    }
}
