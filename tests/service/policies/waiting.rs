//! Tests delays, cancelling, pausing, duplicates.

use serde_json::{Value, json};

use crate::policies::scenario::{ERP, Scenario, balanced};

#[tokio::test]
async fn a_delayed_message_holds_its_place_and_survives_a_restart() {
    let mut scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.send("a1", json!({"key": "a", "delay_ms": 1500})).await;
    scenario.send("a2", json!({"key": "a"})).await;
    scenario.send("b1", json!({"key": "b"})).await;
    scenario.receives(&["b1"]).await;
    let stats = scenario.stats().await;
    assert_eq!((&stats["delayed"], &stats["ready"]), (&json!(1), &json!(1)), "{stats}");
    scenario.pod.kill();
    scenario.pod.restart().await;
    scenario.receives(&["b1", "a1", "a2"]).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn delayed_message_is_cancelled_by_idempotency_key_or_sequence() {
    let scenario = Scenario::start(json!({})).await;
    scenario.send("later", json!({"delay_ms": 3_600_000, "idempotency_key": "alarm 7"})).await;
    let second = scenario.send("much later", json!({"delay_ms": 7_200_000})).await;
    scenario.send("now", json!({})).await;
    scenario.nothing_happens().await;
    scenario.receives(&[]).await;
    let path = format!("/v1/destinations/{ERP}/messages");
    let gone =
        scenario.ok("DELETE", &format!("{path}?idempotency_key=alarm%207"), Value::Null).await;
    assert_eq!((&gone["sequence"], &gone["state"]), (&json!(1), &json!("cancelled")));
    scenario.ok("DELETE", &format!("{path}/{second}"), Value::Null).await;
    scenario.receives(&["now"]).await;
    let stats = scenario.is_drained().await;
    assert_eq!(stats["cancelled_total"], 2);
    let (status, problem) = scenario.ask("DELETE", &format!("{path}/{second}"), Value::Null).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")), "{problem}");
    let (status, problem) = scenario.ask("DELETE", &format!("{path}/99"), Value::Null).await;
    assert_eq!((status, &problem["code"]), (404, &json!("unknown_message")), "{problem}");
}

#[tokio::test]
async fn what_is_paused_waits_and_what_is_resumed_goes_on_in_order() {
    let scenario = Scenario::start(json!({})).await;
    scenario.send_all(&["one"]).await;
    scenario.receives(&["one"]).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send_all(&["two", "three"]).await;
    scenario.nothing_happens().await;
    scenario.receives(&["one"]).await;
    let paused = scenario.steer("pause", json!({"what": "ingest"})).await;
    assert_eq!(paused["paused"], json!({"ingest": true, "processing": false, "delivery": true}));
    let item = json!({"destinations": [ERP], "body": "four"});
    let (status, problem) = scenario.ask("POST", "/v1/messages", item).await;
    assert_eq!((status, &problem["code"]), (429, &json!("paused")), "{problem}");
    assert!(problem["retry_after"].is_u64(), "{problem}");
    scenario.steer("resume", json!({})).await;
    scenario.send_all(&["four"]).await;
    scenario.receives(&["one", "two", "three", "four"]).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn an_id_is_not_queued_twice_while_it_is_queued_or_running() {
    let definition = json!({"idempotency_window_ms": 0, "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    let key = json!({"idempotency_key": "report 7"});
    let send = async || {
        let mut item = json!({"destinations": [ERP], "body": "run"});
        item.as_object_mut().unwrap().extend(key.as_object().cloned().unwrap());
        scenario.ok("POST", "/v1/messages", item).await["deliveries"][0].clone()
    };
    assert_eq!(send().await["duplicate"], false);
    assert_eq!(send().await["duplicate"], true);
    let lease = scenario.lease(json!({})).await;
    // While a worker processes the message, a repeat is still a duplicate.
    let again = send().await;
    assert_eq!((&again["duplicate"], &again["sequence"]), (&json!(true), &json!(1)));
    let other = json!({"destinations": [ERP], "body": "walk", "idempotency_key": "report 7"});
    let (status, problem) = scenario.ask("POST", "/v1/messages", other).await;
    assert_eq!((status, &problem["code"]), (422, &json!("idempotency_conflict")));
    scenario.end("complete", &lease, json!({"body": "done"})).await;
    scenario.is_drained().await;
    let fresh = send().await;
    assert_eq!((&fresh["duplicate"], &fresh["sequence"]), (&json!(false), &json!(2)));
    let lease = scenario.lease(json!({"wait_ms": 10_000})).await;
    scenario.end("complete", &lease, json!({"drop": true})).await;
    balanced(&scenario.is_drained().await);
}

#[tokio::test]
async fn an_id_is_free_again_when_its_message_was_cancelled() {
    let scenario = Scenario::start(json!({"idempotency_window_ms": 0})).await;
    scenario.send("one", json!({"delay_ms": 3_600_000})).await;
    let item = json!({"destinations": [ERP], "body": "two", "idempotency_key": "a b"});
    let send =
        async || scenario.ok("POST", "/v1/messages", item.clone()).await["deliveries"][0].clone();
    assert_eq!(send().await["duplicate"], false);
    let messages = format!("/v1/destinations/{ERP}/messages");
    let by_key = format!("{messages}?idempotency_key=a%20b");
    let cancelled = scenario.ok("DELETE", &by_key, json!({})).await;
    assert_eq!(cancelled, json!({"sequence": 2, "state": "cancelled"}));
    // The key is free, although the tombstone still keeps its position behind the first message.
    let again = send().await;
    assert_eq!((&again["duplicate"], &again["sequence"]), (&json!(false), &json!(3)));
    assert_eq!(send().await["duplicate"], true);
    scenario.ok("DELETE", &format!("{messages}/1"), json!({})).await;
    scenario.receives(&["two"]).await;
    balanced(&scenario.is_drained().await);
}

#[tokio::test]
async fn a_purge_counts_first_and_then_leaves_nothing() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    for number in 0..50 {
        let fields = if number % 10 == 0 { json!({"delay_ms": 3_600_000}) } else { json!({}) };
        scenario.send(&format!("message {number}"), fields).await;
    }
    let held = scenario.lease(json!({"max": 5})).await;
    let counted = scenario.steer("purge", json!({"dry_run": true})).await;
    assert_eq!((&counted["matched"], &counted["affected"]), (&json!(50), &json!(0)), "{counted}");
    assert_eq!(scenario.stats().await["pending"], 50);
    let purged = scenario.steer("purge", json!({})).await;
    let number = |field: &str| purged[field].as_u64().unwrap();
    assert_eq!(purged["state"], "succeeded", "{purged}");
    assert_eq!((number("affected"), number("withdrawing")), (50, 5), "{purged}");
    // Leased messages leave when their attempt has ended.
    scenario.end("requeue", &held, json!({})).await;
    assert_eq!(scenario.is_drained().await["cancelled_total"], 50);
    scenario.receives(&[]).await;
}
