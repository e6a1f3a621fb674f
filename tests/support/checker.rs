//! Holds what receivers journalled against what producers were promised, and looks whether
//! anything is left in Redis.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::{
    journal::{Delivery, Headers, Journal},
    ledger::{Ledger, Promise},
    pods::{Pod, client},
    transformer::transformed,
    wait::eventually,
};

/// How a destination is checked.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub destination: &'static str,
    /// A lane for each key.
    pub by_key: bool,
    /// The transform puts its mark around each body.
    pub is_transformed: bool,
}

/// What was found to be right.
#[derive(Debug, Default)]
pub struct Found {
    /// Different messages.
    pub messages: usize,
    /// Deliveries beyond the first of a message.
    pub repeats: usize,
    /// The same by destination.
    pub repeats_of: BTreeMap<String, usize>,
    /// Deliveries that said that they were not the first attempt.
    pub later_attempts: usize,
}

type Lane<'a> = (&'a str, Option<&'a str>);

/// Nothing lost, nothing invented, each lane in order, repeats the same to the byte. `rules` name
/// all destinations.
pub fn check(ledger: &Ledger, journal: &Journal, rules: &[Rule]) -> Found {
    let (promises, deliveries) = (ledger.all(), journal.all());
    let rule_of = |name: &str| *rules.iter().find(|rule| rule.destination == name).unwrap();
    promised_in_order(&promises);
    let mut promised: HashMap<(&str, String), &Promise> = HashMap::new();
    for promise in &promises {
        let rule = rule_of(&promise.destination);
        let body = outcome(&rule, &promise.body);
        let twice = promised.insert((&promise.destination, body), promise);
        assert!(twice.is_none(), "promised twice: {promise:?}");
    }

    let mut found = Found::default();
    let mut first: HashMap<(&str, &str), &Delivery> = HashMap::new();
    let mut last: HashMap<Lane, (Option<u64>, u64)> = HashMap::new();
    for delivery in &deliveries {
        let name = delivery.destination.as_str();
        if let Some(headers) = &delivery.headers {
            found.later_attempts += usize::from(headers.attempt > 1);
        }
        if let Some(first) = first.get(&(name, delivery.body.as_str())) {
            same_message(first, delivery);
            found.repeats += 1;
            *found.repeats_of.entry(name.to_owned()).or_default() += 1;
            continue;
        }
        first.insert((name, &delivery.body), delivery);
        let Some(promise) = promised.get(&(name, delivery.body.clone())) else {
            let is_doubtful = original(&rule_of(name), &delivery.body)
                .is_some_and(|body| ledger.is_doubtful(body));
            assert!(is_doubtful, "nobody sent in {delivery:?}");
            continue;
        };
        let place = (promise.epoch, promise.sequence);
        let lane = (name, promise.key.as_deref().filter(|_| rule_of(name).by_key));
        let before = last.insert(lane, place);
        assert!(before < Some(place), "{place:?} after {before:?} in lane {lane:?}");
        if let Some(headers) = &delivery.headers {
            as_promised(promise, headers, before, &rule_of(name));
        }
    }
    let lost: Vec<_> =
        promised.keys().filter(|(name, body)| !first.contains_key(&(*name, body))).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), promised.len());
    found.messages = first.len();
    found
}

/// Each producer's messages got ascending places in each destination.
fn promised_in_order(promises: &[Promise]) {
    let mut last: HashMap<(&str, &str), &Promise> = HashMap::new();
    for promise in promises {
        let from = (promise.producer.as_str(), promise.destination.as_str());
        if let Some(before) = last.insert(from, promise) {
            let ascending = (before.epoch, before.sequence) < (promise.epoch, promise.sequence);
            assert!(ascending, "{promise:?} was sent after {before:?}");
        }
    }
}

fn outcome(rule: &Rule, body: &str) -> String {
    if rule.is_transformed { transformed(body) } else { body.to_owned() }
}

/// The body that an outcome was made of.
fn original<'b>(rule: &Rule, body: &'b str) -> Option<&'b str> {
    if !rule.is_transformed {
        return Some(body);
    }
    body.strip_prefix("{\"transformed\":")?.strip_suffix('}')
}

/// A repeat has everything of the first but the number of its attempt.
fn same_message(first: &Delivery, repeat: &Delivery) {
    let but_attempt = |delivery: &Delivery| {
        delivery.headers.clone().map(|headers| Headers { attempt: 0, ..headers })
    };
    assert_eq!(but_attempt(first), but_attempt(repeat), "a repeat of {}", first.body);
}

fn as_promised(
    promise: &Promise,
    headers: &Headers,
    before: Option<(Option<u64>, u64)>,
    rule: &Rule,
) {
    assert_eq!((Some(headers.epoch), headers.sequence), (promise.epoch, promise.sequence));
    assert_eq!(headers.key, promise.key);
    if let Some(id) = &promise.id {
        assert_eq!(&headers.id, id);
    }
    let before = before.map_or(0, |(_, sequence)| sequence);
    let is_right = headers.previous == before || rule.by_key && headers.previous == 0;
    assert!(is_right, "{headers:?} follows {before}");
}

/// The numbers of a destination, as `pod` tells them.
pub async fn stats(pod: &Pod, destination: &str) -> Result<Value, String> {
    let url = pod.url(&format!("/v1/destinations/{destination}/stats"));
    let answer = client().get(url).send().await.map_err(|error| error.to_string())?;
    let text = answer.text().await.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| text)
}

/// Waits until nothing is left to do, and checks that everything promised was delivered, by the
/// product's own count.
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

/// Waits until Redis holds nothing but what outlives messages.
pub async fn forgotten(redis: &mut MultiplexedConnection) {
    eventually("Redis holds only what outlives messages", async || {
        let keys = keys(redis).await;
        let lasting = |key: &&String| {
            let parts: Vec<&str> = key.split(':').collect();
            matches!(
                parts.as_slice(),
                ["reseq", "meta" | "destinations" | "pods"]
                    | ["reseq", _, "owner" | "epoch"]
                    | ["reseq", _, "d", _]
                    | ["reseq", _, "calls", ..]
                    | ["reseq", _, "d", _, "seen" | "log", ..]
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

/// The tokens under which partitions are owned, by partition's key.
pub async fn owners(redis: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut owners = BTreeMap::new();
    for key in keys(redis).await.into_iter().filter(|key| key.ends_with(":owner")) {
        let held: Option<String> = redis::cmd("GET").arg(&key).query_async(redis).await.unwrap();
        let token = held.and_then(|held| Some(held.split_once(' ')?.0.to_owned()));
        token.into_iter().for_each(|token| drop(owners.insert(key.clone(), token)));
    }
    owners
}

/// How many different values there are.
pub fn different<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<HashSet<T>>().len()
}
