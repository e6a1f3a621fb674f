//! A benchmark: what a message costs Redis that is alone in its destination, among many destinations. Uses only
//! Redis and the store, no pods and no receivers, so nothing but the scripts changes the result.
//!
//! `make bench-sparse`, or `cargo run --release --example sparse_costs -- 20000 20 1000 0`. The arguments are the
//! number of messages, how many are on their way at once (calls go to Redis together meanwhile), the number of
//! destinations, how many messages their logs hold, and the URL of another Redis than the embedded one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use domain::{Arrival, Body, Destination, Message, TransformKind};
use redis::aio::MultiplexedConnection;
use redis_client::embedded::EmbeddedRedis;
use store::{
    CallSequence, CatalogEntry, Completion, LaneRequest, LogEntry, Owner, OwnerToken, Paused,
    Settled, Store,
};

/// Bytes in each body.
const BODY_BYTES: usize = 200;
const LEASE: Duration = Duration::from_secs(3600);
/// The calls of one message: ingest, claim, complete, release, and release again to settle it.
const CALLS: usize = 5;

/// A destination, and the callers that pods have for it.
struct Quiet {
    known: CatalogEntry,
    owner: Owner,
    ingest: CallSequence,
    claim: CallSequence,
}

/// What Redis has used.
struct Used {
    micros: f64,
    scripts: usize,
    commands: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, unless: usize| {
        let given = arguments.get(at).map(|text| text.parse::<usize>());
        Ok::<_, anyhow::Error>(given.transpose().context("not a number")?.unwrap_or(unless))
    };
    let (messages, at_once) = (number(0, 20_000)?, number(1, 20)?);
    let (destinations, log_max) = (number(2, 1000)?, number(3, 0)?);
    ensure!(at_once <= destinations, "each of these messages needs a destination of its own");
    let directory = tempfile::tempdir()?;
    let embedded = match arguments.get(4) {
        Some(_) => None,
        None => Some(EmbeddedRedis::start(&directory.path().join("redis")).await?),
    };
    let url = arguments.get(4).cloned().or_else(|| embedded.as_ref().map(EmbeddedRedis::url));
    let url = url.context("there is a Redis")?;
    let settings = config::Redis { url: url.clone(), ..config::Redis::default() };
    let (store, _) = Store::open(&settings, Duration::ZERO).await?;
    let all = define(&store, destinations, log_max).await?;
    let mut server = redis::Client::open(url)?.get_multiplexed_async_connection().await?;

    run(&store, &all, destinations.min(messages), at_once).await?;
    let before = used(&mut server).await?;
    run(&store, &all, messages, at_once).await?;
    let after = used(&mut server).await?;
    let of_each = |count: usize| count as f64 / messages as f64;
    let scripts = after.scripts - before.scripts;
    println!(
        "{destinations} destinations, {at_once} messages at once, logs of {log_max}: {:.1} blocks a call; \
         Redis {:.1} µs a message, {:.1} commands",
        (CALLS * messages) as f64 / scripts as f64,
        (after.micros - before.micros) / messages as f64,
        of_each(after.commands - before.commands),
    );
    if let Some(redis) = embedded {
        redis.stop().await?;
    }
    Ok(())
}

async fn used(server: &mut MultiplexedConnection) -> anyhow::Result<Used> {
    let info: String =
        redis::cmd("INFO").arg("CPU").arg("COMMANDSTATS").query_async(server).await?;
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.parse::<f64>().ok()).context("INFO CPU has no such field")
    };
    let seconds = of("used_cpu_user_main_thread")? + of("used_cpu_sys_main_thread")?;
    let calls = info.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name, rest.split(',').next()?.parse::<usize>().ok()?))
    });
    let is_script = |name: &str| name.starts_with("eval");
    let (mut scripts, mut commands) = (0, 0);
    for (name, count) in calls {
        if is_script(name) { scripts += count } else { commands += count }
    }
    Ok(Used { micros: seconds * 1e6, scripts, commands })
}

async fn define(store: &Store, count: usize, log_max: usize) -> anyhow::Result<Vec<Quiet>> {
    let mut owners = HashMap::new();
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        let mut destination =
            Destination::new(format!("quiet-{number}").parse()?, "tcp://127.0.0.1:1");
        destination.transform.kind = TransformKind::Native;
        destination.log_max = log_max as u64;
        let defined = store.define(&destination).await?;
        let partition = store.keys().partition_of(&destination.name);
        if let Entry::Vacant(owner) = owners.entry(partition) {
            let token = OwnerToken::random();
            let epoch = store.acquire_partition(partition, &token, LEASE).await?.epoch;
            owner.insert(Owner { token, epoch });
        }
        let caller = |role: &str| store.new_call_sequence(&format!("{role}:quiet-{number}"));
        all.push(Quiet {
            owner: owners[&partition].clone(),
            ingest: caller("ingest"),
            claim: caller("claim"),
            known: CatalogEntry {
                of_all_shards: None,
                destination,
                version: defined.version,
                partition,
                paused: Paused::default(),
                born: defined.born,
            },
        });
    }
    Ok(all)
}

/// Passes messages through all scripts, several at a time, each alone in its destination.
async fn run(store: &Store, all: &[Quiet], count: usize, at_once: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..at_once).map(|first| {
        let next = next.clone();
        async move {
            let mine = (first..all.len()).step_by(at_once);
            for number in mine.cycle() {
                if next.fetch_add(1, Ordering::Relaxed) >= count {
                    break;
                }
                pass(store, &all[number]).await?;
            }
            anyhow::Ok(())
        }
    });
    futures::future::try_join_all(tasks).await?;
    Ok(())
}

/// The life of one message.
async fn pass(store: &Store, quiet: &Quiet) -> anyhow::Result<()> {
    let Quiet { known, owner, ingest, claim } = quiet;
    let message = Message {
        id: uuid::Uuid::now_v7().to_string(),
        key: None,
        headers: Vec::new(),
        body: Body {
            content_type: "application/json".into(),
            bytes: vec![b'x'; BODY_BYTES].into(),
        },
        received_ms: 1_795_000_000_000,
    };
    let epoch = owner.epoch.max(known.born);
    store.ingest(ingest, known, epoch, &[&Arrival::of(message)]).await?;
    let claimed = store.claim(claim, known, 1..=16, LEASE).await?;
    let completion = |(token, output)| Completion { token, output, is_unchanged: false };
    let done: Vec<Completion> = claimed.messages.into_iter().map(completion).collect();
    ensure!(done.len() == 1, "{} messages were claimed", done.len());
    store.complete(known, &done).await?;
    let mut lane = LaneRequest { key: None, settled: Settled::default(), held_upto: 0, limit: 256 };
    let released = store.release(owner, known, std::slice::from_ref(&lane)).await?;
    let messages = &released.runs[0].messages;
    ensure!(messages.len() == 1, "{} messages were released", messages.len());
    let has_log = known.destination.log_max > 0;
    let entry = has_log.then(|| LogEntry::of(&messages[0], 1, 1, false));
    lane.settled.add(&messages[0], entry);
    store.release(owner, known, &[lane]).await?;
    Ok(())
}
