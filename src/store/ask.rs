//! Calls to the server that holds a key: scripts, plain commands, and queries of many keys at once.

use std::time::Duration;

use futures::{StreamExt, future::join_all, stream};
use redis::{FromRedisValue, Pipeline, RedisResult, Value};
use tokio::time::Instant;

use super::{
    Store, StoreError,
    connect::{self, Channel, Next, Node},
    damage::Called,
    scripts::Call,
    unexpected,
};

/// Redirects that one call follows before it returns the error.
const REDIRECTS_MAX: usize = 8;
/// How long a call waits before it retries a slot that is being migrated.
const LATER: Duration = Duration::from_millis(20);
/// Single queries in flight at once, after a query of many keys had to be split.
const SINGLE_MAX: usize = 8;

/// The answer of `TIME`: seconds, and microseconds within the second.
pub(super) type ServerTime = (u64, u64);

/// Converts it to ms since 1970.
pub(super) fn server_ms((seconds, micros): ServerTime) -> u64 {
    seconds * 1000 + micros / 1000
}

impl Store {
    /// Runs a script once.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        transition: &'static str,
        call: &Call<'_>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let result = self.at(call.route(), Work::Script(call)).await;
        let (name, keys) = call.described();
        self.observe(Called { name, keys }, &result);
        self.note(transition, begun, &result);
        result
    }

    pub(super) fn note<T>(
        &self,
        transition: &'static str,
        begun: Instant,
        result: &Result<T, StoreError>,
    ) {
        // A refusal with a code (a stale epoch, another owner) is not a failure of Redis.
        let is_failure = |error: &StoreError| {
            error.is_temporary() || matches!(error, StoreError::NoRights(_) | StoreError::Failed(_))
        };
        let failed = result.as_ref().err().is_some_and(is_failure);
        crate::telemetry::redis_call(transition, begun.elapsed(), !failed);
        if let Err(error @ StoreError::NewerSchema(_)) = result {
            self.inner.schemas.tell(error);
        }
    }

    /// Runs plain commands in one round trip, at the server of the first command's key. All keys
    /// must be in one slot.
    pub(super) async fn query<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, StoreError> {
        let key = route_of(pipe);
        self.query_at(&key, pipe).await
    }

    /// Like `query`, for a query of many keys: a key of the wrong type yields nil instead of an
    /// error, so it does not hide the other answers.
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
        let answer = self.at(key, Work::Commands(pipe)).await;
        // After an error, note all keys: a later check finds out which of them is damaged.
        let keys = if answer.is_err() { keys_of(pipe) } else { vec![key.to_vec()] };
        self.observe(Called { name: &name_of(pipe), keys: &keys }, &answer);
        answer
    }

    /// Runs pipelines of different slots, each within one slot. One round trip per node, the nodes
    /// in parallel. A node that does not answer fails only its own pipelines.
    pub(super) async fn query_each(
        &self,
        pipes: &[Pipeline],
    ) -> Vec<Result<Vec<Value>, StoreError>> {
        let routes = pipes.iter().map(|pipe| String::from_utf8_lossy(&route_of(pipe)).into_owned());
        let (groups, unserved) = self.inner.links.spread(&routes.collect::<Vec<_>>());
        let asked = groups.iter().map(|(node, members)| self.query_group(node, members, pipes));
        let alone = self.query_alone(&unserved, pipes);
        let (answers, alone) = tokio::join!(join_all(asked), alone);
        let mut all: Vec<_> = answers.into_iter().flatten().chain(alone).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn query_group(
        &self,
        node: &std::sync::Arc<Node>,
        members: &[usize],
        pipes: &[Pipeline],
    ) -> Vec<(usize, Result<Vec<Value>, StoreError>)> {
        let mut whole = Pipeline::new();
        for command in members.iter().flat_map(|index| pipes[*index].cmd_iter()) {
            whole.add_command(command.clone());
        }
        let answered: Result<Vec<Value>, StoreError> = match node.take().await {
            Err(error) => Err(error),
            Ok(mut link) => match whole.query_async(&mut link.connection).await {
                Ok(answers) => Ok(answers),
                Err(error) if connect::is_broken(&error) => {
                    node.discard(&link, &error);
                    Err(error.into())
                }
                // A slot may have moved: send each pipeline to the current server of its slot.
                Err(_) => return self.query_alone(members, pipes).await,
            },
        };
        match answered {
            Ok(answers) => {
                for index in members.iter().filter(|_| self.has_damage()) {
                    let (name, key) = (name_of(&pipes[*index]), route_of(&pipes[*index]));
                    self.observe(Called { name: &name, keys: &[key] }, &Ok(()));
                }
                let mut answers = answers.into_iter();
                let mut of = |index: &usize| answers.by_ref().take(pipes[*index].len()).collect();
                members.iter().map(|index| (*index, Ok(of(index)))).collect()
            }
            Err(error) => members.iter().map(|index| (*index, Err(error.clone()))).collect(),
        }
    }

    async fn query_alone(
        &self,
        members: &[usize],
        pipes: &[Pipeline],
    ) -> Vec<(usize, Result<Vec<Value>, StoreError>)> {
        let asked = stream::iter(members.iter().copied());
        let asked = asked.map(|index| async move { (index, self.query(&pipes[index]).await) });
        asked.buffer_unordered(SINGLE_MAX).collect().await
    }

    /// The clock of each key's server, in ms since 1970. `None` if the server does not answer.
    pub(super) async fn clocks(&self, keys: &[String]) -> Vec<Option<u64>> {
        let mut clocks = vec![None; keys.len()];
        let (groups, _) = self.inner.links.spread(keys);
        let asked = groups.iter().map(|(_, members)| async move {
            let key = &keys[*members.first()?];
            Some((members, self.time_at(key).await.ok()?))
        });
        for (members, now_ms) in join_all(asked).await.into_iter().flatten() {
            members.iter().for_each(|index| clocks[*index] = Some(now_ms));
        }
        clocks
    }

    /// The clock of the server that holds this key, in ms since 1970.
    pub(super) async fn time_at(&self, key: &str) -> Result<u64, StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME");
        let (time,): (ServerTime,) = self.query_at(key.as_bytes(), &pipe).await?;
        Ok(server_ms(time))
    }

    /// Asks all primaries. Returns one answer or error for each.
    pub(super) async fn query_primaries<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Vec<Result<T, StoreError>> {
        let primaries = self.inner.links.primaries();
        join_all(primaries.iter().map(|node| async move {
            let mut link = node.take().await?;
            let answer = pipe.query_async(&mut link.connection).await.map_err(|error| {
                if connect::is_broken(&error) {
                    node.discard(&link, &error);
                }
                error.into()
            });
            let answer = answer.and_then(fitting);
            self.observe(Called { name: &name_of(pipe), keys: &[] }, &answer);
            answer
        }))
        .await
    }

    /// Succeeds if Redis answers. In a cluster, one master is enough.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").ignore();
        let mut last = StoreError::Unavailable("no master of the cluster is known".into());
        for answer in self.query_primaries::<()>(&pipe).await {
            match answer {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Runs one call at the server of a key, and follows redirects.
    async fn at<T: FromRedisValue>(&self, key: &[u8], work: Work<'_>) -> Result<T, StoreError> {
        self.value_at(key, work).await.and_then(fitting)
    }

    async fn value_at(&self, key: &[u8], work: Work<'_>) -> Result<Value, StoreError> {
        let links = &self.inner.links;
        let mut redirects = Redirects::new();
        let mut route = links.route(key).await?;
        loop {
            let link = route.node.take().await?;
            let connection = link.connection.clone();
            let mut channel = Channel { connection, asking: route.asking };
            let error = match work.run(&mut channel).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if connect::is_broken(&error) {
                route.node.discard(&link, &error);
            }
            let next = links.after(&error, &route.node).await;
            route = redirects.follow(self, key, next, error).await?;
        }
    }
}

/// The work to do at one node.
enum Work<'a> {
    Script(&'a Call<'a>),
    Commands(&'a Pipeline),
}

impl Work<'_> {
    async fn run(&self, channel: &mut Channel) -> RedisResult<Value> {
        match self {
            Work::Script(call) => call.run(channel).await,
            Work::Commands(pipe) => pipe.query_async(channel).await,
        }
    }
}

/// Follows one call through a cluster whose slots move.
pub(super) struct Redirects {
    begun: Instant,
    count: usize,
}

impl Redirects {
    pub(super) fn new() -> Redirects {
        Redirects { begun: Instant::now(), count: 0 }
    }

    /// Where to send the call next, or the error if it must not be sent again.
    pub(super) async fn follow(
        &mut self,
        store: &Store,
        key: &[u8],
        next: Next,
        error: redis::RedisError,
    ) -> Result<connect::Route, StoreError> {
        self.count += 1;
        match next {
            Next::Again(route) if self.count <= REDIRECTS_MAX => Ok(route),
            Next::Later(limit) if self.begun.elapsed() + LATER < limit => {
                tokio::time::sleep(LATER).await;
                // A wait is bounded by time, so it does not count as a redirect.
                self.count -= 1;
                store.inner.links.survey().await?;
                store.inner.links.route(key).await
            }
            Next::Again(_) | Next::Later(_) | Next::GiveUp => Err(error.into()),
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

/// The keys of those commands that have one.
fn keys_of(pipe: &Pipeline) -> Vec<Vec<u8>> {
    let key = |command: &redis::Cmd| match command.args_iter().nth(1) {
        Some(redis::Arg::Simple(key)) => Some(key.to_vec()),
        _ => None,
    };
    pipe.cmd_iter().filter_map(key).collect()
}

/// The key of the first command. All commands of a pipeline must be of its slot.
fn route_of(pipe: &Pipeline) -> Vec<u8> {
    let key = |command: &redis::Cmd| match command.args_iter().nth(1) {
        Some(redis::Arg::Simple(key)) => key.to_vec(),
        _ => Vec::new(),
    };
    let mut keys = pipe.cmd_iter().map(key);
    let first = keys.next().unwrap_or_default();
    debug_assert!(
        keys.all(|key| connect::slot_of(&key) == connect::slot_of(&first)),
        "the commands of a pipeline are of several slots"
    );
    first
}

/// The answers in order, `None` for each that failed. An error if all failed.
pub(super) fn answered<T>(
    answers: Vec<Result<T, StoreError>>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut last = None;
    let mut some = Vec::with_capacity(answers.len());
    for answer in answers {
        some.push(match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%error, "one part of a query failed");
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

/// Converts the answer. Done here and not by the client library: there, an answer of another type
/// and a failed call are both parsing errors, and could not be told apart.
pub(super) fn fitting<T: FromRedisValue>(answer: Value) -> Result<T, StoreError> {
    redis::from_redis_value(answer).map_err(|error| StoreError::Unreadable(error.to_string()))
}

/// The entries that are valid UTF-8. One damaged hint must not hide the others.
pub(super) fn texts(answer: Option<Value>, what: &str) -> Result<Vec<String>, StoreError> {
    let all: Vec<Vec<u8>> = read(answer, what)?;
    Ok(all.into_iter().filter_map(|one| String::from_utf8(one).ok()).collect())
}

/// Reads one answer of a query.
pub(super) fn read<T: FromRedisValue>(value: Option<Value>, what: &str) -> Result<T, StoreError> {
    redis::from_redis_value(value.unwrap_or(Value::Nil)).map_err(|_| unexpected(what))
}
