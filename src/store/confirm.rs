//! Calls that count only once replicas have them, or the disk.

use redis::{FromRedisValue, ScriptInvocation};

use super::{Store, StoreError};

/// Who must have what a call wrote, before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirm {
    /// The primary alone.
    Primary,
    /// So many replicas, too.
    Replicas {
        /// How many.
        count: u32,
    },
    /// The primary's disk, and those of so many replicas.
    Fsync {
        /// How many.
        replicas: u32,
    },
}

/// How long replicas or the disk may take, in ms.
const WAIT_MS: u64 = 1_000;

impl Store {
    /// Runs a script once, and waits until who is asked for has what it wrote. False: it was carried
    /// out, and not confirmed in time.
    pub(super) async fn run_confirmed<T: FromRedisValue>(
        &self,
        transition: &'static str,
        call: &ScriptInvocation<'_>,
        confirm: Confirm,
    ) -> Result<(T, bool), StoreError> {
        let mut wait = redis::cmd("WAIT");
        let count = match confirm {
            Confirm::Primary => return Ok((self.run(transition, call).await?, true)),
            Confirm::Replicas { count } => {
                wait.arg(count);
                i64::from(count)
            }
            Confirm::Fsync { replicas } => {
                wait = redis::cmd("WAITAOF");
                wait.arg(1).arg(replicas);
                1
            }
        };
        wait.arg(WAIT_MS);
        let both = async |connection: &mut redis::aio::MultiplexedConnection| {
            let answer: T = call.invoke_async(connection).await?;
            let had: redis::Value = wait.query_async(connection).await?;
            Ok((answer, had))
        };
        let (answer, had) = self.attempt(both).await?;
        let confirmed = match (had, confirm) {
            (redis::Value::Int(had), _) => had >= count,
            (redis::Value::Array(had), Confirm::Fsync { replicas }) => {
                had.first() == Some(&redis::Value::Int(1))
                    && matches!(had.get(1), Some(redis::Value::Int(n)) if *n >= i64::from(replicas))
            }
            _ => false,
        };
        Ok((answer, confirmed))
    }
}
