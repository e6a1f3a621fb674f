//! Tests the history of messages, and sending them again.

use serde_json::{Value, json};

use crate::policies::scenario::{ERP, Scenario};

#[tokio::test]
async fn the_log_tells_what_became_of_each_and_forgets_the_oldest() {
    let scenario = Scenario::start(json!({})).await;
    let definition = scenario.with_transform(json!({"log_max": 3}));
    scenario.define(ERP, definition).await;
    scenario.transformer.refuse("\"two\"", 503, Some(2));
    scenario.receiver.refuse("", 503, Some(1));
    scenario.send_all(&["one", "two", "three", "four"]).await;
    scenario.is_drained().await;
    let path = format!("/v1/destinations/{ERP}/messages");
    let two = scenario.ok("GET", &format!("{path}/2"), Value::Null).await;
    assert_eq!(two["state"], "delivered", "{two}");
    assert!(two["latency"]["total_ms"].is_u64(), "{two}");
    let (status, problem) = scenario.ask("GET", &format!("{path}/1"), Value::Null).await;
    assert_eq!((status, &problem["code"]), (404, &json!("unknown_message")));
    assert!(problem["detail"].as_str().unwrap().contains("log"), "{problem}");
    let (status, problem) = scenario.ask("GET", &format!("{path}/5"), Value::Null).await;
    assert_eq!(status, 404, "{problem}");
    let log = scenario.ok("GET", &format!("/v1/destinations/{ERP}/log"), Value::Null).await;
    let newest: Vec<u64> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(newest, [4, 3, 2]);
}

#[tokio::test]
async fn what_was_delivered_is_replayed_as_it_arrived_and_only_once() {
    let scenario = Scenario::start(json!({})).await;
    *scenario.transformer.answer.lock().unwrap() = Some("\"transformed\"".to_owned());
    let definition = scenario.with_transform(json!({"log_bodies": true}));
    scenario.define(ERP, definition).await;
    scenario.define("archive", json!({"transform": {"kind": "worker"}})).await;
    scenario.send_all(&["one", "two", "three"]).await;
    scenario.receives(&["transformed", "transformed", "transformed"]).await;
    scenario.is_drained().await;

    let ask = json!({"from_sequence": 2, "to_destination": "archive", "dry_run": true});
    let dry = scenario.steer("replay", ask).await;
    assert_eq!((&dry["matched"], &dry["affected"]), (&json!(2), &json!(0)), "{dry}");
    let ask = json!({"from_sequence": 2, "to_destination": "archive", "idempotency_key": "r1"});
    assert_eq!(scenario.steer("replay", ask.clone()).await["affected"], 2);
    let again = scenario.steer("replay", ask).await;
    assert_eq!((&again["affected"], &again["duplicates"]), (&json!(0), &json!(2)), "{again}");

    let asked = json!({"destinations": ["archive"], "max": 10, "wait_ms": 10_000});
    let leases = scenario.ok("POST", "/v1/leases", asked).await["leases"].clone();
    let bodies: Vec<&str> =
        leases.as_array().unwrap().iter().map(|lease| lease["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["two", "three"], "the bodies as they arrived");
}
