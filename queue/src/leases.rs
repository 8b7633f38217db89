//! The buy plane's view of the waiting room: is this fan inside, hold the slot as long as the reservation, give it back.
//!
//! A lease is advice that may be lost: without one nobody holds seats, and with one the store still decides.

use crate::connection::{Connection, RedisLost, call, script};
use crate::keys::Keys;
use domain::ids::{EventId, PassId, ReservationId, UserId};
use redis::Script;
use std::sync::Arc;
use std::time::Duration;

/// What Redis knows of a fan who shows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Inside, with this very pass.
    Live,
    /// Not inside, or the time is over: refuse, the fan may join again.
    None,
    /// Inside, with another pass than this one.
    OtherPass,
}

/// The leases of all events. Cheap to clone.
#[derive(Clone)]
pub struct Leases {
    connection: Connection,
    scripts: Arc<Scripts>,
}

struct Scripts {
    check: Script,
    extend: Script,
    free: Script,
}

impl Leases {
    /// Leases kept by the Redis at `url`; every call answers within twice `timeout`. Redis need not be up.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RedisLost> {
        Ok(Self::over(Connection::new(url, timeout)?))
    }

    pub(crate) fn over(connection: Connection) -> Self {
        let scripts =
            Scripts { check: script!("lease_check"), extend: script!("lease_extend"), free: script!("lease_free") };
        Self { connection, scripts: Arc::new(scripts) }
    }

    /// Whether `user` may open a checkout with the pass `jti`. An error means: nobody gets in now, try again.
    pub async fn check(&self, event: EventId, user: &UserId, jti: &PassId) -> Result<Lease, RedisLost> {
        let mut ask = call(&self.scripts.check, &Keys::of(event));
        let answer: String = self.connection.script(ask.arg(user.as_str()).arg(jti.as_str())).await?;
        match answer.as_str() {
            "live" => Ok(Lease::Live),
            "none" => Ok(Lease::None),
            "other" => Ok(Lease::OtherPass),
            _ => Err(RedisLost::Garbled(answer)),
        }
    }

    /// `user` holds seats under `reservation` for another `remaining_ms`: the slot is taken until then, and beyond it
    /// until the store says that the reservation has ended. Repeat it when the hold is extended.
    pub async fn extend(
        &self,
        event: EventId,
        user: &UserId,
        reservation: ReservationId,
        remaining_ms: u64,
    ) -> Result<(), RedisLost> {
        let mut ask = call(&self.scripts.extend, &Keys::of(event));
        ask.arg(user.as_str()).arg(reservation.to_string()).arg(remaining_ms);
        let _always_one: i64 = self.connection.script(&ask).await?;
        Ok(())
    }

    /// The reservation has ended: the slot is free. Says whether one was freed; a repeated call frees nothing.
    pub async fn free(&self, event: EventId, user: &UserId, reservation: ReservationId) -> Result<bool, RedisLost> {
        let mut ask = call(&self.scripts.free, &Keys::of(event));
        let freed: i64 = self.connection.script(ask.arg(user.as_str()).arg(reservation.to_string())).await?;
        Ok(freed > 0)
    }

    /// Whether Redis answers now.
    pub async fn ping(&self) -> Result<(), RedisLost> {
        let _pong: String = self.connection.command(&redis::cmd("PING")).await?;
        Ok(())
    }
}
