//! Tests fairness between destinations, in the order in which messages are started: a tenant that floods does not delay
//! the others, and weights hold.

use std::{collections::HashSet, sync::Arc};

use config::Config;
use domain::{DeliveryKind, Destination, TransformKind};
use reseq::{Failure, Output, Reseq, Running, Stamped, Transform};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    policies::scenario::Scenario,
    support::{pods::client, redis::TestRedis, wait::within},
};

/// Other tenants, and the messages of each of them.
const OTHERS: usize = 99;
const OF_EACH: usize = 3;
/// The slots of the processor.
const SLOTS: usize = 8;
/// Messages of each destination that has more than can be processed.
const FLOOD: usize = 600;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("tenant-{number}")).collect()
}

/// A transform that tells the test what it starts, and ends when the test allows it: the oldest first.
struct Work {
    started: mpsc::UnboundedSender<String>,
    may_end: Arc<Semaphore>,
}

#[async_trait::async_trait]
impl Transform for Work {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        self.started.send(message.destination.to_string()).unwrap();
        self.may_end.acquire().await.unwrap().forget();
        Ok(Output::Deliver(message.message.body.clone()))
    }
}

/// A pod in this process, with few slots for these destinations.
struct Processor {
    running: Running,
    started: mpsc::UnboundedReceiver<String>,
    may_end: Arc<Semaphore>,
    _redis: TestRedis,
}

impl Processor {
    async fn start(weights: impl Iterator<Item = (String, u32)>) -> Processor {
        let redis = TestRedis::start().await;
        let destinations = weights.map(|(name, weight)| {
            let mut destination = Destination::new(name.parse().unwrap(), "");
            destination.url = None;
            destination.delivery.kind = DeliveryKind::None;
            destination.transform.kind = TransformKind::Native;
            destination.transform.name = Some("work".into());
            Destination { weight, ..destination }
        });
        let mut config = Config { destinations: destinations.collect(), ..Config::default() };
        config.http.listen = "127.0.0.1:0".parse().unwrap();
        config.redis.url = redis.url().to_owned();
        config.processor.concurrency = SLOTS;
        let (sender, started) = mpsc::unbounded_channel();
        let may_end = Arc::new(Semaphore::new(0));
        let work = Work { started: sender, may_end: may_end.clone() };
        let running = Reseq::new(config).transform("work", work).start().await.unwrap();
        Processor { running, started, may_end, _redis: redis }
    }

    fn url(&self) -> String {
        format!("http://{}/v1/messages", self.running.http)
    }

    /// The destination of the next message that is started.
    async fn next(&mut self) -> String {
        within("a message is started", self.started.recv()).await.unwrap()
    }

    /// Ends this many messages, one after the other, and returns the destinations of those that get their slots.
    async fn ends(&mut self, count: usize) -> Vec<String> {
        let mut served = Vec::new();
        for _ in 0..count {
            self.may_end.add_permits(1);
            served.push(self.next().await);
        }
        served
    }

    async fn stop(self) {
        self.may_end.add_permits(SLOTS + OTHERS * OF_EACH + 3 * FLOOD);
        self.running.stop().await.unwrap();
    }
}

/// One pod with these destinations, for workers.
async fn scenario(weights: impl Iterator<Item = (String, u32)>) -> Scenario {
    let scenario = Scenario::start(json!({})).await;
    for (name, weight) in weights {
        let definition = json!({"weight": weight, "transform": {"kind": "worker"}});
        scenario.define(&name, definition).await;
    }
    scenario
}

/// Sends this many messages to each of these; the body is the name of the destination.
async fn send(url: String, names: &[String], of_each: usize) {
    let all = std::iter::repeat_n(names, of_each).flatten();
    let lines = all.map(|name| json!({"destinations": [name], "body": name}).to_string());
    let lines: Vec<String> = lines.collect();
    for some in lines.chunks(500) {
        let request = client().post(&url);
        let request = request.header("content-type", "application/x-ndjson").body(some.join("\n"));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 202);
        let answer = answer.text().await.unwrap();
        assert!(answer.lines().all(|line| line.contains("sequence")), "{answer}");
    }
}

/// The destinations that a worker gets, if each of its calls takes `max` messages.
async fn leased(scenario: &Scenario, names: &[String], max: usize, count: usize) -> Vec<String> {
    let mut served = Vec::new();
    while served.len() < count {
        let request = json!({"destinations": names, "max": max});
        let answer = scenario.ok("POST", "/v1/leases", request).await;
        let leases: Vec<Value> = answer["leases"].as_array().unwrap().clone();
        assert!(!leases.is_empty(), "after {}", served.len());
        served.extend(leases.iter().map(|one| one["destination"].as_str().unwrap().to_owned()));
    }
    served
}

/// How many messages of the flood were started before the last of the others.
fn of_flood(served: &[String]) -> usize {
    let last = served.iter().rposition(|name| name != "flood").unwrap();
    served[..last].iter().filter(|name| *name == "flood").count()
}

/// Checks that each destination was served by its weight.
fn by_weight(served: &[String], weights: &[(String, u32)]) {
    let sum: u32 = weights.iter().map(|(_, weight)| weight).sum();
    for (name, weight) in weights {
        let count = served.iter().filter(|one| *one == name).count() as f64;
        let ideal = served.len() as f64 * f64::from(*weight) / f64::from(sum);
        assert!((count - ideal).abs() <= 0.05 * ideal + 1.0, "{name}: {count}, not {ideal}");
    }
}

fn weights() -> Vec<(String, u32)> {
    [("light", 1), ("middle", 2), ("heavy", 5)]
        .map(|(name, weight)| (name.to_owned(), weight))
        .into()
}

#[tokio::test]
async fn flood_of_a_tenant_does_not_delay_the_others() {
    let others = names(OTHERS);
    let all = others.iter().map(String::as_str).chain(["flood"]);
    let mut processor = Processor::start(all.map(|name| (name.to_owned(), 1))).await;
    send(processor.url(), &["flood".to_owned()], FLOOD).await;
    // The flood has most of the slots, and goes on alone for a while.
    processor.next().await;
    processor.ends(100).await;
    send(processor.url(), &others, OF_EACH).await;
    let served = processor.ends((OTHERS + 1) * OF_EACH + 2 * SLOTS).await;
    // One of the flood in each round, and those that were started before the wake-ups of the others came.
    let before = of_flood(&served);
    assert!(before <= OF_EACH + 2 * SLOTS, "{before} of the flood came before");
    let late = OTHERS * OF_EACH - served.iter().filter(|name| *name != "flood").count();
    assert!(late <= SLOTS, "{late} of the others still wait");
    processor.stop().await;
}

#[tokio::test]
async fn processor_serves_destinations_by_weight() {
    let mut processor = Processor::start(weights().into_iter()).await;
    let names: Vec<String> = weights().into_iter().map(|(name, _)| name).collect();
    send(processor.url(), &names, FLOOD).await;
    processor.next().await;
    // Until all destinations have been noticed.
    let mut missing: HashSet<String> = names.into_iter().collect();
    while !missing.is_empty() {
        let served = processor.ends(10).await;
        missing.retain(|name| !served.contains(name));
    }
    processor.ends(100).await;
    by_weight(&processor.ends(640).await, &weights());
    processor.stop().await;
}

#[tokio::test]
async fn worker_gets_the_others_before_most_of_a_flood() {
    let others = names(OTHERS);
    let all: Vec<String> = others.iter().cloned().chain(["flood".to_owned()]).collect();
    let scenario = scenario(all.iter().map(|name| (name.clone(), 1))).await;
    send(scenario.pod.url("/v1/messages"), &["flood".to_owned()], FLOOD).await;
    leased(&scenario, &all, 1, 100).await;
    send(scenario.pod.url("/v1/messages"), &others, OF_EACH).await;
    let served = leased(&scenario, &all, 1, (OTHERS + 1) * OF_EACH).await;
    let before = of_flood(&served);
    assert!(before <= OF_EACH, "{before} of the flood came before");
    // The flood goes on when the others have nothing.
    assert_eq!(leased(&scenario, &all, 10, 10).await, vec!["flood"; 10]);
}

#[tokio::test]
async fn worker_gets_messages_by_weight_however_few_it_takes() {
    let scenario = scenario(weights().into_iter()).await;
    let names: Vec<String> = weights().into_iter().map(|(name, _)| name).collect();
    send(scenario.pod.url("/v1/messages"), &names, FLOOD).await;
    for max in [1, 3, 10] {
        by_weight(&leased(&scenario, &names, max, 240).await, &weights());
    }
}

#[tokio::test]
async fn keys_of_a_serial_destination_take_turns() {
    let fields =
        json!({"ordering": "key", "processing": "serial", "transform": {"kind": "worker"}});
    let scenario = Scenario::start(fields).await;
    for _ in 0..100 {
        scenario.send("x", json!({"key": "flood"})).await;
    }
    let others = names(20);
    for key in others.iter().chain(&others) {
        scenario.send("x", json!({"key": key})).await;
    }
    let mut served = Vec::new();
    while served.iter().filter(|key| *key != "flood").count() < 2 * others.len() {
        let lease = scenario.lease(json!({})).await;
        scenario.end("complete", &lease, json!({"body": "done"})).await;
        served.push(lease[0]["key"].as_str().unwrap().to_owned());
    }
    // One before the others came, and one in each round.
    let before = of_flood(&served);
    assert!(before <= 3, "{served:?}");
}
