//! Runs the operations on the real scripts in a real Redis through the store, and translates the
//! answers into the model's types.

mod ask;
mod harm;
mod keep;
mod words;

use ask::Told;
pub use ask::{GIVEN_UP, REASON};
#[allow(unused_imports)] // Only tests that restore states name it.
pub use keep::Kept;

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use domain::{
    Destination, IdempotencyCompare, OnExhausted, Processing, Sequence, Stamped, Tombstone,
};
use futures::future::join_all;
use redis::{Script, aio::MultiplexedConnection};
use sha2::{Digest, Sha256};
use store::{
    CatalogEntry as StoreKnown, DeadLetter, KeptOutput, KeptResult, Keys, LogEntry, OwnerToken,
    Paused, Store, StoreError,
};

use super::{
    op::{CatalogEntry, Op, Refusal, Reply, Token},
    snapshot::Fields,
    state::{Definition, Name, State},
    step,
};
use crate::support::redis::TestRedis;

/// A hint below this is not a time.
pub const FIRST_TIME: u64 = 1_000_000_000_000;

/// The length of leases, delays and takeover waits: none ends while a test runs.
pub const LONG: std::time::Duration = std::time::Duration::from_secs(3600);

/// The second of a rate: longer than a test, too.
pub const SECOND_US: u64 = 1_000_000_000_000;

/// Reads all keys in one round trip: the server's time, and the name, type and content of each key.
const DUMP: &str = r"
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local content
  if kind == 'hash' then content = redis.call('HGETALL', key)
  elseif kind == 'zset' then content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then content = redis.call('LRANGE', key, 0, -1)
  else content = {redis.call('GET', key)} end
  for at, value in ipairs(content) do content[at] = #value .. ':' .. value end
  all[#all + 1] = {key, kind, table.concat(content)}
end
local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), all}";

/// The values that [`DUMP`] joined: each is its length, a colon and its bytes.
fn values_of(mut joined: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    while let Some(colon) = joined.iter().position(|byte| *byte == b':') {
        let length: usize = std::str::from_utf8(&joined[..colon]).unwrap().parse().unwrap();
        let (value, rest) = joined[colon + 1..].split_at(length);
        // Records are not text; other code parses them.
        values.push(match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => value.iter().map(|byte| *byte as char).collect(),
        });
        joined = rest;
    }
    values
}

/// The digest of a body, without the id after it.
fn digest_of(digest_and_id: &str) -> String {
    digest_and_id.split(' ').next().unwrap_or_default().to_owned()
}

pub fn digest(body: &str) -> String {
    Sha256::digest(body)[..16].iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of a text that [`Real::dump`] made of non-text bytes.
pub fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u8).collect()
}

/// The type and content of a key.
pub type Typed = (String, Vec<String>);

/// The whole content of Redis.
#[derive(Debug, Clone, Default)]
pub struct Dump {
    /// The server's time.
    pub now_ms: u64,
    pub keys: BTreeMap<String, Arc<Typed>>,
}

pub struct Real {
    _redis: TestRedis,
    pub connection: MultiplexedConnection,
    pub store: Store,
    keys: Keys,
    owners: [OwnerToken; 2],
    /// The server identity that the scripts store.
    server: String,
    epochs: BTreeMap<u64, u64>,
    /// The model's epoch of the partition.
    epoch: u64,
    /// Versions by destination, because two destinations may be defined in the same millisecond.
    versions: BTreeMap<(Name, u64), u64>,
    secrets: BTreeMap<String, String>,
    /// The number of the first call.
    calls_from: u64,
    /// For each caller, the last call whose time is over.
    late: BTreeMap<usize, u64>,
    /// The value of the owner key that the senders have seen unchanged for a lease.
    seen_owner: String,
    /// The last definition of each destination, needed to read its messages.
    known: BTreeMap<Name, CatalogEntry>,
    /// The type and content of each key as the last dump read them, and the bytes that it read.
    dumped: BTreeMap<String, (Vec<u8>, Arc<Typed>)>,
    /// The parsed content of keys, by raw content and definition version.
    read: BTreeMap<String, (u64, Vec<String>, Fields)>,
}

pub fn number(text: &str) -> u64 {
    text.parse::<f64>().map_or(0, |number| number as u64)
}

fn destination(name: Name, definition: &Definition) -> Destination {
    let mut made = Destination::new(name.parse().unwrap(), "http://127.0.0.1:9/in");
    made.ordering = definition.ordering;
    made.processing = if definition.serial { Processing::Serial } else { Processing::Parallel };
    made.transform.kind = definition.kind;
    made.transform.stalls_max = definition.stalls_max;
    if definition.rate_burst > 0 {
        (made.transform.rate_per_second_max, made.transform.burst) = (1, definition.rate_burst);
    }
    made.backlog_max = definition.backlog_max;
    made.backlog_bytes_max = definition.backlog_bytes_max;
    made.idempotency_keys_max = definition.idempotency_keys_max;
    made.sources_max = definition.sources_max as u64;
    if definition.compares_keys {
        made.idempotency_compare = IdempotencyCompare::Key;
    }
    if !definition.has_window {
        made.idempotency_window_ms = 0;
    }
    made.log_max = definition.log_max;
    made.dead_letters_max = definition.dead_letters_max;
    made.dead_letters_age_max_ms = if definition.letters_age { LONG.as_millis() as u64 } else { 0 };
    made.on_exhausted = match definition.gives_up {
        None => OnExhausted::Halt,
        Some(Tombstone::DeadLettered) => OnExhausted::DeadLetter,
        Some(_) => OnExhausted::Drop,
    };
    made.previous_keys_max = definition.previous_keys_max;
    made
}

pub fn definition_json(name: Name, definition: &Definition) -> String {
    type Written = HashMap<(Name, Definition), String>;
    thread_local!(static WRITTEN: RefCell<Written> = RefCell::default());
    let write = || serde_json::to_string(&destination(name, definition)).unwrap();
    WRITTEN.with_borrow_mut(|all| all.entry((name, *definition)).or_insert_with(write).clone())
}

impl Real {
    pub async fn start() -> Real {
        // No data must outlast the test. `Real::save` uses the logical databases.
        let databases = keep::DATABASES.to_string();
        let args = ["--appendonly", "no", "--databases", &databases];
        let redis = TestRedis::start_with(&args).await;
        // Without channels: scripts must work the same whether or not they may publish.
        redis.acl(&["~*", "resetchannels", "+@all"]).await;
        let settings = config::Redis {
            url: redis.url_as_svc(),
            partitions: 1,
            timeout_ms: 30_000,
            ..config::Redis::default()
        };
        // As long as leases, so that a slow test makes no call late.
        let window_ms = 2 * LONG.as_millis() as u64;
        let _ = faults::planted_lua::CALL_MS_MAX.set(window_ms);
        let _ = faults::planted_lua::SUSPECT_DELAY_MS.set(window_ms);
        let _ = faults::planted_lua::SECOND_US.set(SECOND_US);
        let (store, _) = Store::open(&settings, LONG).await.unwrap();
        let calls_from = (store.server_time_ms().await.unwrap() + window_ms / 2) * 1000;
        let mut connection = redis.connection().await;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.unwrap();
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.expect("Redis tells who it is").to_owned()
        };
        let server = format!("{}{}", field("run_id:"), field("master_replid:"));
        Real {
            _redis: redis,
            connection,
            keys: store.keys().clone(),
            store,
            owners: [OwnerToken::random(), OwnerToken::random()],
            server,
            epochs: BTreeMap::new(),
            epoch: 0,
            versions: BTreeMap::new(),
            secrets: BTreeMap::new(),
            calls_from,
            late: BTreeMap::new(),
            seen_owner: String::new(),
            known: BTreeMap::new(),
            dumped: BTreeMap::new(),
            read: BTreeMap::new(),
        }
    }

    pub async fn run<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let result = redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.connection).await;
        result.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub async fn reset(&mut self) {
        self.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
        self.run::<()>(&["FLUSHALL"]).await;
        self.epochs.clear();
        self.versions.clear();
        self.secrets.clear();
        self.known.clear();
        self.dumped.clear();
        self.read.clear();
        self.seen_owner.clear();
        self.late.clear();
        self.store.forget_epochs();
        self.store.init_epoch().await.unwrap();
        self.learn(&State::default()).await.unwrap();
    }

    /// The parsed content of a key from when it last had this raw content, under the same
    /// definition.
    pub fn read_before(&self, name: Name, key: &str, raw: &[String]) -> Option<Fields> {
        let version = self.known.get(name)?.version;
        let (under, held, fields) = self.read.get(key)?;
        (*under == version && held == raw).then(|| fields.clone())
    }

    /// Stores the parsed content of a key.
    pub fn note_read(&mut self, name: Name, key: &str, raw: Vec<String>, fields: Fields) {
        let Some(known) = self.known.get(name) else { return };
        self.read.insert(key.to_owned(), (known.version, raw, fields));
    }

    /// Reads every key. A key whose bytes have not changed is not parsed again.
    pub async fn dump(&mut self) -> Dump {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(DUMP));
        let (now_ms, all): (u64, Vec<(String, String, Vec<u8>)>) =
            SCRIPT.prepare_invoke().invoke_async(&mut self.connection).await.unwrap();
        let mut before = std::mem::take(&mut self.dumped);
        for (key, kind, bytes) in all {
            let content = match before.remove(&key) {
                Some((old, content)) if old == bytes && content.0 == kind => content,
                _ => Arc::new((kind, values_of(&bytes))),
            };
            self.dumped.insert(key, (bytes, content));
        }
        let keys = self.dumped.iter().map(|(key, (_, content))| (key.clone(), content.clone()));
        Dump { now_ms, keys: keys.collect() }
    }

    /// A digest of everything in Redis.
    pub async fn digest(&mut self) -> String {
        self.run(&["DEBUG", "DIGEST"]).await
    }

    /// The pending messages of a destination, as the store reads them.
    pub async fn messages(&mut self, name: Name) -> Vec<Stamped> {
        let Some(known) = self.known.get(name).copied() else { return Vec::new() };
        let key = self.keys.destination(&name.parse().unwrap()).messages();
        let sequences: Vec<Sequence> = self.run(&["HKEYS", &key]).await;
        if sequences.is_empty() {
            return Vec::new();
        }
        let messages = self.store.messages(&self.known_of(&known), &sequences).await.unwrap();
        messages.into_iter().flatten().collect()
    }

    /// The dead letters of a destination, as the store reads them.
    pub async fn letters(&mut self, name: Name) -> Vec<DeadLetter> {
        let Some(known) = self.known.get(name).copied() else { return Vec::new() };
        let known = self.known_of(&known);
        let mut letters = self.store.dead_letters(&known, 0, 1000).await.unwrap();
        self.store.fill_letters(&known, &mut letters).await.unwrap();
        letters
    }

    /// The log of a destination, oldest entry first.
    pub async fn log(&mut self, name: Name) -> Vec<(Sequence, LogEntry)> {
        let Some(known) = self.known.get(name).copied() else { return Vec::new() };
        let known = self.known_of(&known);
        let mut order = self.store.log_newest(&known, None, 1000).await.unwrap().sequences;
        order.reverse();
        let entries = self.store.log_entries(&known, &order).await.unwrap();
        let entries =
            entries.into_iter().map(|entry| entry.expect("what is in order has an entry"));
        order.into_iter().zip(entries).collect()
    }

    /// The model's number for this epoch; 0 if it has none.
    pub fn epoch(&self, actual: u64) -> u64 {
        self.epochs.iter().find(|(_, known)| **known == actual).map_or(0, |(epoch, _)| *epoch)
    }

    fn version(&self, name: &str, actual: u64) -> u64 {
        let mut of_name = self.versions.iter().filter(|((of, _), _)| *of == name);
        of_name.find(|(_, known)| **known == actual).map_or(0, |((_, version), _)| *version)
    }

    /// A member of the leases, with the model's secret instead of the real one.
    pub fn lease(&self, member: &str) -> String {
        let (position, secret) = member.rsplit_once('/').expect("destination/sequence/secret");
        let known = self.secrets.iter().find(|(_, real)| *real == secret);
        format!("{position}/{}", known.map_or(secret, |(name, _)| name))
    }

    pub fn string(&self, key: &str, value: &str, when: impl Fn(&str) -> String) -> String {
        let words: Vec<&str> = value.splitn(4, ' ').collect();
        if key == "owner" {
            let owner = self.owners.iter().position(|token| token.as_str() == words[0]);
            return format!("owner {}", owner.map_or("?".into(), |at| at.to_string()));
        }
        if key.starts_with("calls:") {
            let bytes = bytes_of(value);
            let mut rest = &bytes[1..];
            let number: u64 = rmp_serde::from_read(&mut rest).expect("a call has its number");
            return number.wrapping_sub(self.calls_from).to_string();
        }
        if key.contains(":result:") {
            let kept = KeptResult::decode(&bytes_of(value)).expect("a result");
            let body = match &kept.output {
                KeptOutput::Body(_, bytes) => String::from_utf8_lossy(bytes),
                _ => "".into(),
            };
            let dropped = kept.output == KeptOutput::Dropped;
            return step::kept(self.epoch(kept.epoch), dropped, &body);
        }
        let (epoch, body) = (self.epoch(number(words[0])), digest_of(words[3]));
        format!("{epoch} {} {} {body}", words[1], when(words[2]))
    }

    /// The message stamped under an idempotency key, while it is pending.
    fn unique(&self, value: &str) -> String {
        let words: Vec<&str> = value.splitn(4, ' ').collect();
        let (epoch, body) = (self.epoch(number(words[0])), digest_of(words[3]));
        format!("{epoch} {} {body}", words[1])
    }

    pub fn field(&self, field: &str, value: &str, key: &str) -> String {
        match (key, field) {
            ("epoch", "server") if value == self.server => "This".to_owned(),
            ("epoch", "server") => "Other".to_owned(),
            ("epoch", "epoch" | "removed_epoch") | (_, "born") => {
                self.epoch(number(value)).to_string()
            }
            ("epoch", "lease_ms") => value.to_owned(),
            // Left out: its effect shows when a destination is created again.
            ("epoch", "removed_version") => String::new(),
            // '0' means that releases need not wait.
            ("epoch", _) => value.to_owned(),
            ("destinations", "*history") if self.server.ends_with(value) => "This".to_owned(),
            ("destinations", "*" | "*floor" | "*history") => value.to_owned(),
            ("destinations", _) => {
                let words: Vec<&str> = value.splitn(3, ' ').collect();
                let (paused, born) = words[1].split_once(",@").expect("what is paused, and born");
                let (version, born) = (number(words[0]), self.epoch(number(born)));
                format!("{} {paused} {born}", self.version(field, version))
            }
            ("removed-definitions", _) => {
                let version = value.split(' ').next().unwrap_or_default();
                self.version(field, number(version)).to_string()
            }
            _ if key.ends_with(":idempotency-keys") => self.unique(value),
            // The window is longer than the test.
            (_, "remembered") => value.rsplit(' ').next().unwrap_or_default().to_owned(),
            (_, "versions") => {
                let of = |line: &str| number(line.split(' ').next().unwrap_or_default());
                let versions = value.lines().map(|line| self.version(&key["d:".len()..], of(line)));
                versions.map(|version| version.to_string()).collect::<Vec<_>>().join(" ")
            }
            (_, "version") => self.version(&key["d:".len()..], number(value)).to_string(),
            _ => value.to_owned(),
        }
    }

    /// Learns the real times of this state's epoch and versions. Each must be later than all earlier ones.
    async fn learn(&mut self, state: &State) -> Result<(), String> {
        if !self.epochs.contains_key(&state.epoch) {
            let key = self.keys.partition(0).epoch();
            let actual: Option<u64> = self.run(&["HGET", &key, "epoch"]).await;
            let Some(actual) = actual else { return Ok(()) };
            let last = self.epochs.values().max().copied().unwrap_or_default();
            if actual <= last {
                return Err(format!("an epoch was handed out again: {actual} after {last}"));
            }
            self.epochs.insert(state.epoch, actual);
        }
        self.epoch = state.epoch;
        for (name, found) in &state.destinations {
            self.learn_birth(name, found.born).await?;
            let (version, definition) = (found.version, found.definition);
            self.known.insert(name, CatalogEntry { name, version, definition });
            if !self.versions.contains_key(&(*name, version)) {
                let key = self.keys.destination(&name.parse().unwrap()).hash();
                let actual: Option<u64> = self.run(&["HGET", &key, "version"]).await;
                let Some(actual) = actual else { return Ok(()) };
                if self.version(name, actual) != 0 {
                    return Err(format!("the version {actual} was given again"));
                }
                self.versions.insert((*name, version), actual);
            }
        }
        Ok(())
    }

    /// A destination may be created in an epoch above that of the partition.
    async fn learn_birth(&mut self, name: Name, born: u64) -> Result<(), String> {
        if self.epochs.contains_key(&born) {
            return Ok(());
        }
        let key = self.keys.destination(&name.parse().unwrap()).hash();
        let Some(actual) = self.run::<Option<u64>>(&["HGET", &key, "born"]).await else {
            return Ok(());
        };
        let last = self.epochs.values().max().copied().unwrap_or_default();
        if actual <= last {
            return Err(format!("{name} was born in {actual}, after {last}"));
        }
        self.epochs.insert(born, actual);
        Ok(())
    }

    fn actual_epoch(&self, epoch: u64) -> u64 {
        self.epochs.get(&epoch).copied().unwrap_or(1)
    }

    fn known_of(&self, known: &CatalogEntry) -> StoreKnown {
        let destination = destination(known.name, &known.definition);
        let version = self.versions.get(&(known.name, known.version)).copied().unwrap_or(1);
        StoreKnown {
            partition: 0,
            destination,
            of_all_shards: None,
            version,
            paused: Paused::default(),
            born: 0,
        }
    }

    /// Runs the operation on Redis. In the model it leads to `state`.
    pub async fn apply(&mut self, op: &Op, memory_full: bool, state: &State) -> Reply {
        if memory_full {
            self.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        }
        let answer = self.ask(op).await;
        if memory_full {
            self.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
        }
        if let Err(problem) = self.learn(state).await {
            return Reply::Refused(Refusal::Other(problem));
        }
        self.reply(answer)
    }

    fn reply(&mut self, answer: Result<Told, StoreError>) -> Reply {
        match answer {
            Ok(told) => told(self),
            Err(error) => Reply::Refused(self.refusal(error)),
        }
    }

    /// True if an operation does not need the answers of operations that have not run yet.
    pub fn can_begin(&self, op: &Op) -> bool {
        let is_known = |token: &Token| self.secrets.contains_key(&token.secret);
        match op {
            Op::Complete { items, .. } => items.iter().all(|(token, _)| is_known(token)),
            _ => true,
        }
    }

    /// Runs operations on Redis whose calls may run together: the first alone, the others in one
    /// call. In the model they lead to `state`.
    pub async fn apply_together(&mut self, ops: &[Op], state: &State) -> Vec<Reply> {
        let calls = ops.iter().map(|op| self.begin(op).expect("it goes together with others"));
        let calls: Vec<_> = calls.collect();
        let answers = join_all(calls).await;
        if let Err(problem) = self.learn(state).await {
            return vec![Reply::Refused(Refusal::Other(problem))];
        }
        answers.into_iter().map(|answer| self.reply(answer)).collect()
    }
}
