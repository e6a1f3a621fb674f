//! Tests purging.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Service;

/// The expected result of a purge that cancelled `at_once` messages at once, and `withdrawing`
/// others at the end of their attempts.
pub(super) fn cancelled(at_once: u64, withdrawing: u64) -> Value {
    let all = at_once + withdrawing;
    json!({"matched": all, "affected": all, "failed": 0, "withdrawing": withdrawing})
}

#[tokio::test]
async fn purge_counts_first_then_cancels_messages_in_any_state() {
    let service = Service::start().await;
    for ordering in ["destination", "key", "none"] {
        service.define_worker(ordering, ordering).await;
        for n in 0..700 {
            let key = if n < 10 { "few" } else { "many" };
            let line = json!({"destinations": [ordering], "body": n, "key": key});
            assert_eq!(service.post("messages", line).await.status, 202);
        }
        // One message of each kind: halted, delayed, ready, leased.
        service.halt_next(ordering, "no").await;
        let mut leases = service.lease(ordering, 3).await;
        service.fail(&leases.remove(0), "later", false).await;
        let done = json!({"items": [{"token": leases.remove(0)["token"], "body": 1}]});
        assert_eq!(service.post("leases/complete", done).await.status, 200);

        let path = format!("destinations/{ordering}/purge");
        let counts = service.post(&path, json!({"dry_run": true})).await.done();
        let by_state = json!({"waiting": 696, "processing": 1, "delayed": 1, "ready": 1,
            "delivering": 0, "halted": 1});
        let counted = json!({"matched": 700, "affected": 0, "failed": 0, "by_state": by_state});
        assert_eq!(counts, counted, "{ordering}");
        let few = service.post(&path, json!({"dry_run": true, "key": "few"})).await.done();
        assert_eq!(few["matched"], 10, "{ordering}: {few}");
        let purged = service.post(&path, json!({"key": "few"})).await.done();
        assert_eq!(purged, cancelled(9, 1), "{ordering}");
        assert_eq!(service.counts(ordering).await["waiting"], 690, "{ordering}");
        let url = service.pod.url(&format!("/v1/{path}"));
        let purged = super::said(super::client().post(url)).await.done();
        assert_eq!(purged, cancelled(690, 0), "{ordering}");
        let stats = service.counts(ordering).await;
        let left = ["waiting", "processing", "delayed", "halted", "ready"];
        assert_eq!(left.map(|state| stats[state].as_u64().unwrap()), [0, 1, 0, 0, 699]);
        assert!(service.lease(ordering, 1).await.is_empty(), "{ordering}");
    }
}

#[tokio::test]
async fn withdrawal_behind_a_halted_head_is_ordered_before_it_goes() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({})).await;
    }
    service.halt_next("crm", "no").await;
    for lease in service.lease("crm", 2).await {
        let done = json!({"items": [{"token": lease["token"], "body": 1}]});
        assert_eq!(service.post("leases/complete", done).await.status, 200);
    }
    let hand = service.hand("crm").await;
    let purged = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!(purged, cancelled(1, 2));
    // The head leaves as a tombstone. The messages behind it are being withdrawn and are not
    // delivered.
    assert_eq!(hand.deliver(None).await, [1]);
    assert_eq!(hand.deliver(None).await, Vec::<u64>::new());
}

#[tokio::test]
async fn a_purge_ends_although_more_comes_and_leaves_that_alone() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    for n in 0..300 {
        service.send("crm", json!(n), json!({"key": format!("k{}", n % 7)})).await;
    }
    let is_over = AtomicBool::new(false);
    let load = async {
        let mut sent = 0;
        while !is_over.load(Ordering::SeqCst) {
            service.send("crm", json!("late"), json!({"key": "k1"})).await;
            sent += 1;
        }
        sent
    };
    let purge = async {
        let purged = service.post("destinations/crm/purge", json!({})).await.done();
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(purged["withdrawing"], 0, "{purged}");
        purged["affected"].as_u64().unwrap()
    };
    let (sent, cancelled): (u64, u64) = tokio::join!(load, purge);
    assert!((300..=300 + sent).contains(&cancelled), "{cancelled} of 300 and {sent}");
    assert_eq!(service.counts("crm").await["waiting"], 300 + sent - cancelled);
}

#[tokio::test]
async fn purge_in_serial_processing_takes_those_held_behind_one() {
    let service = Service::start().await;
    let worker = json!({"kind": "worker"});
    let serial = json!({"transform": worker, "processing": "serial", "ordering": "key"});
    service.define("crm", serial).await;
    for n in 0..20 {
        service.send("crm", json!(n), json!({"key": format!("k{}", n % 2)})).await;
    }
    service.lease("crm", 1).await;
    let counts = service.post("destinations/crm/purge", json!({"dry_run": true})).await.done();
    assert_eq!(counts["by_state"]["waiting"], 19);
    let purged = service.post("destinations/crm/purge", json!({})).await.done();
    assert_eq!(purged, cancelled(19, 1));
    let stats = service.counts("crm").await;
    assert_eq!((&stats["waiting"], &stats["processing"]), (&json!(0), &json!(1)));
    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(Some("k1")).await.len(), 10);
    assert_eq!(service.counts("crm").await["pending_bytes"], 10 + 5);
}
