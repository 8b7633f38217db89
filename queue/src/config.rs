//! The settings of the process `queue`.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything that can be set. Times end in their unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where Redis is: `redis://host:port` or `redis+unix:///path`.
    pub redis_url: String,
    /// How long to wait for Redis to connect, and again to answer.
    pub redis_timeout_ms: u64,
    /// File with the key set (JSON Web Key set) that fans' and operators' tokens are signed with.
    pub fan_key_set_file: PathBuf,
    /// The `iss` that those tokens must have.
    pub fan_issuer: String,
    /// The `aud` that those tokens must have.
    pub fan_audience: String,
    /// File with the Ed25519 private key (PKCS#8 PEM) that passes are signed with. No other process has it.
    pub pass_key_file: PathBuf,
    /// The `iss` of passes.
    pub pass_issuer: String,
    /// The `aud` of passes.
    pub pass_audience: String,
    /// How long a pass is valid; at most 300.
    pub pass_ttl_seconds: u64,
    /// How long a session (the handle for polling and sockets) is valid.
    pub session_ttl_seconds: u64,
    /// How long a waiting fan may be silent before being dropped.
    pub silence_ms: u64,
    /// The most that are admitted in one second, unless adapted or dialled.
    pub batch: u32,
    /// The most fans waiting for one event.
    pub max_waiting: u64,
    /// The most sockets and long polls of this process.
    pub max_sockets: usize,
    /// The most sockets and long polls of one fan for one event.
    pub max_sockets_per_fan: usize,
    /// Connections of this process at a time, not counting sockets; past it, new ones wait in the listen queue.
    pub max_connections: usize,
    /// How long a connection may take to send the head of a request, and to stay idle between two.
    pub header_timeout_ms: u64,
    /// How often a socket is told its position.
    pub push_every_ms: u64,
    /// How often the admitter works.
    pub tick_every_ms: u64,
    /// Origins whose pages may call, such as `https://tickets.example`; `*` for any, since no cookie is involved.
    pub allowed_origins: Vec<String>,
    /// Where the operator's dials are served, if at all.
    pub admin_listen: Option<SocketAddr>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            redis_url: "redis://127.0.0.1:6379".into(),
            redis_timeout_ms: 500,
            fan_key_set_file: "fan-keys.json".into(),
            fan_issuer: "encore-login".into(),
            fan_audience: "encore".into(),
            pass_key_file: "pass-key.pem".into(),
            pass_issuer: "encore-queue".into(),
            pass_audience: "encore-buy".into(),
            pass_ttl_seconds: 300,
            session_ttl_seconds: 86_400,
            silence_ms: 120_000,
            batch: 50,
            max_waiting: 5_000_000,
            max_sockets: 200_000,
            max_sockets_per_fan: 8,
            max_connections: 250_000,
            header_timeout_ms: 30_000,
            push_every_ms: 5_000,
            tick_every_ms: 1_000,
            allowed_origins: vec!["*".into()],
            admin_listen: None,
        }
    }
}
