//! Incidents of lanes: a poison message, a receiver that is down or slow, a hot key, dead letters.

use serde_json::json;

use super::{Says, give_clock, is_quiet, lines_of, send_many, step};
use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

const LANES: usize = 300;

#[tokio::test]
async fn poison_message_is_named_with_its_error_and_how_to_skip_it() {
    let scenario = Scenario::start(json!({})).await;
    let definition = json!({"url": scenario.receiver_url, "on_exhausted": "halt",
        "transform": {"attempts_max": 2}});
    scenario.define(ERP, scenario.with_transform(definition)).await;
    scenario.transformer.refuse("\"bad\"", 500, None);
    let before = lines_of(&scenario.pod);
    scenario.send_all(&["good", "bad", "later"]).await;
    scenario.until("it halts", |stats| stats["halted"] == 1).await;
    let says = Says {
        why: &["halted", "500", "reseq lanes skip erp --sequence 2", "reseq lanes retry erp"],
        doctor: &["halted", "reseq why erp"],
        status: &["erp", "halted", "reseq lanes retry erp"],
        console: &["\"halted\""],
        log: &["halted", "destination=\"erp\""],
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
    scenario.prints(&["lanes", "skip", ERP, "--sequence", "2", "--yes"]).await;
    assert_eq!(scenario.is_drained().await["delivered_total"], 2);
}

#[tokio::test]
async fn receiver_down_is_named_by_its_error_since_when_and_lanes() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    give_clock(&scenario).await;
    let before = lines_of(&scenario.pod);
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    for lane in 0..LANES {
        scenario.send("x", json!({"key": lane.to_string()})).await;
    }
    scenario.blocked_by("receiver_failing").await;
    step(&scenario, 120);
    let says = Says {
        why: &["one message at a time", "messages wait for the receiver: status 503"],
        doctor: &["failing since", "status 503", "reseq why erp"],
        status: &["erp", "failing for longer than a minute (status 503)"],
        console: &["\"failing\"", "status 503"],
        log: &["began to fail", "status 503"],
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
    scenario.receiver.refuse_all(None);
    assert_eq!(scenario.is_drained().await["delivered_total"], LANES);
}

#[tokio::test]
async fn slow_receiver_is_named_by_its_delivery_and_the_usual_ones() {
    let scenario = Scenario::start(json!({"delivery": {"timeout_ms": 600_000}})).await;
    give_clock(&scenario).await;
    scenario.send_all(&["one", "two"]).await;
    scenario.receives(&["one", "two"]).await;
    let gate = scenario.receiver.gate.write().await;
    scenario.send_all(&["three", "four"]).await;
    eventually("the receiver has three", async || match scenario.receiver.in_flight() {
        1 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    step(&scenario, 301);
    let says = Says {
        why: &["being delivered", "usual"],
        doctor: &["the oldest since", "is slow", "reseq why erp"],
        status: &["erp", "the oldest for longer than five minutes"],
        console: &["\"slow\""],
        log: &[],
    };
    says.by(&scenario.pod).await;
    drop(gate);
    scenario.receives(&["one", "two", "three", "four"]).await;
}

#[tokio::test]
async fn hot_key_is_named_with_what_waits_behind_its_head() {
    let definition =
        json!({"ordering": "key", "processing": "serial", "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    give_clock(&scenario).await;
    for _ in 0..50 {
        scenario.send("x", json!({"key": "hot"})).await;
    }
    scenario.send("x", json!({"key": "cold"})).await;
    scenario.lease(json!({"max": 1, "worker": "w-3", "lease_ms": 3_600_000})).await;
    step(&scenario, 301);
    let says = Says {
        why: &["hot", "behind  49 messages", "w-3"],
        doctor: &["51 messages are pending", "reseq why erp"],
        status: &["erp", "the oldest for longer than five minutes"],
        console: &["\"slow\""],
        log: &[],
    };
    says.by(&scenario.pod).await;
    let lanes = scenario.prints(&["lanes", ERP]).await;
    assert!(lanes.contains("hot") && lanes.contains("50"), "{lanes}");
}

#[tokio::test]
async fn many_dead_letters_are_counted_with_how_to_redrive_them() {
    const COUNT: usize = 1_500;
    let scenario = Scenario::start(json!({})).await;
    let definition = json!({"url": scenario.receiver_url, "ordering": "none",
        "on_exhausted": "dead_letter", "delivery": {"attempts_max": 1}});
    scenario.define(ERP, definition).await;
    scenario.receiver.refuse_all(Some((400, usize::MAX)));
    let before = lines_of(&scenario.pod);
    send_many(&scenario, COUNT).await;
    scenario.until("they are dead letters", |stats| stats["pending"] == 0).await;
    let says = Says {
        doctor: &["dead letters", "reseq dead-letters redrive erp --all --dry-run"],
        log: &["began to fail", "status 400"],
        ..Says::default()
    };
    says.by(&scenario.pod).await;
    is_quiet(&scenario.pod, before);
    let dry = scenario.prints(&["dead-letters", "redrive", ERP, "--all", "--dry-run"]).await;
    assert!(dry.contains("1500"), "{dry}");
}
