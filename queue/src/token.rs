//! Signed tokens: the fan's own (`typ` "JWT") and the waiting room's pass (`typ` "pass+jwt").
//!
//! The rule kept here: a token is believed only if a key of the configured set signed it with the one algorithm pinned
//! to that key, and `typ`, `iss`, `aud`, `sub` and `exp` are what is expected. The time is always given, never read.

use domain::ids::{EventId, UserId};
use domain::pass::{self, PassClaims, PassRefused};
use domain::time::WallMs;
use jsonwebtoken::jwk::{Jwk, JwkSet, KeyAlgorithm, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The `typ` of a fan's or an operator's token.
const FAN_TYP: &str = "JWT";
/// The `typ` of a waiting-room session.
const SESSION_TYP: &str = "session+jwt";
/// The `role` of an operator.
const OPERATOR: &str = "operator";
/// Longer tokens are refused unread.
pub const MAX_TOKEN_LEN: usize = 4_096;
/// Keys of one set.
const MAX_KEYS: usize = 64;

/// A key, or a set of keys, that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not a JSON Web Key set.
    #[error("the key set is not a JSON Web Key set: {0}")]
    NotAKeySet(#[from] serde_json::Error),
    /// One key of the set cannot verify anything.
    #[error("key {kid:?}: {why}")]
    Unusable {
        /// Its id, as far as it has one.
        kid: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The set has no key, or too many.
    #[error("a key set holds 1 to {MAX_KEYS} signing keys, this one {0}")]
    Count(usize),
    /// The text is not an Ed25519 private key in PKCS#8 PEM form.
    #[error("not an Ed25519 private key in PKCS#8 PEM form: {0}")]
    NotAPrivateKey(#[source] jsonwebtoken::errors::Error),
}

/// Why a token is not believed. The text is fit for a client: it names what is wrong, never a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is not a token at all, or lacks a claim.
    #[error("the token cannot be read")]
    Malformed,
    /// It is a token of another kind.
    #[error("the token is of the wrong kind")]
    WrongKind,
    /// No known key has its key id, or the algorithm is not the one pinned to that key.
    #[error("the token is not signed by a known key")]
    UnknownKey,
    /// The signature does not fit.
    #[error("the token's signature is wrong")]
    Forged,
    /// It was issued by somebody else or for somebody else.
    #[error("the token was issued by or for somebody else")]
    Foreign,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the token is not valid yet")]
    NotYet,
    /// The pass is genuine but not good for this request.
    #[error(transparent)]
    Pass(#[from] PassRefused),
}

/// The longest address that mail can be sent to.
const MAX_EMAIL: usize = 254;

/// Who a fan's token speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fan {
    /// The identity.
    pub user: UserId,
    /// Whether the token carries the operator's role.
    pub operator: bool,
    /// Where mail for this fan goes, if the identity provider says that it has verified the address.
    pub email: Option<String>,
    /// The moment at which it stops being valid.
    pub expires: WallMs,
}

/// The handle with which a waiting fan asks about one event without the login's token: for sockets and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The event.
    pub event: EventId,
    /// The fan.
    pub user: UserId,
    /// The moment at which it stops being valid.
    pub expires: WallMs,
}

/// Verifies tokens of one issuer for one audience. Cheap to share behind an `Arc`; verifying takes no lock.
#[derive(Debug)]
pub struct Verifier {
    keys: BTreeMap<String, Pinned>,
    issuer: String,
    audience: String,
}

/// A public key and the only algorithm it may be used with.
#[derive(Debug)]
struct Pinned {
    key: DecodingKey,
    validation: Validation,
}

/// The claims of a fan's token that matter here; an identity provider may add others.
#[derive(Deserialize)]
struct FanClaims {
    iss: String,
    aud: Audience,
    sub: UserId,
    exp: u64,
    nbf: Option<u64>,
    role: Option<String>,
    /// Read with care: an odd address costs the fan the mail, never the login.
    #[serde(default)]
    email: serde_json::Value,
    #[serde(default)]
    email_verified: serde_json::Value,
}

impl FanClaims {
    /// The address, only where the provider vouches for it: an address that anybody may type in is not where tickets go.
    fn verified_email(&self) -> Option<String> {
        let address = self.email.as_str().filter(|_| self.email_verified == true)?;
        let (name, host) = address.rsplit_once('@')?;
        let plain = address.len() <= MAX_EMAIL && address.chars().all(|c| !c.is_control() && !c.is_whitespace());
        (plain && !name.is_empty() && !host.is_empty()).then(|| address.to_owned())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionClaims {
    iss: String,
    aud: String,
    sub: UserId,
    event: EventId,
    exp: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Verifier {
    /// From a JSON Web Key set. Every key needs `kid` and `alg`; symmetric keys are refused, since whoever could verify
    /// could then also sign; keys for encryption are passed over.
    pub fn new(key_set: &str, issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, KeyError> {
        let set: JwkSet = serde_json::from_str(key_set)?;
        let mut keys = BTreeMap::new();
        for jwk in set.keys.iter().filter(|jwk| jwk.common.public_key_use != Some(PublicKeyUse::Encryption)) {
            let kid = jwk.common.key_id.clone().unwrap_or_default();
            let pinned = pin(jwk).map_err(|why| KeyError::Unusable { kid: kid.clone(), why })?;
            if keys.insert(kid.clone(), pinned).is_some() {
                return Err(KeyError::Unusable { kid, why: "this key id is there twice" });
            }
        }
        match keys.len() {
            1..=MAX_KEYS => Ok(Self { keys, issuer: issuer.into(), audience: audience.into() }),
            count => Err(KeyError::Count(count)),
        }
    }

    /// Whose token this is, if it is a fan's or an operator's and valid at `now`.
    pub fn fan(&self, token: &str, now: WallMs) -> Result<Fan, TokenError> {
        let claims: FanClaims = self.verified(token, FAN_TYP)?;
        let for_us = match &claims.aud {
            Audience::One(aud) => *aud == self.audience,
            Audience::Many(all) => all.contains(&self.audience),
        };
        if claims.iss != self.issuer || !for_us {
            return Err(TokenError::Foreign);
        }
        let second = now.0 / 1_000;
        if claims.exp <= second {
            return Err(TokenError::Expired);
        }
        if claims.nbf.is_some_and(|nbf| nbf > second.saturating_add(pass::CLOCK_SKEW_SECONDS)) {
            return Err(TokenError::NotYet);
        }
        Ok(Fan {
            email: claims.verified_email(),
            user: claims.sub,
            operator: claims.role.as_deref() == Some(OPERATOR),
            expires: WallMs(claims.exp.saturating_mul(1_000)),
        })
    }

    /// The claims of a pass that `user` may use for `event` at `now`.
    pub fn pass(&self, token: &str, event: EventId, user: &UserId, now: WallMs) -> Result<PassClaims, TokenError> {
        let claims: PassClaims = self.verified(token, pass::TYP)?;
        if claims.iss != self.issuer || claims.aud != self.audience {
            return Err(TokenError::Foreign);
        }
        claims.check(event, user, now)?;
        Ok(claims)
    }

    /// Whose session at which event this is, if it is valid at `now`.
    pub fn session(&self, token: &str, now: WallMs) -> Result<Session, TokenError> {
        let claims: SessionClaims = self.verified(token, SESSION_TYP)?;
        if claims.iss != self.issuer || claims.aud != self.audience {
            return Err(TokenError::Foreign);
        }
        if claims.exp <= now.0 / 1_000 {
            return Err(TokenError::Expired);
        }
        Ok(Session { event: claims.event, user: claims.sub, expires: WallMs(claims.exp.saturating_mul(1_000)) })
    }

    /// The claims, once kind, key, algorithm and signature are right.
    fn verified<C: DeserializeOwned>(&self, token: &str, typ: &str) -> Result<C, TokenError> {
        use jsonwebtoken::errors::ErrorKind;
        if token.len() > MAX_TOKEN_LEN {
            return Err(TokenError::Malformed);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
        if header.typ.as_deref() != Some(typ) {
            return Err(TokenError::WrongKind);
        }
        let pinned = header.kid.and_then(|kid| self.keys.get(&kid)).ok_or(TokenError::UnknownKey)?;
        match jsonwebtoken::decode::<C>(token, &pinned.key, &pinned.validation) {
            Ok(data) => Ok(data.claims),
            Err(error) => Err(match error.kind() {
                ErrorKind::InvalidSignature => TokenError::Forged,
                ErrorKind::InvalidAlgorithm => TokenError::UnknownKey,
                _ => TokenError::Malformed,
            }),
        }
    }
}

fn pin(jwk: &Jwk) -> Result<Pinned, &'static str> {
    if jwk.common.key_id.as_deref().is_none_or(str::is_empty) {
        return Err("it has no `kid`");
    }
    let alg = jwk.common.key_algorithm.ok_or("it has no `alg`, which pins its algorithm")?;
    let alg = Algorithm::from_str(&alg.to_string()).map_err(|_| "its `alg` is not one for signatures")?;
    if alg.family() == AlgorithmFamily::Hmac {
        return Err("symmetric keys are not accepted: a verifier could forge");
    }
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "its parameters cannot be read")?;
    if key.family() != alg.family() {
        return Err("its `alg` does not fit its `kty`");
    }
    // Signature and algorithm only. What the claims must say is checked here, where the time is given.
    let mut validation = Validation::new(alg);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    Ok(Pinned { key, validation })
}

/// Signs tokens with one Ed25519 key. Only the waiting room holds one for passes.
pub struct Signer {
    kid: String,
    key: EncodingKey,
    public: Jwk,
}

impl Signer {
    /// From an Ed25519 private key in PKCS#8 PEM form. The key id is the key's own thumbprint, so that the file alone
    /// is the whole configuration.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).map_err(KeyError::NotAPrivateKey)?;
        let mut public = Jwk::from_encoding_key(&key, Algorithm::EdDSA).map_err(KeyError::NotAPrivateKey)?;
        let mut kid = public.thumbprint(ThumbprintHash::SHA256).map_err(KeyError::NotAPrivateKey)?;
        kid.truncate(16);
        public.common.key_id = Some(kid.clone());
        public.common.key_algorithm = Some(KeyAlgorithm::EdDSA);
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        let signer = Self { kid, key, public };
        // A key that parses may still not sign: find out at start, not at the first fan.
        signer.sign("probe", &()).map_err(KeyError::NotAPrivateKey)?;
        Ok(signer)
    }

    /// The public half, as the JSON Web Key set that [`Verifier::new`] reads.
    pub fn key_set(&self) -> String {
        serde_json::json!({ "keys": [self.public] }).to_string()
    }

    /// A token for a fan or an operator, as an identity provider would issue it: for the demo, the bench and the tests.
    pub fn sign_fan(&self, issuer: &str, audience: &str, fan: &Fan) -> String {
        #[derive(Serialize)]
        struct Claims<'a> {
            iss: &'a str,
            aud: &'a str,
            sub: &'a UserId,
            exp: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            role: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            email: Option<&'a str>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            email_verified: bool,
        }
        let claims = Claims {
            iss: issuer,
            aud: audience,
            sub: &fan.user,
            exp: fan.expires.0 / 1_000,
            role: fan.operator.then_some(OPERATOR),
            email: fan.email.as_deref(),
            email_verified: fan.email.is_some(),
        };
        self.sign(FAN_TYP, &claims).expect("the key signed at construction")
    }

    /// A pass with these claims.
    pub fn sign_pass(&self, claims: &PassClaims) -> String {
        self.sign(pass::TYP, claims).expect("the key signed at construction")
    }

    /// The token of this session.
    pub fn sign_session(&self, issuer: &str, audience: &str, session: &Session) -> String {
        let claims = SessionClaims {
            iss: issuer.to_owned(),
            aud: audience.to_owned(),
            sub: session.user.clone(),
            event: session.event,
            exp: session.expires.0 / 1_000,
        };
        self.sign(SESSION_TYP, &claims).expect("the key signed at construction")
    }

    /// A token of any kind with any claims, for tests of what must be refused.
    pub fn sign<C: Serialize>(&self, typ: &str, claims: &C) -> Result<String, jsonwebtoken::errors::Error> {
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(typ.to_owned());
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.key)
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// A new Ed25519 private key in PKCS#8 PEM form, from the operating system's randomness.
pub fn generate_key_pem() -> String {
    use base64::Engine;
    use rand::TryRngCore;
    // PKCS#8 version 1 around a 32-byte Ed25519 seed (RFC 8410): the algorithm id and the lengths never vary.
    let mut der = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20\
        00000000000000000000000000000000";
    rand::rngs::OsRng.try_fill_bytes(&mut der[16..]).expect("the operating system gives random bytes");
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}
