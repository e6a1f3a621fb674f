//! A reference model of what is offered to consumers, and random operations of an owner and two consumers that are
//! compared with the real scripts: `offer`, `consume`, `acknowledge`, and `withdraw` of what a consumer may hold.
//!
//! After each operation the answers and all offers in Redis must be equal. Deadlines pass by operations. The model
//! is short enough to read; its rule is that one consumer at a time holds a lane, and that what is late changes
//! nothing.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use redis::{Value, aio::MultiplexedConnection, cmd};
use reseq::store::Keys;

use self::model::{Model, Offer};
use crate::{
    scripts::{Arrival, Call, Calls, RECORD},
    support::redis::TestRedis,
};

const LANES: [&str; 3] = ["a", "b", "c"];
/// The messages of a lane.
const LENGTH: u64 = 6;
const OWNER: &str = "me";

/// What one actor does.
#[derive(Debug)]
pub enum Act {
    /// The owner offers at most this many messages.
    Offer(usize),
    /// The owner looks what became of its offer.
    Look,
    /// The owner looks, and takes the offer back.
    Recall,
    /// A consumer leases at most this many messages.
    Consume(usize),
    /// That consumer says this of one of the messages that it leased last: their number, from 0.
    Acknowledge(&'static str, usize),
    /// The owner withdraws a pending message: its number, from 0.
    Withdraw(usize),
    /// The lease of the lane expires.
    PassDeadline,
    /// Redis may have forgotten something.
    RaiseEpoch,
    /// Leases from before the epoch are over.
    EndWait,
}

/// What was done, what Redis answered, and what the model says.
type Done = (String, String, String);

/// The model beside a real Redis.
pub struct Both {
    _redis: TestRedis,
    connection: MultiplexedConnection,
    calls: Calls,
    model: Model,
    /// All secrets so far: also stale ones are used.
    secrets: Vec<String>,
    /// What each consumer leased last: the secret, and the messages.
    held: BTreeMap<usize, (String, Vec<(String, u64)>)>,
    happened: BTreeMap<String, u64>,
}

impl Both {
    /// Starts with a new Redis.
    pub async fn start() -> Both {
        let redis = TestRedis::start().await;
        let connection = redis.connection().await;
        let calls = Calls::new(&Keys::new("reseq", 1), "erp");
        let (model, secrets, held, happened) = Default::default();
        let mut both = Both { _redis: redis, connection, calls, model, secrets, held, happened };
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
        self.calls.stand = "ready";
        let count = LANES.len() as u64 * LENGTH;
        let arrivals: Vec<Arrival> = (0..count)
            .map(|number| Arrival::new(1 + number as usize % LANES.len(), "", RECORD))
            .collect();
        self.run(self.calls.ingest(&LANES, &[], &arrivals)).await;
        self.model = Model { epoch: self.calls.epoch.parse().unwrap(), ..Model::default() };
        for (at, lane) in (1..).zip(LANES) {
            let all = (0..LENGTH).map(|number| at + number * LANES.len() as u64);
            self.model.pending.insert(lane, all.collect());
        }
        self.secrets = vec!["nobody".to_owned()];
        self.held.clear();
    }

    async fn run(&mut self, call: Call) -> Value {
        call.run(&mut self.connection)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", call.script))
    }

    /// Compares this many random operations. Returns the first difference.
    pub async fn compare(&mut self, rng: &mut StdRng, operations: u64) -> Result<(), String> {
        for number in 0..operations {
            if self.model.pending.values().all(Vec::is_empty) || number % 200 == 199 {
                self.begin().await;
            }
            let before = format!("{:?}", self.model);
            let done = self.step(rng).await;
            self.check(done, &before).await?;
        }
        Ok(())
    }

    /// Runs each order in which these actors can do what they do one after the other, each time with an empty Redis.
    /// Returns how many there were, or the first difference.
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

    /// Compares an answer, and what is stored, with the model.
    async fn check(&mut self, done: Done, before: &str) -> Result<(), String> {
        let (what, real, model) = done;
        *self.happened.entry(what.clone() + " " + &model).or_default() += 1;
        if real != model {
            return Err(format!("{what}: Redis says {real:?}, the model {model:?}: {before}"));
        }
        let (offers, offered) = self.state().await;
        if offers != self.model.offers || offered != self.model.offered {
            let now = (&self.model.offers, &self.model.offered);
            return Err(format!("{what}: {offers:?}, {offered:?}, not {now:?}: {before}"));
        }
        Ok(())
    }

    /// What has happened, and how often.
    pub fn happened(&self) -> &BTreeMap<String, u64> {
        &self.happened
    }

    /// A random operation.
    async fn step(&mut self, rng: &mut StdRng) -> Done {
        let lane = *LANES.choose(rng).unwrap();
        match rng.random_range(0..100) {
            0..25 => {
                let length = rng.random_range(1..=LENGTH as usize);
                self.offer(lane, "offer", length).await
            }
            25..40 => self.offer(lane, "look", 0).await,
            40..44 => self.offer(lane, "recall", 0).await,
            44..60 => self.consume(*[1, 2, 3, 100].choose(rng).unwrap()).await.0,
            60..90 => self.acknowledge_any(rng, lane).await,
            90..94 => self.pass_deadline(lane).await,
            94..97 => self.withdraw_any(rng, lane).await,
            97..98 => self.raise_epoch().await,
            _ => self.end_wait().await,
        }
    }

    /// What an actor does, all in the first lane.
    async fn act(&mut self, actor: usize, act: &Act) -> Done {
        let lane = LANES[0];
        match *act {
            Act::Offer(length) => self.offer(lane, "offer", length).await,
            Act::Look => self.offer(lane, "look", 0).await,
            Act::Recall => self.offer(lane, "recall", 0).await,
            Act::Consume(most) => {
                let (done, taken) = self.consume(most).await;
                let secret = self.secrets.last().cloned().unwrap_or_default();
                self.held.insert(actor, (secret, taken));
                done
            }
            Act::Acknowledge(what, number) => {
                let held = self.held.get(&actor).cloned().unwrap_or_default();
                let Some((_, sequence)) = held.1.get(number) else {
                    return (what.to_owned(), String::new(), String::new());
                };
                self.acknowledge(what, lane, &held.0, *sequence).await
            }
            Act::Withdraw(number) => match self.model.pending[lane].get(number).copied() {
                Some(sequence) => self.withdraw(lane, sequence).await,
                None => self.end_wait().await,
            },
            Act::PassDeadline => self.pass_deadline(lane).await,
            Act::RaiseEpoch => self.raise_epoch().await,
            Act::EndWait => self.end_wait().await,
        }
    }

    /// The owner offers the front of a lane, at most this many messages, or looks what became of its offer.
    async fn offer(&mut self, lane: &'static str, what: &'static str, length: usize) -> Done {
        let pending = &self.model.pending[lane];
        if what == "offer" && pending.is_empty() {
            return self.end_wait().await;
        }
        let sequences = pending[..length.min(pending.len())].to_vec();
        let answer = self.run(self.calls.offer(OWNER, &[(lane, what, &sequences[..])])).await;
        let mut words = words(&answer);
        // Times, and what the consumer said.
        let kept = if words[0] == "wait" { 1 } else { 2 };
        if words[0] == "leased" {
            words.remove(1);
        }
        words.truncate(kept);
        let offered = self.model.offers.get(lane).map(|offer| offer.sequences.clone());
        let said = match what {
            "offer" => self.model.put(lane, &sequences),
            what => self.model.look(lane, what == "recall"),
        };
        // The owner settles what was accepted.
        let count = said.split_once(' ').and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
        if count > 0 {
            let last = match what {
                "offer" => sequences.get(count - 1).copied(),
                _ => offered.and_then(|offered| offered.get(count - 1).copied()),
            };
            self.settle(lane, last.unwrap_or_default()).await;
        }
        (what.to_owned(), words.join(" "), said)
    }

    async fn settle(&mut self, lane: &'static str, upto: u64) {
        let gone: Vec<u64> =
            self.model.pending[lane].iter().copied().filter(|one| *one <= upto).collect();
        if !gone.is_empty() {
            let messages = self.calls.keys.messages();
            cmd("HDEL").arg(messages).arg(gone).exec_async(&mut self.connection).await.unwrap();
        }
        self.model.leave(lane, |one| *one <= upto);
    }

    /// A consumer leases at most this many messages. Also returns what it got.
    async fn consume(&mut self, most: usize) -> (Done, Vec<(String, u64)>) {
        let secret = format!("s{}", self.secrets.len());
        let call = self.calls.consume(&secret, most);
        let first = self.run(call.clone()).await;
        let taken = taken(&first);
        let (_, still_offered) = self.state().await;
        let said = self.model.lease(&secret, most, &taken, &still_offered);
        self.secrets.push(secret);
        // The answer may be lost: the same call returns the same.
        let again = self.run(call).await;
        let is_same = again == first;
        let what = if taken.is_empty() { "nothing" } else { "messages" };
        let model = said.map_or_else(|wrong| wrong, |()| what.to_owned());
        let real = if is_same { what.to_owned() } else { format!("again {again:?}") };
        (("consume".to_owned(), real, model), taken)
    }

    async fn acknowledge_any(&mut self, rng: &mut StdRng, lane: &'static str) -> Done {
        let what =
            *["accept", "accept", "accept", "extend", "refuse", "requeue"].choose(rng).unwrap();
        let held = self.model.offers.get(lane);
        let his = held.and_then(|offer| offer.lease.clone()).map(|(secret, _)| secret);
        let secret = match his {
            Some(secret) if rng.random_bool(0.7) => secret,
            _ => self.secrets.choose(rng).unwrap().clone(),
        };
        let offered = held.map(|offer| offer.sequences.clone()).unwrap_or_default();
        let sequence = offered.choose(rng).copied().unwrap_or(1);
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
        (what.to_owned(), answer[1].clone(), said.to_owned())
    }

    /// A consumer's lease expires.
    async fn pass_deadline(&mut self, lane: &'static str) -> Done {
        if let Some(offer) = self.model.offers.get_mut(lane)
            && let Some((_, is_over)) = &mut offer.lease
        {
            *is_over = true;
            let offers = self.calls.keys.offers();
            let stored: Vec<u8> =
                cmd("HGET").arg(&offers).arg(lane).query_async(&mut self.connection).await.unwrap();
            let mut stored: Stored = rmp_serde::from_slice(&stored).unwrap();
            stored.2 = 1;
            let stored = rmp_serde::to_vec(&stored).unwrap();
            let mut set = cmd("HSET");
            set.arg(offers).arg(lane).arg(stored).exec_async(&mut self.connection).await.unwrap();
        }
        ("deadline".to_owned(), String::new(), String::new())
    }

    async fn withdraw_any(&mut self, rng: &mut StdRng, lane: &'static str) -> Done {
        // Often one that was just accepted: that comes too late.
        let accepted = self.model.offers.get(lane).map(|offer| &offer.sequences[..offer.accepted]);
        let accepted = accepted.and_then(|accepted| accepted.choose(rng)).copied();
        let pending = &self.model.pending[lane];
        let accepted = accepted.filter(|one| pending.contains(one) && rng.random_bool(0.5));
        let Some(sequence) = accepted.or_else(|| pending.choose(rng).copied()) else {
            return self.end_wait().await;
        };
        self.withdraw(lane, sequence).await
    }

    async fn withdraw(&mut self, lane: &'static str, sequence: u64) -> Done {
        let answer =
            words(&self.run(self.calls.withdraw("c", OWNER, &[lane], &[(1, sequence)])).await);
        let said = self.model.withdraw(lane, sequence);
        if said == "done" {
            // Its tombstone leaves at once here.
            self.model.leave(lane, |one| *one == sequence);
            let messages = self.calls.keys.messages();
            cmd("HDEL").arg(messages).arg(sequence).exec_async(&mut self.connection).await.unwrap();
        } else {
            let withdrawals = self.calls.keys.withdrawals();
            cmd("DEL").arg(withdrawals).exec_async(&mut self.connection).await.unwrap();
        }
        ("withdraw".to_owned(), answer[0].clone(), said.to_owned())
    }

    /// Redis may have forgotten something. The owner knows the new epoch.
    async fn raise_epoch(&mut self) -> Done {
        self.model.epoch += 1;
        self.model.waits = true;
        self.calls.epoch = self.model.epoch.to_string();
        let mut raise = cmd("HSET");
        raise.arg(self.calls.keys.partition.epoch()).arg("epoch").arg(self.model.epoch);
        raise.exec_async(&mut self.connection).await.unwrap();
        ("epoch".to_owned(), String::new(), String::new())
    }

    /// So much time has passed that leases from before the epoch are over.
    async fn end_wait(&mut self) -> Done {
        if self.model.waits {
            self.model.waits = false;
            // The first call in an epoch begins the wait.
            self.run(self.calls.offer(OWNER, &[])).await;
            let mut end = cmd("HSET");
            end.arg(self.calls.keys.hash()).arg("offers_from_ms").arg(0);
            end.exec_async(&mut self.connection).await.unwrap();
        }
        ("wait".to_owned(), String::new(), String::new())
    }

    async fn state(&mut self) -> (BTreeMap<&'static str, Offer>, BTreeSet<&'static str>) {
        let keys = &self.calls.keys;
        let stored: BTreeMap<String, Vec<u8>> =
            cmd("HGETALL").arg(keys.offers()).query_async(&mut self.connection).await.unwrap();
        let offered: Vec<String> = cmd("ZRANGE")
            .arg(keys.offered())
            .arg(0)
            .arg(-1)
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let named = |lane: &String| LANES.into_iter().find(|one| *one == lane.as_str()).unwrap();
        let read = |bytes: &Vec<u8>| {
            let stored: Stored = rmp_serde::from_slice(bytes).unwrap();
            let (epoch, secret, deadline, leased, accepted, refusal, sequences) = stored;
            let numbers = sequences.iter().map(|text| text.parse().unwrap());
            Offer {
                epoch: epoch.parse().unwrap(),
                lease: (!secret.is_empty()).then_some((secret, deadline == 1)),
                leased,
                accepted,
                is_refused: refusal.is_array(),
                sequences: numbers.collect(),
            }
        };
        let offers = stored.iter().map(|(lane, bytes)| (named(lane), read(bytes))).collect();
        (offers, offered.iter().map(named).collect())
    }
}

/// An offer, as `lua/include/offers.lua` describes it.
type Stored = (String, String, u64, usize, usize, serde_json::Value, Vec<String>);

/// Each order in which actors can do these numbers of steps: the actor of each step.
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
    let all = words(answer);
    all[1..].chunks(4).map(|one| (one[0].clone(), one[1].parse().unwrap())).collect()
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
