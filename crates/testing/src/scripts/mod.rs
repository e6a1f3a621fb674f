//! Calls single scripts as their headers describe, with the store's names of keys. For tests of
//! calls that the store never makes.

mod consumers;
mod steer;

use domain::DestinationName;
use redis::{RedisResult, Value, aio::MultiplexedConnection};
use redis_client::CallArgs;
use store::{
    Claimers, Keys,
    keys::{DestinationKeys, IndexKeys},
    rows::{BodyOutOfLine, LaneRow, LaneSets},
    scripts::Scripts,
    transitions::*,
};
use tokio_util::bytes::Bytes;

/// The length of leases, delays and takeover waits: none ends while a test runs.
pub const LONG: &str = "3600000";
const LONG_MS: u64 = 3_600_000;
/// Replaces the backoff of a message that halts after its last attempt.
pub const HALTS: &str = "";
/// Replaces the backoff of a message that becomes a dead letter after its last attempt.
pub const LEAVES: &str = "leaves";
const TROUBLE: &str = r#"{"stage":"transform","kind":"failed","detail":"no"}"#;
/// The schema of the records.
const SCHEMA: &str = "3";
/// The name of every caller.
const CALLER: &str = "pod:test";

/// The number of the first call. A number is the time after which the call must not run, in
/// microseconds. Redis accepts this one for longer than a test takes.
fn first_call() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (now + std::time::Duration::from_secs(110)).as_micros() as u64
}

thread_local! {
    // Compiled once per thread, because a thread may plant a bug in a script.
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

/// A call as the store makes it.
fn made(script: &'static str, words: CallArgs) -> Call {
    let texts = |words: Vec<Vec<u8>>| {
        words.into_iter().map(|word| String::from_utf8(word).expect("a text")).collect()
    };
    Call { script, keys: texts(words.keys), args: texts(words.args) }
}

/// An arriving message: its lane (from 1), its idempotency key and digest if any, its record, its options.
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

/// A result as the scripts keep it: its bytes mean nothing to them.
pub const RESULT: &str = "an output";
/// A record as the scripts read it: format, accounted_bytes, length of the header, header, body.
pub const RECORD: &str = "34,6;headerbody";

/// The most removed names in the index: few, so that the index forgets some.
pub const REMOVED_MAX: usize = 1;
/// The most ids that a destination remembers.
const IDS_MAX: u64 = 5;

/// The calls for one destination whose lanes are keys.
pub struct Calls {
    pub name: DestinationName,
    pub keys: DestinationKeys,
    pub index: IndexKeys,
    pub all: Keys,
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
            all: keys.clone(),
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
    fn next(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    fn version(&self) -> u64 {
        self.version.parse().unwrap()
    }

    fn epoch(&self) -> u64 {
        self.epoch.parse().unwrap()
    }

    pub fn member(&self, sequence: u64, secret: &str) -> String {
        format!("{}/{sequence}/{secret}", self.name)
    }

    /// A lane, by its key. Without ordering, all messages are in the destination's sets.
    fn lane<'a>(&self, key: &'a str) -> LaneRow<'a> {
        let LaneSets { in_progress, ready } = LaneSets::of(&self.keys, self.set(key));
        LaneRow { in_progress, ready, key }
    }

    /// The key of the sets that hold a lane's messages.
    fn set<'a>(&self, lane: &'a str) -> Option<&'a str> {
        Some(lane).filter(|_| self.ordering == "key")
    }

    pub fn define(&self, definition: &str) -> Call {
        let args = define::Args {
            destination: self.name.as_str(),
            new_definition: definition,
            ordering: self.ordering,
            claimers: "builtin",
            seen_epoch: LONG.to_owned(),
            processing: self.processing,
            stalls_max: 3,
            replaces: String::new(),
            ids_max: IDS_MAX,
            same_definition: String::new(),
            delivery: self.delivery,
            shards: 1,
            note: "{}".to_owned(),
            versions_max: 20,
            file_forms: "",
        };
        made("define", args.words(&self.keys))
    }

    pub fn index(&self, content: &str) -> Call {
        let args = index::Args {
            destination: self.name.as_str(),
            version: self.version(),
            content: content.to_owned(),
            channel: self.wake_definitions.clone(),
            removed_max: REMOVED_MAX,
            removed_note: "{}".to_owned(),
            kept_ms: LONG_MS,
            definitions_max: 100,
        };
        made("index", args.words(&self.index, &self.all))
    }

    pub fn ingest(&self, lanes: &[&str], seen: &[&str], arrivals: &[Arrival]) -> Call {
        let lanes = lanes.iter().map(|key| self.lane(key));
        let ids: Vec<String> = (1..=arrivals.len()).map(|number| format!("id-{number}")).collect();
        let rows = arrivals.iter().zip(&ids).map(|(arrival, id)| ingest::ArrivalRow {
            record: arrival.record.as_bytes().to_vec(),
            lane: arrival.lane,
            id,
        });
        // One message has a body that is stored separately.
        let body =
            |_: &Arrival| BodyOutOfLine { of: 1, suffix: "", body: Bytes::from_static(b"a body") };
        let options = |(index, arrival): (usize, &Arrival)| ingest::ArrivalOptions {
            arrival: index + 1,
            seen: arrival.seen.to_owned(),
            options: arrival.options.to_owned(),
        };
        let has_more = |(_, arrival): &(usize, &Arrival)| {
            !arrival.seen.is_empty() || !arrival.options.is_empty()
        };
        let has_window = self.window != "0";
        let keys = seen.iter().filter(|_| has_window);
        let call_number = self.next();
        let position = format!("{call_number:020}");
        let source = ingest::SourceRow {
            arrival: 1,
            name: "table",
            position: &position,
            after: "",
            skips: false,
        };
        let args = ingest::Args {
            call_number,
            destination: self.name.as_str(),
            version: self.version(),
            message_epoch: self.epoch(),
            seen_epoch: LONG.to_owned(),
            first_state: self.stand,
            backlog_max: 100,
            backlog_bytes_max: 0,
            window_ms: self.window.parse().unwrap(),
            keys_max: 1000,
            ordering: self.ordering,
            processing: self.processing,
            record_schema: SCHEMA.parse().unwrap(),
            accounted_bytes_sum: 4 * arrivals.len() as u64,
            ids_max: IDS_MAX,
            compare: "body",
            sources_max: 4,
            secret: "",
            lease_ms: LONG_MS,
            lanes: lanes.collect(),
            seen: keys.map(|key| self.keys.idempotency(key).into_bytes()).collect(),
            idempotency_keys: if has_window { Vec::new() } else { seen.to_vec() },
            arrivals: rows.collect(),
            bodies: arrivals.iter().take(1).map(body).collect(),
            options: arrivals.iter().enumerate().filter(has_more).map(options).collect(),
            of_sources: arrivals.iter().take(1).map(|_| source.clone()).collect(),
        };
        made("ingest", args.words(&self.keys, CALLER, Claimers::Builtin))
    }

    pub fn claim(&self, secret: &str, most: usize) -> Call {
        let args = claim::Args {
            call_number: self.next(),
            destination: self.name.as_str(),
            version: self.version(),
            secret,
            lease_ms: LONG_MS,
            most,
            bytes_max: 1_000_000,
            fewest: 1,
            ordering: self.ordering,
            has_no_suspects: 1,
            rate_per_second: 1,
            rate_burst: 10_000,
        };
        made("claim", args.words(&self.keys, CALLER, Claimers::Builtin))
    }

    /// Completes messages, each given by its lane (from 1) and its sequence.
    pub fn complete(&self, secret: &str, lanes: &[&str], messages: &[(usize, u64)]) -> Call {
        let lanes = lanes.iter().map(|key| self.lane(key));
        let row = |(lane, sequence): &(usize, u64)| complete::CompletionRow {
            sequence: *sequence,
            member: self.member(*sequence, secret),
            record: RECORD.as_bytes().to_vec(),
            lane: *lane,
        };
        let body = |(suffix, body): (&'static str, &'static str)| BodyOutOfLine {
            of: 1,
            suffix,
            body: Bytes::from_static(body.as_bytes()),
        };
        let result = |(_, sequence): &(usize, u64)| complete::ResultRow {
            result: self.keys.result(*sequence),
            of: 1,
            value: RESULT.as_bytes().to_vec(),
        };
        let bodies = [("", ""), ("i", "a body")].into_iter().filter(|_| !messages.is_empty());
        let args = complete::Args {
            destination: self.name.as_str(),
            record_schema: SCHEMA.parse().unwrap(),
            lanes: lanes.collect(),
            completions: messages.iter().map(row).collect(),
            bodies: bodies.map(body).collect(),
            kept: messages.iter().take(1).map(result).collect(),
        };
        made("complete", args.words(&self.keys))
    }

    pub fn extend(&self, secret: &str, sequences: &[u64]) -> Call {
        let row = |sequence: &u64| extend::ExtensionRow {
            sequence: *sequence,
            member: self.member(*sequence, secret),
            claimed_ms: 0,
            checkpoint: "{}",
        };
        let extensions = sequences.iter().map(row).collect();
        let args = extend::Args { lease_ms: LONG_MS, attempt_ms_max: LONG_MS, extensions };
        made("extend", args.words(&self.keys))
    }

    /// Fails messages of a lane, each given by its sequence and its backoff in ms, [`HALTS`] or [`LEAVES`].
    pub fn fail(&self, secret: &str, lane: &str, messages: &[(u64, &str)]) -> Call {
        let row = |(sequence, wait): &(u64, &str)| fail::Failure {
            sequence: *sequence,
            member: self.member(*sequence, secret),
            problem: TROUBLE.to_owned(),
            is_later: false,
            wait_ms: if *wait == LEAVES { String::new() } else { (*wait).to_owned() },
            how: if *wait == LEAVES { "s".to_owned() } else { String::new() },
            reason: "why",
            lane: 1,
        };
        let args = fail::Args {
            call_number: self.next(),
            destination: self.name.as_str(),
            version: self.version.parse().unwrap_or_default(),
            letters_max: 0,
            lanes: vec![self.lane(lane)],
            failures: messages.iter().map(row).collect(),
        };
        made("fail", args.words(&self.keys, CALLER))
    }

    pub fn requeue(&self, secret: &str, sequences: &[u64]) -> Call {
        let row = |sequence: &u64| requeue::Lease {
            sequence: *sequence,
            member: self.member(*sequence, secret),
        };
        let args = requeue::Args {
            call_number: self.next(),
            destination: self.name.as_str(),
            leases: sequences.iter().map(row).collect(),
        };
        made("requeue", args.words(&self.keys, CALLER))
    }

    pub fn step_back(&self, [leases, delays, hints]: [&[(String, u64)]; 3]) -> Call {
        fn seen(all: &[(String, u64)]) -> Vec<step_back::Seen<'_>> {
            all.iter().map(|(member, score)| step_back::Seen { member, score: *score }).collect()
        }
        let args = step_back::Args {
            destination: self.name.as_str(),
            back_ms: 1000,
            leases: seen(leases),
            delays: seen(delays),
            hints: seen(hints),
        };
        made("step_back", args.words(&self.keys))
    }

    pub fn reap(&self, leases: &[String], delays: &[String]) -> Call {
        let args = reap::Args {
            destination: self.name.as_str(),
            expired_together: leases.len(),
            leases: leases.iter().map(String::as_str).collect(),
            delays: delays.iter().map(String::as_str).collect(),
        };
        made("reap", args.words(&self.keys))
    }

    pub fn remove(&self) -> Call {
        let args = delete_destination::Args { destination: self.name.as_str(), how: "with_all" };
        made("delete_destination", args.words(&self.keys))
    }

    pub fn delete_destination_batch(
        &self,
        lanes: &[&str],
        sequences: &[u64],
        leases: &[String],
        delays: &[String],
    ) -> Call {
        let texts: Vec<String> = sequences.iter().map(u64::to_string).collect();
        let sets = lanes.iter().flat_map(|lane| {
            let set = self.set(lane);
            [self.keys.in_progress(set), self.keys.ready(set)]
        });
        let args = delete_destination_batch::Args {
            left_over: sets.map(String::into_bytes).collect(),
            sequences: texts.iter().map(String::as_str).collect(),
            leases: leases.iter().map(String::as_str).collect(),
            delays: delays.iter().map(String::as_str).collect(),
        };
        made("delete_destination_batch", args.words(&self.keys))
    }

    /// Removes other keys of a destination that is being removed.
    pub fn delete_keys(&self, keys: &[String]) -> Call {
        let left_over = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let args = delete_destination_batch::Args { left_over, ..Default::default() };
        made("delete_destination_batch", args.words(&self.keys))
    }

    pub fn forget_destination(&self) -> Call {
        let args = forget_destination::Args {
            seen_epoch: LONG.to_owned(),
            destination: self.name.as_str(),
        };
        made("forget_destination", args.words(&self.keys))
    }
}
