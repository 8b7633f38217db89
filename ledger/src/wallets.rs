//! Which devices carry a ticket: each is given the secret once, a few may have it, and any of them can be removed.

use crate::Result;
use domain::ids::TicketId;
use domain::time::WallMs;
use std::future::Future;

/// A device that asks again so soon is asking for an answer that was lost on its way.
pub const REPEAT_MS: u64 = 60_000;

/// What a device is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceGrant {
    /// It may have the secret.
    Granted,
    /// It was given the secret before.
    GivenBefore,
    /// As many devices as may carry a ticket carry this one.
    TooMany,
    /// It was removed.
    Revoked,
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

    /// `device` is given the secret no more, whether it was before or not.
    fn revoke_device(&self, ticket: TicketId, device: &str, now: WallMs) -> impl Future<Output = Result<()>> + Send;
}
