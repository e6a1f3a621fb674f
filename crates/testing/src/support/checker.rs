//! Asserts that receivers journalled the promised messages, and that Redis holds no messages.

use std::collections::{BTreeMap, HashSet};

use redis::aio::MultiplexedConnection;
use serde_json::Value;

pub use super::examiner::Found;
use super::{
    examiner::{Held, Losses, Order, Subject, examine},
    journal::Journal,
    ledger::Ledger,
    pods::{Pod, client},
    wait::eventually,
};

/// How to check a destination.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub destination: &'static str,
    /// One lane per key.
    pub by_key: bool,
    /// The transform marks each body.
    pub is_transformed: bool,
}

/// Asserts that the examiner finds no anomaly. `rules` must name all destinations.
pub fn check(ledger: &Ledger, journal: &Journal, rules: &[Rule]) -> Found {
    let subject = |rule: &Rule| Subject {
        destination: rule.destination,
        order: if rule.by_key { Order::Key } else { Order::Destination },
        is_transformed: rule.is_transformed,
        is_removed: false,
    };
    let subjects: Vec<Subject> = rules.iter().map(subject).collect();
    let (found, anomalies) = examine(ledger, journal, &Held::new(), &subjects, Losses::None);
    assert!(anomalies.is_empty(), "{}", anomalies.told.join("\n"));
    found
}

/// The stats of a destination, from `pod`.
pub async fn stats(pod: &Pod, destination: &str) -> Result<Value, String> {
    let url = pod.url(&format!("/v1/destinations/{destination}/stats"));
    let answer = client().get(url).send().await.map_err(|error| error.to_string())?;
    let text = answer.text().await.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| text)
}

/// Waits until no message is pending, and checks the product's own count against the promises.
pub async fn drained(pod: &Pod, ledger: &Ledger, destinations: &[&str]) {
    for name in destinations {
        let numbers = eventually(&format!("{name} is drained"), async || {
            let numbers = stats(pod, name).await?;
            let is_drained = numbers["pending"] == 0;
            if is_drained { Ok(numbers) } else { Err(numbers.to_string()) }
        })
        .await;
        let promised = ledger.count_of(name) as u64;
        assert!(promised > 0, "{name} was sent nothing");
        assert!(numbers["head"].is_null(), "{numbers}");
        assert_eq!(numbers["delivered_total"], numbers["last_sequence"], "{name}");
        assert!(numbers["last_sequence"].as_u64() >= Some(promised), "{name}: {numbers}");
    }
}

/// Waits until Redis holds only keys that outlive messages.
pub async fn forgotten(redis: &mut MultiplexedConnection) {
    eventually("Redis holds only what outlives messages", async || {
        let keys = keys(redis).await;
        let lasting = |key: &&String| {
            let parts: Vec<&str> = key.split(':').collect();
            matches!(
                parts.as_slice(),
                ["reseq", "meta" | "pods"]
                    | ["reseq", "{index}", ..]
                    | ["reseq", _, "owner" | "epoch" | "operations"]
                    | ["reseq", _, "d", _]
                    | ["reseq", _, "calls", ..]
                    | ["reseq", _, "d", _, "idempotency" | "log" | "previous" | "operation", ..]
            )
        };
        let left: Vec<&String> = keys.iter().filter(|key| !lasting(key)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

/// All keys.
pub async fn keys(redis: &mut MultiplexedConnection) -> Vec<String> {
    redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap()
}

/// The tokens of partition owners, by the partition's key.
pub async fn owners(redis: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for key in keys(redis).await.into_iter().filter(|key| key.ends_with(":owner")) {
        let held: Option<String> = redis::cmd("GET").arg(&key).query_async(redis).await.unwrap();
        let token = held.and_then(|held| Some(held.split_once(' ')?.0.to_owned()));
        token.into_iter().for_each(|token| drop(owners.insert(key.clone(), token)));
    }
    owners
}

/// The number of distinct values.
pub fn different<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<HashSet<T>>().len()
}
