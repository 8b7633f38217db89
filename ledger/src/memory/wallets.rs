//! Devices of tickets, in memory.

use super::Memory;
use crate::Result;
use crate::wallets::{DeviceGrant, REPEAT_MS, Wallets};
use domain::ids::TicketId;
use domain::limits;
use domain::time::WallMs;

impl Wallets for Memory {
    async fn grant_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<DeviceGrant> {
        let mut state = self.state();
        let devices = state.devices.entry(ticket).or_default();
        if let Some((given, revoked)) = devices.get(device) {
            return Ok(match revoked {
                true => DeviceGrant::Revoked,
                false if now.0.saturating_sub(given.0) <= REPEAT_MS => DeviceGrant::Granted,
                false => DeviceGrant::GivenBefore,
            });
        }
        if devices.values().filter(|(_, revoked)| !revoked).count() >= limits::TICKET_DEVICES {
            return Ok(DeviceGrant::TooMany);
        }
        devices.insert(device.to_owned(), (now, false));
        Ok(DeviceGrant::Granted)
    }

    async fn revoke_device(&self, ticket: TicketId, device: &str, now: WallMs) -> Result<()> {
        let mut state = self.state();
        state.devices.entry(ticket).or_default().entry(device.to_owned()).or_insert((now, true)).1 = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_device_is_given_the_secret_once_and_a_removed_one_makes_room() {
        let (ledger, ticket) = (Memory::default(), TicketId(1));
        let ask = |device: String, at| {
            let ledger = ledger.clone();
            async move { ledger.grant_device(ticket, &device, WallMs(at)).await.expect("an answer") }
        };
        for device in 0..limits::TICKET_DEVICES {
            assert_eq!(ask(format!("d{device}"), 0).await, DeviceGrant::Granted);
        }
        assert_eq!(ask("d0".into(), REPEAT_MS).await, DeviceGrant::Granted, "an answer that was lost is given again");
        assert_eq!(ask("d0".into(), REPEAT_MS + 1).await, DeviceGrant::GivenBefore);
        assert_eq!(ask("late".into(), 1).await, DeviceGrant::TooMany);
        ledger.revoke_device(ticket, "d0", WallMs(2)).await.expect("an answer");
        assert_eq!(ask("d0".into(), 3).await, DeviceGrant::Revoked);
        assert_eq!(ask("late".into(), 3).await, DeviceGrant::Granted);
    }
}
