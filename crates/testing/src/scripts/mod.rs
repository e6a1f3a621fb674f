//! Calls single scripts as their headers describe, with the keys that the store names. For tests of
//! calls that the store never makes.

mod consumers;
mod steer;

use redis::{RedisResult, Value, aio::MultiplexedConnection};
use reseq::{
    domain::DestinationName,
    store::{
        Claimers, Keys,
        keys::{DestinationKeys, IndexKeys},
        scripts::Scripts,
    },
};

/// The length of leases, delays and takeover waits: none ends while a test runs.
pub const LONG: &str = "3600000";
/// Instead of the backoff of a failed message: there is no further attempt.
pub const FINAL: &str = "never";
const TROUBLE: &str = r#"{"stage":"transform","kind":"failed","detail":"no"}"#;
/// The schema of the records.
const SCHEMA: &str = "3";
/// The name of every caller.
const CALLER: &str = "pod:test";

/// A number that Redis accepts for longer than a test takes: the time after which the call may not run, in
/// microseconds.
fn first_call() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (now + std::time::Duration::from_secs(110)).as_micros() as u64
}

thread_local! {
    // Compiled once per thread, because a thread may plant a bug in one.
    static SCRIPTS: Scripts = Scripts::new();
}

/// One call of one script.
#[derive(Debug, Clone)]
pub struct Call {
    pub script: &'static str,
    pub keys: Vec<String>,
    pub args: Vec<String>,
}

impl Call {
    pub async fn run(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        let script = SCRIPTS.with(|scripts| {
            let transition = scripts.all().into_iter().find(|found| found.name == self.script);
            transition.expect("there is such a script").script.clone()
        });
        let mut call = script.prepare_invoke();
        for key in &self.keys {
            call.key(key);
        }
        for arg in &self.args {
            call.arg(arg);
        }
        call.invoke_async(connection).await
    }
}

fn call(script: &'static str, keys: &[&String], args: &[&str]) -> Call {
    let keys = keys.iter().map(|key| (*key).clone()).collect();
    Call { script, keys, args: args.iter().map(|arg| (*arg).to_owned()).collect() }
}

/// An arriving message: its lane (from 1), its idempotency key and digest or nothing, its record,
/// its options.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    pub lane: usize,
    pub seen: &'a str,
    pub record: &'a str,
    pub options: &'a str,
}

impl<'a> Arrival<'a> {
    pub fn new(lane: usize, seen: &'a str, record: &'a str) -> Arrival<'a> {
        Arrival { lane, seen, record, options: "" }
    }

    pub fn with(self, options: &'a str) -> Arrival<'a> {
        Arrival { options, ..self }
    }
}

/// A record as the scripts read it: format, accounted_bytes, length of the header, header, body.
pub const RECORD: &str = "34,6;headerbody";

/// How many removed names the index remembers: few, so that it forgets some.
pub const REMOVED_MAX: &str = "1";
/// How many ids a destination remembers.
const IDS_MAX: &str = "5";

/// The calls for one destination whose lanes are keys.
pub struct Calls {
    pub name: DestinationName,
    pub keys: DestinationKeys,
    pub index: IndexKeys,
    pub pods: String,
    pub wake_definitions: String,
    pub version: String,
    pub epoch: String,
    /// The state of a message on arrival: 'waiting' or 'ready'.
    pub stand: &'static str,
    /// 'key' or 'none'.
    pub ordering: &'static str,
    pub processing: &'static str,
    /// 'push', 'pull' or 'none'.
    pub delivery: &'static str,
    /// How long Reseq remembers idempotency keys, in ms.
    pub window: &'static str,
    number: std::cell::Cell<u64>,
}

impl Calls {
    pub fn new(keys: &Keys, name: &str) -> Calls {
        let name: DestinationName = name.parse().unwrap();
        Calls {
            keys: keys.destination(&name),
            index: keys.destinations(),
            pods: keys.pods(),
            wake_definitions: keys.wake_definitions(),
            name,
            version: String::new(),
            epoch: String::new(),
            stand: "waiting",
            ordering: "key",
            processing: "parallel",
            delivery: "pull",
            window: LONG,
            number: std::cell::Cell::new(first_call()),
        }
    }

    /// Sets the number of the next call, counted from now.
    pub fn number_from(&mut self, number: u64) {
        self.number.set(first_call() + number);
    }

    /// The number of the next call.
    fn next(&self) -> String {
        self.number.set(self.number.get() + 1);
        self.number.get().to_string()
    }

    pub fn member(&self, sequence: u64, secret: &str) -> String {
        format!("{}/{sequence}/{secret}", self.name)
    }

    fn caller(&self) -> String {
        self.keys.partition.call(CALLER)
    }

    fn builtin(&self) -> String {
        self.keys.partition.active(Claimers::Builtin)
    }

    fn worker(&self) -> String {
        self.keys.partition.active(Claimers::Worker)
    }

    fn with_lanes(&self, mut call: Call, lanes: &[&str]) -> Call {
        for lane in lanes {
            call.keys
                .extend([self.keys.in_progress(self.set(lane)), self.keys.ready(self.set(lane))]);
        }
        call
    }

    /// The key of the sets that hold a lane's messages.
    fn set<'a>(&self, lane: &'a str) -> Option<&'a str> {
        Some(lane).filter(|_| self.ordering == "key")
    }

    pub fn define(&self, definition: &str) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let (builtin, worker) = (self.builtin(), self.worker());
        let (withdrawn, previous, ids) = (k.withdrawn(), k.previous(), k.ids());
        let (epoch, hash, waiting) = (p.epoch(), k.hash(), k.waiting());
        let keys = [&epoch, &hash, &waiting, &builtin, &worker, &withdrawn, &previous, &ids];
        let (ordering, processing) = (self.ordering, self.processing);
        let args = [
            self.name.as_str(),
            definition,
            ordering,
            "builtin",
            LONG,
            processing,
            "3",
            "3",
            "",
            IDS_MAX,
            "",
            self.delivery,
        ];
        call("define", &keys, &args)
    }

    pub fn index(&self, noted: &str) -> Call {
        let (name, channel) = (self.name.as_str(), &self.wake_definitions);
        let args = [name, &self.version, noted, channel, REMOVED_MAX];
        let keys = [&self.index.hash(), &self.index.changes(), &self.index.removed()];
        call("index", &keys, &args)
    }

    pub fn ingest(&self, lanes: &[&str], seen: &[&str], arrivals: &[Arrival]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &self.caller(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &self.builtin(),
            &p.releasable(),
            &k.lanes(),
            &p.wake_waiting(),
            &p.wake_releasable(),
            &p.delayed(),
            &k.attempts(),
            &k.idempotency_keys(),
            &k.dead_letters(),
            &k.dead_letter_messages(),
            &k.bodies(),
            &k.dead_lettered_at(),
            &k.previous(),
        ];
        let (number, name) = (self.next(), self.name.as_str());
        let args = [&number, name, &self.version, &self.epoch, LONG, self.stand, "100", "0"];
        let mut made = self.with_lanes(call("ingest", &keys, &args), lanes);
        let has_window = self.window != "0";
        made.keys.extend(seen.iter().filter(|_| has_window).map(|key| k.idempotency(key)));
        made.keys.push(k.ids());
        let names = if has_window { &[] } else { seen };
        let counts = [lanes.len().to_string(), names.len().to_string()];
        let window = format!("{} 1000", self.window);
        let more = [window.as_str(), self.ordering, self.processing];
        made.args.extend(more.into_iter().map(str::to_owned).chain(counts));
        let charges = (4 * arrivals.len()).to_string();
        // One message has a body that is stored separately.
        let body_count = usize::from(!arrivals.is_empty()).to_string();
        made.args.extend([SCHEMA.to_owned(), arrivals.len().to_string(), charges, body_count]);
        made.args.push(IDS_MAX.to_owned());
        made.args.extend(lanes.iter().chain(names).map(|text| (*text).to_owned()));
        made.args.extend(arrivals.iter().map(|arrival| arrival.record.to_owned()));
        if lanes.len() > 1 {
            made.args.extend(arrivals.iter().map(|arrival| arrival.lane.to_string()));
        }
        made.args.extend((1..=arrivals.len()).map(|number| format!("id-{number}")));
        if !arrivals.is_empty() {
            made.args.extend(["1", "", "a body"].map(str::to_owned));
        }
        for (index, Arrival { seen, options, .. }) in arrivals.iter().enumerate() {
            if !seen.is_empty() || !options.is_empty() {
                let which = (index + 1).to_string();
                made.args.extend([which, (*seen).to_owned(), (*options).to_owned()]);
            }
        }
        made
    }

    pub fn claim(&self, secret: &str, most: usize) -> Call {
        let k = &self.keys;
        let leases = k.partition.leases();
        let keys = [
            &self.caller(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &leases,
            &self.builtin(),
            &k.partition.epoch(),
            &k.bodies(),
            &k.withdrawn(),
            &k.partition.delayed(),
            &k.lanes(),
        ];
        let (number, most) = (self.next(), most.to_string());
        let args = [&number, self.name.as_str(), &self.version, secret, LONG, &most, "1000000"];
        let mut made = call("claim", &keys, &args);
        made.args.extend(["1".to_owned(), self.ordering.to_owned(), "1".to_owned()]);
        made
    }

    /// Completes messages, each given by its lane (from 1) and its sequence.
    pub fn complete(&self, secret: &str, lanes: &[&str], messages: &[(usize, u64)]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &k.hash(),
            &k.messages(),
            &k.attempts(),
            &p.leases(),
            &p.releasable(),
            &k.lanes(),
            &p.wake_releasable(),
            &k.waiting(),
            &p.delayed(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.epoch(),
            &k.bodies(),
        ];
        let (count, messages_count) = (lanes.len().to_string(), messages.len().to_string());
        let args = [self.name.as_str(), &count, SCHEMA, &messages_count];
        let mut made = self.with_lanes(call("complete", &keys, &args), lanes);
        made.args.extend(lanes.iter().map(|lane| (*lane).to_owned()));
        made.args.extend(messages.iter().map(|(_, sequence)| sequence.to_string()));
        made.args.extend(messages.iter().map(|(_, sequence)| self.member(*sequence, secret)));
        made.args.extend(messages.iter().map(|_| RECORD.to_owned()));
        if lanes.len() > 1 {
            made.args.extend(messages.iter().map(|(lane, _)| lane.to_string()));
        }
        if !messages.is_empty() {
            made.args.extend(["1", "", "", "1", "i", "a body"].map(str::to_owned));
        }
        made
    }

    pub fn extend(&self, secret: &str, sequences: &[u64]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [&k.messages(), &p.leases(), &k.attempts(), &p.epoch()];
        let mut made = call("extend", &keys, &[LONG]);
        for sequence in sequences {
            made.args.extend([sequence.to_string(), self.member(*sequence, secret)]);
            made.args.push("{}".to_owned());
        }
        made
    }

    /// Fails messages, each given by its sequence and its backoff in ms, or [`FINAL`].
    pub fn fail(&self, secret: &str, messages: &[(u64, &str)]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &self.caller(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &p.leases(),
            &p.delayed(),
            &k.halted(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.epoch(),
        ];
        let mut made = call("fail", &keys, &[&self.next(), self.name.as_str()]);
        for (sequence, wait) in messages {
            let (member, is_final) = (self.member(*sequence, secret), *wait == FINAL);
            let wait = if is_final { "0" } else { wait };
            made.args.extend([sequence.to_string(), member, wait.to_owned()]);
            made.args.extend([u8::from(is_final).to_string(), TROUBLE.to_owned()]);
        }
        made
    }

    pub fn requeue(&self, secret: &str, sequences: &[u64]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &self.caller(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &p.leases(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.epoch(),
        ];
        let mut made = call("requeue", &keys, &[&self.next(), self.name.as_str()]);
        for sequence in sequences {
            made.args.extend([sequence.to_string(), self.member(*sequence, secret)]);
        }
        made
    }

    pub fn reap(&self, leases: &[String], delays: &[String]) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &k.hash(),
            &k.waiting(),
            &k.attempts(),
            &p.leases(),
            &p.delayed(),
            &k.messages(),
            &k.halted(),
            &self.builtin(),
            &self.worker(),
            &p.wake_waiting(),
            &p.epoch(),
        ];
        let count = leases.len().to_string();
        let mut made = call("reap", &keys, &[self.name.as_str(), &count, "0", &count]);
        made.args.extend(leases.iter().chain(delays).cloned());
        made
    }

    pub fn remove(&self) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let (builtin, worker) = (self.builtin(), self.worker());
        let (releasable, withdrawing) = (p.releasable(), p.withdrawing());
        let (dead, epoch) = (k.dead_letters(), p.epoch());
        let keys = [&k.hash(), &builtin, &worker, &releasable, &dead, &epoch, &withdrawing];
        call("delete_destination", &keys, &[self.name.as_str(), "1"])
    }

    pub fn delete_destination_batch(
        &self,
        lanes: &[&str],
        sequences: &[u64],
        leases: &[String],
        delays: &[String],
    ) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [&k.hash(), &k.messages(), &p.leases(), &p.delayed(), &p.epoch()];
        let counts = [sequences.len().to_string(), leases.len().to_string()];
        let made = call("delete_destination_batch", &keys, &[&counts[0], &counts[1]]);
        let mut made = self.with_lanes(made, lanes);
        made.args.extend(sequences.iter().map(u64::to_string));
        made.args.extend(leases.iter().chain(delays).cloned());
        made
    }

    pub fn forget_destination(&self) -> Call {
        let (k, p) = (&self.keys, &self.keys.partition);
        let keys = [
            &p.epoch(),
            &k.hash(),
            &k.waiting(),
            &k.messages(),
            &k.attempts(),
            &k.lanes(),
            &k.in_progress(None),
            &k.ready(None),
            &self.builtin(),
            &self.worker(),
            &p.releasable(),
            &k.halted(),
            &k.withdrawals(),
            &k.idempotency_keys(),
            &k.dead_letters(),
            &k.dead_letter_messages(),
            &k.log(),
            &k.log_order(),
            &k.bodies(),
            &k.dead_lettered_at(),
            &k.withdrawn(),
            &k.previous(),
            &k.ids(),
            &k.consumer_leases(),
            &k.consumer_lease_ends(),
            &p.consumers(),
            &p.withdrawing(),
        ];
        call("forget_destination", &keys, &[LONG, self.name.as_str()])
    }
}
