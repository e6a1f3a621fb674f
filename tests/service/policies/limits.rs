//! Limits: lanes in flight, deliveries per second, the backlog in messages and in bytes.

use serde_json::json;

use crate::{
    policies::desk::{Desk, ERP, balanced},
    support::wait::eventually,
};

#[tokio::test]
async fn many_lanes_do_not_flood_one_receiver() {
    let desk = Desk::start(json!({"ordering": "key", "delivery": {"lanes_max": 3}})).await;
    let gate = desk.receiver.gate.write().await;
    for number in 0..60 {
        desk.send(&format!("m{number}"), json!({"key": format!("lane {number}")})).await;
    }
    eventually("as many are in flight as may be", async || match desk.receiver.most_in_flight() {
        3 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;
    drop(gate);
    assert_eq!(desk.is_drained().await["delivered_total"], 60);
    assert_eq!(desk.receiver.most_in_flight(), 3);
}

#[tokio::test]
async fn no_more_deliveries_are_begun_in_a_second_than_may_be() {
    let desk = Desk::start(json!({"delivery": {"rate_per_second_max": 40}})).await;
    let begun = std::time::Instant::now();
    for number in 0..60 {
        desk.send(&format!("m{number}"), json!({})).await;
    }
    assert_eq!(desk.is_drained().await["delivered_total"], 60);
    // 60 deliveries at 40 per second take more than 1 s: this checks the limit, not the speed.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(1300), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_backlog_is_bounded_in_messages_and_in_bytes() {
    let fields = json!({"transform": {"kind": "worker"}, "backlog_bytes_max": 100});
    let desk = Desk::start(fields).await;
    // With its quotes each body has 42 bytes.
    let body = "x".repeat(40);
    desk.send_all(&[&body, &body]).await;
    let item = json!({"destinations": [ERP], "body": body});
    let (status, problem) = desk.ask("POST", "/v1/messages", item).await;
    assert_eq!((status, &problem["code"]), (429, &json!("backlog_full")), "{problem}");
    let stats = desk.stats().await;
    assert_eq!((&stats["pending"], &stats["pending_bytes"]), (&json!(2), &json!(84)));
    let lease = desk.lease(json!({})).await;
    desk.end("complete", &lease, json!({"body": "a quite different length, as outputs may be"}))
        .await;
    desk.until("there is room", |stats| stats["pending_bytes"] == 42).await;
    desk.send_all(&[&body]).await;
    balanced(&desk.stats().await);
    for _ in 0..2 {
        let lease = desk.lease(json!({"wait_ms": 10_000})).await;
        desk.end("complete", &lease, json!({"drop": true})).await;
    }
    assert_eq!(desk.is_drained().await["pending_bytes"], 0);
}
