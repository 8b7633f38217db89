//! Keys and passwords of one private stack: made once, kept in one file that only its owner can read.

use crate::draft::Draft;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::UserId;
use domain::time::WallMs;
use gate::manifest::OrganiserKey;
use queue::token::{Fan, Signer, generate_key_pem};
use rand::TryRngCore;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Who issues fans' tokens, in the demo.
pub const FAN_ISSUER: &str = "encore-login";
/// For whom fans' tokens are issued.
pub const FAN_AUDIENCE: &str = "encore";
/// Who issues passes.
pub const PASS_ISSUER: &str = "encore-queue";
/// For whom passes are issued.
pub const PASS_AUDIENCE: &str = "encore-buy";

/// Everything secret of one stack.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// PostgreSQL's superuser, who owns the schema.
    pub postgres: String,
    /// Role `owner`, for operators.
    pub owner: String,
    /// Role `buy`.
    pub buy: String,
    /// Role `webhook`.
    pub webhook: String,
    /// Role `relay`.
    pub relay: String,
    /// Role `browse`.
    pub browse: String,
    /// Redis.
    pub redis: String,
    /// What fulfillment shows the provider.
    pub provider_key: String,
    /// What the provider signs webhooks with.
    pub webhook_secret: String,
    /// What seals ticket secrets, 32 bytes in hex.
    pub sealing_key: String,
    /// What signs and seals manifests.
    pub organiser_key: String,
    /// What the identity provider would sign fans' tokens with.
    pub fan_pem: String,
    /// What `queue` signs passes with.
    pub pass_pem: String,
}

impl Secrets {
    /// New ones, from the operating system's randomness.
    pub fn generate() -> Result<Self> {
        Ok(Self {
            postgres: random()?,
            owner: random()?,
            buy: random()?,
            webhook: random()?,
            relay: random()?,
            browse: random()?,
            redis: random()?,
            provider_key: format!("sk_test_{}", random()?),
            webhook_secret: format!("whsec_{}", random()?),
            sealing_key: bytes()?.iter().map(|byte| format!("{byte:02x}")).collect(),
            organiser_key: OrganiserKey::generate()?.to_text(),
            fan_pem: generate_key_pem(),
            pass_pem: generate_key_pem(),
        })
    }

    /// Those of this file; made and written when there is none.
    pub fn open(file: &Path) -> Result<Self> {
        if file.is_file() {
            let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
            return serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()));
        }
        let secrets = Self::generate()?;
        Draft::of(file)?.create(&serde_json::to_vec_pretty(&secrets)?)?;
        Ok(secrets)
    }

    /// Who signs fans' tokens.
    pub fn fans(&self) -> Result<Signer> {
        Ok(Signer::from_pem(&self.fan_pem)?)
    }

    /// Who signs passes.
    pub fn passes(&self) -> Result<Signer> {
        Ok(Signer::from_pem(&self.pass_pem)?)
    }

    /// A token as the identity provider would issue it, valid for this long, with the fan's verified address.
    pub fn token(&self, user: &str, operator: bool, valid: Duration) -> Result<String> {
        let user: UserId = user.parse()?;
        let expires = until(valid);
        Ok(self.fans()?.sign_fan(
            FAN_ISSUER,
            FAN_AUDIENCE,
            &Fan { email: Some(address_of(&user)), user, operator, expires },
        ))
    }

    /// The same from an identity provider that knows no address.
    pub fn token_without_address(&self, user: &str, valid: Duration) -> Result<String> {
        let fan = Fan { user: user.parse()?, operator: false, email: None, expires: until(valid) };
        Ok(self.fans()?.sign_fan(FAN_ISSUER, FAN_AUDIENCE, &fan))
    }
}

/// The address that the demo's identity provider has for this fan; a domain that no mail ever leaves for.
pub fn address_of(user: &UserId) -> String {
    let name: String =
        user.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    format!("{name}@example.org")
}

fn until(valid: Duration) -> WallMs {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from((now + valid).as_millis()).unwrap_or(u64::MAX))
}

fn bytes() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).context("the operating system gave no randomness")?;
    Ok(bytes)
}

/// Letters and digits that need no escaping in a URL, a configuration file or SQL.
fn random() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(&bytes()?[..24]).replace(['-', '_'], "x"))
}
