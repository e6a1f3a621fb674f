//! Tests the removal of a destination: it must not change other destinations, and later messages
//! must not be mistaken for removed ones.

use std::{sync::atomic::Ordering, time::Duration};

use domain::{DestinationName, Partitions};
use serde_json::{Value, json};
use store::{Store, StoreError};

use crate::{
    policies::scenario::{ERP, Scenario, Service},
    support::{redis::TestRedis, wait::eventually},
};

/// Names of other destinations in the partition of this one.
fn neighbours(of: &str) -> impl Iterator<Item = String> {
    let partitions = Partitions::new(64);
    let partition = move |name: &str| partitions.of(&name.parse::<DestinationName>().unwrap());
    let here = partition(of);
    (0..).map(|number| format!("n{number}")).filter(move |name| partition(name) == here)
}

async fn arrives(service: &Service, count: usize) {
    eventually("the requests are there", async || {
        let arrived = service.arrived.load(Ordering::Relaxed);
        if arrived >= count { Ok(()) } else { Err(format!("{arrived} of {count}")) }
    })
    .await;
}

#[tokio::test]
async fn removal_takes_idempotency_keys_of_delivered_messages() {
    let scenario = Scenario::start(json!({})).await;
    let other = neighbours(ERP).next().unwrap();
    scenario.define(&other, json!({})).await;
    for name in [ERP, &other] {
        for number in 0..30 {
            let key = format!("key {number}");
            let item = json!({"destinations": [name], "body": 1, "idempotency_key": key});
            scenario.ok("POST", "/v1/messages", item).await;
        }
    }
    scenario.is_drained().await;
    let mut redis = scenario.redis.connection().await;
    let mut count = async |name: &str| {
        let pattern = format!("reseq:*:d:{name}:idempotency:*");
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.unwrap();
        keys.len()
    };
    assert_eq!((count(ERP).await, count(&other).await), (30, 30));
    scenario.ok("DELETE", &format!("/v1/destinations/{ERP}?force=true"), Value::Null).await;
    assert_eq!((count(ERP).await, count(&other).await), (0, 30));
}

#[tokio::test]
async fn a_removal_has_nothing_of_other_destinations_sent_again() {
    let scenario = Scenario::start(json!({"ordering": "none"})).await;
    let other = std::sync::Arc::new(Service::default());
    let (url, _server) = other.serve().await;
    let mut names = neighbours(ERP);
    let quick = names.next().unwrap();
    scenario.define(&quick, json!({"url": url})).await;
    let gate = scenario.receiver.gate.write().await;
    let bodies: Vec<String> = (1..=30).map(|number| format!("m{number}")).collect();
    scenario.send_all(&bodies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    arrives(&scenario.receiver, 30).await;
    for (at, name) in names.take(3).enumerate() {
        let path = format!("/v1/destinations/{name}");
        scenario.define(&name, json!({})).await;
        scenario.ok("DELETE", &path, Value::Null).await;
        // Once another message of the partition is delivered, the sender has seen the removal.
        let item = json!({"destinations": [quick], "body": "there"});
        scenario.ok("POST", "/v1/messages", item).await;
        arrives(&other, at + 1).await;
    }
    drop(gate);
    assert_eq!(scenario.is_drained().await["delivered_total"], 30);
    assert_eq!(scenario.receiver.arrived.load(Ordering::Relaxed), 30, "each is sent once");
}

#[tokio::test]
async fn held_messages_are_not_taken_for_recreated_destination() {
    let scenario = Scenario::start_apart(json!({})).await;
    let sender = scenario.sender.as_ref().unwrap();
    let path = format!("/v1/destinations/{ERP}");
    scenario.define(ERP, json!({})).await;
    let gate = scenario.receiver.gate.write().await;
    scenario.send("old 1", json!({})).await;
    arrives(&scenario.receiver, 1).await;
    // The sender gets no wake-up for a message behind the one that it delivers, so it has not loaded this one.
    scenario.send("old 2", json!({})).await;
    // While the sender is frozen, remove the destination and create it again. Meanwhile the
    // receiver's answer to the old delivery waits.
    sender.freeze();
    scenario.ok("DELETE", &format!("{path}?force=true"), Value::Null).await;
    scenario.define(ERP, json!({})).await;
    scenario.send_all(&["new 1", "new 2", "new 3"]).await;
    drop(gate);
    scenario.receives(&["old 1"]).await;
    sender.thaw();
    scenario.receives(&["old 1", "new 1", "new 2", "new 3"]).await;
    assert_eq!(scenario.is_drained().await["delivered_total"], 3);
    let epoch = |at| scenario.receiver.header(at, "reseq-epoch").parse::<u64>().unwrap();
    assert_eq!(scenario.receiver.header(1, "reseq-sequence"), "1");
    assert!(epoch(1) > epoch(0) && epoch(1) == epoch(3), "{} after {}", epoch(1), epoch(0));
}

/// The state after a failover that lost the end of a removal: no pod knows that it is unfinished.
#[tokio::test]
async fn a_definition_finishes_a_removal_that_stopped_halfway() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.send_all(&["old 1", "old 2"]).await;
    let keys = store::Keys::new("reseq", 64).destination(&ERP.parse().unwrap());
    scenario.redis.ask::<u8>(&["HSET", &keys.hash(), "deleted", "1"]).await.unwrap();
    scenario.define(ERP, json!({})).await;
    scenario.send("new", json!({})).await;
    scenario.receives(&["new"]).await;
    assert_eq!(scenario.is_drained().await["last_sequence"], 1);
}

/// Two processes may find the same unfinished removal. The slower process must not remove a
/// destination that the other has defined since.
#[tokio::test]
async fn a_removal_is_completed_only_where_one_has_begun() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.send_all(&["one"]).await;
    let of_redis = config::Redis { url: scenario.redis.url().to_owned(), ..Default::default() };
    let (store, _) = Store::open(&of_redis, Duration::from_secs(5)).await.unwrap();
    let name: DestinationName = ERP.parse().unwrap();
    let refused = store.complete_removal(&name).await.unwrap_err();
    assert!(matches!(refused, StoreError::WrongState(_)), "{refused}");
    assert_eq!(scenario.stats().await["pending"], 1);
    scenario
        .redis
        .ask::<u8>(&["HSET", &store.keys().destination(&name).hash(), "deleted", "1"])
        .await
        .unwrap();
    assert_eq!(store.complete_removal(&name).await.unwrap().removed_messages, 1);
    let gone = store.complete_removal(&name).await.unwrap_err();
    assert!(matches!(gone, StoreError::UnknownDestination), "{gone}");
}

#[tokio::test]
async fn old_refusal_does_not_count_against_recreated_destination() {
    let scenario = Scenario::start_apart(json!({})).await;
    let sender = scenario.sender.as_ref().unwrap();
    let path = format!("/v1/destinations/{ERP}");
    let halts = json!({"delivery": {"attempts_max": 1}});
    scenario.define(ERP, halts.clone()).await;
    scenario.receiver.refuse("\"old\"", 503, None);
    let gate = scenario.receiver.gate.write().await;
    scenario.send("old", json!({})).await;
    arrives(&scenario.receiver, 1).await;
    sender.freeze();
    scenario.ok("DELETE", &format!("{path}?force=true"), Value::Null).await;
    scenario.define(ERP, halts).await;
    scenario.send("new", json!({})).await;
    drop(gate);
    sender.thaw();
    // If the old attempt's failure halted the new message, it would never arrive.
    scenario.receives(&["new"]).await;
    assert_eq!(scenario.is_drained().await["delivered_total"], 1);
    assert_eq!(scenario.receiver.header(0, "reseq-attempt"), "1");
}

#[tokio::test]
async fn what_is_behind_a_refused_head_is_not_read_at_each_attempt() {
    const BODY: usize = 200 << 10;
    const ATTEMPTS: usize = 20;
    for batch_max in [1usize, 3] {
        let delivery = json!({"batch_max": batch_max, "backoff_ms": 1, "backoff_max_ms": 2});
        let scenario = Scenario::start(json!({"delivery": delivery})).await;
        scenario.steer("pause", json!({"what": "delivery"})).await;
        let bodies: Vec<String> =
            (0..40).map(|number| format!("{number:03}{}", "x".repeat(BODY - 3))).collect();
        scenario.send_all(&bodies.iter().map(String::as_str).collect::<Vec<_>>()).await;
        scenario.receiver.refuse_all(Some((503, ATTEMPTS)));
        let before = output_bytes(&scenario.redis).await;
        scenario.steer("resume", json!({})).await;
        scenario.is_drained().await;
        let read = output_bytes(&scenario.redis).await - before;
        // The sender reads the first run completely, then one delivery for each further attempt,
        // and finally everything once.
        let bound = 2 * 40 * BODY + (ATTEMPTS + 4) * batch_max * BODY;
        assert!(read < bound, "{read} bytes were read in batches of {batch_max}; most: {bound}");
    }
}

async fn output_bytes(redis: &TestRedis) -> usize {
    redis.info("total_net_output_bytes").await.parse().unwrap()
}

/// The header of each delivery so far; "-" if absent.
fn previous(service: &Service) -> Vec<String> {
    let taken = service.taken.lock().unwrap();
    let header = |headers: &std::collections::HashMap<String, String>| {
        headers.get("reseq-previous").cloned().unwrap_or_else(|| "-".to_owned())
    };
    taken.iter().map(|taken| header(&taken.headers)).collect()
}

#[tokio::test]
async fn previous_message_is_known_even_if_key_had_none_pending() {
    let scenario = Scenario::start(json!({"ordering": "key", "previous_keys_max": 2})).await;
    let send = async |key: &str| {
        scenario.send("x", json!({"key": key})).await;
        scenario.is_drained().await;
    };
    // The first message of each key, and then a second one.
    for key in ["a", "b", "a", "b"] {
        send(key).await;
    }
    assert_eq!(previous(&scenario.receiver), ["0", "0", "1", "2"]);
    // A third key displaces the least recently used one. From then on, forgotten and new keys
    // look alike, so neither gets the header.
    for key in ["c", "b", "a", "d"] {
        send(key).await;
    }
    assert_eq!(previous(&scenario.receiver)[4..], ["0", "4", "-", "-"]);
    let remembered: Vec<String> = {
        let key = scenario.key("previous");
        scenario.redis.ask(&["ZRANGE", &key, "0", "-1"]).await.unwrap()
    };
    assert_eq!(remembered, ["a", "d"], "no more than two");
    // Removing the destination removes these entries too.
    scenario.ok("DELETE", &format!("/v1/destinations/{ERP}"), Value::Null).await;
    scenario.define(ERP, json!({"ordering": "key", "previous_keys_max": 0})).await;
    send("a").await;
    send("a").await;
    assert_eq!(previous(&scenario.receiver)[8..], ["0", "-"], "0 remembers none");
}
