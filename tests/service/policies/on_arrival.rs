//! Tests messages that their pod processes as they arrive, without a claim.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

/// A scenario whose messages are transformed by its transform service, so many at once.
async fn scenario(definition: Value, concurrency: usize) -> Scenario {
    let scenario = Scenario::start(json!({})).await;
    let mut definition = scenario.with_transform(definition);
    definition["transform"]["concurrency"] = json!(concurrency);
    scenario.define(ERP, definition).await;
    scenario
}

/// How many claims the pod has made.
async fn claims(scenario: &Scenario) -> f64 {
    scenario.pod.metric("reseq_redis_call_seconds_count{transition=\"claim\"}").await
}

/// Waits until the receiver has these sequences, in this order.
async fn receives(scenario: &Scenario, sequences: &[u64]) {
    let expected: Vec<String> = sequences.iter().map(u64::to_string).collect();
    eventually("the receiver has them", async || {
        let count = scenario.receiver.taken.lock().unwrap().len();
        let found: Vec<_> =
            (0..count).map(|at| scenario.receiver.header(at, "reseq-sequence")).collect();
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

async fn is_transforming(scenario: &Scenario, count: usize) {
    eventually("so many transforms run", async || match scenario.transformer.in_flight() {
        found if found == count => Ok(()),
        found => Err(found.to_string()),
    })
    .await;
}

#[tokio::test]
async fn arrivals_begin_without_a_claim_while_slots_are_free() {
    for definition in
        [json!({}), json!({"ordering": "key"}), json!({"ordering": "none"}), json!({"ids_max": 9})]
    {
        let scenario = scenario(definition.clone(), 4).await;
        for number in 0..20 {
            let key = format!("k{}", number % 3);
            let fields = json!({"key": key, "idempotency_key": number.to_string()});
            scenario.send(&format!("m{number}"), fields).await;
            scenario.is_drained().await;
        }
        receives(&scenario, &Vec::from_iter(1..=20)).await;
        assert_eq!(claims(&scenario).await, 0.0, "{definition}");
    }
}

#[tokio::test]
async fn arrivals_wait_for_a_slot_behind_those_that_wait() {
    let scenario = scenario(json!({}), 1).await;
    let gate = scenario.transformer.gate.write().await;
    scenario.send_all(&["one", "two", "three"]).await;
    is_transforming(&scenario, 1).await;
    let stats = scenario.stats().await;
    assert_eq!((&stats["processing"], &stats["waiting"]), (&json!(1), &json!(2)), "{stats}");
    drop(gate);
    receives(&scenario, &[1, 2, 3]).await;
    assert_eq!(scenario.transformer.bodies(), ["\"one\"", "\"two\"", "\"three\""]);
    assert!(claims(&scenario).await > 0.0);
}

#[tokio::test]
async fn room_that_repeats_and_refusals_leave_is_free_again() {
    let scenario = scenario(json!({"backlog_max": 1}), 2).await;
    let key = json!({"idempotency_key": "once"});
    for _ in 0..10 {
        scenario.send("one", key.clone()).await;
    }
    scenario.is_drained().await;
    let gate = scenario.transformer.gate.write().await;
    scenario.send("two", json!({})).await;
    is_transforming(&scenario, 1).await;
    for _ in 0..10 {
        let item = json!({"destinations": [ERP], "body": "too many"});
        let (status, problem) = scenario.ask("POST", "/v1/messages", item).await;
        assert_eq!((status, &problem["code"]), (429, &json!("backlog_full")), "{problem}");
    }
    drop(gate);
    scenario.is_drained().await;
    scenario.send("three", json!({})).await;
    receives(&scenario, &[1, 2, 3]).await;
    assert_eq!(claims(&scenario).await, 0.0);
}

#[tokio::test]
async fn what_a_killed_pod_began_on_arrival_is_processed_again() {
    let mut scenario = scenario(json!({}), 4).await;
    let gate = scenario.transformer.gate.write().await;
    scenario.send_all(&["one", "two"]).await;
    is_transforming(&scenario, 2).await;
    scenario.pod.kill();
    drop(gate);
    scenario.pod.restart().await;
    receives(&scenario, &[1, 2]).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn what_began_on_arrival_is_requeued_when_its_pod_stops() {
    let mut scenario = scenario(json!({"transform": {"stalls_max": 1}}), 4).await;
    let gate = scenario.transformer.gate.write().await;
    scenario.send_all(&["one", "two"]).await;
    is_transforming(&scenario, 2).await;
    scenario.pod.terminate();
    scenario.pod.ended().await;
    drop(gate);
    scenario.pod.restart().await;
    receives(&scenario, &[1, 2]).await;
    // A stall would have halted them.
    scenario.is_drained().await;
}

#[tokio::test]
async fn waiting_workers_get_arrivals_without_a_claim() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    for number in 1..=100 {
        let before = claims(&scenario).await;
        let waiting = scenario.lease(json!({"wait_ms": 60_000, "worker": "one"}));
        let sending = async {
            eventually("the worker has found nothing", async || match claims(&scenario).await {
                found if found > before => Ok(()),
                found => Err(found.to_string()),
            })
            .await;
            scenario.send("m", json!({"key": "k"})).await
        };
        let (leases, sequence) = tokio::join!(waiting, sending);
        let of_claims = claims(&scenario).await - before;
        assert_eq!((leases.len(), &leases[0]["sequence"]), (1, &json!(sequence)));
        assert_eq!((&leases[0]["key"], &leases[0]["attempt"]), (&json!("k"), &json!(1)));
        scenario.end("complete", &leases, json!({"body": "done"})).await;
        scenario.is_drained().await;
        // It was waiting when the message came, and had not just begun to.
        if of_claims == 1.0 {
            return;
        }
        assert!(number < 100, "{of_claims} claims for a message");
    }
}

#[tokio::test]
async fn arrivals_for_a_worker_that_leaves_go_to_another() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    for number in 1..=30_u64 {
        let before = claims(&scenario).await;
        let waiting = scenario.lease(json!({"wait_ms": 60_000, "lease_ms": 500}));
        let sending = async {
            eventually("the worker has found nothing", async || match claims(&scenario).await {
                found if found > before => Ok(()),
                found => Err(found.to_string()),
            })
            .await;
            scenario.send("m", json!({})).await
        };
        // The worker leaves when the message is stamped: before it is given, or while the answer is on its way. Then
        // its lease ends.
        tokio::select! {
            leases = waiting => {
                scenario.end("complete", &leases, json!({"drop": true})).await;
                continue;
            }
            sequence = sending => assert_eq!(sequence, number),
        }
        eventually("another worker gets it", async || {
            let leases = scenario.lease(json!({"wait_ms": 1000})).await;
            let Some(lease) = leases.first() else { return Err("nothing yet".to_owned()) };
            assert_eq!(lease["sequence"], json!(number));
            scenario.end("complete", &leases, json!({"drop": true})).await;
            Ok(())
        })
        .await;
    }
    scenario.is_drained().await;
}
