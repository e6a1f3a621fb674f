//! Tests how a sender spares a receiver that fails, and how its lanes resume.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

const LANES: usize = 200;

/// A destination with many lanes, whose receiver refuses all. Two messages in each lane.
async fn refused_all(delivery: Value) -> Scenario {
    let scenario = Scenario::start(json!({"ordering": "key", "delivery": delivery})).await;
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    for lane in 0..LANES {
        for round in 0..2 {
            let item =
                json!({"destinations": [ERP], "key": format!("{lane}"), "body": [lane, round]});
            scenario.ok("POST", "/v1/messages", item).await;
        }
    }
    scenario
}

#[tokio::test]
async fn failing_receiver_gets_one_probe_at_a_time_then_all_lanes_in_order() {
    let delivery = json!({"backoff_ms": 1, "backoff_max_ms": 1});
    let scenario = refused_all(delivery).await;
    let why = scenario.blocked_by("receiver_failing").await;
    assert!(why["explanation"].as_str().unwrap().contains("one message at a time"), "{why}");
    let seconds = "reseq_blocked_seconds_total{destination=\"erp\",cause=\"receiver_failing\"}";
    eventually("the metric counts", async || {
        let counted = scenario.pod.metric(seconds).await;
        if counted > 0.0 { Ok(()) } else { Err(format!("{counted}")) }
    })
    .await;

    // While the probe is not answered, no lane sends anything else.
    let gate = scenario.receiver.gate.write().await;
    eventually("a probe arrives", async || match scenario.receiver.in_flight() {
        1 => Ok(()),
        other => Err(format!("{other} in flight")),
    })
    .await;
    scenario.blocked_by("receiver_failing").await;
    assert_eq!(scenario.receiver.in_flight(), 1);
    // All that arrived: those in flight when it failed, and a few probes. Lanes that waited made no attempt.
    let arrived = scenario.receiver.arrived.load(Ordering::Relaxed);
    assert!(arrived < LANES, "{arrived} requests");

    scenario.receiver.refuse_all(None);
    drop(gate);
    assert_eq!(scenario.is_drained().await["delivered_total"], 2 * LANES);
    let bodies = scenario.receiver.bodies();
    let at = |body: String| bodies.iter().position(|taken| *taken == body).unwrap();
    let in_order = |lane| at(format!("[{lane},0]")) < at(format!("[{lane},1]"));
    assert!((0..LANES).all(in_order), "{bodies:?}");
}

#[tokio::test]
async fn lane_that_fails_alone_stops_no_other_lane() {
    let delivery = json!({"backoff_ms": 1, "backoff_max_ms": 1, "breaker_failures": 2});
    let scenario = Scenario::start(json!({"ordering": "key", "delivery": delivery})).await;
    scenario.receiver.refuse("\"bad\"", 500, None);
    scenario.send("bad", json!({"key": "bad"})).await;
    eventually("it fails often", async || {
        let arrived = scenario.receiver.arrived.load(Ordering::Relaxed);
        if arrived > 10 { Ok(()) } else { Err(format!("{arrived}")) }
    })
    .await;
    scenario.send("good", json!({"key": "good"})).await;
    scenario.receives(&["good"]).await;
    let why = scenario.ok("GET", &format!("/v1/destinations/{ERP}/why"), Value::Null).await;
    assert_ne!(why["cause"], "receiver_failing", "{why}");
}

#[tokio::test]
async fn without_a_breaker_many_lanes_send_to_a_failing_receiver() {
    let delivery = json!({"backoff_ms": 1, "backoff_max_ms": 1, "breaker_failures": 0});
    let scenario = refused_all(delivery).await;
    eventually("each head is tried again and again", async || {
        let arrived = scenario.receiver.arrived.load(Ordering::Relaxed);
        if arrived > 3 * LANES { Ok(()) } else { Err(format!("{arrived}")) }
    })
    .await;
}
