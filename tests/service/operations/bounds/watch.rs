//! Measures the work of Redis in each call: `MONITOR` lists every command, including commands of scripts.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::redis::TestRedis;
use store::scripts::Scripts;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixStream, unix},
};

/// The cost of one operation. Each field is the maximum over all its calls.
#[derive(Debug, Clone, Default)]
pub struct Cost {
    /// Commands of one call: the commands of a script, or a single command.
    pub commands: usize,
    /// Elements of keys that the commands of one call read, write or remove.
    pub elements: usize,
    /// Bytes of the arguments of the commands of one call.
    pub argument_bytes: usize,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Bytes of one reply.
    pub reply_bytes: usize,
    /// Bytes of one reply, without the periodic queries of the metrics, which may fall into any operation.
    pub reply_bytes_of_others: usize,
    /// Microseconds of the longest call, and of the 90th percentile, if times are measured.
    pub micros: u64,
    pub micros_of_most: u64,
    /// The call with the most elements, or the longest call.
    pub worst: String,
    /// True if a command searches a list.
    pub searches_a_list: bool,
    /// The scripts that were called.
    pub scripts: BTreeSet<&'static str>,
}

/// Measures the times of calls from the server's slow log.
pub struct Slowest {
    names: BTreeMap<String, &'static str>,
}

/// The slow log ignores calls that take fewer microseconds.
const NOTED_MICROS: &str = "500";

impl Slowest {
    pub async fn of(redis: &TestRedis) -> Slowest {
        let set =
            ["CONFIG", "SET", "slowlog-log-slower-than", NOTED_MICROS, "slowlog-max-len", "4096"];
        let _: String = redis.ask(&set).await.unwrap();
        Slowest { names: names() }
    }

    /// The longest call since the last measurement: its microseconds, the 90th percentile, its
    /// name.
    pub async fn take(&self, redis: &TestRedis) -> (u64, u64, String) {
        let entries: Vec<redis::Value> = redis.ask(&["SLOWLOG", "GET", "-1"]).await.unwrap();
        let _: String = redis.ask(&["SLOWLOG", "RESET"]).await.unwrap();
        let read = |entry: redis::Value| {
            let redis::Value::Array(fields) = entry else { panic!("an entry of SLOWLOG") };
            let mut fields = fields.into_iter().skip(2);
            let micros: u64 = redis::from_redis_value(fields.next().unwrap()).unwrap();
            let words: Vec<Vec<u8>> = redis::from_redis_value(fields.next().unwrap()).unwrap();
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            (micros, words.take(4).collect::<Vec<_>>())
        };
        // Leaves out the test's own commands.
        let is_ours = |words: &[String]| !matches!(&*words[0], "SLOWLOG" | "CONFIG");
        let entries = entries.into_iter().map(read).filter(|(_, words)| is_ours(words));
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(micros, _)| std::cmp::Reverse(*micros));
        let tenth = entries.get(entries.len() / 10).map_or(0, |(micros, _)| *micros);
        let Some((micros, words)) = entries.into_iter().next() else {
            return (0, 0, String::new());
        };
        let lines: Vec<&str> = words.iter().map(String::as_str).collect();
        let script = script_of(&lines[0].to_ascii_lowercase(), &lines, &self.names);
        let named = script.map_or_else(|| words.join(" "), str::to_owned);
        // If the server does not know a script yet, the call contains its whole text.
        let named = named.lines().next().unwrap_or_default().to_owned();
        (micros, tenth, named)
    }
}

/// The names of the scripts by their hashes.
fn names() -> BTreeMap<String, &'static str> {
    let scripts = Scripts::new();
    let named = scripts.all().into_iter();
    named.map(|one| (one.script.get_hash().to_owned(), one.name)).collect()
}

/// Reads the commands of a server through `MONITOR`.
pub struct Monitor {
    reader: BufReader<unix::OwnedReadHalf>,
    _writer: unix::OwnedWriteHalf,
    names: BTreeMap<String, &'static str>,
    line: Vec<u8>,
    /// Keys that hold no more than this many elements.
    pub holding: BTreeMap<String, usize>,
}

/// One command: its words, with long ones cut, and the bytes of all its words.
struct Command {
    in_script: bool,
    words: Vec<String>,
    bytes: usize,
}

/// Words are cut to this length, which is longer than any key here.
const WORD_MAX: usize = 200;

impl Monitor {
    pub async fn open(url: &str) -> Monitor {
        let path = url.strip_prefix("unix://").expect("a URL of a Unix socket");
        let (reader, mut writer) = UnixStream::connect(path).await.unwrap().into_split();
        writer.write_all(b"MONITOR\r\n").await.unwrap();
        let names = names();
        let mut reader = BufReader::with_capacity(1 << 20, reader);
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).await.unwrap();
        assert_eq!(line, b"+OK\r\n");
        Monitor { reader, _writer: writer, names, line, holding: BTreeMap::new() }
    }

    /// The cost of the calls up to an `ECHO` of this marker.
    pub async fn cost_until(&mut self, marker: &str) -> Cost {
        let (mut cost, mut call) = (Cost::default(), Call::default());
        loop {
            self.line.clear();
            self.reader.read_until(b'\n', &mut self.line).await.unwrap();
            let command = parse(&self.line);
            if command.words.get(1).is_some_and(|word| word == marker) {
                call.end(&mut cost);
                return cost;
            }
            if !command.in_script {
                call.end(&mut cost);
                call = Call::default();
            }
            cost.searches_a_list |= command.words[0].eq_ignore_ascii_case("LREM");
            call.add(&command, &self.names, &self.holding);
        }
    }
}

/// The commands of one call.
#[derive(Debug, Default)]
struct Call {
    name: String,
    script: Option<&'static str>,
    commands: usize,
    elements: usize,
    bytes: usize,
    /// The command of a script that touches the most elements.
    most: (usize, String),
}

impl Call {
    fn add(
        &mut self,
        command: &Command,
        names: &BTreeMap<String, &'static str>,
        holding: &BTreeMap<String, usize>,
    ) {
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        let verb = words[0].to_ascii_lowercase();
        if self.name.is_empty() {
            self.script = script_of(&verb, &words, names);
            self.name = self.script.unwrap_or(&verb).to_owned();
        }
        let mut elements = elements_of(&verb, &words[1..]);
        if let ("zrange", Some(held)) = (&*verb, words.get(1).and_then(|key| holding.get(*key))) {
            elements = elements.min(*held);
        }
        if elements > self.most.0 {
            self.most = (elements, words[..words.len().min(6)].join(" "));
        }
        self.commands += 1;
        self.elements = self.elements.saturating_add(elements);
        self.bytes += command.bytes;
    }

    fn end(&mut self, cost: &mut Cost) {
        cost.scripts.extend(self.script);
        cost.commands = cost.commands.max(self.commands);
        cost.argument_bytes = cost.argument_bytes.max(self.bytes);
        if self.elements > cost.elements {
            cost.elements = self.elements;
            cost.worst = format!("{}: {} ({})", self.name, self.most.1, self.most.0);
        }
    }
}

/// The script that a command runs. If the server does not know the script, the command has its
/// text, whose second line names it.
fn script_of(
    verb: &str,
    words: &[&str],
    names: &BTreeMap<String, &'static str>,
) -> Option<&'static str> {
    let text = words.get(1)?;
    match verb {
        "evalsha" => names.get(*text).copied(),
        "eval" => names.values().find(|name| text.contains(&format!("-- {name}: "))).copied(),
        _ => None,
    }
}

/// `+<time> [<database> <client, or lua>] "<word>" "<word>" …`
fn parse(line: &[u8]) -> Command {
    let open = line.iter().position(|byte| *byte == b'[').expect("a line of MONITOR");
    let close = open + line[open..].iter().position(|byte| *byte == b']').unwrap();
    let in_script = line[open..close].ends_with(b" lua");
    let (mut words, mut at) = (Vec::new(), close + 1);
    while at < line.len() {
        if line[at] != b'"' {
            at += 1;
            continue;
        }
        let begin = at + 1;
        at = begin;
        while line[at] != b'"' {
            at += if line[at] == b'\\' { 2 } else { 1 };
        }
        let word = &line[begin..at.min(begin + WORD_MAX)];
        words.push(String::from_utf8_lossy(word).into_owned());
        at += 1;
    }
    Command { in_script, words, bytes: line.len() - close }
}

/// Stands for all elements of a key without a bound; exceeds every bound.
const ALL: usize = usize::MAX;
/// The longest list that a withdrawal searches (`LIST_MAX` in `lua/withdraw.lua`).
const LIST_MAX: usize = 1_000;
/// The most leases of a partition that a withdrawal reads (`LEASES_MAX` in `lua/withdraw.lua`).
const LEASES_MAX: usize = 20_000;
/// The most leases of a partition that a query reads to find the holders of messages
/// (`LEASES_MAX` in `crates/store/src/queries/messages.rs`).
pub const HOLDERS_MAX: usize = 5_000;
/// The most operations of a partition that Redis keeps (`KEPT_MAX` in
/// `crates/store/src/transitions/note_operation.rs`).
const OPERATIONS_MAX: usize = 1_000;

/// The most elements of keys that a command touches, according to its arguments. Add missing commands here.
fn elements_of(verb: &str, words: &[&str]) -> usize {
    let key = words.first().copied().unwrap_or_default();
    let of_index =
        key.ends_with(":destinations") || key.ends_with(":topics") || key.ends_with(":pods");
    match verb {
        "evalsha" | "eval" | "script" | "ping" | "echo" | "info" | "time" | "multi" | "exec"
        | "get" | "set" | "setex" | "pexpire" | "expire" | "type" | "waitaof" | "hget"
        | "hsetnx" | "hincrby" | "hexists" | "hstrlen" | "hlen" | "zcard" | "llen" | "scard"
        | "strlen" | "zscore" | "zcount" | "publish" | "spublish" | "subscribe" | "ssubscribe"
        | "client" | "hello" | "select" | "config" | "role" | "command" | "wait" | "dbsize"
        | "zremrangebyscore" | "sismember" | "zpopmin" | "acl" => 1,
        // Access by index, for which a list skips many elements at a time.
        "lindex" | "lset" => 1,
        "hmget" | "hdel" | "zmscore" | "zrem" | "sadd" | "srem" | "smismember" | "rpush"
        | "lpush" => words.len() - 1,
        "hset" | "zadd" => words.len() / 2,
        "del" | "unlink" | "exists" => words.len(),
        "lpop" | "hrandfield" => number(words, 1),
        // Scripts search only short lists.
        "lrem" => LIST_MAX,
        "ltrim" => number(words, 1).max(1),
        "lrange" => range(words),
        "lpos" if has(words, "MAXLEN") => {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case("MAXLEN"));
            at.map_or(ALL, |at| number(words, at + 1))
        }
        "zrange" if of_index => 1,
        "zrange" if has(words, "BYSCORE") => limit(words),
        // The query of holders. Pods run it once a second for the metrics, during any operation.
        "zrange" if key.ends_with(":leases") && range(words) == HOLDERS_MAX => 1,
        "zrange" if key.ends_with(":leases") && range(words) == ALL => LEASES_MAX,
        "zrange" if key.ends_with(":operations") => OPERATIONS_MAX,
        "zrange" => range(words),
        "zrangebyscore" if of_index => 1,
        "zrangebyscore" => limit(words),
        // Each call adds at most one operation.
        "zremrangebyrank" if key.ends_with(":operations") => 1,
        "zremrangebyrank" => range(words),
        "scan" | "hscan" | "zscan" | "sscan" => {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case("COUNT"));
            at.map_or(10, |at| number(words, at + 1))
        }
        // The audit log: adds an entry, and removes the oldest.
        "xadd" => 2,
        // Pods read the ended sessions of the console once a second, during any operation.
        "xrevrange" if key.ends_with(":sessions:ended") => 1,
        "xrevrange" => {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case("COUNT"));
            at.map_or(ALL, |at| number(words, at + 1))
        }
        // These grow with the number of definitions, not with the backlog.
        "hgetall" if of_index => 1,
        "hkeys" | "hvals" | "hgetall" | "smembers" | "keys" | "lpos" | "linsert" => ALL,
        _ => panic!("say in elements_of how much {verb} {words:?} touches"),
    }
}

fn has(words: &[&str], option: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(option))
}

fn number(words: &[&str], at: usize) -> usize {
    words.get(at).and_then(|word| word.parse().ok()).unwrap_or(1)
}

/// The length of a range by rank.
fn range(words: &[&str]) -> usize {
    let (Ok(from), Ok(to)) = (words[1].parse::<isize>(), words[2].parse::<isize>()) else {
        return ALL;
    };
    if (from < 0) != (to < 0) {
        return ALL;
    }
    (to - from + 1).max(0) as usize
}

/// The length of a range by score: its LIMIT.
fn limit(words: &[&str]) -> usize {
    let at = words.iter().position(|word| word.eq_ignore_ascii_case("LIMIT"));
    let count = at.and_then(|at| words.get(at + 2)?.parse::<isize>().ok());
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(ALL)
}
