//! Tests limits: lanes in flight, deliveries per second, the backlog in messages and in bytes.

use serde_json::json;

use crate::{
    policies::scenario::{ERP, Scenario, balanced},
    support::wait::eventually,
};

#[tokio::test]
async fn many_lanes_do_not_flood_one_receiver() {
    let scenario = Scenario::start(json!({"ordering": "key", "delivery": {"lanes_max": 3}})).await;
    let gate = scenario.receiver.gate.write().await;
    for number in 0..60 {
        scenario.send(&format!("m{number}"), json!({"key": format!("lane {number}")})).await;
    }
    eventually("as many are in flight as may be", async || {
        match scenario.receiver.most_in_flight() {
            3 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    drop(gate);
    assert_eq!(scenario.is_drained().await["delivered_total"], 60);
    assert_eq!(scenario.receiver.most_in_flight(), 3);
}

#[tokio::test]
async fn no_more_deliveries_are_begun_in_a_second_than_may_be() {
    let scenario = Scenario::start(json!({"delivery": {"rate_per_second_max": 40}})).await;
    let begun = std::time::Instant::now();
    for number in 0..60 {
        scenario.send(&format!("m{number}"), json!({})).await;
    }
    assert_eq!(scenario.is_drained().await["delivered_total"], 60);
    // 60 deliveries at 40 per second take more than 1 s: this checks the limit, not the speed.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(1300), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_backlog_is_bounded_in_messages_and_in_bytes() {
    let fields = json!({"transform": {"kind": "worker"}, "backlog_bytes_max": 100});
    let scenario = Scenario::start(fields).await;
    // With its quotes each body has 42 bytes.
    let body = "x".repeat(40);
    scenario.send_all(&[&body, &body]).await;
    let item = json!({"destinations": [ERP], "body": body});
    let (status, problem) = scenario.ask("POST", "/v1/messages", item).await;
    assert_eq!((status, &problem["code"]), (429, &json!("backlog_full")), "{problem}");
    let stats = scenario.stats().await;
    assert_eq!((&stats["pending"], &stats["pending_bytes"]), (&json!(2), &json!(84)));
    let lease = scenario.lease(json!({})).await;
    scenario
        .end("complete", &lease, json!({"body": "a quite different length, as outputs may be"}))
        .await;
    scenario.until("there is room", |stats| stats["pending_bytes"] == 42).await;
    scenario.send_all(&[&body]).await;
    balanced(&scenario.stats().await);
    for _ in 0..2 {
        let lease = scenario.lease(json!({"wait_ms": 10_000})).await;
        scenario.end("complete", &lease, json!({"drop": true})).await;
    }
    assert_eq!(scenario.is_drained().await["pending_bytes"], 0);
}
