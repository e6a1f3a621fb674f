//! Tests pausing, and commands for heads of lanes: retry-head and skip-head.

use serde_json::json;

use super::{Service, each};

#[tokio::test]
async fn what_is_paused_is_shown_and_all_is_resumed_together() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    for name in ["crm", "filed"] {
        let path = |verb: &str| format!("destinations/{name}/{verb}");
        let paused = service.post(&path("pause"), json!({"what": "delivery"})).await.ok();
        assert_eq!(
            paused,
            json!({"paused": {"ingest": false, "processing": false, "delivery": true}})
        );
        let paused = service.post(&path("pause"), json!({"what": "ingest"})).await.ok();
        assert_eq!(
            paused["paused"],
            json!({"ingest": true, "processing": false, "delivery": true})
        );
        let shown = service.get(&format!("destinations/{name}")).await.ok();
        assert_eq!(shown["paused"], paused["paused"]);
        assert_eq!(service.counts(name).await["paused"], paused["paused"]);
        let resumed = service.post(&path("resume"), json!({"what": "delivery"})).await.ok();
        assert_eq!(
            resumed["paused"],
            json!({"ingest": true, "processing": false, "delivery": false})
        );
        let url = service.pod.url(&format!("/v1/{}", path("resume")));
        let resumed = super::said(super::client().post(url)).await.ok();
        assert_eq!(
            resumed["paused"],
            json!({"ingest": false, "processing": false, "delivery": false})
        );
    }
    let shown = service.get("destinations").await.ok();
    assert_eq!(
        each(&shown, "paused"),
        vec![json!({"ingest": false, "processing": false, "delivery": false}); 2]
    );
    // Storing a definition again does not resume.
    service.post("destinations/crm/pause", json!({"what": "delivery"})).await.ok();
    service.define("crm", json!({"backlog_max": 7})).await;
    let shown = service.get("destinations/crm").await.ok();
    assert_eq!((&shown["paused"]["delivery"], &shown["backlog_max"]), (&json!(true), &json!(7)));
}

#[tokio::test]
async fn a_halted_head_is_found_repaired_and_tried_again() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    service.send("crm", json!("bad"), json!({"key": "a", "headers": {"x-tenant": "7"}})).await;
    service.send("crm", json!(2), json!({"key": "a"})).await;
    service.send("crm", json!(3), json!({})).await;
    let retry = "destinations/crm/retry-head";
    let waits = service.post(retry, json!({"key": "a"})).await;
    waits.is_problem(409, "wrong_state", "nothing is to be retried");
    service.halt_next("crm", "cannot read this").await;

    let halted = service.get("destinations/crm/messages?state=halted").await.ok();
    assert_eq!(each(&halted, "sequence"), [1]);
    let head = &halted["items"][0];
    assert!(head["halted_at"].is_string() && head["received_at"].is_string(), "{head}");
    assert_eq!(head["last_error"]["detail"], "cannot read this");
    assert!(head.get("body").is_none() && head.get("priority").is_none(), "{head}");
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!((&shown["body"], &shown["state"]), (&json!("bad"), &json!("halted")));
    assert_eq!(shown["headers"], json!({"x-tenant": "7"}));
    assert_eq!(shown["errors"].as_array().unwrap().len(), 1);
    assert_eq!(shown["checkpoint"], false);

    service.post(retry, json!({})).await.is_problem(400, "invalid_field", "key");
    let wrong = service.post(retry, json!({"key": "a", "sequence": 2})).await;
    wrong.is_problem(409, "wrong_state", "2 is not the head of its lane; 1 is");
    let empty = service.post(retry, json!({"key": "nobody"})).await;
    empty.is_problem(409, "wrong_state", "empty");
    let waits = service.post(retry, json!({"key": ""})).await;
    waits.is_problem(409, "wrong_state", "nothing is to be retried");
    let repaired = json!({"key": "a", "sequence": 1, "body": {"good": true}});
    let retried = service.post(retry, repaired.clone()).await.ok();
    assert_eq!(retried, json!({"sequence": 1, "state": "waiting"}));
    service.post(retry, repaired).await.is_problem(409, "wrong_state", "nothing is to be retried");
    let entries = service.get("audit?action=retry_head").await.ok();
    assert!(each(&entries, "target").contains(&json!("1 with a new body")), "{entries}");
    let lease = service.lease("crm", 1).await.remove(0);
    assert_eq!((&lease["sequence"], &lease["body"]), (&json!(1), &json!({"good": true})));
    // A delayed head can be retried at once, but its body cannot be replaced.
    service.fail(&lease, "later", false).await;
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert!(shown["state"] == "delayed" && shown["due_at"].is_string(), "{shown}");
    let repaired = service.post(retry, json!({"key": "a", "body": 1})).await;
    repaired.is_problem(409, "wrong_state", "halted");
    assert_eq!(service.post(retry, json!({"key": "a"})).await.ok()["state"], "waiting");
}

#[tokio::test]
async fn bytes_take_the_place_of_a_body_and_stay_what_it_was_called() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    let text = json!({"destinations": ["crm"], "body_base64": "YQ==", "content_type": "text/csv"});
    assert_eq!(service.post("messages", text).await.status, 202);
    service.halt_next("crm", "no").await;
    let retry = "destinations/crm/retry-head";
    service.post(retry, json!({"body_base64": "Yg=="})).await.ok();
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!(
        (&shown["body_base64"], &shown["content_type"]),
        (&json!("Yg=="), &json!("text/csv"))
    );
}

#[tokio::test]
async fn all_halted_heads_are_tried_again_together() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    service.define_worker("bag", "none").await;
    for n in 0..6 {
        service.send("crm", json!(n), json!({"key": format!("k{}", n % 3)})).await;
        service.send("bag", json!(n), json!({})).await;
    }
    for name in ["crm", "bag"] {
        for _ in 0..6 {
            service.halt_next(name, "no").await;
        }
    }
    // With ordering `key`, the first message of each key is a head. With `none`, every message is a head.
    for (name, heads) in [("crm", 3), ("bag", 6)] {
        assert_eq!(service.counts(name).await["halted"], 6);
        let path = format!("destinations/{name}/retry-head");
        let retried = service.post(&path, json!({"all": true})).await.done();
        // Halted messages behind a halted head of their key are not tried.
        assert_eq!(retried, json!({"matched": heads, "affected": heads, "failed": 0}), "{name}");
        assert_eq!(service.counts(name).await["halted"], 6 - heads);
    }
    let missing = service.post("destinations/bag/retry-head", json!({})).await;
    missing.is_problem(400, "invalid_field", "sequence");
    let waits = service.post("destinations/bag/retry-head", json!({"sequence": 2})).await;
    waits.is_problem(409, "wrong_state", "nothing is to be retried");
    let none = service.post("destinations/bag/retry-head", json!({"sequence": 99})).await;
    none.is_problem(409, "wrong_state", "99");
}

#[tokio::test]
async fn heads_in_backoff_of_processing_are_retried_with_all() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    service.define_worker("bag", "none").await;
    for name in ["crm", "bag"] {
        for n in 0..3 {
            service.send(name, json!(n), json!({"key": format!("k{n}")})).await;
        }
        for lease in service.lease(name, 3).await {
            service.fail(&lease, "not yet", false).await;
        }
        // Its producer delayed this one, so it stays.
        service.send(name, json!(9), json!({"key": "late", "delay_ms": 3_600_000})).await;
        assert_eq!(service.counts(name).await["delayed"], 4, "{name}");
        let path = format!("destinations/{name}/retry-head");
        let retried = service.post(&path, json!({"all": true})).await.done();
        assert_eq!(retried, json!({"matched": 3, "affected": 3, "failed": 0}), "{name}");
        let counts = service.counts(name).await;
        assert_eq!((&counts["delayed"], &counts["waiting"]), (&json!(1), &json!(3)), "{name}");
    }
}

#[tokio::test]
async fn a_skipped_head_is_a_dead_letter_and_its_lane_goes_on() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({})).await;
    }
    service.halt_next("crm", "poison").await;
    let skip = "destinations/crm/skip-head";
    let wrong = service.post(skip, json!({"sequence": 2})).await;
    wrong.is_problem(409, "wrong_state", "1 is");
    let never = service.post(skip, json!({"sequence": 4})).await;
    never.is_problem(404, "unknown_message", "never stamped");
    let skipped = service.post(skip, json!({"sequence": 1})).await.ok();
    assert_eq!(skipped, json!({"sequence": 1, "state": "dead_lettered"}));
    let letter = service.get("destinations/crm/dead-letters/1").await.ok();
    assert_eq!(
        (&letter["reason"], &letter["stage"]),
        (&json!("skipped by hand"), &json!("transform"))
    );
    assert_eq!((&letter["body"], &letter["errors"][0]["detail"]), (&json!(1), &json!("poison")));

    let hand = service.hand("crm").await;
    assert_eq!(hand.deliver(None).await, [1]);
    let gone = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!((&gone["state"], &gone["dead_letter"]), (&json!("dead_lettered"), &json!(true)));
    let stats = service.counts("crm").await;
    assert_eq!((&stats["dead_letters"], &stats["dead_lettered_total"]), (&json!(1), &json!(1)));
    assert_eq!(stats["head"]["sequence"], 2);
}

#[tokio::test]
async fn message_in_hand_is_withdrawn_unless_delivered_first() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    service.send("crm", json!(1), json!({})).await;
    // If the partition has an owner, the owner may be delivering ready messages.
    let hand = service.hand("crm").await;
    let skip = "destinations/crm/skip-head";
    let ordered = service.post(skip, json!({"sequence": 1})).await;
    assert_eq!((ordered.status, &ordered.body["state"]), (202, &json!("withdrawing")));
    let shown = service.get("destinations/crm/messages/1").await.ok();
    assert_eq!((&shown["state"], &shown["withdrawing"]), (&json!("ready"), &json!(true)));

    // The owner carries out the withdrawal.
    let known = super::known(&service.store, "crm").await;
    let pending = service.store.withdrawals(&known).await.unwrap().remove(0);
    let carried_out = async {
        let messages = [(pending.lane.clone(), pending.sequence)];
        let withdrawal = store::Withdrawal {
            how: pending.how,
            reason: &pending.reason,
            error: None,
            messages: &messages,
        };
        service.store.withdraw(&known, store::Who::Owner(&hand.owner), &withdrawal).await.unwrap();
    };
    let (said, ()) = tokio::join!(service.post(skip, json!({"sequence": 1})), carried_out);
    assert_eq!(said.ok()["state"], "dead_lettered");
    assert_eq!(hand.deliver(None).await, [1]);

    service.send("crm", json!(2), json!({})).await;
    // The next message is delivered while its withdrawal is pending.
    let delivered = async {
        crate::support::wait::eventually("the withdrawal is there", async || {
            let count = service.store.withdrawals(&known).await.unwrap().len();
            if count > 0 { Ok(()) } else { Err("none".to_owned()) }
        })
        .await;
        let log = LogOf { service: &service, hand: &hand };
        log.delivered(2).await;
    };
    let (said, ()) = tokio::join!(service.delete("destinations/crm/messages/2"), delivered);
    said.is_problem(409, "wrong_state", "it was delivered meanwhile");
}

/// Settles a message that was released before its withdrawal was requested.
struct LogOf<'a> {
    service: &'a Service,
    hand: &'a super::Hand,
}

impl LogOf<'_> {
    async fn delivered(&self, sequence: u64) {
        let store = &self.service.store;
        let known = super::known(store, "crm").await;
        let message = store.messages(&known, &[sequence]).await.unwrap().remove(0).unwrap();
        let entry = store::LogEntry::of(&message, message.message.received_ms, 1, false);
        let settled = store::Settled {
            upto: sequence,
            bytes: message.accounted_bytes,
            log: vec![(sequence, entry)],
            ..Default::default()
        };
        let request = store::LaneRequest { key: None, settled, held_upto: 0, limit: 0 };
        store.release(&self.hand.owner, &known, &[request]).await.unwrap();
    }
}
