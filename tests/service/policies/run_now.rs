//! Tests `run-now`: an operator makes delayed messages due, one or all.

use serde_json::{Value, json};

use crate::policies::scenario::{ERP, Scenario};

const LATER: u64 = 3_600_000;

async fn delayed(definition: Value) -> Scenario {
    let mut all = json!({"ordering": "key", "transform": {"kind": "worker"}});
    all.as_object_mut().unwrap().extend(definition.as_object().cloned().unwrap());
    Scenario::start(all).await
}

async fn run_now(scenario: &Scenario, sequence: u64) -> (u16, Value) {
    let path = format!("/v1/destinations/{ERP}/messages/{sequence}/run-now");
    scenario.ask("POST", &path, Value::Null).await
}

async fn sequences(scenario: &Scenario) -> Vec<u64> {
    let leases = scenario.lease(json!({"max": 10, "wait_ms": 60_000})).await;
    leases.iter().map(|lease| lease["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn delayed_message_behind_its_head_runs_now() {
    let scenario = delayed(json!({})).await;
    scenario.send("first", json!({"key": "a", "delay_ms": LATER})).await;
    scenario.send("second", json!({"key": "a", "delay_ms": LATER})).await;
    let (status, answer) = run_now(&scenario, 2).await;
    assert_eq!((status, &answer), (200, &json!({"sequence": 2, "state": "waiting"})));
    assert_eq!(sequences(&scenario).await, [2]);
    let (status, problem) = run_now(&scenario, 2).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("it is processing"), "{problem}");
    let (status, problem) = run_now(&scenario, 9).await;
    assert_eq!((status, &problem["code"]), (404, &json!("unknown_message")), "{problem}");
    let said = scenario.prints(&["messages", "run-now", ERP, "1"]).await;
    assert_eq!(said.trim(), "1 is waiting now");
}

#[tokio::test]
async fn message_that_awaits_its_turn_runs_when_that_comes() {
    let scenario = delayed(json!({"processing": "serial"})).await;
    scenario.send("first", json!({"key": "a"})).await;
    scenario.send("second", json!({"key": "a", "delay_ms": LATER})).await;
    let first = scenario.lease(json!({"max": 10})).await;
    assert_eq!(first.len(), 1);
    assert_eq!(run_now(&scenario, 2).await.0, 200);
    let (status, problem) = run_now(&scenario, 2).await;
    assert_eq!(status, 409, "{problem}");
    scenario.end("complete", &first, json!({"drop": true})).await;
    assert_eq!(sequences(&scenario).await, [2]);
}

#[tokio::test]
async fn all_delayed_messages_of_a_key_run_now() {
    let scenario = delayed(json!({})).await;
    for key in ["a", "b", "a"] {
        scenario.send(key, json!({"key": key, "delay_ms": LATER})).await;
    }
    let counted = scenario.steer("run-now", json!({"key": "a", "dry_run": true})).await;
    assert_eq!((&counted["matched"], &counted["affected"]), (&json!(2), &json!(0)), "{counted}");
    let done = scenario.steer("run-now", json!({"key": "a"})).await;
    assert_eq!((&done["kind"], &done["state"]), (&json!("run_now"), &json!("succeeded")));
    assert_eq!((&done["matched"], &done["affected"]), (&json!(2), &json!(2)), "{done}");
    let mut found = sequences(&scenario).await;
    found.sort_unstable();
    assert_eq!(found, [1, 3]);
    let said = scenario.prints(&["messages", "run-now", ERP, "--all"]).await;
    assert!(said.contains("1 of 1 delayed message due now"), "{said}");
    assert_eq!(sequences(&scenario).await, [2]);
}
