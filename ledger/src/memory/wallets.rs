//! Devices of tickets, in memory.

use super::Memory;
use crate::wallets::{DeviceGrant, DeviceRemoval, REPEAT_MS, Wallets};
use crate::{LedgerError, Result};
use domain::ids::TicketId;
use domain::limits;
use domain::time::WallMs;
use std::cmp::Reverse;

/// A device that was given a ticket's secret.
#[derive(Clone, Debug)]
pub(super) struct Device {
    given_at: WallMs,
    version: u32,
    removed_at: Option<WallMs>,
}

impl Wallets for Memory {
    async fn grant_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<DeviceGrant> {
        let mut state = self.state();
        let Some(entry) = state.tickets.get(&ticket) else {
            return Err(LedgerError::Inconsistent(format!("{ticket} is not a ticket")));
        };
        let (sealed_secret, version) = (entry.sealed_secret.clone(), entry.secret_version);
        let devices = state.devices.entry(ticket).or_default();
        match devices.get(device) {
            Some(known) if known.removed_at.is_some() => return Ok(DeviceGrant::Revoked),
            Some(known) if known.version == version => {
                let lost = now.0.saturating_sub(known.given_at.0) <= REPEAT_MS;
                let again = DeviceGrant::Granted { sealed_secret, version };
                return Ok(if lost { again } else { DeviceGrant::GivenBefore });
            }
            Some(_) => {}
            None if devices.values().filter(|one| one.removed_at.is_none()).count() >= limits::TICKET_DEVICES => {
                return Ok(DeviceGrant::TooMany);
            }
            None => {}
        }
        devices.insert(device.to_owned(), Device { given_at: now, version, removed_at: None });
        Ok(DeviceGrant::Granted { sealed_secret, version })
    }

    async fn revoke_device(
        &self,
        ticket: TicketId,
        device: &str,
        fresh_secret: &[u8],
        now: WallMs,
    ) -> Result<DeviceRemoval> {
        let mut state = self.state();
        let devices = state.devices.entry(ticket).or_default();
        match devices.get_mut(device) {
            None => return Ok(DeviceRemoval::Unknown),
            Some(known) if known.removed_at.is_some() => return Ok(DeviceRemoval::RemovedBefore),
            Some(known) => known.removed_at = Some(now),
        }
        let mut removed: Vec<_> =
            devices.iter().filter_map(|(name, one)| Some((Reverse(one.removed_at?), name.clone()))).collect();
        removed.sort();
        for (_, name) in removed.into_iter().skip(limits::REMOVED_DEVICES) {
            devices.remove(&name);
        }
        if let Some(entry) = state.tickets.get_mut(&ticket) {
            entry.sealed_secret = fresh_secret.to_vec();
            entry.secret_version += 1;
        }
        Ok(DeviceRemoval::Removed)
    }
}
