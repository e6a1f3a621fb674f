//! A benchmark with very many destinations: how fast they are defined, how fast a new pod loads them, and
//! how much work one change causes in Redis.
//!
//! `make bench-destinations`, or `cargo run --release --example many_destinations -- 10000` for fewer.

use std::time::{Duration, Instant};

use anyhow::Context;
use config::Config;
use futures::{StreamExt, TryStreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis_client::embedded::EmbeddedRedis;
use reseq::{Reseq, Role};

/// Concurrent requests.
const AT_ONCE: usize = 32;
/// Number of definitions to change one by one, to measure the cost of each change.
const CHANGED: usize = 200;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let count: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().context("the argument is a number of destinations")?,
        None => 100_000,
    };
    let directory = tempfile::tempdir()?;
    let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
    let mut server = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    let mut config = Config::default();
    config.http.listen = "127.0.0.1:0".parse()?;
    config.redis.url = redis.url();
    config.outgoing.allow = vec!["127.0.0.1".parse().map_err(anyhow::Error::msg)?];

    let all = [Role::Ingest, Role::Processor, Role::Sender];
    let first = Reseq::new(config.clone()).roles(all).start().await?;
    let api = format!("http://{}/v1/destinations", first.http);
    let client = reqwest::Client::new();
    let define = async |number: usize, path: &str| {
        let definition = format!("{{\"url\": \"http://127.0.0.1:9/{path}\"}}");
        let request = client.put(format!("{api}/d-{number}")).body(definition);
        request.send().await?.error_for_status()?;
        anyhow::Ok(())
    };
    println!("| destinations | defined in | per second | loaded by a new pod in | Redis |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    let mut costs = Vec::new();
    for (from, to) in [(0, count / 10), (count / 10, count)] {
        let begun = Instant::now();
        let defined = stream::iter((from..to).map(|number| define(number, "in")));
        defined.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let defined = begun.elapsed();
        let begun = Instant::now();
        let second = Reseq::new(config.clone()).roles([Role::Ingest]).start().await?;
        let ready = begun.elapsed();
        let memory = number(&mut server, "memory", "used_memory").await? / f64::from(1 << 20);
        let per_second = (to - from) as f64 / defined.as_secs_f64();
        println!("| {to} | {defined:.1?} | {per_second:.0} | {ready:.1?} | {memory:.0} MiB |");

        // The cost of the change itself and of the two pods that follow it. Subtracts what the senders read
        // each second when idle.
        let idle = usage(&mut server, tokio::time::sleep(Duration::from_secs(10))).await?;
        let begun = Instant::now();
        let mut failed = None;
        let changes = async {
            for number in to - CHANGED..to {
                failed = failed.take().or(define(number, "changed").await.err());
            }
        };
        let used = usage(&mut server, changes).await?;
        failed.map_or(Ok(()), Err)?;
        let seconds = begun.elapsed().as_secs_f64() / 10.0;
        let each = |at: usize| (used[at] - idle[at] * seconds).max(0.0) / CHANGED as f64;
        costs.push((to, each(0), each(1), idle[0] / 10.0));
        second.stop().await?;
    }
    println!(
        "\n| destinations | commands per change | bytes per change | commands per second, idle |"
    );
    println!("| ---: | ---: | ---: | ---: |");
    for (destinations, commands, bytes, idle) in costs {
        println!("| {destinations} | {commands:.0} | {bytes:.0} | {idle:.0} |");
    }
    first.stop().await?;
    redis.stop().await?;
    Ok(())
}

/// Commands that Redis ran and bytes that it sent during `work`.
async fn usage(
    server: &mut MultiplexedConnection,
    work: impl Future<Output = ()>,
) -> anyhow::Result<[f64; 2]> {
    let fields = ["total_commands_processed", "total_net_output_bytes"];
    let mut before = [0.0; 2];
    for (at, field) in fields.iter().enumerate() {
        before[at] = number(server, "stats", field).await?;
    }
    work.await;
    let mut used = [0.0; 2];
    for (at, field) in fields.iter().enumerate() {
        used[at] = number(server, "stats", field).await? - before[at];
    }
    Ok(used)
}

async fn number(
    server: &mut MultiplexedConnection,
    section: &str,
    field: &str,
) -> anyhow::Result<f64> {
    let info: redis::InfoDict = redis::cmd("INFO").arg(section).query_async(server).await?;
    info.get(field).with_context(|| format!("INFO has no {field}"))
}
