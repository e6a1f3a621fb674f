//! A destination that is written into a topic.

use std::collections::BTreeMap;

use reqwest::Method;
use reseq_testing::support::{redis::TestRedis, wait::eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::broker::{Kafka, kafka, pair};
use crate::reseq::{Reseq, kills};

/// Sends messages with these keys and bodies.
async fn send(reseq: &Reseq, messages: impl IntoIterator<Item = (String, Value)>) {
    let line = |(key, body)| json!({"destinations": ["erp"], "key": key, "body": body}).to_string();
    let lines: Vec<String> = messages.into_iter().map(line).collect();
    for lines in lines.chunks(500) {
        reseq.send_lines(lines).await;
    }
}

/// Waits until all is accepted.
async fn is_empty(reseq: &Reseq) {
    eventually("all is accepted", async || {
        let (_, stats) = reseq.ask(Method::GET, "/v1/destinations/erp/stats", None).await;
        match stats["pending"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(stats.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_a_record_with_its_place_in_headers() {
    let (redis, kafka) = (TestRedis::start().await, kafka().await);
    kafka.create("written", 1, &[]).await;
    let reseq = Reseq::start(redis.url(), &["erp"]).await;
    let mut sink = kafka.sink(&reseq, "written");
    let check = sink.asks("check");
    assert!(check.status.success(), "{check:?}");
    let message = json!({"destinations": ["erp"], "key": "a", "id": "m1", "body": {"n": 1.0}, "headers": {"x-t": "7"}});
    let (status, answer) = reseq.ask(Method::POST, "/v1/messages", Some(message)).await;
    assert_eq!(status, 202, "{answer}");
    let epoch = &answer["deliveries"][0]["epoch"];
    send(&reseq, [("a".to_owned(), json!(null))]).await;
    sink.start(&[]);
    sink.is_ready().await;
    is_empty(&reseq).await;
    let lines = kafka.reads("written", 2, Some("headers")).await;
    let expected = format!(
        "x-t:7;content-type:application/json;reseq-id:m1;reseq-key:a;reseq-epoch:{epoch};reseq-sequence:1;\
         reseq-previous:0|a|{{\"n\":1.0}}"
    );
    assert_eq!(lines[0], expected);
    assert!(lines[1].ends_with("reseq-sequence:2;reseq-previous:1|a|null"), "{}", lines[1]);
    assert_eq!(sink.metric("reseq_connect_sent_total").await, 2.0);
    sink.drains().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_is_too_large_is_refused_and_no_other() {
    let (redis, kafka) = (TestRedis::start().await, kafka().await);
    kafka.create("small", 2, &[("max.message.bytes", "200000")]).await;
    let fields =
        "ordering = \"key\"\non_exhausted = \"dead_letter\"\ndelivery = { kind = \"pull\" }";
    let reseq = Reseq::start_as(redis.url(), fields).await;
    let body = |number: u64| match number {
        25 => json!("x".repeat(300_000)),
        number => json!(number),
    };
    send(&reseq, (0..50).map(|number| (format!("k{}", number % 5), body(number)))).await;
    let mut sink = kafka.sink(&reseq, "small");
    sink.start(&[]);
    is_empty(&reseq).await;
    let lines = kafka.reads("small", 49, None).await;
    let mut keys = BTreeMap::<String, Vec<u64>>::new();
    for (key, number) in lines.iter().map(|line| pair(line)) {
        keys.entry(key).or_default().push(number);
    }
    for (key, numbers) in &keys {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    assert!(!keys["k0"].contains(&25) && keys["k0"].len() == 9);
    assert_eq!(sink.metric("reseq_connect_refused_total").await, 1.0);
    let (_, dead) = reseq.ask(Method::GET, "/v1/destinations/erp/dead-letters", None).await;
    assert_eq!(dead["items"][0]["sequence"], 26, "{dead}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_gives_back_before_its_lease_ends() {
    let (redis, kafka) = (TestRedis::start().await, Kafka::start().await);
    kafka.create("slow", 1, &[]).await;
    let fields = "ordering = \"key\"\ndelivery = { kind = \"pull\", timeout_ms = 3000 }";
    let reseq = Reseq::start_as(redis.url(), fields).await;
    let mut sink = kafka.sink(&reseq, "slow");
    sink.start(&[]);
    send(&reseq, (0..20).map(|number| (format!("k{}", number % 5), json!(number)))).await;
    is_empty(&reseq).await;
    kafka.signal(Signal::STOP);
    send(&reseq, (20..40).map(|number| (format!("k{}", number % 5), json!(number)))).await;
    sink.is_held_by("waiting: Kafka").await;
    assert!(sink.metric("reseq_connect_returned_total").await > 0.0, "{}", sink.log());
    kafka.signal(Signal::CONT);
    is_empty(&reseq).await;
    assert!(!sink.log().contains("leases had ended"), "{}", sink.log());
    let count = kafka.end_of("slow").await;
    let lines = kafka.reads("slow", count as usize, Some("headers")).await;
    let expected = crate::world::by_key((0..40).map(|number| (format!("k{}", number % 5), number)));
    assert_eq!(taken(&lines), expected);
}

/// What a reader knows of a key: the epoch and the sequence of the last record that it took.
type Last = BTreeMap<String, (u64, u64)>;

/// Reads as the documentation says, and returns the bodies that it takes, by key.
fn taken(lines: &[String]) -> BTreeMap<String, Vec<u64>> {
    let (mut last, mut taken) = (Last::new(), BTreeMap::<String, Vec<u64>>::new());
    for line in lines {
        let (headers, rest) = line.split_once('|').unwrap();
        let (key, number) = pair(rest);
        let header = |name: &str| {
            let found = headers.split(';').find_map(|header| header.strip_prefix(name));
            found.map(|value| value.parse::<u64>().unwrap())
        };
        let place = (header("reseq-epoch:").unwrap(), header("reseq-sequence:").unwrap());
        if last.get(&key).is_some_and(|last| place <= *last) {
            continue;
        }
        // Nothing is missing before it.
        if let Some(previous) = header("reseq-previous:") {
            assert_eq!(previous, last.get(&key).map_or(0, |last| last.1), "{line}");
        }
        last.insert(key.clone(), place);
        taken.entry(key).or_default().push(number);
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_is_written_in_order_through_kills() {
    let (redis, kafka) = (TestRedis::start().await, Kafka::start().await);
    kafka.create("out", 3, &[]).await;
    let fields = "ordering = \"key\"\ndelivery = { kind = \"pull\", timeout_ms = 3000 }";
    let mut reseq = Reseq::start_as(redis.url(), fields).await;
    let mut sinks = [kafka.sink(&reseq, "out"), kafka.sink(&reseq, "out")];
    sinks.iter_mut().for_each(|sink| sink.start(&[]));
    let mut sent = 0;
    let mut more = async |reseq: &Reseq| {
        let from = sent;
        sent += 2_000;
        send(reseq, (from..sent).map(|number| (format!("k{}", number % 20), json!(number)))).await;
    };
    for round in 0..kills() {
        more(&reseq).await;
        sinks[0].kill();
        sinks[0].start(&[]);
        more(&reseq).await;
        reseq.pod.kill();
        reseq.pod.restart().await;
        more(&reseq).await;
        kafka.kill();
        kafka.restart().await;
        more(&reseq).await;
        // A frozen one wakes up after the other has got its lanes.
        sinks[0].signal(Signal::STOP);
        more(&reseq).await;
        is_empty(&reseq).await;
        sinks[0].signal(Signal::CONT);
        more(&reseq).await;
        if round % 2 == 0 {
            redis.kill_and_restart().await;
        }
    }
    more(&reseq).await;
    is_empty(&reseq).await;
    let count = kafka.end_of("out").await;
    let lines = kafka.reads("out", count as usize, Some("headers")).await;
    let expected =
        crate::world::by_key((0..sent).map(|number| (format!("k{}", number % 20), number)));
    assert_eq!(taken(&lines), expected);
    for sink in &mut sinks {
        sink.drains().await;
    }
}
