//! Which durability the deployment can confirm, and which one a destination needs.

use redis::FromRedisValue;

use super::{Store, StoreError};
use crate::{
    domain::Durability,
    redis_client::{Confirm, Fsync, ScriptCall},
};

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

    /// Runs a script whose writes must reach a level. False: it ran, but the level was not reached
    /// in time. An error that the level is impossible: it did not run.
    pub(super) async fn run_durably<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        level: Durability,
    ) -> Result<(T, bool), StoreError> {
        let confirm = self.confirm_for(level, call.route()).await?;
        let (answer, confirmed) = self.run_confirmed(call, confirm).await?;
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
