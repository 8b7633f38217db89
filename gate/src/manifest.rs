//! The manifest: what the organiser hands to a venue so that it can check tickets without the internet.
//!
//! Encrypted, because it carries every ticket's secret; signed, because whoever can forge one can walk in; expiring, because
//! a stick lost last year must not open this year's doors; numbered, because an old revocation list must not undo a new one.
//! A file is `magic ‖ nonce ‖ ciphertext ‖ signature`; the signature covers all before it and is checked first.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use domain::ids::{EventId, TicketId};
use domain::limits;
use domain::ticket_code::TicketSecret;
use domain::time::WallMs;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The file's first bytes, which carry the version of the format.
const MAGIC: &[u8; 8] = b"ENCOREM1";
const NONCE_LEN: usize = 24;
const SIGNATURE_LEN: usize = 64;
/// The largest sealed manifest that is read.
pub const MANIFEST_BYTES: usize = 64 << 20;

/// The tickets of one event, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The event.
    pub event: EventId,
    /// Its title, for the person at the door.
    pub title: String,
    /// Rises with every export of the event; a lower one never replaces a higher one.
    pub sequence: u64,
    /// When it was exported.
    pub issued_at: WallMs,
    /// From then on no ticket is admitted by it.
    pub expires_at: WallMs,
    /// The tickets known then. A ticket that an earlier manifest had and this one lacks stays known.
    pub tickets: Vec<ManifestTicket>,
}

/// One ticket of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestTicket {
    /// The ticket.
    pub ticket: TicketId,
    /// What its codes are made with.
    pub secret: TicketSecret,
    /// Section, row and seat in words.
    pub label: String,
    /// Refunded, exchanged or withdrawn: not to be admitted.
    pub revoked: bool,
}

/// Why a manifest cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// More tickets than an event has seats.
    #[error("a manifest holds at most {most} tickets, not {0}", most = limits::EVENT_SEATS)]
    TooManyTickets(usize),
    /// The operating system gave no randomness.
    #[error("no randomness for the nonce: {0}")]
    Randomness(String),
}

/// Why a file is not a manifest that this gate believes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It does not begin like one, or it is cut off.
    #[error("this is not a manifest file of a version that this gate reads")]
    Format,
    /// The signature is not the organiser's.
    #[error("the manifest is not signed by this organiser; it was forged, damaged or meant for another venue")]
    Signature,
    /// Signed, but sealed for other keys.
    #[error("the manifest is signed, but sealed with another key than this gate has")]
    Sealed,
    /// Opened, but what is inside breaks the format.
    #[error("the manifest's content cannot be read: {0}")]
    Content(String),
}

/// What the organiser keeps: signs and seals.
#[derive(Clone)]
pub struct OrganiserKey {
    signing: SigningKey,
    sealing: [u8; 32],
}

/// What a gate gets: checks and opens, and cannot sign. Text form `gate1.{verifying}.{sealing}` in hex.
#[derive(Clone, PartialEq, Eq)]
pub struct GateKey {
    verifying: VerifyingKey,
    sealing: [u8; 32],
}

/// A text that is not the key it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a manifest key: {0} followed by two 32-byte hex numbers, with dots between, is expected")]
pub struct BadKey(&'static str);

impl OrganiserKey {
    /// A new key from the operating system's randomness.
    pub fn generate() -> Result<Self, SealError> {
        Ok(Self { signing: SigningKey::from_bytes(&random()?), sealing: random()? })
    }

    /// The part that goes to the venue.
    pub fn gate_key(&self) -> GateKey {
        GateKey { verifying: self.signing.verifying_key(), sealing: self.sealing }
    }

    /// The text form: `organiser1.{signing}.{sealing}` in hex. A secret.
    pub fn to_text(&self) -> String {
        format!("organiser1.{}.{}", hex::encode(self.signing.to_bytes()), hex::encode(self.sealing))
    }

    /// Seal and sign.
    pub fn seal(&self, manifest: &Manifest) -> Result<Vec<u8>, SealError> {
        if manifest.tickets.len() > limits::EVENT_SEATS {
            return Err(SealError::TooManyTickets(manifest.tickets.len()));
        }
        let nonce: [u8; NONCE_LEN] = random()?;
        let plain = postcard::to_stdvec(manifest).expect("a manifest in memory can be encoded");
        let sealed = cipher(&self.sealing)
            .encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: MAGIC })
            .expect("a manifest is far below the cipher's limit");
        let mut file = [MAGIC.as_slice(), &nonce, &sealed].concat();
        let signature = self.signing.sign(&file);
        file.extend_from_slice(&signature.to_bytes());
        Ok(file)
    }
}

impl GateKey {
    /// Check and open. Whether it has expired, or is older than what is known, is the caller's question.
    pub fn open(&self, file: &[u8]) -> Result<Manifest, OpenError> {
        if file.len() < MAGIC.len() + NONCE_LEN + SIGNATURE_LEN || !file.starts_with(MAGIC) {
            return Err(OpenError::Format);
        }
        let (signed, signature) = file.split_at(file.len() - SIGNATURE_LEN);
        let signature = Signature::from_slice(signature).map_err(|_| OpenError::Signature)?;
        self.verifying.verify_strict(signed, &signature).map_err(|_| OpenError::Signature)?;
        let (nonce, sealed) = signed[MAGIC.len()..].split_at(NONCE_LEN);
        let nonce = <[u8; NONCE_LEN]>::try_from(nonce).map_err(|_| OpenError::Format)?;
        let plain = cipher(&self.sealing)
            .decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: MAGIC })
            .map_err(|_| OpenError::Sealed)?;
        let manifest: Manifest = postcard::from_bytes(&plain).map_err(|error| OpenError::Content(error.to_string()))?;
        if manifest.tickets.len() > limits::EVENT_SEATS {
            return Err(OpenError::Content(format!("it has {} tickets", manifest.tickets.len())));
        }
        Ok(manifest)
    }

    /// Seal one ticket's secret for the gate's own disk. Bound to the ticket, so that rows cannot be swapped.
    pub(crate) fn seal_secret(&self, ticket: TicketId, secret: &TicketSecret) -> Result<Vec<u8>, SealError> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let sealed = cipher(&self.sealing)
            .encrypt(&XNonce::from(nonce), Payload { msg: &secret.0, aad: ticket.to_string().as_bytes() })
            .expect("a secret is far below the cipher's limit");
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Undo [`GateKey::seal_secret`]; `None` if it was sealed with another key or for another ticket.
    pub(crate) fn open_secret(&self, ticket: TicketId, sealed: &[u8]) -> Option<TicketSecret> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = <[u8; NONCE_LEN]>::try_from(nonce).ok()?;
        let plain = cipher(&self.sealing)
            .decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: ticket.to_string().as_bytes() })
            .ok()?;
        Some(TicketSecret(plain.try_into().ok()?))
    }
}

impl Manifest {
    /// Tells two manifests of one sequence number apart.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::digest(postcard::to_stdvec(self).expect("a manifest in memory can be encoded")).into()
    }
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key))
}

fn random<const N: usize>() -> Result<[u8; N], SealError> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| SealError::Randomness(error.to_string()))?;
    Ok(bytes)
}

fn two_keys(text: &str, prefix: &'static str) -> Result<([u8; 32], [u8; 32]), BadKey> {
    let read = || {
        let mut parts = text.trim().split('.');
        parts.next().filter(|first| *first == prefix)?;
        let (mut a, mut b) = ([0; 32], [0; 32]);
        hex::decode_to_slice(parts.next()?, &mut a).ok()?;
        hex::decode_to_slice(parts.next()?, &mut b).ok()?;
        parts.next().is_none().then_some((a, b))
    };
    read().ok_or(BadKey(prefix))
}

impl FromStr for OrganiserKey {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (signing, sealing) = two_keys(text, "organiser1")?;
        Ok(Self { signing: SigningKey::from_bytes(&signing), sealing })
    }
}

impl FromStr for GateKey {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        let (verifying, sealing) = two_keys(text, "gate1")?;
        let verifying = VerifyingKey::from_bytes(&verifying).map_err(|_| BadKey("gate1"))?;
        Ok(Self { verifying, sealing })
    }
}

impl GateKey {
    /// The text form: `gate1.{verifying}.{sealing}` in hex. A secret: it opens manifests.
    pub fn to_text(&self) -> String {
        format!("gate1.{}.{}", hex::encode(self.verifying.to_bytes()), hex::encode(self.sealing))
    }
}

impl fmt::Debug for OrganiserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrganiserKey(…)")
    }
}

impl fmt::Debug for GateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> OrganiserKey {
        OrganiserKey { signing: SigningKey::from_bytes(&[1; 32]), sealing: [2; 32] }
    }

    fn manifest() -> Manifest {
        Manifest {
            event: EventId(1),
            title: "Winter concert".to_owned(),
            sequence: 7,
            issued_at: WallMs(1_000),
            expires_at: WallMs(2_000),
            tickets: vec![ManifestTicket {
                ticket: TicketId(5),
                secret: TicketSecret([9; 32]),
                label: "Stalls, row A, seat 1".to_owned(),
                revoked: false,
            }],
        }
    }

    #[test]
    fn what_is_sealed_is_opened_and_not_readable_in_between() {
        let file = key().seal(&manifest()).unwrap();
        assert_eq!(key().gate_key().open(&file), Ok(manifest()));
        assert!(!file.windows(6).any(|part| part == b"Winter"), "the title shows through");
        assert_ne!(key().seal(&manifest()).unwrap(), file, "a nonce was used twice");
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let file = key().seal(&manifest()).unwrap();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            let why = key().gate_key().open(&bad).expect_err("a changed file was believed");
            assert!(matches!(why, OpenError::Format | OpenError::Signature), "{at}: {why}");
        }
        for cut in [0, 8, 40, file.len() - 1] {
            assert!(key().gate_key().open(&file[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn another_organisers_manifest_is_refused_and_so_is_another_sealing() {
        let file = key().seal(&manifest()).unwrap();
        let stranger = OrganiserKey { signing: SigningKey::from_bytes(&[3; 32]), sealing: [2; 32] };
        assert_eq!(stranger.gate_key().open(&file), Err(OpenError::Signature));
        let resealed = OrganiserKey { sealing: [4; 32], ..key() };
        assert_eq!(resealed.gate_key().open(&file), Err(OpenError::Sealed));
    }

    #[test]
    fn keys_have_one_text_form_and_do_not_show_themselves() {
        let text = key().to_text();
        assert_eq!(text.parse::<OrganiserKey>().unwrap().to_text(), text);
        let gate = key().gate_key();
        assert_eq!(gate.to_text().parse::<GateKey>(), Ok(gate.clone()));
        assert!("gate1.00.11".parse::<GateKey>().is_err());
        assert!(text.parse::<GateKey>().is_err(), "an organiser's key is not a gate's");
        assert_eq!(format!("{gate:?} {:?}", key()), "GateKey(…) OrganiserKey(…)");
    }

    #[test]
    fn a_stored_secret_is_bound_to_its_ticket() {
        let gate = key().gate_key();
        let sealed = gate.seal_secret(TicketId(5), &TicketSecret([9; 32])).unwrap();
        assert_eq!(gate.open_secret(TicketId(5), &sealed), Some(TicketSecret([9; 32])));
        assert_eq!(gate.open_secret(TicketId(6), &sealed), None);
        assert_eq!(gate.open_secret(TicketId(5), b"short"), None);
    }
}
