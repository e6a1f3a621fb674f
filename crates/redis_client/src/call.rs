//! Calls to the server that holds a key: scripts, plain commands, and queries of many keys at once.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream,
};
use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use tokio::time::Instant;

use super::{
    blocks::Blocks,
    channel::Channel,
    client::{Next, RedisClient, Route},
    error::{ClientError, fitting, is_broken, unexpected},
    node::Node,
    script::ScriptCall,
    slot::slot_of,
};

/// One call follows at most this many redirects, then returns the error.
const REDIRECTS_MAX: usize = 8;
/// The pause before a call is repeated while its slot is being moved.
const LATER: Duration = Duration::from_millis(20);
/// The most pipelines in flight when pipelines are sent one by one.
const SINGLE_MAX: usize = 8;

/// The answer of `TIME`: seconds, and microseconds within the second.
pub type ServerTime = (u64, u64);

/// The answers to one pipeline, or the error.
pub type Answers = Result<Vec<Value>, ClientError>;

/// The time of a server in ms since 1970.
pub fn server_ms((seconds, micros): ServerTime) -> u64 {
    seconds * 1000 + micros / 1000
}

impl RedisClient {
    /// Runs plain commands in one round trip at the server that holds this key. All their keys must be
    /// in one slot.
    pub async fn query_at<T: FromRedisValue>(
        &self,
        key: &[u8],
        pipe: &Pipeline,
    ) -> Result<T, ClientError> {
        self.at(key, Work::Commands(pipe)).await
    }

    /// Runs pipelines of many slots; the keys of each pipeline must be in one slot. Pipelines for the
    /// same node share one round trip, and all nodes are queried in parallel. If a node does not answer,
    /// only its pipelines fail.
    pub async fn query_each(&self, pipes: &[Pipeline]) -> Vec<Answers> {
        let routes = pipes.iter().map(|pipe| String::from_utf8_lossy(&route_of(pipe)).into_owned());
        let (groups, unserved) = self.spread(&routes.collect::<Vec<_>>());
        let asked = groups.iter().map(|(node, members)| self.query_group(node, members, pipes));
        let alone = self.query_one_by_one(&unserved, pipes);
        let (answers, alone) = tokio::join!(join_all(asked), alone);
        let mut all: Vec<_> = answers.into_iter().flatten().chain(alone).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn query_group(
        &self,
        node: &Arc<Node>,
        members: &[usize],
        pipes: &[Pipeline],
    ) -> Vec<(usize, Answers)> {
        let mut whole = Pipeline::new();
        for command in members.iter().flat_map(|index| pipes[*index].cmd_iter()) {
            whole.add_command(command.clone());
        }
        let answered: Answers = match node.take().await {
            Err(error) => Err(error),
            Ok(mut link) => match whole.query_async(&mut link.connection).await {
                Ok(answers) => Ok(answers),
                Err(error) if is_broken(&error) => {
                    node.discard(&link, &error);
                    Err(error.into())
                }
                // A slot may have moved, or one command failed: run each pipeline separately, and follow redirects.
                Err(_) => return self.query_one_by_one(members, pipes).await,
            },
        };
        match answered {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                let mut of = |index: &usize| answers.by_ref().take(pipes[*index].len()).collect();
                members.iter().map(|index| (*index, Ok(of(index)))).collect()
            }
            Err(error) => members.iter().map(|index| (*index, Err(error.clone()))).collect(),
        }
    }

    async fn query_one_by_one(
        &self,
        members: &[usize],
        pipes: &[Pipeline],
    ) -> Vec<(usize, Answers)> {
        let asked = stream::iter(members.iter().copied()).map(|index| async move {
            let pipe = &pipes[index];
            (index, self.query_at(&route_of(pipe), pipe).await)
        });
        asked.buffer_unordered(SINGLE_MAX).collect().await
    }

    /// The clock of the server that holds this key, in ms since 1970.
    pub async fn time_at(&self, key: &str) -> Result<u64, ClientError> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME");
        let (time,): (ServerTime,) = self.query_at(key.as_bytes(), &pipe).await?;
        Ok(server_ms(time))
    }

    /// Runs plain commands on all primaries. Returns one answer or error for each.
    pub async fn query_primaries<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Vec<Result<T, ClientError>> {
        let answers = self.each_primary(pipe).await;
        answers.into_iter().map(|(_, answer)| answer.and_then(fitting)).collect()
    }

    /// Asks all primaries in parallel. Returns the name of each primary, with its answer or error.
    pub async fn each_primary<Q: Question>(
        &self,
        question: &Q,
    ) -> Vec<(String, Result<Q::Answer, ClientError>)> {
        let asked = self.primaries().into_iter().map(|node| async move {
            let answer = async {
                let mut link = node.take().await?;
                question.ask(&mut link.connection).await.map_err(|error| {
                    if is_broken(&error) {
                        node.discard(&link, &error);
                    }
                    error.into()
                })
            };
            let answer = answer.await;
            (node.name(), answer)
        });
        join_all(asked).await
    }

    /// Succeeds if Redis answers. In a cluster, the answer of one primary is enough.
    pub async fn ping(&self) -> Result<(), ClientError> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").ignore();
        let mut last = ClientError::Unavailable("no primary of the cluster is known".into());
        for answer in self.query_primaries::<()>(&pipe).await {
            match answer {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Runs one call at the server that holds a key, and follows redirects.
    async fn at<T: FromRedisValue>(&self, key: &[u8], work: Work<'_>) -> Result<T, ClientError> {
        self.boxed_value_at(key, work).await.and_then(fitting)
    }

    /// Boxed, so that only this crate compiles the future, not each crate that makes calls.
    fn boxed_value_at<'a>(
        &'a self,
        key: &'a [u8],
        work: Work<'a>,
    ) -> BoxFuture<'a, Result<Value, ClientError>> {
        self.value_at(key, work).boxed()
    }

    pub(super) async fn value_at(&self, key: &[u8], work: Work<'_>) -> Result<Value, ClientError> {
        let mut redirects = Redirects::new();
        let mut route = self.route(key).await?;
        loop {
            let link = route.node.take().await?;
            let connection = link.connection.clone();
            let mut channel = Channel { connection, asking: route.asking };
            let error = match work.run(&mut channel).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if is_broken(&error) {
                route.node.discard(&link, &error);
            }
            let next = self.after(&error, &route.node).await;
            route = redirects.follow(self, key, next, error).await?;
        }
    }
}

/// A query of one server, over one connection.
pub trait Question: Sync {
    /// The type of its answer.
    type Answer: Send;

    /// Sends the query and waits for the answer.
    fn ask(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> impl Future<Output = RedisResult<Self::Answer>> + Send;
}

impl Question for Pipeline {
    type Answer = Value;

    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        self.query_async(connection).await
    }
}

/// The work to do at one node.
pub(super) enum Work<'a> {
    Script(&'a ScriptCall<'a>),
    Blocks(&'a Blocks),
    Commands(&'a Pipeline),
}

impl Work<'_> {
    async fn run(&self, channel: &mut Channel) -> RedisResult<Value> {
        match self {
            Work::Script(call) => call.run(channel).await,
            Work::Blocks(blocks) => blocks.run(channel).await,
            Work::Commands(pipe) => pipe.query_async(channel).await,
        }
    }
}

/// Repeats one call in a cluster whose slots move.
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
        client: &RedisClient,
        key: &[u8],
        next: Next,
        error: RedisError,
    ) -> Result<Route, ClientError> {
        self.count += 1;
        match next {
            Next::Again(route) if self.count <= REDIRECTS_MAX => Ok(route),
            Next::Later(limit) if self.begun.elapsed() + LATER < limit => {
                tokio::time::sleep(LATER).await;
                // Waits have a time limit, so they do not count as redirects.
                self.count -= 1;
                client.survey().await?;
                client.route(key).await
            }
            Next::Again(_) | Next::Later(_) | Next::GiveUp => Err(error.into()),
        }
    }
}

/// The key of the first command. All keys of the pipeline must be in the slot of this key.
pub fn route_of(pipe: &Pipeline) -> Vec<u8> {
    let key = |command: &redis::Cmd| match command.args_iter().nth(1) {
        Some(redis::Arg::Simple(key)) => key.to_vec(),
        _ => Vec::new(),
    };
    let mut keys = pipe.cmd_iter().map(key);
    let first = keys.next().unwrap_or_default();
    debug_assert!(
        keys.all(|key| slot_of(&key) == slot_of(&first)),
        "the keys of a pipeline are in several slots"
    );
    first
}

/// Runs commands. ARGV holds, for each command, its number of words, then the words.
const READ: &str = r"#!lua flags=no-writes
local answers, at = {}, 1
while at < #ARGV do
  local last = at + ARGV[at]
  answers[#answers + 1] = redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return answers";

/// One command that runs these read-only commands atomically. It is not MULTI, because Redis refuses MULTI when it
/// has no memory left.
pub fn at_once(pipe: &Pipeline) -> Pipeline {
    let words = |command: &redis::Cmd| -> Vec<Vec<u8>> {
        let simple = |word: redis::Arg<&[u8]>| match word {
            redis::Arg::Simple(word) => Some(word.to_vec()),
            _ => None,
        };
        command.args_iter().filter_map(simple).collect()
    };
    let commands: Vec<_> = pipe.cmd_iter().map(words).collect();
    let keys: Vec<_> = commands.iter().filter_map(|words| words.get(1)).collect();
    let mut whole = Pipeline::new();
    let call = whole.cmd("EVAL").arg(READ).arg(keys.len()).arg(keys);
    for words in &commands {
        call.arg(words.len()).arg(words);
    }
    whole
}

/// Reads a list of texts. Skips entries that are not valid UTF-8: a damaged entry must not hide the others.
pub fn texts(answer: Option<Value>, what: &str) -> Result<Vec<String>, ClientError> {
    let all: Vec<Vec<u8>> = read(answer, what)?;
    Ok(all.into_iter().filter_map(|one| String::from_utf8(one).ok()).collect())
}

/// Reads one answer of a pipeline. `what` names the query in an error.
pub fn read<T: FromRedisValue>(value: Option<Value>, what: &str) -> Result<T, ClientError> {
    redis::from_redis_value(value.unwrap_or(Value::Nil)).map_err(|_| unexpected(what))
}
