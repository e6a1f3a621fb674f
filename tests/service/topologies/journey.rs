//! Pods, a transform and a receiver, on any topology of Redis.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    checker::{Found, Rule, check, drained},
    ledger::Ledger,
    pods::{Pod, Settings, client},
    producer::{Item, Producer},
    receiver::{Inbox, Receiver},
    transformer::Transformer,
    wait::eventually,
};

const SEED: u64 = 11;
const SLOWEST_MS: u64 = 10;
/// Messages in one batch of a producer.
const BATCH: usize = 10;

/// Two pods with all roles.
pub struct Journey {
    pub inbox: Arc<Inbox>,
    pub ledger: Arc<Ledger>,
    pub pods: Vec<Pod>,
    names: Vec<&'static str>,
    transformer: Transformer,
    _receiver: Receiver,
}

impl Journey {
    /// Starts the pods with these destinations, each with one lane.
    pub async fn start(redis_url: &str, names: &[&'static str]) -> Journey {
        Journey::start_with(redis_url, "", names).await
    }

    /// Like `start`, with these lines after the section `[redis]`.
    pub async fn start_with(redis_url: &str, lines: &str, names: &[&'static str]) -> Journey {
        let inbox = Arc::new(Inbox::default());
        let transformer = Transformer::start(SEED, SLOWEST_MS).await;
        let receiver = Receiver::http(&inbox).await;
        let mut settings = Settings::new(redis_url);
        // Requests time out soon, because servers are killed and frozen here.
        settings.redis = format!("timeout_ms = 2000\n{lines}");
        settings.ingest = "retry_ms = 1000".into();
        settings.sender_lease_ms = 3000;
        for name in names {
            let fields = format!(
                "url = \"{}\"\ntransform = {{ kind = \"http\", url = \"{}\" }}\n\
                 [destination.delivery]\nbackoff_ms = 5\nbackoff_max_ms = 50",
                receiver.url(),
                transformer.url(),
            );
            settings = settings.destination(name, &fields);
        }
        let mut pods = Vec::new();
        for name in ["first", "second"] {
            pods.push(Pod::start(name, "ingest,processor,sender", &settings).await);
        }
        let (names, ledger) = (names.to_vec(), Arc::new(Ledger::default()));
        Journey { inbox, ledger, pods, names, transformer, _receiver: receiver }
    }

    /// Sends this many messages to each destination. Returns when all are promised.
    pub async fn produce(&self, phase: &str, count: usize) {
        let names = self.names.clone();
        let producers = names.iter().map(|name| self.produce_to(name, phase, count));
        futures::future::join_all(producers).await;
    }

    /// Sends this many messages to one destination.
    pub async fn produce_to(&self, name: &'static str, phase: &str, count: usize) {
        let doors: Vec<_> = self.pods.iter().map(|pod| pod.addresses.clone()).collect();
        let from = format!("{phase} {name}");
        let mut producer = Producer::new(&from, &doors, &self.ledger);
        for batch in 0..count.div_ceil(BATCH) {
            let numbers = batch * BATCH..((batch + 1) * BATCH).min(count);
            let items = numbers.map(|number| Item::new(&[name], None, &from, number));
            producer.send_batch(items.collect()).await;
        }
    }

    /// The number of delivered messages of a destination.
    pub fn delivered(&self, name: &str) -> usize {
        self.inbox.journal.messages_of(name)
    }

    /// Waits until this many messages of a destination were delivered.
    pub async fn reaches(&self, name: &str, count: usize) {
        eventually(&format!("{count} at {name}"), async || match self.delivered(name) {
            found if found >= count => Ok(()),
            found => Err(format!("{found}")),
        })
        .await;
    }

    /// The longest time between two deliveries to a destination. Measures until `work` is done
    /// and all messages promised by then are delivered.
    pub async fn stall(&self, name: &str, work: impl Future) -> Duration {
        let is_done = AtomicBool::new(false);
        let work = async {
            work.await;
            is_done.store(true, Ordering::Relaxed);
        };
        let (mut longest, mut last, mut seen) = (Duration::ZERO, Instant::now(), 0);
        let watch = eventually("all are delivered", async || {
            let (delivered, promised) = (self.delivered(name), self.ledger.count_of(name));
            if delivered > seen {
                longest = longest.max(last.elapsed());
                (last, seen) = (Instant::now(), delivered);
            }
            match is_done.load(Ordering::Relaxed) && delivered >= promised {
                true => Ok(()),
                false => Err(format!("{delivered} of {promised}")),
            }
        });
        tokio::join!(work, watch);
        longest
    }

    /// Tries once to send a message through the first pod. Returns the status, and the seconds of
    /// `Retry-After`.
    pub async fn attempt(&self, name: &str, body: Value) -> (u16, Option<u64>) {
        let url = self.pods[0].url("/v1/messages");
        let line = json!({"destinations": [name], "body": body}).to_string();
        let request = client().post(url).header("content-type", "application/json").body(line);
        let answer = request.send().await.unwrap();
        let wait = answer.headers().get("retry-after");
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
        (answer.status().as_u16(), wait)
    }

    /// Waits until all messages were delivered, and checks that none is lost and all are in order.
    pub async fn end(&self) -> Found {
        drained(&self.pods[0], &self.ledger, &self.names).await;
        let rule =
            |name: &&'static str| Rule { destination: name, by_key: false, is_transformed: true };
        let rules: Vec<Rule> = self.names.iter().map(rule).collect();
        let found = check(&self.ledger, &self.inbox.journal, &rules);
        assert_eq!(found.messages, self.ledger.count());
        assert!(self.transformer.work.overtaken() > 0, "there was nothing to put in order");
        found
    }

    /// The least number of wake-ups per message. Sends the messages one by one, each after the
    /// previous one has left: one that is ready before that needs no wake-up.
    pub async fn wakes_of(&self, name: &'static str, count: usize) -> f64 {
        let heard = async || {
            let mut sum = 0.0;
            for pod in &self.pods {
                sum += pod.metric("reseq_wakes_total").await;
            }
            sum
        };
        let before = heard().await;
        for number in 0..count {
            let delivered = self.delivered(name);
            self.produce_to(name, &format!("one by one {number}"), 1).await;
            self.reaches(name, delivered + 1).await;
            drained(&self.pods[0], &self.ledger, &[name]).await;
        }
        (heard().await - before) / count as f64
    }
}
