//! What the source does with records, and where it goes on.

use std::{collections::BTreeMap, time::Duration};

use krafka::Record;
use reqwest::Method;
use reseq_testing::support::{redis::TestRedis, wait::eventually};
use serde_json::{Value, json};

use super::broker::{Kafka, kafka};
use crate::{connector::Connector, reseq::Reseq, world::by_key};

/// A topic, and a Reseq that gets it.
pub struct World {
    pub kafka: &'static Kafka,
    pub reseq: Reseq,
    pub topic: &'static str,
    redis: TestRedis,
}

impl World {
    pub async fn start(topic: &'static str, partitions: i32, configs: &[(&str, &str)]) -> World {
        World::start_over(TestRedis::start().await, topic, partitions, configs).await
    }

    async fn start_over(
        redis: TestRedis,
        topic: &'static str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> World {
        let kafka = kafka().await;
        kafka.create(topic, partitions, configs).await;
        let reseq = Reseq::start(redis.url(), &["erp"]).await;
        World { kafka, reseq, topic, redis }
    }

    pub fn connector(&self, source: &str, more: &str) -> Connector {
        self.kafka.source(&self.reseq, self.topic, source, more)
    }

    /// A connector that is ready.
    pub async fn connected(&self, source: &str, more: &str) -> Connector {
        let mut connector = self.connector(source, more);
        connector.start(&[]);
        connector.is_ready().await;
        connector
    }

    /// Writes these numbers, all with one key.
    pub async fn write(&self, numbers: impl IntoIterator<Item = u64>) {
        self.kafka
            .write(self.topic, numbers.into_iter().map(|number| ("a".to_owned(), number)))
            .await;
    }

    /// Takes all, and returns their bodies.
    pub async fn bodies(&self, count: usize) -> Vec<Value> {
        self.reseq.has("erp", count as u64).await;
        let taken = self.reseq.take("erp", count).await;
        taken.into_iter().map(|mut message| message["body"].take()).collect()
    }
}

/// The numbers as they are in answers.
fn numbers(numbers: std::ops::Range<u64>) -> Vec<Value> {
    numbers.map(Value::from).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_once_and_go_on_after_the_mark() {
    let world = World::start("resumes", 3, &[]).await;
    let records = |from: u64| (from..from + 300).map(|number| (format!("k{}", number % 7), number));
    world.kafka.write(world.topic, records(0)).await;
    let mut connector = world.connected("", "").await;
    world.reseq.has("erp", 300).await;
    connector.drains().await;
    world.kafka.write(world.topic, records(300)).await;
    // Another process knows no more than the marks.
    drop(connector);
    let mut connector = world.connected("", "").await;
    world.reseq.has("erp", 600).await;
    let row = |message: &Value| {
        (message["key"].as_str().unwrap().to_owned(), message["body"].as_u64().unwrap())
    };
    let taken = world.reseq.take("erp", 600).await;
    let expected = by_key((0..600).map(|number| (format!("k{}", number % 7), number)));
    assert_eq!(by_key(taken.iter().map(row)), expected);
    assert_eq!(connector.metric("reseq_connect_duplicates_total").await, 0.0);
    let status = String::from_utf8(connector.asks("status").stdout).unwrap();
    assert_eq!(status.matches(": 0 records behind").count(), 3, "{status}");
    let check = connector.asks("check");
    assert!(check.status.success(), "{check:?}");
    connector.drains().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connector_down_longer_than_the_window_repeats_nothing() {
    let redis = TestRedis::start_with_clock().await;
    let world = World::start_over(redis, "window", 1, &[]).await;
    let mut connector = world.connected("", "").await;
    world.write(0..20).await;
    let first = world.bodies(20).await;
    connector.kill();
    world.write(20..40).await;
    // Redis forgets idempotency keys after a day.
    world.redis.clock().step(Duration::from_secs(3 * 24 * 3600), true);
    connector.start(&[]);
    world.reseq.has("erp", 40).await;
    let rest = world.reseq.take("erp", 20).await;
    let all = first.into_iter().chain(rest.into_iter().map(|one| one["body"].clone()));
    assert_eq!(all.collect::<Vec<_>>(), numbers(0..40));
}

#[tokio::test(flavor = "multi_thread")]
async fn record_travels_with_its_bytes_and_headers() {
    let world = World::start("contents", 2, &[]).await;
    let producer = world.kafka.producer().await;
    let to =
        |partition: i32, body: &'static [u8]| Record::new("contents", body).partition(partition);
    for record in [
        to(1, b"{\"n\": 1.0}").header("ce_type", "t").header("other", "x"),
        to(1, b"\x00\xff").key("k").header("content-type", "image/x"),
        Record::tombstone("contents", "gone").partition(1),
        to(1, b"not JSON").key("k"),
    ] {
        let _ = producer.send(record).await.unwrap();
    }
    let connector = world.connected("", "").await;
    world.reseq.has("erp", 4).await;
    let taken = world.reseq.take("erp", 4).await;
    let shown: BTreeMap<&str, Vec<Value>> = ["1", "k", "gone"]
        .into_iter()
        .map(|key| {
            let of_key = taken.iter().filter(|message| message["key"] == key);
            let fields = |message: &Value| {
                json!([
                    message["content_type"],
                    message["body"],
                    message["body_base64"],
                    message["headers"]
                ])
            };
            (key, of_key.map(fields).collect())
        })
        .collect();
    // Without a key, the partition is the key.
    assert_eq!(shown["1"], [json!(["application/json", {"n": 1.0}, null, {"ce-type": "t"}])]);
    let tombstone = json!({"x-kafka-tombstone": "true"});
    assert_eq!(shown["gone"], [json!(["application/octet-stream", null, "", tombstone])]);
    assert_eq!(shown["k"][0], json!(["image/x", null, "AP8=", {}]));
    assert_eq!(shown["k"][1], json!(["application/json", null, "bm90IEpTT04=", {}]));
    assert_eq!(connector.metric("reseq_connect_refused_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn gaps_in_the_offsets_are_no_gaps_of_the_source() {
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    let world = World::start("gaps", 1, &configs).await;
    let kafka = world.kafka.connect().await;
    let producer = kafka.producer().build_transactional("gaps").await.unwrap();
    let mut expected = BTreeMap::new();
    for round in 0..9_u64 {
        producer.begin().unwrap();
        for number in 0..5 {
            let body = (round * 5 + number).to_string();
            let record = Record::new("gaps", body).key(format!("k{round}"));
            let _ = producer.send(record).await.unwrap();
        }
        if round % 3 == 1 {
            producer.abort().await.unwrap();
        } else {
            producer.commit().await.unwrap();
            expected.insert(format!("k{round}"), round * 5 + 4);
        }
    }
    // The cleaner takes what is before the last segment, but for the last record of each key.
    eventually("the topic is compacted", async || {
        world.write([1_000]).await;
        match world.kafka.count(world.topic).await {
            (count, end) if count <= 15 && end > 54 => Ok(()),
            counted => Err(format!("{counted:?}")),
        }
    })
    .await;
    expected.insert("a".to_owned(), 1_000);
    let (_, end) = world.kafka.count(world.topic).await;
    let connector = world.connected("", "").await;
    // Also over what is behind the last record, if it is one that nobody reads.
    marked(&world.reseq, |mark| mark == format!("{:019}", end - 1)).await;
    let count = world.reseq.count("erp").await;
    assert!(count <= 20, "{count}");
    let taken = world.reseq.take("erp", count as usize).await;
    let last: BTreeMap<String, u64> = taken
        .iter()
        .map(|message| {
            (message["key"].as_str().unwrap().to_owned(), message["body"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(last, expected);
    assert_eq!(connector.metric("reseq_connect_rewinds_total").await, 0.0);
    // An aborted transaction at the end moves the mark too.
    producer.begin().unwrap();
    let _ = producer.send(Record::new("gaps", "0").key("k")).await.unwrap();
    producer.abort().await.unwrap();
    marked(&world.reseq, |mark| mark == format!("{:019}", end + 1)).await;
}

/// Waits until the mark is so.
pub async fn marked(reseq: &Reseq, is_so: impl Fn(&str) -> bool) -> (String, String) {
    eventually("the mark", async || match reseq.mark("erp").await {
        Some((name, mark)) if is_so(&mark) => Ok((name, mark)),
        other => Err(format!("{other:?}")),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn poisonous_record_halts_its_partition_only() {
    let world = World::start("poison", 2, &[]).await;
    let producer = world.kafka.producer().await;
    let to = |partition: i32, body: &'static str| Record::new("poison", body).partition(partition);
    let poison = || to(0, "2").header("x-raw", &b"\xff"[..]);
    for record in [to(0, "1"), poison(), to(0, "3"), to(1, "4")] {
        let _ = producer.send(record).await.unwrap();
    }
    let mut connector = world.connector("", "");
    connector.start(&[]);
    connector
        .is_held_by("orders/0: halted: the message at 0000000000000000001: header x-raw")
        .await;
    world.reseq.has("erp", 2).await;
    // The other partition goes on.
    let _ = producer.send(to(1, "5")).await.unwrap();
    world.reseq.has("erp", 3).await;
    connector.drains().await;
    let connector = world.connected("on_refused = \"skip\"", "").await;
    world.reseq.has("erp", 4).await;
    assert_eq!(connector.metric("reseq_connect_refused_total{source=\"orders/0\"}").await, 1.0);
    let mut bodies = world.bodies(4).await;
    bodies.sort_by_key(Value::as_u64);
    assert_eq!(bodies, [json!(1), json!(3), json!(4), json!(5)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn begin_at_says_where_an_unread_topic_begins() {
    let world = World::start("begins", 1, &[]).await;
    world.write(0..10).await;
    let mut connector = world.connector("", "");
    connector.start(&["--begin-at", "orders/0=0000000000000000006"]);
    assert_eq!(world.bodies(3).await, numbers(7..10));
    connector.is_ready().await;
    // Wait for the commit, which is for monitors only.
    world.kafka.has_committed(world.topic, 10).await;
    connector.drains().await;
    // The marks are gone: the group shows that the topic was read.
    let (name, _) = world.reseq.mark("erp").await.unwrap();
    let path = format!(
        "/v1/destinations/erp/sources?name={}",
        name.replace('/', "%2F").replace('@', "%40")
    );
    let (status, answer) = world.reseq.ask(Method::DELETE, &path, None).await;
    assert!(status < 300, "{answer}");
    connector.start(&[]);
    connector.is_held_by("halted: group begins has read begins/0 up to 10").await;
    world.write(10..12).await;
    connector.drains().await;
    connector.start(&["--begin-at", "committed"]);
    world.reseq.has("erp", 5).await;
    let taken = world.reseq.take("erp", 2).await;
    assert_eq!(taken[1]["body"], json!(11));
}
