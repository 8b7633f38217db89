//! Which devices carry a ticket: each is given the secret once, a few may have it, and any of them can be removed. What a
//! removed device kept is worth nothing, because the ticket then has another secret.

use crate::Result;
use domain::ids::TicketId;
use domain::time::WallMs;
use std::future::Future;

/// A device that asks again so soon is asking for an answer that was lost on its way.
pub const REPEAT_MS: u64 = 60_000;

/// What a device is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceGrant {
    /// It may have the secret.
    Granted {
        /// The secret, sealed ([`crate::Sealer`]).
        sealed_secret: Vec<u8>,
        /// Which one it is of those that the ticket had.
        version: u32,
    },
    /// It was given the secret before.
    GivenBefore,
    /// As many devices as may carry a ticket carry this one.
    TooMany,
    /// It was removed.
    Revoked,
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRemoval {
    /// It carries the ticket no more.
    Removed,
    /// It did not carry it any more.
    RemovedBefore,
    /// No device of this name carries it; nothing changed.
    Unknown,
}

/// Devices of tickets. That the ticket exists and is the asker's is checked before.
pub trait Wallets {
    /// `device` asks for the secret of `ticket`.
    fn grant_device(
        &self,
        ticket: TicketId,
        device: &str,
        now: WallMs,
    ) -> impl Future<Output = Result<DeviceGrant>> + Send;

    /// `device` carries the ticket no more: from now on `fresh_secret` (sealed) is the ticket's secret, which the devices
    /// that remain are given when they next ask, and the gates with the next manifest.
    fn revoke_device(
        &self,
        ticket: TicketId,
        device: &str,
        fresh_secret: &[u8],
        now: WallMs,
    ) -> impl Future<Output = Result<DeviceRemoval>> + Send;
}
