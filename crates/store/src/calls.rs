//! The store's calls to Redis. The store measures each call, and records errors about damage, missing rights and
//! newer schemas.

use bytes::Bytes;
use futures::future::join_all;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::time::Instant;

use super::{Store, StoreError, damage::Called, keys::DestinationKeys};
use redis_client::{
    Answers, ClientError, Confirm, FsyncAnswer, RedisClient, ScriptCall, at_once, route_of,
};

/// The approximate number of keys that one step of a scan visits.
const SCAN: usize = 1000;

impl Store {
    /// The connections to Redis.
    pub(super) fn client(&self) -> &RedisClient {
        &self.inner.client
    }

    /// Runs a script once. Does not run it if this pod knows of a missing right: the script might stop half-way.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
    ) -> Result<T, StoreError> {
        self.check_rights()?;
        let begun = Instant::now();
        let result = self.client().run(call).await.map_err(StoreError::from);
        self.note(call, begun, &result);
        result
    }

    /// Runs a script once, and waits up to `redis.timeout_ms` until its writes have the durability `confirm`. Returns
    /// false if this is not confirmed; the script has run anyway.
    pub async fn run_confirmed<T: FromRedisValue>(
        &self,
        call: &ScriptCall<'_>,
        confirm: Confirm,
    ) -> Result<(T, bool), StoreError> {
        self.check_rights()?;
        let begun = Instant::now();
        let result = self.client().run_confirmed(call, confirm).await.map_err(StoreError::from);
        self.note(call, begun, &result);
        result
    }

    fn note<T>(&self, call: &ScriptCall<'_>, begun: Instant, result: &Result<T, StoreError>) {
        let (name, keys) = call.described();
        self.observe(Called { name, keys }, result);
        // A refusal with a code (a stale epoch, another owner) is not a failure of Redis.
        let is_failure = |error: &StoreError| {
            use StoreError as E;
            let is_last =
                matches!(error, E::NoRights(_) | E::LostRights(_) | E::WrongType(_) | E::Failed(_));
            is_last || error.is_temporary()
        };
        let failed = result.as_ref().err().is_some_and(is_failure);
        telemetry::redis_call(name, begun.elapsed(), !failed);
        if let Err(error @ StoreError::NewerSchema(_)) = result {
            self.inner.schemas.log(error);
        }
    }

    /// Runs plain commands in one round trip, at the server of the first command's key. All keys
    /// must be in one slot.
    pub(super) async fn query<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, StoreError> {
        let key = route_of(pipe);
        self.query_at(&key, pipe).await
    }

    /// Runs one plain command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let mut pipe = Pipeline::new();
        let (answer,): (T,) = self.query(pipe.add_command(command.clone())).await?;
        Ok(answer)
    }

    /// Runs commands that only read, all at the same moment. All keys must be in one slot.
    pub(super) async fn query_at_once<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Result<T, StoreError> {
        let answer = self.client().query_at(&route_of(pipe), &at_once(pipe)).await;
        let (answers,) = self.observed_commands(|| route_of(pipe), pipe, answer)?;
        Ok(answers)
    }

    /// Like `query`, for many keys. If a key has the wrong type, its commands return nil, and the query as a whole
    /// still succeeds.
    pub(super) async fn query_lenient(&self, pipe: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let error = match self.query(pipe).await {
            Err(error) => error,
            answered => return answered,
        };
        let mut lenient = pipe.clone();
        let answers: Vec<Value> = self.query(lenient.ignore_errors()).await?;
        let is_wrong_type = |answer: &Value| match answer {
            Value::ServerError(error) => error.code() == "WRONGTYPE",
            _ => false,
        };
        if !answers.iter().any(is_wrong_type) {
            return Err(error);
        }
        let read = |answer| match answer {
            Value::ServerError(_) => Value::Nil,
            answer => answer,
        };
        Ok(answers.into_iter().map(read).collect())
    }

    /// Runs plain commands in one round trip, at the server of this key.
    pub(super) async fn query_at<T: FromRedisValue>(
        &self,
        key: &[u8],
        pipe: &Pipeline,
    ) -> Result<T, StoreError> {
        let answer = self.client().query_at(key, pipe).await;
        self.observed_commands(|| key.to_vec(), pipe, answer)
    }

    /// Runs pipelines of many slots; the keys of each pipeline must be in one slot. Pipelines for the
    /// same node share one round trip, and all nodes are queried in parallel. If a node does not
    /// answer, only its pipelines fail.
    pub(super) async fn query_each(
        &self,
        pipes: &[Pipeline],
    ) -> Vec<Result<Vec<Value>, StoreError>> {
        let answers = self.client().query_each(pipes).await;
        let noted = |(answer, pipe): (Answers, &Pipeline)| {
            self.observed_commands(|| route_of(pipe), pipe, answer)
        };
        answers.into_iter().zip(pipes).map(noted).collect()
    }

    /// Succeeds if Redis answers. In a cluster, the answer of one primary is enough.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.observed("PING", &[], self.client().ping().await)
    }

    /// The clock of the server that holds this key, in ms since 1970.
    pub(super) async fn time_at(&self, key: &str) -> Result<u64, StoreError> {
        self.observed("TIME", &[key.into()], self.client().time_at(key).await)
    }

    /// The clock of each key's server, in ms since 1970. `None` if the server does not answer.
    pub(super) async fn clocks(&self, keys: &[String]) -> Vec<Option<u64>> {
        self.of_servers(keys, |first| self.time_at(&keys[first])).await
    }

    /// How the server that holds this key confirms that writes are on its disk, or why it cannot.
    pub(super) async fn fsync(&self, key: &[u8]) -> Result<FsyncAnswer, StoreError> {
        self.observed("INFO", &[key.to_vec()], self.client().fsync(key).await)
    }

    /// Calls `ask` once for each server, with the index of one of the keys that the server holds. Returns the
    /// server's answer for each key; `None` if the server did not answer.
    pub(super) async fn of_servers<T: Copy, F: Future<Output = Result<T, StoreError>>>(
        &self,
        keys: &[String],
        ask: impl Fn(usize) -> F,
    ) -> Vec<Option<T>> {
        let mut all = vec![None; keys.len()];
        let groups = self.client().by_server(keys);
        let asked = groups.iter().filter_map(|members| Some((members, *members.first()?)));
        let asked = asked.map(|(members, first)| {
            let answer = ask(first);
            async move { Some((members, answer.await.ok()?)) }
        });
        for (members, answer) in join_all(asked).await.into_iter().flatten() {
            members.iter().for_each(|index| all[*index] = Some(answer));
        }
        all
    }

    /// Reads some keys of a destination, and the next cursor (0 at the end). Scans the node of the destination's
    /// partition.
    pub(super) async fn scan_keys(
        &self,
        keys: &DestinationKeys,
        cursor: u64,
    ) -> Result<(u64, Vec<Bytes>), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(keys.pattern()).arg("COUNT").arg(SCAN);
        let (page,): ((u64, Vec<Bytes>),) = self.query_at(keys.hash().as_bytes(), &pipe).await?;
        Ok(page)
    }

    /// Records the outcome of a call to Redis, and returns it with the store's error type.
    pub(super) fn observed<T>(
        &self,
        name: &str,
        keys: &[Vec<u8>],
        answer: Result<T, ClientError>,
    ) -> Result<T, StoreError> {
        let answer = answer.map_err(StoreError::from);
        if answer.as_ref().is_err_and(StoreError::is_temporary) {
            telemetry::redis_query_failed();
        }
        self.observe(Called { name, keys }, &answer);
        answer
    }

    fn observed_commands<T>(
        &self,
        key: impl FnOnce() -> Vec<u8>,
        pipe: &Pipeline,
        answer: Result<T, ClientError>,
    ) -> Result<T, StoreError> {
        match answer {
            // The usual case: there is nothing to record, so copy no name and no key.
            Ok(answer) if !self.has_damage() => Ok(answer),
            Ok(_) => self.observed(&name_of(pipe), &[key()], answer),
            // Record all keys: a later check finds out which of them is damaged.
            Err(_) => self.observed(&name_of(pipe), &keys_of(pipe), answer),
        }
    }
}

/// The name of the first command.
fn name_of(pipe: &Pipeline) -> String {
    let name = |command: &redis::Cmd| match command.args_iter().next() {
        Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    };
    pipe.cmd_iter().next().map(name).unwrap_or_default()
}

/// The keys of all commands that have one.
fn keys_of(pipe: &Pipeline) -> Vec<Vec<u8>> {
    let key = |command: &redis::Cmd| match command.args_iter().nth(1) {
        Some(redis::Arg::Simple(key)) => Some(key.to_vec()),
        _ => None,
    };
    pipe.cmd_iter().filter_map(key).collect()
}

/// Returns the answers in order; `None` for each answer that failed. Returns an error if all failed.
pub(super) fn answered<T>(
    answers: Vec<Result<T, StoreError>>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut last = None;
    let mut some = Vec::with_capacity(answers.len());
    for answer in answers {
        some.push(match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%error, "a part of a query failed");
                last = Some(error);
                None
            }
        });
    }
    match last {
        Some(error) if some.iter().all(Option::is_none) => Err(error),
        _ => Ok(some),
    }
}

/// The error for an answer of `what` that does not have the documented shape.
pub(super) fn unexpected(what: &str) -> StoreError {
    redis_client::unexpected(what).into()
}
