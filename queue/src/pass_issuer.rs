//! Signs what the waiting room hands out: the pass, and the session with which a fan comes back to ask.
//!
//! A pass is signed anew from its record each time it is asked for, and comes out the same each time (EdDSA draws no
//! randomness), so that no signed pass needs to be stored.

use crate::config::Config;
use crate::store::PassRecord;
use crate::token::{KeyError, Session, Signer, TokenError, Verifier};
use domain::ids::{EventId, UserId};
use domain::pass::PassClaims;
use domain::time::WallMs;

/// The `aud` of sessions: only the waiting room itself reads them.
const SESSION_AUDIENCE: &str = "encore-queue-session";

/// The one holder of the pass-signing key.
#[derive(Debug)]
pub struct PassIssuer {
    signer: Signer,
    sessions: Verifier,
    issuer: String,
    audience: String,
    session_ttl_ms: u64,
}

impl PassIssuer {
    /// With the private key `pem`.
    pub fn new(pem: &str, config: &Config) -> Result<Self, KeyError> {
        let signer = Signer::from_pem(pem)?;
        let sessions = Verifier::new(&signer.key_set(), &config.pass_issuer, SESSION_AUDIENCE)?;
        Ok(Self {
            signer,
            sessions,
            issuer: config.pass_issuer.clone(),
            audience: config.pass_audience.clone(),
            session_ttl_ms: config.session_ttl_seconds.saturating_mul(1_000),
        })
    }

    /// The signed pass of this record.
    pub fn pass(&self, event: EventId, user: &UserId, record: &PassRecord) -> String {
        self.signer.sign_pass(&PassClaims {
            iss: self.issuer.clone(),
            aud: self.audience.clone(),
            sub: user.clone(),
            event,
            jti: record.jti.clone(),
            iat: record.iat,
            exp: record.exp,
        })
    }

    /// A session of `user` at `event`.
    pub fn session(&self, event: EventId, user: &UserId, now: WallMs) -> String {
        let session = Session { event, user: user.clone(), expires: WallMs(now.0.saturating_add(self.session_ttl_ms)) };
        self.signer.sign_session(&self.issuer, SESSION_AUDIENCE, &session)
    }

    /// Whose session this is.
    pub fn open_session(&self, text: &str, now: WallMs) -> Result<Session, TokenError> {
        self.sessions.session(text, now)
    }
}
