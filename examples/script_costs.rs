//! A benchmark: the CPU time of Redis per message, for each script and several batch sizes. Uses only Redis
//! and the store, no pods and no receivers.
//!
//! `make bench-scripts`, or `cargo run --release --example script_costs -- 100000 128 1`. The arguments are
//! the number of messages, the messages per call, and the case, from 1.

use std::{io::Write, time::Duration};

use anyhow::Context;
use domain::{Arrival, Body, Destination, Message, Ordering, TransformKind};
use redis::aio::MultiplexedConnection;
use redis_client::embedded::EmbeddedRedis;
use store::{
    CallSequence, CatalogEntry, Completion, LaneRequest, Owner, OwnerToken, Paused, Settled, Store,
};

/// Bytes in each body.
const BODY_BYTES: usize = 200;
const LEASE: Duration = Duration::from_secs(3600);
/// Number of messages that go through all scripts before the next are sent.
const ROUND: usize = 10_000;

struct Bench {
    store: Store,
    server: MultiplexedConnection,
    known: CatalogEntry,
    owner: Owner,
    caller: CallSequence,
    lanes: usize,
}

/// Microseconds of the main thread of Redis, for each script.
#[derive(Default)]
struct Costs([(&'static str, f64); 4]);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let count = arguments.next().transpose().context("how many messages")?.unwrap_or(100_000);
    let batch = arguments.next().transpose().context("how many a call")?;
    let case = arguments.next().transpose().context("which case, from 1")?;
    let directory = tempfile::tempdir()?;
    let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
    println!(
        "CPU of Redis in µs per message, {count} messages of {BODY_BYTES} bytes; AOF, fsync each second"
    );
    println!(
        "{:>26} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "batch", "ingest", "claim", "complete", "release", "together"
    );
    let batches = batch.map_or(vec![1, 16, 128, 512], |batch| vec![batch]);
    let cases = [
        ("one lane", Ordering::Destination, 1),
        ("100 ordering keys", Ordering::Key, 100),
        ("no order", Ordering::None, 1),
        ("a key for each", Ordering::Key, ROUND),
    ];
    for (number, (title, ordering, lanes)) in (1..).zip(cases) {
        if case.is_some_and(|case| case != number) {
            continue;
        }
        for &batch in &batches {
            let mut bench = Bench::open(&redis.url(), ordering, lanes).await?;
            bench.run(2_000, batch).await?;
            let count = if batch == 1 { count / 10 } else { count };
            let Costs(costs) = bench.run(count, batch).await?;
            print!("{title:>26} {batch:>6}");
            std::io::stdout().flush()?;
            costs.iter().for_each(|(_, micros)| print!(" {:>8.2}", micros / count as f64));
            println!(
                " {:>8.2}",
                costs.iter().map(|(_, micros)| micros).sum::<f64>() / count as f64
            );
            bench.store.delete_destination(&bench.known.destination.name, true).await?;
            bench.store.resign_partition(bench.known.partition, &bench.owner.token, None).await?;
        }
    }
    redis.stop().await?;
    Ok(())
}

impl Bench {
    async fn open(url: &str, ordering: Ordering, lanes: usize) -> anyhow::Result<Bench> {
        let settings = config::Redis { url: url.to_owned(), ..config::Redis::default() };
        let (store, _) = Store::open(&settings, Duration::ZERO).await?;
        let mut destination = Destination::new("bench".parse()?, "tcp://127.0.0.1:1");
        destination.ordering = ordering;
        destination.transform.kind = TransformKind::Worker;
        destination.log_max = 0;
        let defined = store.define(&destination).await?;
        let partition = store.keys().partition_of(&destination.name);
        let known = CatalogEntry {
            of_all_shards: None,
            destination,
            version: defined.version,
            partition,
            paused: Paused::default(),
            born: defined.born,
        };
        let token = OwnerToken::random();
        let epoch = store.acquire_partition(partition, &token, LEASE).await?.epoch;
        let caller = store.call_sequence("bench");
        let server = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Bench { store, server, known, owner: Owner { token, epoch }, caller, lanes })
    }

    async fn cpu_micros(&mut self) -> anyhow::Result<f64> {
        let info: String = redis::cmd("INFO").arg("CPU").query_async(&mut self.server).await?;
        let of = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|text| text.parse::<f64>().ok()).context("INFO CPU has no such field")
        };
        let seconds = of("used_cpu_user_main_thread")? + of("used_cpu_sys_main_thread")?;
        Ok(seconds * 1e6)
    }

    /// Takes `count` messages through all scripts, `batch` per call.
    async fn run(&mut self, count: usize, batch: usize) -> anyhow::Result<Costs> {
        let mut costs = Costs(["ingest", "claim", "complete", "release"].map(|name| (name, 0.0)));
        let mut done = 0;
        while done < count {
            let round = ROUND.min(count - done);
            let before = self.cpu_micros().await?;
            self.ingest(done, round, batch).await?;
            let ingested = self.cpu_micros().await?;
            let claimed = self.claim(round, batch).await?;
            let after_claim = self.cpu_micros().await?;
            for some in claimed.chunks(batch) {
                self.store.complete(&self.known, some).await?;
            }
            let completed = self.cpu_micros().await?;
            let sequences: Vec<u64> = claimed.iter().map(|one| one.token.sequence).collect();
            self.release(&sequences, batch).await?;
            let released = self.cpu_micros().await?;
            let spans = [
                ingested - before,
                after_claim - ingested,
                completed - after_claim,
                released - completed,
            ];
            costs.0.iter_mut().zip(spans).for_each(|((_, sum), span)| *sum += span);
            done += round;
        }
        Ok(costs)
    }

    fn arrival(&self, number: usize) -> Arrival {
        Arrival::of(Message {
            id: uuid::Uuid::now_v7().to_string(),
            key: (self.lanes > 1).then(|| format!("key-{}", number % self.lanes)),
            headers: Vec::new(),
            body: Body {
                content_type: "application/json".into(),
                bytes: vec![b'x'; BODY_BYTES].into(),
            },
            received_ms: 1_795_000_000_000,
        })
    }

    async fn ingest(&self, from: usize, count: usize, batch: usize) -> anyhow::Result<()> {
        let all: Vec<Arrival> = (from..from + count).map(|number| self.arrival(number)).collect();
        let all: Vec<&Arrival> = all.iter().collect();
        let epoch = self.owner.epoch.max(self.known.born);
        for some in all.chunks(batch) {
            self.store.ingest(&self.caller, &self.known, epoch, some).await?;
        }
        Ok(())
    }

    async fn claim(&self, count: usize, batch: usize) -> anyhow::Result<Vec<Completion>> {
        let mut all = Vec::new();
        while all.len() < count {
            let claimed = self.store.claim(&self.caller, &self.known, 1..=batch, LEASE).await?;
            let completion = |(token, output)| Completion { token, output, is_unchanged: false };
            all.extend(claimed.messages.into_iter().map(completion));
        }
        Ok(all)
    }

    /// Releases as a sender does: each call settles the messages of the call before.
    async fn release(&self, sequences: &[u64], batch: usize) -> anyhow::Result<()> {
        let lane = |key: Option<String>, upto: u64, settled: u64, limit: usize| LaneRequest {
            key,
            settled: Settled { upto, bytes: settled * BODY_BYTES as u64, ..Settled::default() },
            held_upto: 0,
            limit,
        };
        if self.known.destination.ordering == Ordering::None {
            let mut last: Vec<u64> = Vec::new();
            for some in sequences.chunks(batch).chain([&[][..]]) {
                let settle = last.iter().map(|of| lane(Some(of.to_string()), *of, 1, 0));
                let ask = some.iter().map(|of| lane(Some(of.to_string()), 0, 0, 1));
                let requests: Vec<_> = settle.chain(ask).collect();
                for requests in requests.chunks(256) {
                    self.store.release(&self.owner, &self.known, requests).await?;
                }
                last = some.to_vec();
            }
            return Ok(());
        }
        // As many lanes per call as fill a batch.
        let a_lane = (sequences.len() / self.lanes).min(batch).max(1);
        let keys: Vec<Option<String>> = match self.lanes {
            1 => vec![None],
            lanes => (0..lanes).map(|number| Some(format!("key-{number}"))).collect(),
        };
        for keys in keys.chunks((batch / a_lane).max(1)) {
            let mut last = vec![(0, 0); keys.len()];
            loop {
                let requests = keys.iter().zip(&last);
                let requests = requests
                    .map(|(key, (upto, settled))| lane(key.clone(), *upto, *settled, a_lane));
                let requests: Vec<_> = requests.collect();
                let released = self.store.release(&self.owner, &self.known, &requests).await?;
                for (last, run) in last.iter_mut().zip(&released.runs) {
                    let upto = run.messages.last().map_or(0, |message| message.position.sequence);
                    *last = (upto, run.messages.len() as u64);
                }
                if last.iter().all(|(upto, _)| *upto == 0) {
                    break;
                }
            }
        }
        Ok(())
    }
}
