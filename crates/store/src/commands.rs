//! The commands that scripts and Reseq itself run. The tables have sample arguments, because Redis checks rights only
//! for complete commands.

use std::collections::BTreeSet;

/// A command that scripts run, or that takes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// The name, in upper case.
    pub name: &'static str,
    /// True if the command takes a key.
    pub has_key: bool,
    /// The least number of arguments after the key.
    pub arguments: usize,
}

const fn on_key(name: &'static str, arguments: usize) -> Command {
    Command { name, has_key: true, arguments }
}

/// Commands without a key that scripts run.
const ON_NO_KEY: [Command; 2] = [
    Command { name: "INFO", has_key: false, arguments: 0 },
    Command { name: "TIME", has_key: false, arguments: 0 },
];

/// Commands on keys that scripts and Rust run. A test compares the table with the code.
const ON_KEYS: [Command; 51] = [
    on_key("DEL", 0),
    on_key("EXISTS", 0),
    on_key("GET", 0),
    on_key("HDEL", 1),
    on_key("HEXISTS", 1),
    on_key("HGET", 1),
    on_key("HINCRBY", 2),
    on_key("HKEYS", 0),
    on_key("HLEN", 0),
    on_key("HMGET", 1),
    on_key("HRANDFIELD", 0),
    on_key("HSCAN", 1),
    on_key("HSET", 2),
    on_key("HSETNX", 2),
    on_key("HSTRLEN", 1),
    on_key("LLEN", 0),
    on_key("LPOP", 0),
    on_key("LPUSH", 1),
    on_key("LRANGE", 2),
    on_key("LREM", 2),
    on_key("LTRIM", 2),
    on_key("PEXPIRE", 1),
    on_key("PTTL", 0),
    on_key("RENAME", 1),
    on_key("RPUSH", 1),
    on_key("SADD", 1),
    on_key("SCARD", 0),
    on_key("SET", 1),
    on_key("SETEX", 2),
    on_key("SISMEMBER", 1),
    on_key("SMISMEMBER", 1),
    on_key("SREM", 1),
    on_key("STRLEN", 0),
    on_key("TYPE", 0),
    on_key("UNLINK", 0),
    on_key("XADD", 3),
    on_key("XREVRANGE", 2),
    on_key("ZADD", 2),
    on_key("ZCARD", 0),
    on_key("ZCOUNT", 2),
    on_key("ZINCRBY", 2),
    on_key("ZMSCORE", 1),
    on_key("ZPOPMIN", 0),
    on_key("ZRANGE", 2),
    on_key("ZRANGEBYSCORE", 2),
    on_key("ZRANK", 1),
    on_key("ZREM", 1),
    on_key("ZREMRANGEBYRANK", 2),
    on_key("ZREMRANGEBYSCORE", 2),
    on_key("ZSCAN", 1),
    on_key("ZSCORE", 1),
];

/// The commands on keys that Rust sends outside of scripts.
const SENT_ON_KEYS: [&str; 29] = [
    "DEL",
    "EXISTS",
    "GET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HLEN",
    "HMGET",
    "HRANDFIELD",
    "HSCAN",
    "HSET",
    "HSETNX",
    "HSTRLEN",
    "LLEN",
    "LRANGE",
    "RENAME",
    "SETEX",
    "SISMEMBER",
    "TYPE",
    "UNLINK",
    "XREVRANGE",
    "ZADD",
    "ZCARD",
    "ZMSCORE",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZREM",
    "ZSCAN",
    "ZSCORE",
];

/// Complete commands without a key that every deployment needs.
pub(super) const ALWAYS: [&[&str]; 6] = [
    &["PING"],
    &["TIME"],
    &["INFO"],
    // SCAN takes no key.
    &["SCAN", "0"],
    &["EVAL", "return 1", "0"],
    &["EVALSHA", "x", "0"],
];

/// Commands that Reseq also needs with a cluster.
pub(super) const IN_CLUSTER: [&[&str]; 3] =
    [&["CLUSTER", "SLOTS"], &["CLUSTER", "INFO"], &["ASKING"]];
/// Commands that Reseq also needs with `redis.replicas`.
pub(super) const WITH_REPLICAS: [&[&str]; 1] = [&["WAIT", "0", "0"]];
/// Commands that Reseq also needs with Sentinel.
pub(super) const WITH_SENTINEL: [&[&str]; 1] = [&["ROLE"]];
/// Commands for wake-ups; each takes a channel.
pub(super) const OF_WAKE_UPS: [&str; 4] = ["PUBLISH", "SPUBLISH", "SUBSCRIBE", "SSUBSCRIBE"];

/// The commands in a script, found by name in its text. A quoted word that is in no table is not a command
/// (`WITHSCORES`), or belongs to wake-ups.
pub fn commands_in(script: &str) -> BTreeSet<Command> {
    let code = script.lines().filter(|line| !line.trim_start().starts_with("--"));
    let code = code.map(|line| line.split(" -- ").next().unwrap_or_default());
    let words: BTreeSet<&str> = code.flat_map(|line| line.split('\'').skip(1).step_by(2)).collect();
    let all = ON_KEYS.iter().chain(&ON_NO_KEY);
    all.filter(|command| words.contains(command.name)).copied().collect()
}

/// All commands on keys that Reseq runs: the commands in scripts, and the commands that Rust sends.
pub(super) fn commands_on_keys<'a>(scripts: impl Iterator<Item = &'a str>) -> BTreeSet<Command> {
    let sent = ON_KEYS.iter().filter(|command| SENT_ON_KEYS.contains(&command.name));
    let all = sent.copied().chain(scripts.flat_map(commands_in));
    all.filter(|command| command.has_key).collect()
}
