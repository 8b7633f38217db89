//! Redis: one Lua script that looks at both seats, the fan's open checkout and the key, and takes all or none. As durable
//! as its server's `appendfsync` is. It has no replica here, and no answer to a lost primary.

use crate::contender::{Contender, Failure, Verdict};
use crate::workload::{Attempt, Hall};
use futures::future::BoxFuture;
use redis::Script;
use redis::aio::MultiplexedConnection;
use std::fmt::Display;

const CLAIM: &str = "
local known = redis.call('GET', KEYS[1])
if known then return known == 'held' and 1 or 0 end
local free = redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0
if free then
    redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[2], ARGV[1])
end
redis.call('SET', KEYS[1], free and 'held' or 'taken', 'EX', 86400)
return free and 1 or 0
";

const HOLD_MS: u32 = 600_000;

/// A Redis server.
pub struct Redis {
    connection: MultiplexedConnection,
    claim: Script,
    durability: &'static str,
}

impl Redis {
    /// Over a server whose `appendfsync` is said for the report.
    pub async fn connect(url: &str, durability: &'static str) -> Result<Self, Failure> {
        let client = redis::Client::open(url).map_err(failure)?;
        let connection = client.get_multiplexed_async_connection().await.map_err(failure)?;
        Ok(Self { connection, claim: Script::new(CLAIM), durability })
    }

    async fn claim(&self, sale: u32, attempt: Attempt) -> Result<Verdict, Failure> {
        let number = attempt.number;
        let mut call = self.claim.prepare_invoke();
        call.key(format!("{{{sale}}}:key:{number}"));
        call.key(format!("{{{sale}}}:pass:{number}"));
        call.key(format!("{{{sale}}}:fan:{number}"));
        for place in attempt.seats {
            call.key(format!("{{{sale}}}:seat:{}:{}", place.section, place.seat));
        }
        call.arg(number).arg(HOLD_MS);
        let granted: i64 = call.invoke_async(&mut self.connection.clone()).await.map_err(failure)?;
        Ok(if granted == 1 { Verdict::Granted } else { Verdict::Refused })
    }
}

impl Contender for Redis {
    fn name(&self) -> String {
        format!("Redis Lua, appendfsync {}", self.durability)
    }

    fn open(&self, _sale: u32, _hall: Hall) -> BoxFuture<'_, Result<(), Failure>> {
        // A seat is free while no key has its name.
        Box::pin(std::future::ready(Ok(())))
    }

    fn hold(&self, sale: u32, attempt: Attempt) -> BoxFuture<'_, Result<Verdict, Failure>> {
        Box::pin(self.claim(sale, attempt))
    }
}

fn failure(error: impl Display) -> Failure {
    Failure { contender: "Redis", reason: error.to_string() }
}
