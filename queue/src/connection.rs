//! The connection to Redis: made when first needed, remade when lost, and every call bounded in time, so that a Redis
//! that is gone costs a fan a quick "try again" and not a wait.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{FromRedisValue, Script, ScriptInvocation};
use std::time::Duration;

/// Redis did not answer, or not in time. A command that was on its way may or may not have been done.
#[derive(Debug, thiserror::Error)]
pub enum RedisLost {
    /// The address cannot be used at all.
    #[error("Redis cannot be used: {0}")]
    Failed(#[from] redis::RedisError),
    /// No answer in time.
    #[error("Redis did not answer in time")]
    Late,
    /// An answer that none of our scripts gives.
    #[error("Redis answered with something unexpected: {0}")]
    Garbled(String),
}

/// A cheap handle on one shared connection.
#[derive(Clone)]
pub(crate) struct Connection {
    manager: ConnectionManager,
    patience: Duration,
}

impl Connection {
    /// Nothing is sent yet: a Redis that is down is not an error here. `url` such as `redis://127.0.0.1:6379` or
    /// `redis+unix:///run/redis.sock`.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, RedisLost> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_max_delay(Duration::from_millis(100));
        let manager = ConnectionManager::new_lazy_with_config(redis::Client::open(url)?, config)?;
        // Once to connect and once to answer.
        Ok(Self { manager, patience: timeout * 2 })
    }

    pub(crate) async fn script<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, RedisLost> {
        let mut manager = self.manager.clone();
        self.within(call.invoke_async(&mut manager)).await
    }

    pub(crate) async fn command<T: FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, RedisLost> {
        let mut manager = self.manager.clone();
        self.within(command.query_async(&mut manager)).await
    }

    async fn within<T>(&self, call: impl Future<Output = redis::RedisResult<T>>) -> Result<T, RedisLost> {
        match tokio::time::timeout(self.patience, call).await {
            Ok(answer) => answer.map_err(RedisLost::Failed),
            Err(_elapsed) => Err(RedisLost::Late),
        }
    }
}

/// A script of this crate with its common opening.
macro_rules! script {
    ($name:literal) => {
        redis::Script::new(concat!(include_str!("scripts/keys.lua"), include_str!(concat!("scripts/", $name, ".lua"))))
    };
}
pub(crate) use script;

/// `script` called for the event of these keys.
pub(crate) fn call<'a>(script: &'a Script, keys: &crate::keys::Keys) -> ScriptInvocation<'a> {
    let mut call = script.prepare_invoke();
    for key in &keys.0 {
        call.key(key);
    }
    call
}
