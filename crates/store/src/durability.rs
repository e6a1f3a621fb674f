//! Which durability the deployment can confirm, and which durability a destination needs.

use redis::FromRedisValue;

use super::{Store, StoreError};
use domain::Durability;
use redis_client::{Confirm, Fsync, NoFsync, ScriptCall};

fn no_fsync(why: NoFsync) -> &'static str {
    match why {
        NoFsync::Settings => {
            "durability = \"fsynced\" needs a Redis that keeps an append-only file (appendonly yes), and is \
             Redis 7.2 or 8.0 or later, or has appendfsync always (Redis 7.4 and Valkey may say too early that \
             they have synced): change that, or use durability = \"memory\", \"quorum\" or \"replicated\""
        }
        NoFsync::SkipsSyncs => {
            "durability = \"fsynced\" with appendfsync always needs no-appendfsync-on-rewrite no: with yes, \
             Redis does not sync while it saves or rewrites"
        }
        NoFsync::FirstRewrite => {
            "durability = \"fsynced\" needs a complete append-only file: Redis is rewriting it, perhaps for the \
             first time; try again when aof_rewrite_in_progress (INFO persistence) is 0"
        }
    }
}

impl Store {
    /// Refuses a level that the server of this key cannot provide, and says what to change.
    pub async fn check_durability(&self, level: Durability, key: &str) -> Result<(), StoreError> {
        self.confirm_for(level, key.as_bytes()).await.map(drop)
    }

    /// Like `check_durability`, for a definition. Accepts a definition even if Redis cannot confirm `fsynced` at the
    /// moment, because of a first rewrite of the append-only file or `no-appendfsync-on-rewrite yes`. While that lasts,
    /// producers get 503 `cannot_confirm`.
    pub(super) async fn check_defined(
        &self,
        level: Durability,
        key: &str,
    ) -> Result<(), StoreError> {
        if level != Durability::Fsynced {
            return self.check_durability(level, key).await;
        }
        match self.fsync(key.as_bytes()).await? {
            Err(NoFsync::Settings) => {
                Err(StoreError::CannotConfirm(no_fsync(NoFsync::Settings).to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The confirmation that reaches this level at the server of this key.
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
                Ok(Fsync::Waited) => Ok(Confirm::Fsync { replicas: 0 }),
                Ok(Fsync::Always) => Ok(Confirm::Primary),
                Err(why) => Err(StoreError::CannotConfirm(no_fsync(why).to_owned())),
            },
        }
    }

    /// Runs a script whose writes must reach a level. Returns false if the script ran, but the level was not reached
    /// in time. If the level is impossible, returns an error, and the script did not run.
    pub(super) async fn run_durably<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        level: Durability,
    ) -> Result<(T, bool), StoreError> {
        let confirm = self.confirm_for(level, call.route()).await?;
        let (answer, confirmed) = self.run_confirmed(call, confirm).await?;
        if (level, confirm) == (Durability::Fsynced, Confirm::Primary) {
            // There was no wait: check that the server that answered still syncs before it answers.
            let still = matches!(self.fsync(call.route()).await, Ok(Ok(Fsync::Always)));
            return Ok((answer, still));
        }
        Ok((answer, confirmed))
    }

    /// The majority that `quorum` and ownership need: more than half of the servers, including the primary. Sentinels
    /// that run beside the servers promote another primary only if more than half of them agree. So a primary that is
    /// cut off with fewer servers cannot confirm.
    pub(super) fn confirm_of_majority(&self) -> Confirm {
        match self.inner.replicas {
            0 => Confirm::Primary,
            replicas => Confirm::Replicas { count: replicas.div_ceil(2) },
        }
    }
}
