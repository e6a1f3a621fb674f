//! Tests messages whose records in Redis are missing or unreadable. Each blocks only its own
//! lane, is shown, and can be removed.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

/// The ways to damage the record of the second message.
const DAMAGE: [&str; 4] = ["missing", "garbage", "cut", "of another version"];

impl Scenario {
    pub(super) async fn redis_ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.redis.ask(words).await.unwrap()
    }

    pub(super) fn keys(&self) -> store::keys::DestinationKeys {
        store::Keys::new("reseq", 64).destination(&ERP.parse().unwrap())
    }

    pub(super) async fn damage(&self, how: &str, sequence: &str) {
        let messages = self.keys().messages();
        let record = match how {
            "missing" => {
                assert_eq!(self.redis_ask::<u64>(&["HDEL", &messages, sequence]).await, 1);
                return;
            }
            "garbage" => "??",
            "cut" => "39,999;abc",
            _ => "94,1;x",
        };
        let added: u64 = self.redis_ask(&["HSET", &messages, sequence, record]).await;
        assert_eq!(added, 0);
    }

    pub(super) async fn send_four(&self) {
        for (body, key) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")] {
            self.send(body, json!({"key": key})).await;
        }
    }

    /// Processes all waiting messages, and completes each with its own body.
    pub(super) async fn work(&self) -> usize {
        let leases = self.lease(json!({"max": 9, "wait_ms": 20_000})).await;
        for lease in &leases {
            let body = lease["body"].clone();
            self.end("complete", std::slice::from_ref(lease), json!({"body": body})).await;
        }
        leases.len()
    }

    /// Ends the pod, so that no sender delivers messages.
    pub(super) async fn let_go(&mut self) {
        self.pod.drains().await;
    }

    pub(super) async fn state_of(&self, sequence: u64) -> Value {
        let shown = self.get(&format!("/v1/destinations/{ERP}/messages/{sequence}")).await;
        shown["state"].clone()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, Value::Null).await
    }

    pub(super) async fn cancel(&self, sequence: u64) {
        let path = format!("/v1/destinations/{ERP}/messages/{sequence}");
        self.ok("DELETE", &path, Value::Null).await;
    }

    pub(super) fn received(&self) -> Vec<String> {
        self.receiver.bodies().into_iter().map(|body| body.trim_matches('"').to_owned()).collect()
    }
}

#[tokio::test]
async fn message_damaged_before_processing_blocks_only_its_lane() {
    for ordering in ["destination", "key", "none"] {
        for how in DAMAGE {
            let scenario =
                Scenario::start(json!({"transform": {"kind": "worker"}, "ordering": ordering}))
                    .await;
            scenario.send_four().await;
            scenario.damage(how, "2").await;
            let attempts = scenario.keys().attempts();
            scenario.redis_ask::<u64>(&["HSET", &attempts, "3", "what cannot be read"]).await;
            let mut worked = 0;
            while worked < 3 {
                worked += scenario.work().await;
            }
            let expected = match ordering {
                "destination" => 1,
                "key" => 2,
                _ => 3,
            };
            let what = format!("{ordering}, {how}");
            let stats = scenario
                .until("the others have left", |stats| {
                    stats["delivered_total"] == expected && stats["halted"] == 1
                })
                .await;
            assert_eq!(stats["pending"], 4 - expected, "{what}: {stats}");
            assert_eq!(scenario.state_of(2).await, "damaged", "{what}");
            let listed =
                scenario.get(&format!("/v1/destinations/{ERP}/messages?state=halted")).await;
            assert_eq!(listed["items"][0]["sequence"], 2, "{what}: {listed}");
            assert!(listed["items"][0]["damaged"].is_string(), "{what}: {listed}");
            // The time of receipt is unknown; it must not show as 1970.
            let times = (&listed["items"][0]["received_at"], &listed["items"][0]["age_ms"]);
            assert!(times.0.is_null() == times.1.is_null(), "{what}: {listed}");
            let old = times.0.as_str().is_some_and(|at| at.starts_with("1970"));
            assert!(!old, "{what}: {listed}");

            // An operator unblocks the lane, each time with another command.
            let key = if ordering == "key" { json!("a") } else { Value::Null };
            match how {
                "missing" => {
                    let mut head = json!({"sequence": 2});
                    if ordering == "key" {
                        head["key"] = key;
                    }
                    scenario.steer("skip-head", head).await;
                    let letters = format!("/v1/destinations/{ERP}/dead-letters");
                    let listed = scenario.get(&letters).await;
                    assert!(listed["items"][0]["damaged"].is_string(), "{what}: {listed}");
                    let all = json!({"all": true});
                    let redriven = scenario.steer("dead-letters/redrive", all.clone()).await;
                    assert_eq!(
                        (&redriven["affected"], &redriven["failed"]),
                        (&json!(0), &json!(1))
                    );
                    let discarded = scenario.steer("dead-letters/discard", all).await;
                    assert_eq!(discarded["affected"], 1, "{what}");
                }
                "garbage" => {
                    scenario.steer("purge", json!({})).await;
                }
                _ => scenario.cancel(2).await,
            }
            scenario.is_drained().await;
            let after = if how == "garbage" { expected } else { 3 };
            assert_eq!(
                scenario.received().len() as u64,
                after,
                "{what}: {:?}",
                scenario.received()
            );
        }
    }
}

#[tokio::test]
async fn message_damaged_before_delivery_blocks_only_its_lane() {
    for ordering in ["destination", "key", "none"] {
        for how in DAMAGE {
            let mut scenario =
                Scenario::start(json!({"ordering": ordering, "on_exhausted": "drop"})).await;
            scenario.steer("pause", json!({"what": "delivery"})).await;
            scenario.send_four().await;
            scenario.let_go().await;
            scenario.damage(how, "2").await;
            scenario.pod.restart().await;
            scenario.steer("resume", json!({"what": "delivery"})).await;
            let expected = match ordering {
                "destination" => 1,
                "key" => 2,
                _ => 3,
            };
            let what = format!("{ordering}, {how}");
            scenario
                .until("the others have left", |stats| {
                    stats["delivered_total"] == expected && stats["halted"] == 1
                })
                .await;
            assert_eq!(scenario.state_of(2).await, "damaged", "{what}");
            scenario.cancel(2).await;
            scenario.is_drained().await;
            assert_eq!(scenario.received().len(), 3, "{what}: {:?}", scenario.received());
            assert!(!scenario.received().contains(&"a2".to_owned()), "{what}");
        }
    }
}

#[tokio::test]
async fn a_long_body_that_is_missing_damages_its_message_alone() {
    let mut scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    let long = "x".repeat(5_000);
    for (body, key) in [(long.as_str(), "a"), ("a2", "a"), ("b1", "b")] {
        scenario.send(body, json!({"key": key})).await;
    }
    scenario.let_go().await;
    assert_eq!(scenario.redis_ask::<u64>(&["HDEL", &scenario.keys().bodies(), "1"]).await, 1);
    scenario.pod.restart().await;
    scenario.steer("resume", json!({"what": "delivery"})).await;
    scenario
        .until("it is halted", |stats| stats["halted"] == 1 && stats["delivered_total"] == 1)
        .await;
    assert_eq!(scenario.state_of(1).await, "damaged");
    scenario.cancel(1).await;
    scenario.is_drained().await;
    assert_eq!(scenario.received(), ["b1", "a2"]);
}

#[tokio::test]
async fn key_of_wrong_type_halts_delivery_and_order_holds_after_it() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.define("other", json!({})).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send_four().await;
    let ready = scenario.keys().ready(Some("a"));
    scenario.redis_ask::<String>(&["RENAME", &ready, "aside"]).await;
    scenario.redis_ask::<String>(&["SET", &ready, "of another type"]).await;
    scenario.steer("resume", json!({"what": "delivery"})).await;
    scenario
        .until("the destination halts", |stats| {
            stats["damaged"] == json!(["a key has the wrong type: reseq why names it"])
        })
        .await;
    let item = json!({"destinations": ["other"], "body": "other"});
    scenario.ok("POST", "/v1/messages", item).await;
    // The sender may have had the heads of the lanes before.
    eventually("the other destination goes on", async || {
        let received = scenario.received();
        if received.contains(&"other".to_owned()) { Ok(()) } else { Err(format!("{received:?}")) }
    })
    .await;
    scenario.redis_ask::<String>(&["RENAME", "aside", &ready]).await;
    scenario.is_drained().await;
    let of_a: Vec<String> =
        scenario.received().into_iter().filter(|body| body.contains('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3"]);
}
