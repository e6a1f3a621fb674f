//! Calls that wait until what they wrote is where it should be.

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

/// What must have happened to what a call wrote before its answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// It is in the memory of the primary.
    Primary,
    /// So many replicas have it, too.
    Replicas {
        /// How many.
        count: u32,
    },
    /// It is on the disk of the primary, and of so many replicas (`WAITAOF`, from Redis 7.2 on).
    Fsync {
        /// How many.
        replicas: u32,
    },
}

impl Store {
    /// Runs a script once, and waits until what it wrote is where it should be, but no longer than
    /// `redis.timeout_ms`. False if it is not known to be there: the script has run all the same. The
    /// wait covers whatever the script wrote on its connection; a call that writes nothing is
    /// confirmed by what was written there before.
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

    /// What is waited for; none where the answer itself says it all.
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

/// A wait for what a call wrote.
struct Wait {
    command: &'static str,
    local: u32,
    replicas: u32,
    ms: u64,
}

/// A call that was waited for.
struct Waited {
    answer: Value,
    is_confirmed: bool,
    /// The connection can be used again.
    keep: bool,
    /// Where the server was just after the call.
    seen: Option<Replication>,
}

impl Wait {
    /// Sends the call and the wait in one write, and between them the question how far the history of
    /// replication is: nothing of others comes between.
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
