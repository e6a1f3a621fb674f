//! Calls that wait until their writes have the required durability.

use std::collections::HashMap;

use futures::{FutureExt, future::BoxFuture};
use redis::{FromRedisValue, InfoDict, RedisResult, Value};

use super::{
    call::Redirects,
    channel::Channel,
    client::RedisClient,
    error::{ClientError, fitting, is_broken},
    replication::Replication,
    script::{ScriptCall, is_missing},
    slot::slot_of,
};

/// The durability that a call's writes must reach before its answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// In the memory of the primary.
    Primary,
    /// In the memory of the primary, and of this many replicas.
    Replicas {
        /// Number of replicas.
        count: u32,
    },
    /// On the disk of the primary, and of this many replicas (`WAITAOF`, Redis 7.2 or later).
    Fsync {
        /// Number of replicas.
        replicas: u32,
    },
}

/// How a server confirms that writes are on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// `WAITAOF` waits until the writes are on disk.
    Waited,
    /// `appendfsync always`: the server syncs before it answers.
    Always,
}

/// Why a server cannot confirm that writes are on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFsync {
    /// The server keeps no append-only file, or does not report when it has synced the file.
    Settings,
    /// The server syncs before it answers, but not while it saves or rewrites (`no-appendfsync-on-rewrite yes`).
    SkipsSyncs,
    /// The first rewrite of the append-only file may still run. The file counts only after its end.
    FirstRewrite,
}

/// How a server confirms that writes are on its disk, or why it cannot.
pub type FsyncAnswer = Result<Fsync, NoFsync>;

impl RedisClient {
    /// Runs a script once, and waits up to `redis.timeout_ms` until its writes are confirmed.
    /// Returns false if they are not confirmed; the script has run anyway. The wait covers all
    /// earlier writes on the connection, so a call that writes nothing confirms the earlier writes.
    pub async fn run_confirmed<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        confirm: Confirm,
    ) -> Result<(T, bool), ClientError> {
        let Some(wait) = self.wait_of(confirm) else {
            return Ok((self.run(call).await?, true));
        };
        telemetry::redis_blocks(1);
        let (answer, confirmed) = self.boxed_confirmed_at(call, wait).await?;
        Ok((fitting(answer)?, confirmed))
    }

    /// How the server that holds this key confirms that writes are on its disk, or why it cannot. Asks the server
    /// each time: its settings can change, and another server may have taken over.
    pub async fn fsync(&self, key: &[u8]) -> Result<FsyncAnswer, ClientError> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").arg("server").arg("persistence").arg("replication").arg("commandstats");
        pipe.cmd("CONFIG").arg("GET").arg("appendonly").arg("appendfsync");
        pipe.arg("no-appendfsync-on-rewrite");
        let (info, settings): (InfoDict, HashMap<String, String>) =
            self.query_at(key, &pipe).await?;
        let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
        if !is("appendonly", "yes") {
            return Ok(Err(NoFsync::Settings));
        }
        if !self.complete_files.note(&info) {
            return Ok(Err(NoFsync::FirstRewrite));
        }
        let always = is("appendfsync", "always");
        if always && is("no-appendfsync-on-rewrite", "no") {
            return Ok(Ok(Fsync::Always));
        }
        let version = info.get::<String>("redis_version").unwrap_or_default();
        let is_valkey = info.get::<String>("valkey_version").is_some();
        Ok(match waits_for_sync(&version, is_valkey) {
            true => Ok(Fsync::Waited),
            false if always => Err(NoFsync::SkipsSyncs),
            false => Err(NoFsync::Settings),
        })
    }

    /// The wait command to send; `None` if the script's answer is confirmation enough.
    fn wait_of(&self, confirm: Confirm) -> Option<Wait> {
        let (command, replicas, local) = match confirm {
            Confirm::Replicas { count } if count > 0 => ("WAIT", count, 0),
            Confirm::Fsync { replicas } => ("WAITAOF", replicas, 1),
            Confirm::Primary | Confirm::Replicas { .. } => return None,
        };
        Some(Wait { command, local, replicas, ms: self.patience.as_millis() as u64 })
    }

    /// Boxed for the reason given at `boxed_value_at`.
    fn boxed_confirmed_at<'a>(
        &'a self,
        call: &'a ScriptCall<'_>,
        wait: Wait,
    ) -> BoxFuture<'a, Result<(Value, bool), ClientError>> {
        self.confirmed_at(call, wait).boxed()
    }

    async fn confirmed_at(
        &self,
        call: &ScriptCall<'_>,
        wait: Wait,
    ) -> Result<(Value, bool), ClientError> {
        let mut redirects = Redirects::new();
        let mut route = self.route(call.route()).await?;
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
                        self.takeovers.note(slot, seen, waited.is_confirmed);
                    }
                    return Ok((waited.answer, waited.is_confirmed));
                }
                Err(error) => error,
            };
            let next = self.after(&error, alone.node()).await;
            if !is_broken(&error) {
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
    async fn run(&self, call: &ScriptCall<'_>, channel: &mut Channel) -> RedisResult<Waited> {
        let answers = self.send(call.by_hash(), channel).await?;
        let (answer, info, waited) = match answers {
            (Err(error), ..) if is_missing(&error) => self.send(call.by_source(), channel).await?,
            answers => answers,
        };
        let info = info.ok().and_then(|info| redis::from_redis_value::<String>(info).ok());
        let seen = info.and_then(|info| Replication::read(&info));
        let keep = waited.as_ref().err().is_none_or(|error| !is_broken(error));
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

/// True if this server's `WAITAOF` answers only when the data is on disk. With `appendfsync everysec`, Redis 7.4 may
/// answer too early (redis/redis#13793, fixed in 8.0). Valkey may, too: `tests/faults/power_cut` showed it for 8.1.1
/// and 9.1.2.
fn waits_for_sync(redis_version: &str, is_valkey: bool) -> bool {
    let mut numbers = redis_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    !is_valkey && (version == (7, 2) || version >= (8, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_reports_sync_too_early_is_not_believed() {
        for (version, is_valkey, believed) in [
            ("7.0.15", false, false),
            ("7.2.4", false, true),
            ("7.2.4", true, false),
            ("7.4.2", false, false),
            ("8.0.2", false, true),
            ("", false, false),
        ] {
            assert_eq!(waits_for_sync(version, is_valkey), believed, "{version} {is_valkey}");
        }
    }
}
