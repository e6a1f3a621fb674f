//! Which durability the deployment can confirm, and which one a destination needs.

use std::collections::HashMap;

use redis::FromRedisValue;

use super::{Confirm, Store, StoreError, scripts::Call};
use crate::domain::Durability;

/// How the server confirms that writes are on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fsync {
    /// `WAITAOF` waits for it.
    Waited,
    /// `appendfsync always`: the server syncs before it answers.
    Always,
}

impl Store {
    /// Refuses a level that this key's server cannot give, and says what to change.
    pub async fn check_durability(&self, level: Durability, key: &str) -> Result<(), StoreError> {
        self.confirm_for(level, key.as_bytes()).await.map(drop)
    }

    /// The confirmation that reaches this level, at the server of this key.
    async fn confirm_for(&self, level: Durability, key: &[u8]) -> Result<Confirm, StoreError> {
        match level {
            Durability::Memory => Ok(Confirm::Primary),
            Durability::Replicated | Durability::Quorum if self.inner.replicas == 0 => {
                Err(StoreError::CannotConfirm(format!(
                    "durability = \"{level}\" needs replicas: set redis.replicas to how many each \
                     primary has (on every pod), or use durability = \"memory\""
                )))
            }
            Durability::Replicated => Ok(Confirm::Replicas { count: self.inner.replicas }),
            Durability::Quorum => Ok(self.confirm_of_majority()),
            Durability::Fsynced => match self.fsync(key).await? {
                Some(Fsync::Waited) => Ok(Confirm::Fsync { replicas: 0 }),
                Some(Fsync::Always) => Ok(Confirm::Primary),
                None => Err(StoreError::CannotConfirm(
                    "durability = \"fsynced\" needs a Redis that keeps an append-only file \
                     (appendonly yes), and is Redis 7.2 or 8.0 or later, or has appendfsync always \
                     (Redis 7.4 and Valkey may say too early that they have synced): \
                     change that, or use durability = \"memory\", \"quorum\" or \"replicated\""
                        .to_owned(),
                )),
            },
        }
    }

    /// Asks the server each time: its settings can change while it runs, and another server may
    /// have taken over.
    async fn fsync(&self, key: &[u8]) -> Result<Option<Fsync>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO").arg("server");
        pipe.cmd("CONFIG").arg("GET").arg("appendonly").arg("appendfsync");
        type Answer = (redis::InfoDict, HashMap<String, String>);
        let (info, settings): Answer = self.query_at(key, &pipe).await?;
        let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
        if !is("appendonly", "yes") {
            return Ok(None);
        }
        if is("appendfsync", "always") {
            return Ok(Some(Fsync::Always));
        }
        let version = info.get::<String>("redis_version").unwrap_or_default();
        let is_valkey = info.get::<String>("valkey_version").is_some();
        Ok(waits_for_sync(&version, is_valkey).then_some(Fsync::Waited))
    }

    /// Runs a script whose writes must reach a level. False: it ran, but the level was not reached
    /// in time. An error that the level is impossible: it did not run.
    pub(super) async fn run_durably<T: FromRedisValue>(
        &self,
        transition: &'static str,
        call: &Call<'_>,
        level: Durability,
    ) -> Result<(T, bool), StoreError> {
        let confirm = self.confirm_for(level, call.route()).await?;
        let (answer, confirmed) = self.run_confirmed(transition, call, confirm).await?;
        if (level, confirm) == (Durability::Fsynced, Confirm::Primary) {
            // There was no wait: check that the server that answered still syncs before it answers.
            let still = matches!(self.fsync(call.route()).await, Ok(Some(Fsync::Always)));
            return Ok((answer, still));
        }
        Ok((answer, confirmed))
    }

    /// The majority that `quorum` and ownership need: more than half of the servers, with the
    /// primary. Sentinels next to the servers promote another primary only with more than half of
    /// them, so a primary that is cut off with fewer cannot confirm.
    pub(super) fn confirm_of_majority(&self) -> Confirm {
        match self.inner.replicas {
            0 => Confirm::Primary,
            replicas => Confirm::Replicas { count: replicas.div_ceil(2) },
        }
    }
}

/// True if this server's `WAITAOF` answers only after the disk has synced. With `appendfsync
/// everysec`, Redis 7.4 may answer before (redis/redis#13793, fixed in 8.0), and so may Valkey:
/// `tests/power_cut` tested 8.1.1 and 9.1.2.
fn waits_for_sync(redis_version: &str, is_valkey: bool) -> bool {
    let mut numbers = redis_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    !is_valkey && (version == (7, 2) || version >= (8, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_says_too_early_that_it_has_synced_is_not_believed() {
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
