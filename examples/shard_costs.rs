//! A benchmark: the CPU time of the busiest primary of a Redis Cluster per message, for a destination without shards and
//! with shards. One process does all the work, so the wall clock says nothing about a cluster; the CPU time of each
//! primary does.
//!
//! `make bench-shards`, or `cargo run --release --example shard_costs -- 100000 16 4`. The arguments are the number of
//! messages (each has a key of its own), the shards and the primaries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use config::Config;
use domain::{Destination, Ordering as Lanes, Stamped, TransformKind};
use reseq::{Failure, Output, Reseq, Running, Transform};
use reseq_testing::support::{cluster::TestCluster, receiver::count_lines};
use tokio::net::TcpListener;

/// Messages in one request.
const BATCH: u64 = 2_000;

/// Messages that are processed at once, and lanes that are delivered at once.
const AT_ONCE: u32 = 2_048;

/// A transform that changes nothing.
struct Same;

#[async_trait::async_trait]
impl Transform for Same {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        Ok(Output::Deliver(message.message.body.clone()))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let count = arguments.next().transpose().context("how many messages")?.unwrap_or(100_000);
    let shards = arguments.next().transpose().context("how many shards")?.unwrap_or(16);
    let primaries = arguments.next().transpose().context("how many primaries")?.unwrap_or(4);
    let cluster = TestCluster::start_of(primaries as usize).await;
    let received = Arc::new(AtomicU64::new(0));
    let receiver = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("tcp://{}", receiver.local_addr()?);
    tokio::spawn(count_lines(receiver, received.clone()));

    println!(
        "CPU of the main thread of each primary, in µs per message; {count} messages, each on a key of its own"
    );
    println!("{:>7}   {:>8}   of each primary", "shards", "busiest");
    let mut busiest = Vec::new();
    for (name, shards) in [("whole", 1), ("spread", shards as u16)] {
        let mut destination = Destination::new(name.parse()?, url.clone());
        (destination.ordering, destination.shards) = (Lanes::Key, shards);
        (destination.log_max, destination.previous_keys_max) = (0, 0);
        // Each shard has an equal part of these limits: with small parts, calls would carry few messages.
        (destination.transform.concurrency, destination.delivery.lanes_max) = (AT_ONCE, AT_ONCE);
        destination.transform.kind = TransformKind::Native;
        destination.transform.name = Some("same".to_owned());
        let mut config = Config { destinations: vec![destination], ..Config::default() };
        config.http.listen = "127.0.0.1:0".parse()?;
        config.redis.url = cluster.url();
        config.processor.concurrency = AT_ONCE as usize;
        config.outgoing.allow = vec!["127.0.0.1".parse().map_err(anyhow::Error::msg)?];
        let reseq = Reseq::new(config).transform("same", Same).start().await?;
        received.store(0, Ordering::Relaxed);
        // Connections, scripts and calibrations are not part of the cost of a message.
        send(&reseq, name, "warm", BATCH).await?;
        delivered(&received, BATCH).await;
        let before = cpu_micros(&cluster).await?;
        send(&reseq, name, "k", count).await?;
        delivered(&received, BATCH + count).await;
        let after = cpu_micros(&cluster).await?;
        reseq.stop().await?;
        let costs = after.iter().zip(before).map(|(after, before)| (after - before) / count as f64);
        let costs: Vec<f64> = costs.collect();
        let most = costs.iter().copied().fold(0.0, f64::max);
        let each: Vec<String> = costs.iter().map(|cost| format!("{cost:.1}")).collect();
        println!("{shards:>7}   {most:>8.1}   {}", each.join(" "));
        busiest.push(most);
    }
    println!("busiest primary with shards / without: {:.2}", busiest[1] / busiest[0]);
    Ok(())
}

async fn delivered(received: &AtomicU64, count: u64) {
    while received.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn send(reseq: &Running, name: &str, prefix: &str, count: u64) -> anyhow::Result<()> {
    let url = format!("http://{}/v1/messages", reseq.http);
    let client = reqwest::Client::new();
    for from in (0..count).step_by(BATCH as usize) {
        let line = |number: u64| {
            format!(
                "{{\"destinations\":[\"{name}\"],\"key\":\"{prefix}{number}\",\"body\":{{\"n\":{number}}}}}\n"
            )
        };
        let lines: String = (from..(from + BATCH).min(count)).map(line).collect();
        let request = client.post(&url).header("content-type", "application/x-ndjson").body(lines);
        let answer = request.send().await?.error_for_status()?.text().await?;
        let first = answer.lines().find(|line| line.contains("\"code\""));
        ensure!(first.is_none(), "refused: {first:?}");
    }
    Ok(())
}

/// The CPU time of the main thread of each primary so far.
async fn cpu_micros(cluster: &TestCluster) -> anyhow::Result<Vec<f64>> {
    let mut all = Vec::new();
    for node in &cluster.nodes {
        let mut sum = 0.0;
        for field in ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"] {
            sum += node.info(field).await.parse::<f64>().context(field)?;
        }
        all.push(sum * 1e6);
    }
    Ok(all)
}
