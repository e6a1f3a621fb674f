//! Everything is killed under load: nothing is lost, nothing is twice, each key is in the order of Kafka.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use krafka::Record;
use reseq_testing::support::{power::PoweredRedis, redis::TestRedis, wait::eventually};
use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::broker::{Kafka, kafka, pair};
use crate::{
    connector::Connector,
    reseq::{Reseq, cut_each, goes_on, kill_each, kills},
    world::by_key,
};

/// A writer of records with 20 keys.
struct Load {
    ends: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

impl Load {
    fn start(kafka: &Kafka, topic: &'static str) -> Load {
        let (ends, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let address = format!("127.0.0.1:{}", kafka.port);
        let (stop, count) = (ends.clone(), written.clone());
        let writer = tokio::spawn(async move {
            let client = krafka::Kafka::builder(address).connect().await.unwrap();
            let producer = client.producer().build().await.unwrap();
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let mut handles = Vec::new();
                for _ in 0..20 {
                    number += 1;
                    let record = Record::new(topic, number.to_string());
                    let record = record.key(format!("k{}", number * 7919 % 20));
                    // What has no answer is perhaps written: Kafka itself says so later.
                    handles.extend(producer.enqueue(record).await);
                }
                for handle in handles {
                    let is_written = handle.await.is_ok();
                    count.fetch_add(u64::from(is_written), Ordering::Relaxed);
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        });
        Load { ends, written, writer }
    }

    /// Waits until it has written so many more.
    async fn writes(&self, more: u64) {
        let written = || self.written.load(Ordering::Relaxed);
        let until = written() + more;
        eventually("records are written", async || match written() {
            found if found >= until => Ok(()),
            found => Err(found.to_string()),
        })
        .await;
    }

    /// Ends the writer, and says how many records it knows to be written.
    async fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.writer.await.unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

/// Checks that Reseq has all that Kafka's own consumer reads, once: each partition arrived in its order, and each key is
/// delivered in order.
async fn has_all(reseq: &Reseq, kafka: &Kafka, topic: &str, written: u64) {
    let count = kafka.end_of(topic).await;
    assert!(count >= written && written > 0, "{count} of {written}");
    reseq.has("erp", count).await;
    let lines = kafka.reads(topic, count as usize, Some("partition")).await;
    let mut taken = reseq.take("erp", count as usize).await;
    let number = |message: &Value| message["body"].as_u64().unwrap();
    let row = |message: &Value| (message["key"].as_str().unwrap().to_owned(), number(message));
    // `Partition:3|k1|17`
    let split = |line: &String| {
        let (partition, rest) = line.split_once('|').unwrap();
        (partition.to_owned(), pair(rest))
    };
    let read: Vec<(String, (String, u64))> = lines.iter().map(split).collect();
    assert_eq!(by_key(taken.iter().map(row)), by_key(read.iter().map(|(_, row)| row.clone())));
    let partitions: BTreeMap<u64, &String> =
        read.iter().map(|(partition, (_, number))| (*number, partition)).collect();
    let place = |message: &Value| [&message["epoch"], &message["sequence"]].map(Value::as_u64);
    taken.sort_by_key(place);
    let arrived = taken.iter().map(number).map(|number| (partitions[&number].clone(), number));
    let expected = read.iter().map(|(partition, (_, number))| (partition.clone(), *number));
    assert_eq!(by_key(arrived), by_key(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_arrives_in_order_through_kills() {
    let (redis, kafka) = (TestRedis::start().await, Kafka::start().await);
    kafka.create("kills", 3, &[]).await;
    let mut reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connector = kafka.source(&reseq, "kills", "", "");
    connector.start(&[]);
    connector.is_ready().await;
    let load = Load::start(&kafka, "kills");
    for _ in 0..kills() {
        kill_each(&mut connector, &mut reseq, &redis).await;
        goes_on(&reseq, 100).await;
        kafka.kill();
        kafka.restart().await;
    }
    goes_on(&reseq, 100).await;
    let written = load.end().await;
    has_all(&reseq, &kafka, "kills", written).await;
    connector.drains().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_tail_of_redis_is_read_again_from_kafka() {
    let (mut redis, kafka) = (PoweredRedis::start("everysec").await, kafka().await);
    kafka.create("tails", 3, &[]).await;
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connector = kafka.source(&reseq, "tails", "", "");
    connector.start(&[]);
    connector.is_ready().await;
    redis.synced().await;
    let load = Load::start(kafka, "tails");
    // The marks of all partitions must be there before the first cut.
    goes_on(&reseq, 200).await;
    redis.synced().await;
    cut_each(&reseq, &mut redis).await;
    let written = load.end().await;
    has_all(&reseq, kafka, "tails", written).await;
    assert!(connector.log().contains("rewinding"), "{}", connector.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn connectors_that_join_and_leave_share_the_partitions() {
    let (redis, kafka) = (TestRedis::start().await, kafka().await);
    kafka.create("rebalances", 8, &[]).await;
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connectors: Vec<Connector> =
        (0..4).map(|_| kafka.source(&reseq, "rebalances", "", "")).collect();
    connectors[0].start(&[]);
    connectors[0].is_ready().await;
    let load = Load::start(kafka, "rebalances");
    for round in 0..kills() {
        for connector in &mut connectors[1..] {
            connector.start(&[]);
            goes_on(&reseq, 50).await;
        }
        // All of them read some of the partitions.
        for connector in &connectors {
            let name = "reseq_connect_accepted_total";
            eventually("the connector reads", async || match connector.total(name).await {
                count if count > 0.0 => Ok(()),
                _ => Err(connector.log()),
            })
            .await;
        }
        for (index, connector) in connectors[1..].iter_mut().enumerate() {
            match (round + index) % 2 {
                0 => connector.kill(),
                _ => connector.drains().await,
            }
            goes_on(&reseq, 50).await;
        }
    }
    let written = load.end().await;
    has_all(&reseq, kafka, "rebalances", written).await;
}

/// Four connectors, of which one joins and one leaves again and again, each time before the group has shared out its
/// partitions: a minute in `make test-connect`.
#[tokio::test(flavor = "multi_thread")]
async fn storm_of_rebalances_loses_nothing_and_keeps_the_order() {
    let (redis, kafka) = (TestRedis::start().await, kafka().await);
    kafka.create("rebalances-storm", 8, &[]).await;
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut connectors: Vec<Connector> =
        (0..4).map(|_| kafka.source(&reseq, "rebalances-storm", "", "")).collect();
    connectors[..3].iter_mut().for_each(|connector| connector.start(&[]));
    connectors[0].is_ready().await;
    let load = Load::start(kafka, "rebalances-storm");
    for change in 0..(kills() * 6 / 5).max(4) {
        // About a second.
        load.writes(1_000).await;
        connectors[(change + 3) % 4].start(&[]);
        let leaves = &mut connectors[change % 4];
        match change % 3 {
            0 => leaves.kill(),
            _ => leaves.ends().await,
        }
    }
    goes_on(&reseq, 100).await;
    let written = load.end().await;
    has_all(&reseq, kafka, "rebalances-storm", written).await;
}

/// How many partitions a connector reads.
async fn partitions_of(connector: &Connector) -> f64 {
    connector.metric("reseq_connect_partitions").await
}

/// Two connectors are frozen at any time. Each wakes up when the group has given away the partitions of two of them, so
/// after at least twice the session time-out.
#[tokio::test(flavor = "multi_thread")]
async fn two_frozen_connectors_wake_up_late_and_change_nothing() {
    let (redis, kafka) = (TestRedis::start().await, kafka().await);
    kafka.create("zombies", 2, &[]).await;
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut all: Vec<Connector> = (0..3).map(|_| kafka.source(&reseq, "zombies", "", "")).collect();
    all[0].start(&[]);
    all[0].is_ready().await;
    let load = Load::start(kafka, "zombies");
    for round in 0..kills().max(2) + 2 {
        let (reads, next) = (round % 3, (round + 1) % 3);
        goes_on(&reseq, 100).await;
        if round >= 2 {
            // It was frozen for two rounds.
            all[next].signal(Signal::CONT);
            eventually("both have one partition", async || {
                let owned = [partitions_of(&all[reads]).await, partitions_of(&all[next]).await];
                if owned == [1.0, 1.0] { Ok(()) } else { Err(format!("{owned:?}")) }
            })
            .await;
        }
        all[reads].signal(Signal::STOP);
        if round < 2 {
            all[next].start(&[]);
        }
        eventually("the next one reads both partitions", async || {
            let owned = partitions_of(&all[next]).await;
            if owned == 2.0 { Ok(()) } else { Err(format!("{owned}: {}", all[next].log())) }
        })
        .await;
    }
    // What they still send arrives before the check.
    all.iter().for_each(|one| one.signal(Signal::CONT));
    goes_on(&reseq, 100).await;
    let written = load.end().await;
    has_all(&reseq, kafka, "zombies", written).await;
}
