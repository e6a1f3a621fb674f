//! Tests whole journeys with real processes, without faults in Reseq itself. All messages arrive,
//! each lane in order, for all processing times and behaviours of receivers.

use std::{net::SocketAddr, sync::Arc};

use support::{
    checker::{Found, Rule, check, drained, forgotten},
    gate::Point,
    ledger::Ledger,
    pods::{Pod, Settings, client},
    producer::{FrameProducer, Item, Producer},
    receiver::{Fault, Inbox, Receiver},
    redis::TestRedis,
    transformer::Transformer,
    wait::{eventually, within},
};

use crate::support;

/// Messages over HTTP, each to a destination with one lane and to one with a lane for each key.
const OVER_HTTP: usize = 1200;
/// Messages over each of the TCP listeners.
const OVER_TCP: usize = 400;
const KEYS: usize = 20;
const SLOWEST_MS: u64 = 20;
const SEED: u64 = 7;
/// Short backoffs: the test is about order, not about waiting.
const SOON: &str = "backoff_ms = 5\nbackoff_max_ms = 20";

const RULES: [Rule; 4] = [
    Rule { destination: "orders", by_key: false, is_transformed: true },
    Rule { destination: "accounts", by_key: true, is_transformed: true },
    Rule { destination: "lines", by_key: false, is_transformed: true },
    Rule { destination: "frames", by_key: false, is_transformed: true },
];

/// One ingest pod, three processors and two senders between four producers and three receivers.
struct Journey {
    redis: TestRedis,
    inbox: Arc<Inbox>,
    ledger: Arc<Ledger>,
    transformer: Transformer,
    ingest: Pod,
    _others: Vec<Pod>,
    _receivers: Vec<Receiver>,
}

impl Journey {
    async fn start() -> Journey {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let http = Receiver::http(&inbox).await;
        let lines = Receiver::lines(&inbox, "lines").await;
        let length = Receiver::length(&inbox, "frames").await;
        let fields = |url: String, ordering: &str, framing: &str| {
            format!(
                "url = \"{url}\"\nordering = \"{ordering}\"\n\
                 transform = {{ kind = \"http\", url = \"{}\" }}\n\
                 [destination.delivery]\nframing = \"{framing}\"\n{SOON}",
                transformer.url()
            )
        };
        let mut settings = Settings::new(redis.url())
            .destination("orders", &fields(http.url(), "destination", "lines"))
            .destination("accounts", &format!("shards = 4\n{}", fields(http.url(), "key", "lines")))
            .destination("lines", &fields(lines.tcp_url(), "destination", "lines"))
            .destination("frames", &fields(length.tcp_url(), "destination", "length"));
        settings.tcp = vec![("lines", "lines"), ("frames", "length")];
        let ingest = Pod::start("ingest", "ingest", &settings).await;
        let mut others = Vec::new();
        for name in ["processor-1", "processor-2", "processor-3"] {
            others.push(Pod::start(name, "processor", &settings).await);
        }
        for name in ["sender-1", "sender-2"] {
            others.push(Pod::start(name, "sender", &settings).await);
        }
        let ledger = Arc::new(Ledger::default());
        let receivers = vec![http, lines, length];
        Journey {
            redis,
            inbox,
            ledger,
            transformer,
            ingest,
            _others: others,
            _receivers: receivers,
        }
    }

    /// Runs two HTTP producers (one of them in batches) and two TCP producers at once.
    async fn produce(&self) {
        let destinations = ["orders", "accounts"];
        let item = |from: &str, number: usize| {
            Item::new(&destinations, Some(format!("key {}", number % KEYS)), from, number)
        };
        let doors = [self.ingest.addresses.clone()];
        let batches = async {
            let mut producer = Producer::new("batches", &doors, &self.ledger);
            for batch in 0..OVER_HTTP * 3 / 4 / 30 {
                let numbers = batch * 30..(batch + 1) * 30;
                producer.send_batch(numbers.map(|number| item("batches", number)).collect()).await;
            }
        };
        let singles = async {
            let mut producer = Producer::new("singles", &doors, &self.ledger);
            for number in 0..OVER_HTTP / 4 {
                producer.send(item("singles", number)).await;
            }
        };
        let frames = |destination: &'static str, index: usize| async move {
            let with_length = destination == "frames";
            let (name, ledger) = (destination, self.ledger.clone());
            let producer = FrameProducer { name, destination, with_length, window: 64, ledger };
            let address: SocketAddr = self.ingest.addresses.tcp(index);
            producer.send(OVER_TCP, || address).await;
        };
        tokio::join!(batches, singles, frames("lines", 0), frames("frames", 1));
    }

    async fn end(&self) -> Found {
        let names = RULES.map(|rule| rule.destination);
        drained(&self.ingest, &self.ledger, &names).await;
        forgotten(&mut self.redis.connection().await).await;
        assert_eq!(self.ledger.count(), 2 * OVER_HTTP + 2 * OVER_TCP);
        assert_eq!((self.ledger.again(), self.ledger.duplicates()), (0, 0));
        let found = check(&self.ledger, &self.inbox.journal, &RULES);
        assert_eq!(found.messages, self.ledger.count());
        // Without enough overtaking, the test would not show that Reseq restores the order.
        let overtaken = self.transformer.work.overtaken();
        assert!(overtaken > found.messages / 10, "only {overtaken} were finished out of order");
        found
    }
}

#[tokio::test]
async fn randomly_slow_messages_arrive_in_order_over_http_and_tcp() {
    let journey = Journey::start().await;
    journey.produce().await;
    let found = journey.end().await;
    assert_eq!(found.repeats, 0);
    assert_eq!(found.later_attempts, 0);
    assert_eq!(journey.transformer.work.repeats(), 0);
}

#[tokio::test]
async fn receiver_failing_a_third_of_requests_gets_all_in_order() {
    let journey = Journey::start().await;
    journey.inbox.fail(SEED, 1.0 / 3.0);
    journey.produce().await;
    let found = journey.end().await;
    let failed = journey.inbox.failed();
    let times = |fault: Fault| failed.iter().find(|(of, _)| *of == fault).unwrap().1;
    let drawn = failed.iter().filter(|(fault, _)| *fault != Fault::CutAnswered);
    assert!(drawn.into_iter().all(|(_, times)| *times > 50), "each way of failing: {failed:?}");
    // Only accepted deliveries without an answer came again.
    assert_eq!(found.repeats, times(Fault::CutAccepted));
    assert!(found.later_attempts > 100, "{found:?}");
}

#[tokio::test]
async fn hundred_destinations_deliver_at_once_despite_a_stuck_one() {
    const DESTINATIONS: usize = 100;
    const MESSAGES: usize = 100;
    let names: Vec<&'static str> = (0..DESTINATIONS)
        .map(|number| &*Box::leak(format!("to-{number:03}").into_boxed_str()))
        .collect();
    let stuck = names[17];
    let redis = TestRedis::start().await;
    let inbox = Arc::new(Inbox::default());
    let receiver = Receiver::http(&inbox).await;
    let transformer = Transformer::start(SEED, SLOWEST_MS).await;
    let settings = Settings::new(redis.url());
    let ingest = Pod::start("ingest", "ingest", &settings).await;
    let mut others = Vec::new();
    for (name, roles) in
        [("processor", "processor"), ("sender-1", "sender"), ("sender-2", "sender")]
    {
        others.push(Pod::start(name, roles, &settings).await);
    }
    // A partition that changes hands later could interrupt the stuck delivery, which would repeat
    // it.
    for sender in &others[1..] {
        eventually("the senders share the partitions", async || {
            match sender.metric("reseq_sender_partitions_owned").await as u64 {
                32 => Ok(()),
                count => Err(format!("{} has {count}", sender.name)),
            }
        })
        .await;
    }

    // Every fifth destination has a transform.
    let is_transformed = |number: usize| number.is_multiple_of(5);
    let kind = |number| if is_transformed(number) { "http" } else { "none" };
    for (number, name) in names.iter().enumerate() {
        let mut definition = serde_json::json!({
            "url": receiver.url(), "transform": {"kind": kind(number)},
            "delivery": {"timeout_ms": 300_000},
        });
        if is_transformed(number) {
            definition["transform"]["url"] = transformer.url().into();
        }
        let url = ingest.url(&format!("/v1/destinations/{name}"));
        let answer = client().put(url).json(&definition).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }

    inbox.gate.hold_only(&[stuck], Point::Arrived);
    let ledger = Arc::new(Ledger::default());
    let doors = [ingest.addresses.clone()];
    let sending = (0..4).map(|quarter| {
        let (names, doors, ledger) = (&names, &doors, &ledger);
        async move {
            let from = format!("producer-{quarter}");
            let mut producer = Producer::new(&from, doors, ledger);
            for number in (quarter..MESSAGES).step_by(4) {
                let items = names.iter().map(|name| Item::new(&[name], None, &from, number));
                producer.send_batch(items.collect()).await;
            }
        }
    });
    futures::future::join_all(sending).await;

    let free: Vec<&str> = names.iter().copied().filter(|name| *name != stuck).collect();
    drained(&ingest, &ledger, &free).await;
    inbox.gate.holds(1).await;
    assert_eq!(inbox.journal.messages_of(stuck), 0);
    assert_eq!(inbox.journal.messages(), free.len() * MESSAGES);
    // The statistics show why it is stuck.
    eventually("the stuck destination says why", async || {
        let seen = support::checker::stats(&ingest, stuck).await?;
        let head = &seen["head"];
        let is_logged = head["sequence"] == 1 && head["blocked_by"] == "delivery";
        let is_counted = seen["ready"].as_u64().zip(seen["delivering"].as_u64());
        let all_there = is_counted.is_some_and(|(a, b)| a + b == MESSAGES as u64 && b == 1);
        if is_logged && all_there { Ok(()) } else { Err(seen.to_string()) }
    })
    .await;

    inbox.gate.let_go();
    within("the stuck destination drains", drained(&ingest, &ledger, &[stuck])).await;
    forgotten(&mut redis.connection().await).await;
    let rules: Vec<Rule> = names
        .iter()
        .enumerate()
        .map(|(number, destination)| Rule {
            destination,
            by_key: false,
            is_transformed: is_transformed(number),
        })
        .collect();
    let found = check(&ledger, &inbox.journal, &rules);
    assert_eq!(found.messages, DESTINATIONS * MESSAGES);
    assert_eq!(found.repeats, 0, "{found:?}");
}
