//! The Lua scripts: one transition per file, with its includes inserted.

use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisResult, Script, ServerErrorKind, ToRedisArgs,
    aio::ConnectionLike,
};

use super::{rights, schema};
use crate::faults::planted_lua::text_of;

/// One script, ready to be called.
#[derive(Debug)]
pub struct Transition {
    /// The name of its file, metric and span.
    pub name: &'static str,
    /// The script as Redis runs it.
    pub script: Script,
    source: String,
}

/// A call of a script, with its keys and arguments.
pub struct Call<'a> {
    transition: &'a Transition,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl Transition {
    /// The text that Redis runs.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// A call without keys or arguments yet.
    pub fn call(&self) -> Call<'_> {
        Call { transition: self, keys: Vec::new(), args: Vec::new() }
    }
}

impl Call<'_> {
    /// Adds a key: the next of KEYS.
    pub fn key(&mut self, key: impl ToRedisArgs) -> &mut Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    /// Adds an argument, or several: the next of ARGV.
    pub fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        arg.write_redis_args(&mut self.args);
        self
    }

    /// The key that decides which node runs the call.
    pub(super) fn route(&self) -> &[u8] {
        self.keys.first().map_or(&[], Vec::as_slice)
    }

    /// The name of the script, and the keys.
    pub(super) fn described(&self) -> (&'static str, &[Vec<u8>]) {
        (self.transition.name, &self.keys)
    }

    /// The command, by the script's hash.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.transition.script.get_hash())
    }

    /// The command with the whole script, for a node that does not have it.
    pub(super) fn by_source(&self) -> Cmd {
        self.command("EVAL", &self.transition.source)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }

    /// Runs the call on this connection. If the node lacks the script, sends the source to that
    /// same node.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<T> {
        match self.by_hash().query_async(connection).await {
            Err(error) if is_missing(&error) => self.by_source().query_async(connection).await,
            answer => answer,
        }
    }
}

/// True if the node does not have the script.
pub(super) fn is_missing(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The files that scripts include, by name.
const INCLUDES: [(&str, &str); 22] = [
    ("attempts", include_str!("../../lua/include/attempts.lua")),
    ("bodies", include_str!("../../lua/include/bodies.lua")),
    ("call", include_str!("../../lua/include/call.lua")),
    ("changes", include_str!("../../lua/include/changes.lua")),
    ("clock", include_str!("../../lua/include/clock.lua")),
    ("damage", include_str!("../../lua/include/damage.lua")),
    ("epoch", include_str!("../../lua/include/epoch.lua")),
    ("expect", include_str!("../../lua/include/expect.lua")),
    ("findings", include_str!("../../lua/include/findings.lua")),
    ("head", include_str!("../../lua/include/head.lua")),
    ("leases", include_str!("../../lua/include/leases.lua")),
    ("left", include_str!("../../lua/include/left.lua")),
    ("dead_letters", include_str!("../../lua/include/dead_letters.lua")),
    ("lists", include_str!("../../lua/include/lists.lua")),
    ("look", include_str!("../../lua/include/look.lua")),
    ("owner", include_str!("../../lua/include/owner.lua")),
    ("schema", include_str!("../../lua/include/schema.lua")),
    ("serial", include_str!("../../lua/include/serial.lua")),
    ("unnamed", include_str!("../../lua/include/unnamed.lua")),
    ("waiting", include_str!("../../lua/include/waiting.lua")),
    ("wake", include_str!("../../lua/include/wake.lua")),
    ("withdrawn", include_str!("../../lua/include/withdrawn.lua")),
];

macro_rules! transitions {
    ($($name:ident),* $(,)?) => {
        /// All scripts, by name.
        #[derive(Debug)]
        pub struct Scripts {
            $(
                #[doc = concat!("`lua/", stringify!($name), ".lua`")]
                pub $name: Transition,
            )*
        }

        impl Scripts {
            /// Assembles the scripts.
            pub fn new() -> Self {
                Scripts { $($name: transition(
                    stringify!($name),
                    include_str!(concat!("../../lua/", stringify!($name), ".lua")),
                )),* }
            }

            /// All scripts, as a list.
            pub fn all(&self) -> Vec<&Transition> {
                vec![$(&self.$name),*]
            }
        }
    };
}

transitions!(
    ingest,
    claim,
    extend,
    complete,
    fail,
    requeue,
    reap,
    acquire_partition,
    resign_partition,
    release,
    postpone,
    halt,
    withdraw,
    retry_head,
    repair,
    repair_keys,
    repair_traces,
    repair_counters,
    discard,
    expire,
    pause,
    define,
    index,
    remove,
    remove_batch,
    forget,
    topic,
    migrate,
    init_epoch,
    heartbeat,
);

impl Default for Scripts {
    fn default() -> Self {
        Scripts::new()
    }
}

fn transition(name: &'static str, source: &str) -> Transition {
    let source = with_rights(&with_includes(&text_of(name, source)));
    Transition { name, script: Script::new(&source), source }
}

/// Inserts the check of rights after the first line, which only Redis reads (`#!lua`).
fn with_rights(whole: &str) -> String {
    let (first, rest) = whole.split_once('\n').unwrap_or((whole, ""));
    format!("{first}\n{}{rest}", rights::preamble(rest))
}

/// Replaces the line `-- include: a, b` with those files.
fn with_includes(source: &str) -> String {
    let mut whole = String::with_capacity(source.len() * 2);
    for line in source.lines() {
        match line.strip_prefix("-- include: ") {
            Some(names) => {
                for name in names.split(", ") {
                    if name == "schema" {
                        whole.push_str(&format!("local SCHEMA_KNOWN = {}\n", schema::known()));
                    }
                    let file = INCLUDES.iter().find(|(known, _)| *known == name);
                    let text = file.map_or("error('unknown include')", |(_, text)| text);
                    whole.push_str(&text_of(&format!("include/{name}"), text));
                    whole.push('\n');
                }
            }
            None => {
                whole.push_str(line);
                whole.push('\n');
            }
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_include_is_known() {
        for transition in Scripts::new().all() {
            assert!(!transition.script.get_hash().is_empty());
        }
        let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).unwrap();
        for entry in sources {
            let path = entry.unwrap().path();
            if path.is_file() {
                let whole = with_includes(&std::fs::read_to_string(&path).unwrap());
                assert!(!whole.contains("unknown include"), "{}", path.display());
            }
        }
    }
}
