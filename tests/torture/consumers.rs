//! Consumers of a destination with delivery `pull`. Each journals a message before it accepts it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    support::{
        journal::{Delivery, Headers},
        pods::{Addresses, client},
        wait::LOOK_EVERY,
    },
    world::{LEASE_MS, PULLED, SUBJECTS, World},
};

/// Parallel consumers.
const CONSUMERS: usize = 3;
/// A consumer refuses the first attempt at one in this many messages, and gives back the rest.
const REFUSES_EVERY: u64 = 40;

/// Starts consumers. They run until aborted.
pub fn consumers(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    (0..CONSUMERS).map(|number| tokio::spawn(consume(world.clone(), number))).collect()
}

/// Decrements `wanted`. False if it is zero.
pub fn takes_one(wanted: &AtomicUsize) -> bool {
    let one_less = |left: usize| left.checked_sub(1);
    wanted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
}

async fn consume(world: Arc<World>, number: usize) {
    let client = client();
    for round in number.. {
        let pod = &world.addresses[round % world.addresses.len()];
        let consumer = Consumer { world: &world, client: &client, pod };
        // Waits a little before it asks an unreachable pod again.
        if consumer.once(number).await.is_none() {
            tokio::time::sleep(LOOK_EVERY * 10).await;
        }
    }
}

pub struct Consumer<'a> {
    pub world: &'a World,
    pub client: &'a reqwest::Client,
    pub pod: &'a Addresses,
}

impl Consumer<'_> {
    /// Takes some messages, and handles them while their leases certainly last.
    async fn once(&self, number: usize) -> Option<()> {
        let ends = Instant::now() + Duration::from_millis(LEASE_MS);
        let taken = self.take(&format!("consumer-{number}")).await?;
        let mut left = taken.iter();
        while let Some(message) = left.next() {
            // A consumer that was paused for longer than its lease handles no more messages of the lease.
            if Instant::now() >= ends {
                return Some(());
            }
            if message["sequence"].as_u64()? % REFUSES_EVERY == 0 && message["attempt"] == 1 {
                self.acknowledge("refuse", [message]).await?;
                self.acknowledge("requeue", left).await?;
                return Some(());
            }
            self.world.journal.note(delivery(message)?);
            if takes_one(&self.world.killing) {
                return Some(());
            }
            if !self.accepts(message).await {
                return None;
            }
        }
        Some(())
    }

    /// Accepts a message. False if the accept did not count, or had no answer.
    pub async fn accepts(&self, message: &Value) -> bool {
        let answer = self.acknowledge("accept", [message]).await;
        answer.is_some_and(|answer| answer["results"][0]["status"] == "ok")
    }

    /// Takes some messages.
    pub async fn take(&self, consumer: &str) -> Option<Vec<Value>> {
        let path = format!("/v1/destinations/{}/consume", SUBJECTS[PULLED].destination);
        let take = json!({"max": 20, "wait_ms": 500, "consumer": consumer});
        Some(self.post(&path, take).await?["deliveries"].as_array()?.clone())
    }

    async fn acknowledge(
        &self,
        verb: &str,
        messages: impl IntoIterator<Item = &Value>,
    ) -> Option<Value> {
        let items: Vec<Value> =
            messages.into_iter().map(|one| json!({"token": one["token"]})).collect();
        if items.is_empty() {
            return Some(Value::Null);
        }
        self.post(&format!("/v1/deliveries/{verb}"), json!({"items": items})).await
    }

    async fn post(&self, path: &str, body: Value) -> Option<Value> {
        let request = self.client.post(self.pod.url(path)).timeout(Duration::from_secs(5));
        let answer = request.json(&body).send().await.ok()?;
        if answer.status() != 200 {
            return None;
        }
        serde_json::from_str(&answer.text().await.ok()?).ok()
    }
}

/// The message, as a receiver over HTTP would journal it.
pub fn delivery(message: &Value) -> Option<Delivery> {
    let headers = Headers {
        epoch: message["epoch"].as_u64()?,
        sequence: message["sequence"].as_u64()?,
        previous: message["previous"].as_u64().unwrap_or_default(),
        id: message["id"].as_str()?.to_owned(),
        key: message["key"].as_str().map(str::to_owned),
        attempt: message["attempt"].as_u64()?,
    };
    let destination = message["destination"].as_str()?.to_owned();
    Some(Delivery { destination, body: message["body"].to_string(), headers: Some(headers) })
}
