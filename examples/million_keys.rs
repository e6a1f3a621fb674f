//! A benchmark: accepts and delivers one million messages on one million ordering keys, then compares Redis
//! with its state before. It fails only if keys are left over.
//!
//! `make bench-keys`, or `cargo run --release --example million_keys -- 100000` for fewer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use config::Config;
use domain::{Destination, Ordering as Lanes};
use indicatif::{ProgressBar, ProgressStyle};
use redis::AsyncCommands;
use redis_client::embedded::EmbeddedRedis;
use reseq::{Reseq, Role};
use reseq_testing::support::receiver::count_lines;
use tokio::net::TcpListener;

/// Messages in one request.
const BATCH: u64 = 2_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let count = match std::env::args().nth(1) {
        Some(text) => text.parse().context("the argument is a number of messages")?,
        None => 1_000_000,
    };
    let directory = tempfile::tempdir()?;
    let redis = EmbeddedRedis::start(&directory.path().join("redis")).await?;
    // Listing a million keys takes longer than the default timeout.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(redis.url())?;
    let mut server = client.get_multiplexed_async_connection_with_config(&patient).await?;

    let received = Arc::new(AtomicU64::new(0));
    let receiver = TcpListener::bind("127.0.0.1:0").await?;
    let mut destination =
        Destination::new("keys".parse()?, format!("tcp://{}", receiver.local_addr()?));
    destination.ordering = Lanes::Key;
    destination.backlog_max = 2 * count;
    tokio::spawn(count_lines(receiver, received.clone()));

    let mut config = Config { destinations: vec![destination], ..Config::default() };
    config.http.listen = "127.0.0.1:0".parse()?;
    config.redis.url = redis.url();
    config.outgoing.allow = vec!["127.0.0.1".parse().map_err(anyhow::Error::msg)?];
    let ingest = Reseq::new(config.clone()).roles([Role::Ingest]).start().await?;
    let url = format!("http://{}/v1/messages", ingest.http);

    // Send one message first, to create the permanent keys (definition, epochs). Then stop the sender
    // until all messages are accepted, so that a million lanes exist at once.
    send(&url, 0, 1).await?;
    let sender = Reseq::new(config.clone()).roles([Role::Sender]).start().await?;
    delivered(&received, 1, &ProgressBar::hidden()).await;
    sender.stop().await?;
    let before = Numbers::settled(&mut server, |_| true).await?;

    let style =
        ProgressStyle::with_template("{msg:10} {bar:40} {human_pos}/{human_len} {per_sec}")?;
    let bar = ProgressBar::new(count).with_style(style.clone()).with_message("accepted");
    let begun = Instant::now();
    for from in (1..=count).step_by(BATCH as usize) {
        let to = (from + BATCH).min(count + 1);
        send(&url, from, to).await?;
        bar.inc(to - from);
    }
    bar.finish();
    let accepted = begun.elapsed();
    let peak = Numbers::read(&mut server).await?;
    let begun = Instant::now();
    let sender = Reseq::new(config).roles([Role::Sender]).start().await?;
    let bar = ProgressBar::new(count + 1).with_style(style).with_message("delivered");
    delivered(&received, count + 1, &bar).await;
    bar.finish();
    let delivered = begun.elapsed();
    // Measure as before, without a sender: an owner has keys of its own. Answers to calls expire
    // within a minute.
    sender.stop().await?;
    let after = Numbers::settled(&mut server, |now| now.keys <= before.keys).await?;
    ingest.stop().await?;
    redis.stop().await?;

    println!("messages, each on a key of its own   {count}");
    println!("accepted per second                  {:.0}", count as f64 / accepted.as_secs_f64());
    println!("delivered per second                 {:.0}", count as f64 / delivered.as_secs_f64());
    println!("                                     {:>12} {:>22}", "keys", "used_memory_dataset");
    for (when, numbers) in
        [("before", before), ("all accepted, none delivered", peak), ("afterwards", after)]
    {
        println!("{when:36} {:>12} {:>22}", numbers.keys, numbers.dataset);
    }
    ensure!(after.keys <= before.keys, "keys are left over");
    ensure!(after.dataset <= before.dataset + 4 * 1024 * 1024, "memory is left over");
    Ok(())
}

async fn send(url: &str, from: u64, to: u64) -> anyhow::Result<()> {
    let lines: String = (from..to)
        .map(|n| {
            format!("{{\"destinations\":[\"keys\"],\"key\":\"k{n}\",\"body\":{{\"n\":{n}}}}}\n")
        })
        .collect();
    let answer = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/x-ndjson")
        .body(lines)
        .send()
        .await?
        .error_for_status()?
        .text()
        .await?;
    ensure!(!answer.contains("\"code\""), "refused: {}", answer.lines().next().unwrap_or_default());
    Ok(())
}

async fn delivered(received: &AtomicU64, count: u64, bar: &ProgressBar) {
    while received.load(Ordering::Relaxed) < count {
        bar.set_position(received.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Keys and memory of Redis.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    keys: u64,
    dataset: u64,
}

impl Numbers {
    async fn read(server: &mut redis::aio::MultiplexedConnection) -> anyhow::Result<Numbers> {
        let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query_async(server).await?;
        let dataset = info.get("used_memory_dataset").context("INFO has no used_memory_dataset")?;
        let keys: Vec<String> = server.keys("*").await?;
        // Answers to calls expire within a minute of the last one.
        let lasting = keys.iter().filter(|key| !key.contains(":calls:")).count();
        Ok(Numbers { keys: lasting as u64, dataset })
    }

    /// The numbers when `is_settled` holds, or after a minute.
    async fn settled(
        server: &mut redis::aio::MultiplexedConnection,
        is_settled: impl Fn(&Numbers) -> bool,
    ) -> anyhow::Result<Numbers> {
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = Numbers::read(server).await?;
            if is_settled(&now) {
                let _: String = redis::cmd("MEMORY").arg("PURGE").query_async(server).await?;
                return Numbers::read(server).await;
            }
        }
        Numbers::read(server).await
    }
}
