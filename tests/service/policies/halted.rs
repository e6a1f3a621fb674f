//! Tests exhausted attempts (halt, dead letter, drop), and the commands that resolve them.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario, balanced},
    support::checker::keys,
};

/// A scenario whose transform permanently refuses `two`.
async fn with_a_bad_message(fields: Value) -> Scenario {
    let scenario = Scenario::start(json!({})).await;
    let mut definition = fields;
    definition["transform"]["attempts_max"] = json!(3);
    let definition = scenario.with_transform(definition);
    scenario.define(ERP, definition).await;
    scenario.transformer.refuse("\"two\"", 422, None);
    // The service returns an accepted body unchanged, in quotes.
    scenario
}

#[tokio::test]
async fn message_halted_in_processing_is_repaired_and_keeps_order() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    scenario.send_all(&["one", "two", "three"]).await;
    let leases = scenario.lease(json!({"max": 3})).await;
    assert_eq!(leases.len(), 3);
    scenario.end("fail", &leases[1..2], json!({"error": "no such account", "final": true})).await;
    scenario.end("complete", &[leases[0].clone()], json!({"body": "one"})).await;
    scenario.end("complete", &[leases[2].clone()], json!({"body": "three"})).await;

    scenario.receives(&["one"]).await;
    let stats =
        scenario.until("its lane waits for an operator", |stats| stats["halted"] == 1).await;
    assert_eq!(stats["head"]["blocked_by"], "operator", "{stats}");
    assert_eq!(stats["head"]["sequence"], 2);
    assert_eq!(stats["head"]["last_error"]["detail"], "no such account");
    balanced(&stats);
    scenario.nothing_happens().await;
    scenario.receives(&["one"]).await;

    let retried = scenario.steer("retry-head", json!({"body": "two, repaired"})).await;
    assert_eq!(retried["state"], "waiting");
    let again = scenario.lease(json!({"wait_ms": 10_000})).await;
    assert_eq!((&again[0]["sequence"], &again[0]["body"]), (&json!(2), &json!("two, repaired")));
    assert_eq!(again[0]["attempt"], 1);
    scenario.end("complete", &again, json!({"body": "two, repaired"})).await;
    scenario.receives(&["one", "two, repaired", "three"]).await;
    let stats = scenario.is_drained().await;
    assert_eq!(stats["delivered_total"], 3);
}

#[tokio::test]
async fn rejected_message_halts_its_lane_and_is_retried_in_place() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.receiver.refuse("\"a2\"", 422, None);
    for (body, key) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")] {
        scenario.send(body, json!({"key": key})).await;
    }
    scenario.until("one lane is halted", |stats| stats["halted"] == 1).await;
    // Only the lane of that key waits.
    let stats = scenario.until("the others went on", |stats| stats["delivered_total"] == 2).await;
    assert_eq!(stats["heads"].as_array().unwrap().len(), 1, "{stats}");
    scenario.receiver.accept("\"a2\"");
    let retried = scenario.steer("retry-head", json!({"key": "a"})).await;
    assert_eq!((&retried["sequence"], &retried["state"]), (&json!(2), &json!("ready")));
    let stats = scenario.is_drained().await;
    assert_eq!(stats["delivered_total"], 4);
    let of_a: Vec<String> =
        scenario.receiver.bodies().into_iter().filter(|body| body.contains('a')).collect();
    assert_eq!(of_a, ["\"a1\"", "\"a2\"", "\"a3\""]);
}

#[tokio::test]
async fn a_head_may_be_repaired_to_null() {
    let scenario = Scenario::start(json!({})).await;
    scenario.receiver.refuse("\"one\"", 422, None);
    scenario.send_all(&["one"]).await;
    scenario.until("it halts", |stats| stats["halted"] == 1).await;
    scenario.steer("retry-head", json!({"body": null})).await;
    scenario.is_drained().await;
    assert_eq!(scenario.receiver.bodies(), ["null"]);
}

#[tokio::test]
async fn gone_always_halts_and_skip_head_lets_the_lane_go_on() {
    let scenario = Scenario::start(json!({"on_exhausted": "drop"})).await;
    scenario.receiver.refuse("\"two\"", 410, None);
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.until("it halts", |stats| stats["halted"] == 1).await;
    let skipped = scenario.steer("skip-head", json!({"sequence": 2})).await;
    assert_eq!((&skipped["sequence"], &skipped["state"]), (&json!(2), &json!("dead_lettered")));
    scenario.receives(&["one", "three"]).await;
    // The receiver can see the gap, and can query message 2.
    assert_eq!(scenario.receiver.header(1, "reseq-previous"), "2");
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["dead_lettered_total"], &stats["dead_letters"]), (&json!(1), &json!(1)));
    let path = format!("/v1/destinations/{ERP}/messages/2");
    let what = scenario.ok("GET", &path, Value::Null).await;
    assert_eq!(what["state"], "dead_lettered", "{what}");
}

#[tokio::test]
async fn what_is_used_up_is_skipped_and_redriven_as_a_new_arrival() {
    let scenario = with_a_bad_message(json!({"on_exhausted": "dead_letter"})).await;
    scenario.transformer.refuse("\"four\"", 500, None);
    scenario.send_all(&["one", "two", "three", "four", "five"]).await;
    let stats = scenario.until("all but two are through", |stats| stats["dead_letters"] == 2).await;
    assert_eq!(stats["halted"], 0, "{stats}");
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["delivered_total"], &stats["dead_lettered_total"]), (&json!(3), &json!(2)));

    let path = format!("/v1/destinations/{ERP}/dead-letters");
    let letters = scenario.ok("GET", &path, Value::Null).await;
    assert_eq!(letters["items"].as_array().unwrap().len(), 2, "{letters}");
    let four = scenario.ok("GET", &format!("{path}/4"), Value::Null).await;
    // A permanent refusal ends the attempts at once; other failures are tried `attempts_max` times.
    assert_eq!(four["attempts"], 3, "{four}");
    assert_eq!(four["errors"].as_array().unwrap().len(), 3);
    assert_eq!(four["errors"][0]["status"], 500);
    assert!(four["errors"][0]["detail"].as_str().unwrap().contains("no \"four\""), "{four}");

    scenario.transformer.accept("\"two\"");
    scenario.transformer.accept("\"four\"");
    let dry = scenario.steer("dead-letters/redrive", json!({"all": true, "dry_run": true})).await;
    assert_eq!((&dry["matched"], &dry["affected"]), (&json!(2), &json!(0)), "{dry}");
    let done = scenario.steer("dead-letters/redrive", json!({"all": true})).await;
    assert_eq!((&done["state"], &done["affected"]), (&json!("succeeded"), &json!(2)), "{done}");
    let stats = scenario.until("they are through", |stats| stats["delivered_total"] == 5).await;
    assert_eq!((&stats["last_sequence"], &stats["dead_letters"]), (&json!(7), &json!(0)));
    let origin = scenario.receiver.header(3, "reseq-origin");
    assert!(origin.starts_with("erp/") && origin.ends_with("/2"), "{origin}");
    balanced(&stats);
}

#[tokio::test]
async fn deliveries_that_are_used_up_are_dropped_and_said_to_be() {
    let scenario =
        Scenario::start(json!({"on_exhausted": "drop", "delivery": {"attempts_max": 2}})).await;
    scenario.receiver.refuse("\"two\"", 503, None);
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.receives(&["one", "three"]).await;
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["dropped_total"], &stats["dead_letters"]), (&json!(1), &json!(0)));
    let what = scenario.ok("GET", &format!("/v1/destinations/{ERP}/messages/2"), Value::Null).await;
    assert_eq!(what["state"], "dropped", "{what}");
}

#[tokio::test]
async fn a_message_that_kills_its_processors_stops_doing_so() {
    let definition = json!({"transform": {"kind": "worker", "stalls_max": 2}});
    let scenario = Scenario::start(definition).await;
    scenario.send_all(&["poison"]).await;
    for attempt in [1, 2] {
        // A worker leases the message and never answers.
        let lease = scenario.lease(json!({"wait_ms": 20_000, "lease_ms": 100})).await;
        assert_eq!(lease[0]["attempt"], attempt);
    }
    let stats = scenario.until("it is halted", |stats| stats["halted"] == 1).await;
    assert_eq!(stats["head"]["last_error"]["kind"], "stalled", "{stats}");
    assert_eq!(stats["head"]["attempts"], 0, "a crash is no failed attempt: {stats}");
    assert_eq!(stats["head"]["stalls"], 2);
    scenario.steer("retry-head", json!({})).await;
    let lease = scenario.lease(json!({"wait_ms": 20_000})).await;
    scenario.end("complete", &lease, json!({"drop": true})).await;
    assert_eq!(scenario.is_drained().await["dropped_total"], 1);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_holds_up_its_own_lane_alone() {
    let scenario =
        Scenario::start(json!({"ordering": "key", "transform": {"kind": "worker"}})).await;
    for (body, key) in [("a1", "a"), ("b1", "b"), ("a2", "a")] {
        scenario.send(body, json!({"key": key})).await;
    }
    let mut redis = scenario.redis.connection().await;
    let all = keys(&mut redis).await;
    let records = all.iter().find(|key| key.ends_with(":d:erp:messages")).expect("they are there");
    let garbled = redis::cmd("HSET").arg(records).arg(2).arg("garbled").clone();
    garbled.exec_async(&mut redis).await.unwrap();
    let leases = scenario.lease(json!({"max": 3})).await;
    let sequences: Vec<_> = leases.iter().map(|lease| lease["sequence"].as_u64()).collect();
    assert_eq!(sequences, [Some(1), Some(3)]);
    for (lease, body) in leases.into_iter().zip(["a1", "a2"]) {
        scenario.end("complete", &[lease], json!({"body": body})).await;
    }
    scenario.receives(&["a1", "a2"]).await;
}

#[tokio::test]
async fn repeatedly_refused_head_can_be_skipped_between_attempts() {
    let scenario = Scenario::start(json!({})).await;
    scenario.receiver.refuse("\"two\"", 500, None);
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.until("it is tried again", |stats| stats["head"]["attempts"].as_u64() > Some(2)).await;
    let path = format!("/v1/destinations/{ERP}/skip-head");
    let (status, skipped) = scenario.ask("POST", &path, json!({"sequence": 2})).await;
    assert!(status == 200 || status == 202, "{status} {skipped}");
    scenario.receives(&["one", "three"]).await;
    assert_eq!(scenario.is_drained().await["dead_lettered_total"], 1);
    let letter =
        scenario.ok("GET", &format!("/v1/destinations/{ERP}/dead-letters/2"), Value::Null).await;
    assert_eq!(letter["stage"], "delivery", "{letter}");
    // A processed message is not processed again, only delivered.
    scenario.receiver.accept("\"two\"");
    scenario.steer("dead-letters/redrive", json!({"sequences": [2]})).await;
    scenario.receives(&["one", "three", "two"]).await;
    scenario.is_drained().await;
}
