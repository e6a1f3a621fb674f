//! A reference model of lanes whose messages consumers take. Compares random operations of an
//! owner, an operator and two consumers with the real scripts: `consume`, `acknowledge`,
//! `release`, `postpone`, `halt` and `withdraw`.
//!
//! After each operation the answers and all leases in Redis must be equal. Operations let
//! deadlines pass. Two rules are checked apart from the model: an accepted message is never
//! leased again, and a repeated accept that counted before is answered `settled`.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use redis::{Value, aio::MultiplexedConnection, cmd};
use store::Keys;

use self::model::{Entry, Lease, Look, Model, Run, Stand};
use crate::{
    scripts::{Arrival, Call, Calls, RECORD},
    support::redis::TestRedis,
};

const LANES: [&str; 3] = ["a", "b", "c"];
/// The messages of a lane at first.
const LENGTH: u64 = 6;
const OWNER: &str = "me";
/// Longer than a test.
const BACKOFF_MS: &str = "600000";

/// An action of one actor in a small world. All actions are in the first lane.
#[derive(Debug)]
pub enum Act {
    /// The owner reads at most this many messages of the lane.
    Look(usize),
    /// The owner settles the messages that it got last.
    Settle,
    /// The owner postpones a message that a consumer did not accept: it comes again after a backoff.
    Postpone,
    /// A consumer leases at most this many messages.
    Consume(usize),
    /// That consumer acknowledges one of the messages that it leased last, with this verb. The number counts from 0.
    Acknowledge(&'static str, usize),
    /// The owner withdraws a pending message. The number counts from 0.
    Withdraw(usize),
    /// The lease or the backoff of the lane is over.
    PassDeadline,
    /// A new epoch begins: Redis may have lost data.
    RaiseEpoch,
    /// Leases from before the epoch are over.
    EndWait,
}

/// An operation, the answer of Redis, and the answer of the model.
type Done = (String, String, String);

/// A lease of a consumer: the secret, and the messages by lane.
type Held = (String, Vec<(String, u64)>);

/// The model beside a real Redis.
pub struct Both {
    _redis: TestRedis,
    connection: MultiplexedConnection,
    calls: Calls,
    model: Model,
    /// The last sequence.
    last: u64,
    /// All secrets so far. The test uses stale ones too.
    secrets: Vec<String>,
    held: BTreeMap<usize, Held>,
    /// The messages that the owner got of each lane.
    runs: BTreeMap<&'static str, Run>,
    /// The accepts that counted.
    counted: BTreeSet<(&'static str, String, u64)>,
    happened: BTreeMap<String, u64>,
}

impl Both {
    /// Starts with a new Redis.
    pub async fn start() -> Both {
        let redis = TestRedis::start().await;
        let connection = redis.connection().await;
        let calls = Calls::new(&Keys::new("reseq", 1), "erp");
        let mut both = Both {
            _redis: redis,
            connection,
            calls,
            model: Model::default(),
            last: 0,
            secrets: Vec::new(),
            held: BTreeMap::new(),
            runs: BTreeMap::new(),
            counted: BTreeSet::new(),
            happened: BTreeMap::new(),
        };
        both.begin().await;
        both
    }

    /// Begins again with an empty Redis. All messages are ready.
    async fn begin(&mut self) {
        cmd("FLUSHALL").exec_async(&mut self.connection).await.unwrap();
        self.calls = Calls::new(&Keys::new("reseq", 1), "erp");
        self.run(self.calls.init_epoch()).await;
        let defined = self.run(self.calls.define("{}")).await;
        type Defined = (String, u8, u8, String, String);
        self.calls.version = redis::from_redis_value::<Defined>(defined).unwrap().0;
        let owned = self.run(self.calls.acquire_partition(OWNER)).await;
        self.calls.epoch = redis::from_redis_value::<(String, u64)>(owned).unwrap().0;
        self.model = Model { epoch: self.calls.epoch.parse().unwrap(), ..Model::default() };
        self.model.pending = LANES.iter().map(|lane| (*lane, BTreeMap::new())).collect();
        (self.last, self.secrets) = (0, vec!["nobody".to_owned()]);
        self.held.clear();
        self.runs.clear();
        self.counted.clear();
        let lanes: Vec<usize> = (0..LANES.len() * LENGTH as usize).map(|n| n % 3).collect();
        self.add(&lanes, Stand::Ready).await;
        // The first call in an epoch decides whether Redis may have lost leases.
        self.run(self.calls.consume("first", 1, &[])).await;
    }

    async fn run(&mut self, call: Call) -> Value {
        call.run(&mut self.connection)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", call.script))
    }

    /// Adds messages to lanes, given by their index.
    async fn add(&mut self, lanes: &[usize], stand: Stand) {
        self.calls.stand = if stand == Stand::Ready { "ready" } else { "waiting" };
        let arrivals: Vec<_> = lanes.iter().map(|at| Arrival::new(1 + at, "", RECORD)).collect();
        self.run(self.calls.ingest(&LANES, &[], &arrivals)).await;
        for at in lanes {
            self.last += 1;
            self.model.pending.get_mut(LANES[*at]).unwrap().insert(self.last, stand);
        }
    }

    /// Compares this many random operations. Returns the first difference.
    pub async fn compare(&mut self, rng: &mut StdRng, operations: u64) -> Result<(), String> {
        for number in 0..operations {
            if number % 200 == 199 {
                self.begin().await;
            }
            let before = format!("{:?}", self.model);
            let done = self.step(rng).await;
            self.check(done, &before).await?;
        }
        Ok(())
    }

    /// Runs every interleaving of the actions of these actors, each time with an empty Redis.
    /// Returns the number of interleavings, or the first difference.
    pub async fn interleave(&mut self, world: &[&[Act]]) -> Result<usize, String> {
        let orders = orders(&world.iter().map(|acts| acts.len()).collect::<Vec<_>>());
        for order in &orders {
            self.begin().await;
            let mut done = vec![0; world.len()];
            for &actor in order {
                let before = format!("{order:?}, {done:?}: {:?}", self.model);
                let outcome = self.act(actor, &world[actor][done[actor]]).await;
                done[actor] += 1;
                self.check(outcome, &before).await?;
            }
        }
        Ok(orders.len())
    }

    /// Compares an answer, and the stored data, with the model.
    async fn check(&mut self, done: Done, before: &str) -> Result<(), String> {
        let (what, real, model) = done;
        *self.happened.entry(format!("{what} {}", kind(&model))).or_default() += 1;
        if real != model {
            return Err(format!("{what}: Redis says {real:?}, the model {model:?}: {before}"));
        }
        let (stored, known) = (self.state().await, &mut self.model.entries);
        known.retain(|_, entry| *entry != Entry::default());
        if stored != *known {
            return Err(format!("{what}: {stored:?}, not {known:?}: {before}"));
        }
        Ok(())
    }

    /// The operations and answers so far, and how often each occurred.
    pub fn happened(&self) -> &BTreeMap<String, u64> {
        &self.happened
    }

    /// A random operation.
    async fn step(&mut self, rng: &mut StdRng) -> Done {
        let at = rng.random_range(0..LANES.len());
        let lane = LANES[at];
        match rng.random_range(0..100) {
            0..18 => self.look(lane, rng.random_range(1..=9)).await,
            18..30 => self.settle(lane).await,
            30..36 => self.decide(lane, rng.random_bool(0.3)).await,
            36..50 => {
                let mut lanes = LANES.to_vec();
                lanes.rotate_left(at);
                lanes.truncate(rng.random_range(1..=LANES.len()));
                self.consume(rng.random_range(1..=8), &lanes).await.0
            }
            50..72 => self.acknowledge_any(rng, lane).await,
            72..76 => self.repeat(rng).await,
            76..84 => {
                let all = self.processed(lane);
                // Prefer halted messages, because they are rare.
                let halted = rng.random_bool(0.7).then(|| self.halted(lane)).flatten();
                let is_owner = rng.random_bool(if halted.is_some() { 0.2 } else { 0.6 });
                match halted.or_else(|| all.choose(rng).copied()) {
                    Some(one) => self.withdraw(lane, one, is_owner).await,
                    None => self.end_wait().await,
                }
            }
            84..91 => self.pass_deadline(lane).await,
            91..95 => {
                let stand = if rng.random_bool(0.5) { Stand::Ready } else { Stand::Waiting };
                self.add(&[at], stand).await;
                ("add".to_owned(), String::new(), String::new())
            }
            95..98 => self.process().await,
            98 => self.raise_epoch().await,
            _ => self.end_wait().await,
        }
    }

    async fn act(&mut self, actor: usize, act: &Act) -> Done {
        let lane = LANES[0];
        match *act {
            Act::Look(most) => self.look(lane, most).await,
            Act::Settle => self.settle(lane).await,
            Act::Postpone => self.decide(lane, false).await,
            Act::Consume(most) => {
                let (done, taken) = self.consume(most, &[lane]).await;
                let secret = self.secrets.last().cloned().unwrap_or_default();
                self.held.insert(actor, (secret, taken));
                done
            }
            Act::Acknowledge(what, number) => {
                let held = self.held.get(&actor).cloned().unwrap_or_default();
                match held.1.get(number) {
                    Some((_, sequence)) => self.acknowledge(what, lane, &held.0, *sequence).await,
                    None => (what.to_owned(), String::new(), String::new()),
                }
            }
            Act::Withdraw(number) => match self.processed(lane).get(number) {
                Some(sequence) => self.withdraw(lane, *sequence, true).await,
                None => self.end_wait().await,
            },
            Act::PassDeadline => self.pass_deadline(lane).await,
            Act::RaiseEpoch => self.raise_epoch().await,
            Act::EndWait => self.end_wait().await,
        }
    }

    fn processed(&self, lane: &str) -> Vec<u64> {
        let all = self.model.pending[lane].iter().filter(|(_, stand)| **stand != Stand::Waiting);
        all.map(|(sequence, _)| *sequence).collect()
    }

    fn halted(&self, lane: &str) -> Option<u64> {
        let mut all = self.model.pending[lane].iter();
        all.find(|(_, stand)| **stand == Stand::Halted).map(|(sequence, _)| *sequence)
    }

    /// The owner reads a lane.
    async fn look(&mut self, lane: &'static str, most: usize) -> Done {
        let answer = self.run(self.calls.look(OWNER, lane, 0, most)).await;
        let run = self.model.look(lane, most);
        let said = format!("{run:?}");
        self.runs.insert(lane, run);
        ("look".to_owned(), format!("{:?}", read_run(answer)), said)
    }

    /// The owner settles the messages that it got last, except one that a consumer did not accept.
    async fn settle(&mut self, lane: &'static str) -> Done {
        let (run, refused) = self.runs.get(lane).cloned().unwrap_or_default();
        let left = run.iter().rfind(|one| Some(**one) != refused);
        if let Some(upto) = left {
            self.run(self.calls.look(OWNER, lane, *upto, 0)).await;
            self.model.settle(lane, *upto);
            self.runs.insert(lane, (refused.into_iter().collect(), refused));
        }
        let said = if left.is_some() { "messages" } else { "nothing" };
        ("settle".to_owned(), said.to_owned(), said.to_owned())
    }

    /// The owner halts or postpones a message that a consumer did not accept.
    async fn decide(&mut self, lane: &'static str, halts: bool) -> Done {
        let run = self.runs.get(lane).cloned().unwrap_or_default();
        let what = if halts { "halt" } else { "postpone" };
        let head =
            self.model.pending[lane].iter().next().map(|(sequence, stand)| (*sequence, *stand));
        let (Some(refused), Some((sequence, Stand::Ready))) = (run.1, head) else {
            return (what.to_owned(), String::new(), String::new());
        };
        if refused == sequence {
            let call = match halts {
                true => self.calls.halt(OWNER, lane, sequence),
                false => self.calls.postpone(OWNER, lane, sequence, BACKOFF_MS),
            };
            self.run(call).await;
            self.model.entries.entry(lane).or_default().refusal = None;
            self.runs.remove(lane);
            if halts {
                self.model.postponed.remove(lane);
                self.model.pending.get_mut(lane).unwrap().insert(sequence, Stand::Halted);
            } else {
                self.model.postponed.insert(lane, sequence);
            }
        }
        (what.to_owned(), "done".to_owned(), "done".to_owned())
    }

    /// A consumer leases at most this many messages. Also returns the leased messages.
    async fn consume(&mut self, most: usize, lanes: &[&'static str]) -> (Done, Vec<(String, u64)>) {
        let secret = format!("s{}", self.secrets.len());
        self.end_other_waits().await;
        let call = self.calls.consume(&secret, most, lanes);
        let answer = self.run(call.clone()).await;
        let mut real = taken(&answer);
        let model = self.model.consume(&secret, most, lanes);
        self.secrets.push(secret);
        // The answer may be lost, so the repeated call must return the same.
        if taken(&self.run(call).await) != real {
            real.push(("not again".to_owned(), 0));
        }
        let is_accepted = |(lane, sequence): &&(String, u64)| {
            self.counted.iter().any(|(of, _, upto)| of == lane && sequence <= upto)
        };
        if let Some(again) = real.iter().find(is_accepted).cloned() {
            real.push(("accepted before".to_owned(), again.1));
        }
        (("consume".to_owned(), format!("{real:?}"), format!("{model:?}")), model)
    }

    /// The model has only backoffs. All other times in hints pass before a consumer calls.
    async fn end_other_waits(&mut self) {
        for lane in LANES.iter().filter(|lane| !self.model.is_postponed(lane)) {
            let mut hint = cmd("ZADD");
            hint.arg(self.calls.keys.lanes()).arg("XX").arg(0).arg(*lane);
            hint.exec_async(&mut self.connection).await.unwrap();
        }
    }

    async fn acknowledge_any(&mut self, rng: &mut StdRng, lane: &'static str) -> Done {
        let what =
            *["accept", "accept", "accept", "extend", "refuse", "requeue"].choose(rng).unwrap();
        let lease = self.model.entries.get(lane).and_then(|entry| entry.lease.clone());
        let secret = match lease {
            Some(lease) if rng.random_bool(0.8) => lease.secret,
            _ => self.secrets.choose(rng).unwrap().clone(),
        };
        let all: Vec<u64> = self.model.pending[lane].keys().copied().collect();
        let sequence = all.choose(rng).copied().unwrap_or(1);
        self.acknowledge(what, lane, &secret, sequence).await
    }

    async fn acknowledge(
        &mut self,
        what: &'static str,
        lane: &'static str,
        secret: &str,
        sequence: u64,
    ) -> Done {
        let call = self.calls.acknowledge(what, &[(lane, secret, sequence)]);
        let answer = words(&self.run(call).await);
        let said = self.model.acknowledge(what, lane, secret, sequence);
        if what == "accept" && said == "ok" {
            self.counted.insert((lane, secret.to_owned(), sequence));
        }
        (what.to_owned(), answer[1].clone(), said.to_owned())
    }

    /// An accept that counted is repeated.
    async fn repeat(&mut self, rng: &mut StdRng) -> Done {
        let all: Vec<_> = self.counted.iter().cloned().collect();
        let Some((lane, secret, sequence)) = all.choose(rng) else { return self.end_wait().await };
        let mut done = self.acknowledge("accept", lane, secret, *sequence).await;
        (done.0, done.2) = ("repeat".to_owned(), "settled".to_owned());
        done
    }

    /// A consumer's lease expires, and a backoff is over.
    async fn pass_deadline(&mut self, lane: &'static str) -> Done {
        self.model.postponed.remove(lane);
        let lease = self.model.entries.get_mut(lane).and_then(|entry| entry.lease.as_mut());
        if let Some(lease) = lease {
            lease.is_over = true;
            let leases = self.calls.keys.consumer_leases();
            let connection = &mut self.connection;
            let stored: Vec<u8> =
                cmd("HGET").arg(&leases).arg(lane).query_async(connection).await.unwrap();
            let mut stored: Stored = rmp_serde::from_slice(&stored).unwrap();
            stored.insert("deadline".to_owned(), 1.into());
            let stored = rmp_serde::to_vec(&stored).unwrap();
            let mut set = cmd("HSET");
            set.arg(leases).arg(lane).arg(stored).exec_async(&mut self.connection).await.unwrap();
        }
        ("deadline".to_owned(), String::new(), String::new())
    }

    /// The owner withdraws a message, or an operator requests it.
    async fn withdraw(&mut self, lane: &'static str, sequence: u64, is_owner: bool) -> Done {
        let who = if is_owner { OWNER } else { "" };
        let call = self.calls.withdraw("c", who, &[lane], &[(1, sequence)]);
        let answer = words(&self.run(call).await);
        let said = self.model.withdraw(lane, sequence, is_owner);
        let what = if is_owner { "withdraw" } else { "cancel" };
        (what.to_owned(), answer[0].clone(), said.to_owned())
    }

    /// A waiting message is processed.
    async fn process(&mut self) -> Done {
        let secret = format!("p{}", self.calls_made());
        let claimed = words(&self.run(self.calls.claim(&secret, 1)).await);
        let claimed = claimed.get(1).and_then(|sequence| sequence.parse::<u64>().ok());
        if let Some(sequence) = claimed {
            let at = LANES.iter().position(|lane| self.model.pending[lane].contains_key(&sequence));
            let at = at.unwrap();
            self.run(self.calls.complete(&secret, &LANES, &[(at + 1, sequence)])).await;
            self.model.pending.get_mut(LANES[at]).unwrap().insert(sequence, Stand::Ready);
        }
        ("process".to_owned(), String::new(), String::new())
    }

    fn calls_made(&self) -> u64 {
        self.happened.values().sum()
    }

    /// A new epoch begins, because Redis may have lost data. The owner knows the new epoch.
    async fn raise_epoch(&mut self) -> Done {
        self.model.epoch += 1;
        self.model.waits = true;
        self.calls.epoch = self.model.epoch.to_string();
        let mut raise = cmd("HSET");
        raise.arg(self.calls.keys.partition.epoch()).arg("epoch").arg(self.model.epoch);
        raise.exec_async(&mut self.connection).await.unwrap();
        ("epoch".to_owned(), String::new(), String::new())
    }

    /// Enough time has passed that leases from before the epoch are over.
    async fn end_wait(&mut self) -> Done {
        if self.model.waits {
            self.model.waits = false;
            // The first call in an epoch begins the wait.
            self.run(self.calls.consume("first", 1, &[])).await;
            let mut end = cmd("HSET");
            end.arg(self.calls.keys.hash()).arg("consumers_from_ms").arg(0);
            end.exec_async(&mut self.connection).await.unwrap();
        }
        ("wait".to_owned(), String::new(), String::new())
    }

    async fn state(&mut self) -> BTreeMap<&'static str, Entry> {
        let keys = &self.calls.keys;
        let stored: BTreeMap<String, Vec<u8>> = cmd("HGETALL")
            .arg(keys.consumer_leases())
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let mut ends = cmd("ZRANGE");
        ends.arg(keys.consumer_lease_ends()).arg(0).arg(-1).arg("WITHSCORES");
        let ends: Vec<(String, f64)> = ends.query_async(&mut self.connection).await.unwrap();
        let named = |lane: &str| LANES.into_iter().find(|one| *one == lane).unwrap();
        let mut entries: BTreeMap<&'static str, Entry> = BTreeMap::new();
        for (lane, bytes) in &stored {
            let stored: Stored = rmp_serde::from_slice(bytes).unwrap();
            entries.insert(named(lane), entry_of(&stored));
        }
        for (lane, end) in &ends {
            let look = if *end == 0.0 { Look::Now } else { Look::WhenItEnds };
            entries.entry(named(lane)).or_default().look = look;
        }
        entries
    }
}

/// An entry, as `lua/include/consumers.lua` describes it.
type Stored = serde_json::Map<String, serde_json::Value>;

fn entry_of(stored: &Stored) -> Entry {
    let number = |field: &str| stored.get(field).and_then(serde_json::Value::as_u64);
    let lease = stored.get("secret").map(|secret| Lease {
        secret: secret.as_str().unwrap().to_owned(),
        epoch: number("epoch").unwrap(),
        leased: number("leased").unwrap(),
        is_shared: stored.contains_key("is_shared"),
        is_over: number("deadline") == Some(1),
    });
    let refusal = stored.get("refusal").map(|refusal| {
        let text = |at: usize| refusal[at].as_str().unwrap();
        (text(0).parse().unwrap(), text(1).is_empty())
    });
    let most = number("most").zip(number("suspects"));
    let accepted = number("accepted").unwrap();
    Entry { accepted, lease, refusal, most, look: Look::Never }
}

/// The kind of an answer, without its numbers.
fn kind(answer: &str) -> String {
    let is_list = answer.starts_with(['[', '(']);
    let words = answer.replace(|one: char| one.is_ascii_digit(), "").replace(", ", "");
    match (is_list, answer.contains("[]")) {
        (true, true) => "nothing".to_owned(),
        (true, false) if answer.contains("Some") => "a refusal".to_owned(),
        (true, false) => "messages".to_owned(),
        (false, _) => words,
    }
}

/// All interleavings of actors with these numbers of steps. Each names the actor of each step.
fn orders(steps: &[usize]) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for actor in (0..steps.len()).filter(|actor| steps[*actor] > 0) {
        let mut rest = steps.to_vec();
        rest[actor] -= 1;
        all.extend(orders(&rest).into_iter().map(|order| [vec![actor], order].concat()));
    }
    if all.is_empty() { vec![Vec::new()] } else { all }
}

/// The lanes and sequences in an answer of `consume`.
fn taken(answer: &Value) -> Vec<(String, u64)> {
    let Value::Array(all) = answer else { return Vec::new() };
    let text = |value: &Value| words(value).concat();
    all[1..].chunks(4).map(|one| (text(&one[0]), text(&one[1]).parse().unwrap())).collect()
}

/// The run in an answer of `release` for one lane.
fn read_run(answer: Value) -> Run {
    let Value::Array(mut all) = answer else { return Run::default() };
    let Some(Value::Array(lane)) = all.pop() else { return Run::default() };
    let text = |value: &Value| words(value).concat();
    let refused = match &lane[2] {
        Value::Array(refusal) => text(&refusal[0]).parse().ok(),
        _ => None,
    };
    (lane[3..].chunks(2).map(|one| text(&one[0]).parse().unwrap()).collect(), refused)
}

/// The words of an answer.
fn words(answer: &Value) -> Vec<String> {
    match answer {
        Value::Array(parts) => parts.iter().flat_map(words).collect(),
        Value::Int(number) => vec![number.to_string()],
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Value::SimpleString(text) => vec![text.clone()],
        _ => Vec::new(),
    }
}
