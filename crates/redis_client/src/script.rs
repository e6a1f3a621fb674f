//! Lua scripts. Calls name a script by its hash (`EVALSHA`). If a node lacks the script, the client sends the source.

use std::sync::Arc;

use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind, aio::ConnectionLike,
};

/// One script, ready to be called.
#[derive(Debug)]
pub struct Script {
    /// The name of the script in metrics, logs and errors.
    pub name: &'static str,
    /// The script in the form that redis-rs runs.
    pub script: redis::Script,
    source: String,
    /// The script to run instead if Redis has no memory left and refuses this script.
    when_full: Option<Box<Script>>,
    /// The script that runs batches with calls of this script, and the number of this script in it.
    composed: Option<(Arc<Script>, usize)>,
}

/// A call of a script, with its keys and arguments.
pub struct ScriptCall<'a> {
    script: &'a Script,
    words: Arc<CallArgs>,
    messages: usize,
}

/// The approximate size of a number in a command, in bytes.
pub(super) const NUMBER_SIZE: usize = 12;

/// The keys and arguments of a call.
#[derive(Debug, Clone, Default)]
pub struct CallArgs {
    /// KEYS.
    pub keys: Vec<Vec<u8>>,
    /// ARGV.
    pub args: Vec<Vec<u8>>,
}

impl CallArgs {
    pub(super) fn count(&self) -> usize {
        self.keys.len() + self.args.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.iter().chain(&self.args).map(Vec::len).sum()
    }
}

impl Script {
    /// Creates a script with this source.
    pub fn new(name: &'static str, source: String) -> Script {
        Script {
            name,
            script: redis::Script::new(&source),
            source,
            when_full: None,
            composed: None,
        }
    }

    /// Sets another source, which calls run if Redis has no memory left and refuses this script.
    pub fn or_when_full(self, source: String) -> Script {
        Script { when_full: Some(Box::new(Script::new(self.name, source))), ..self }
    }

    /// The script to run instead after this error: the script for a full Redis.
    pub(super) fn after(&self, error: &RedisError) -> Option<&Script> {
        self.when_full.as_deref().filter(|_| error.code() == Some("OOM"))
    }

    /// Allows calls to run as blocks of the script `composed`, which knows this script by `number`.
    pub fn may_run_in(&mut self, composed: &Arc<Script>, number: usize) {
        self.composed = Some((composed.clone(), number));
    }

    /// True if a call may wait to run in a batch with others.
    pub fn may_wait(&self) -> bool {
        self.composed.is_some()
    }

    /// The source text that Redis runs.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The hash by which Redis knows the source.
    pub fn hash(&self) -> &str {
        self.script.get_hash()
    }

    /// Creates a call with these keys and arguments.
    pub fn call(&self, words: CallArgs) -> ScriptCall<'_> {
        ScriptCall { script: self, words: Arc::new(words), messages: 1 }
    }
}

impl ScriptCall<'_> {
    /// Sets the approximate number of messages in the call. The default is 1.
    pub fn of_messages(&mut self, count: usize) {
        self.messages = count;
    }

    /// The key that decides which node runs the call.
    pub fn route(&self) -> &[u8] {
        self.words.keys.first().map_or(&[], Vec::as_slice)
    }

    /// The script that runs batches with this call, and the number of the call's script in it.
    pub(super) fn composed(&self) -> Option<&(Arc<Script>, usize)> {
        self.script.composed.as_ref()
    }

    /// The approximate number of messages in the call.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    pub(super) fn words(&self) -> &Arc<CallArgs> {
        &self.words
    }

    /// The name of the script, and the keys.
    pub fn described(&self) -> (&'static str, &[Vec<u8>]) {
        (self.script.name, &self.words.keys)
    }

    /// The command with the script's hash.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.script.hash())
    }

    /// The command with the whole script, for a node that does not have it.
    pub(super) fn by_source(&self) -> Cmd {
        self.command("EVAL", &self.script.source)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let CallArgs { keys, args } = &*self.words;
        let size = name.len() + script.len() + NUMBER_SIZE + self.words.bytes();
        let mut command = Cmd::with_capacity(self.words.count() + 3, size);
        command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(args);
        command
    }

    /// Runs the call on this connection.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<T> {
        run(self.script, connection, |name, script| self.command(name, script)).await
    }
}

/// Runs a script on this connection. If the node lacks the script, sends the source to the same node. If Redis is
/// full, runs the script for a full Redis. `command` builds a command from its name (`EVALSHA` or `EVAL`) and the
/// hash or source.
pub(super) async fn run<T: FromRedisValue>(
    mut script: &Script,
    connection: &mut impl ConnectionLike,
    command: impl Fn(&str, &str) -> Cmd,
) -> RedisResult<T> {
    loop {
        let answer = command("EVALSHA", script.hash()).query_async(connection).await;
        let answer = match answer {
            Err(error) if is_missing(&error) => {
                command("EVAL", script.source()).query_async(connection).await
            }
            answer => answer,
        };
        match answer.as_ref().err().and_then(|error| script.after(error)) {
            Some(other) => script = other,
            None => return answer,
        }
    }
}

/// True if the node does not have the script.
pub(super) fn is_missing(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
