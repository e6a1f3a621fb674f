//! Calls that wait until their writes have the required durability.

use redis::{FromRedisValue, RedisResult, Value};
use tokio::time::Instant;

use super::{
    Store, StoreError,
    ask::{Redirects, fitting},
    connect::{self, Channel, slot_of},
    damage::Called,
    scripts::{Call, is_missing},
    takeover::Replication,
};

/// The durability that a call's writes must reach before its answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// In the memory of the primary.
    Primary,
    /// Also in the memory of this many replicas.
    Replicas {
        /// How many.
        count: u32,
    },
    /// On the disk of the primary, and of this many replicas (`WAITAOF`, Redis 7.2 or later).
    Fsync {
        /// How many.
        replicas: u32,
    },
}

impl Store {
    /// Runs a script once, and waits up to `redis.timeout_ms` until its writes are confirmed.
    /// Returns false if they are not confirmed; the script has run all the same. The wait covers
    /// all earlier writes on the connection, so a call that writes nothing confirms those.
    pub async fn run_confirmed<T: FromRedisValue>(
        &self,
        transition: &'static str,
        call: &Call<'_>,
        confirm: Confirm,
    ) -> Result<(T, bool), StoreError> {
        let Some(wait) = self.wait_of(confirm) else {
            return Ok((self.run(transition, call).await?, true));
        };
        let begun = Instant::now();
        let result = self.confirmed_at(call, &wait).await;
        let result = result.and_then(|(answer, confirmed)| Ok((fitting(answer)?, confirmed)));
        let (name, keys) = call.described();
        self.observe(Called { name, keys }, &result);
        self.note(transition, begun, &result);
        result
    }

    /// The wait to send, or `None` if the script's answer is enough.
    fn wait_of(&self, confirm: Confirm) -> Option<Wait> {
        let (command, replicas, local) = match confirm {
            Confirm::Replicas { count } if count > 0 => ("WAIT", count, 0),
            Confirm::Fsync { replicas } => ("WAITAOF", replicas, 1),
            Confirm::Primary | Confirm::Replicas { .. } => return None,
        };
        let ms = self.inner.links.patience.as_millis() as u64;
        Some(Wait { command, local, replicas, ms })
    }

    async fn confirmed_at(
        &self,
        call: &Call<'_>,
        wait: &Wait,
    ) -> Result<(Value, bool), StoreError> {
        let links = &self.inner.links;
        let mut redirects = Redirects::new();
        let mut route = links.route(call.route()).await?;
        loop {
            let (alone, connection) = route.node.take_alone().await?;
            let mut channel = Channel { connection, asking: route.asking };
            let error = match wait.run(call, &mut channel).await {
                Ok(waited) => {
                    if waited.keep {
                        alone.give_back();
                    }
                    if let Some(seen) = &waited.seen {
                        let slot = slot_of(call.route());
                        self.inner.takeovers.note(slot, seen, waited.is_confirmed);
                    }
                    return Ok((waited.answer, waited.is_confirmed));
                }
                Err(error) => error,
            };
            let next = links.after(&error, alone.node()).await;
            if !connect::is_broken(&error) {
                alone.give_back();
            }
            route = redirects.follow(self, call.route(), next, error).await?;
        }
    }
}

/// A `WAIT` or `WAITAOF` for the writes of a call.
struct Wait {
    command: &'static str,
    local: u32,
    replicas: u32,
    ms: u64,
}

/// The outcome of a call and its wait.
struct Waited {
    answer: Value,
    is_confirmed: bool,
    /// True if the connection can be used again.
    keep: bool,
    /// The replication state of the server just after the call.
    seen: Option<Replication>,
}

impl Wait {
    /// Sends the call, a query of the replication offset, and the wait in one write, so that no
    /// other command comes between them.
    async fn run(&self, call: &Call<'_>, channel: &mut Channel) -> RedisResult<Waited> {
        let answers = self.send(call.by_hash(), channel).await?;
        let (answer, info, waited) = match answers {
            (Err(error), ..) if is_missing(&error) => self.send(call.by_source(), channel).await?,
            answers => answers,
        };
        let info = info.ok().and_then(|info| redis::from_redis_value::<String>(info).ok());
        let seen = info.and_then(|info| Replication::read(&info));
        let keep = waited.as_ref().err().is_none_or(|error| !connect::is_broken(error));
        let is_confirmed = waited.is_ok_and(|reached| self.is_reached(reached));
        Ok(Waited { answer: answer?, is_confirmed, keep, seen })
    }

    async fn send(
        &self,
        command: redis::Cmd,
        channel: &mut Channel,
    ) -> RedisResult<(RedisResult<Value>, RedisResult<Value>, RedisResult<Value>)> {
        let mut pipe = redis::pipe();
        pipe.add_command(command);
        pipe.cmd("INFO").arg("replication");
        let wait = pipe.cmd(self.command);
        if self.command == "WAITAOF" {
            wait.arg(self.local);
        }
        wait.arg(self.replicas).arg(self.ms);
        pipe.ignore_errors();
        pipe.query_async(channel).await
    }

    fn is_reached(&self, reached: Value) -> bool {
        match self.command {
            "WAITAOF" => {
                let reached: Option<(u32, u32)> = redis::from_redis_value(reached).ok();
                reached.is_some_and(|(local, replicas)| {
                    local >= self.local && replicas >= self.replicas
                })
            }
            _ => redis::from_redis_value(reached).is_ok_and(|count: u32| count >= self.replicas),
        }
    }
}
