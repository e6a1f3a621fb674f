//! Tests modes: serial processing, no ordering, priorities, batches.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

#[tokio::test]
async fn serial_processing_takes_one_message_of_a_lane_at_a_time() {
    let definition = json!({"ordering": "key", "processing": "serial",
        "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    for body in ["a1", "a2", "b1", "a3", "b2"] {
        scenario.send(body, json!({"key": &body[..1]})).await;
    }
    let mut done = Vec::new();
    while done.len() < 5 {
        let leases = scenario.lease(json!({"max": 10, "wait_ms": 10_000})).await;
        let keys: Vec<&str> = leases.iter().map(|lease| lease["key"].as_str().unwrap()).collect();
        let different: BTreeSet<&&str> = keys.iter().collect();
        assert_eq!(different.len(), keys.len(), "one of each lane: {leases:?}");
        // While these are processed, no other message of their lanes can be claimed.
        assert!(scenario.lease(json!({"max": 10})).await.is_empty());
        for lease in leases {
            done.push(lease["body"].as_str().unwrap().to_owned());
            scenario
                .end("complete", std::slice::from_ref(&lease), json!({"body": lease["body"]}))
                .await;
        }
    }
    let of = |key: &str| done.iter().filter(|b| b.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b")),
        (vec!["a1".into(), "a2".into(), "a3".into()], vec!["b1".into(), "b2".into()])
    );
    assert_eq!(scenario.is_drained().await["delivered_total"], 5);
}

#[tokio::test]
async fn higher_priority_is_claimed_first_without_order() {
    let definition = json!({"ordering": "none", "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    for (body, priority) in [("low", Some(0)), ("usual", None), ("high", Some(9)), ("next", None)] {
        let fields = priority.map_or(json!({}), |priority| json!({"priority": priority}));
        scenario.send(body, fields).await;
    }
    let leases = scenario.lease(json!({"max": 10})).await;
    let bodies: Vec<&str> = leases.iter().map(|lease| lease["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["high", "usual", "next", "low"]);
    // Every message leaves as soon as it is ready, regardless of earlier messages.
    scenario.end("complete", &leases[3..], json!({"body": "low"})).await;
    scenario.receives(&["low"]).await;
    assert_eq!(scenario.receiver.header(0, "reseq-previous"), "0");
    scenario.end("fail", &leases[..1], json!({"error": "not now", "retry_ms": 0})).await;
    let again = scenario.lease(json!({"wait_ms": 10_000})).await;
    assert_eq!(again[0]["body"], "high");
    for lease in leases[1..3].iter().chain(&again) {
        scenario.end("complete", std::slice::from_ref(lease), json!({"body": lease["body"]})).await;
    }
    assert_eq!(scenario.is_drained().await["delivered_total"], 4);
    // Other orderings refuse a priority.
    scenario.define("ordered", json!({})).await;
    let item = json!({"destinations": ["ordered"], "body": "x", "priority": 9});
    let (status, problem) = scenario.ask("POST", "/v1/messages", item).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
}

#[tokio::test]
async fn low_priority_goes_before_high_ones_that_arrived_much_later() {
    let definition =
        json!({"ordering": "none", "transform": {"kind": "worker"}, "backlog_max": 1_u64 << 40});
    let scenario = Scenario::start(definition).await;
    scenario.send("low", json!({"priority": 0})).await;
    // As if so many had arrived that only one more goes before it.
    let last = (9 * domain::message::PRIORITY_STEP - 1).to_string();
    scenario.redis_ask::<()>(&["HSET", &scenario.keys().hash(), "last", &last]).await;
    for body in ["before", "same", "after"] {
        scenario.send(body, json!({"priority": 9})).await;
    }
    scenario.send("usual", json!({})).await;
    let leases = scenario.lease(json!({"max": 5})).await;
    let bodies: Vec<&str> = leases.iter().map(|lease| lease["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["before", "low", "same", "after", "usual"]);
}

#[tokio::test]
async fn batch_of_one_lane_is_in_order_and_may_be_partly_accepted() {
    let delivery = json!({"batch_max": 4});
    let scenario = Scenario::start(json!({"delivery": delivery})).await;
    let gate = scenario.receiver.gate.write().await;
    let names: Vec<String> = (1..=9).map(|number| format!("m{number}")).collect();
    scenario.send_all(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // The receiver accepts the first two messages of each batch.
    *scenario.receiver.takes_max.lock().unwrap() = Some(2);
    drop(gate);
    let stats = scenario.is_drained().await;
    assert_eq!(stats["delivered_total"], 9);
    let mut taken = Vec::new();
    for body in scenario.receiver.bodies() {
        let batch: Vec<Value> = serde_json::from_str(&body).unwrap();
        assert!((1..=4).contains(&batch.len()), "{batch:?}");
        let sequences: Vec<u64> =
            batch.iter().map(|one| one["sequence"].as_u64().unwrap()).collect();
        assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
        assert_eq!(sequences[0], taken.len() as u64 + 1, "from the first that was not taken");
        taken.extend(batch.into_iter().take(2).map(|one| one["body"].as_str().unwrap().to_owned()));
    }
    assert_eq!(taken, names);
}

#[tokio::test]
async fn the_culprit_of_a_batch_is_found_and_only_it_is_skipped() {
    let definition = json!({"on_exhausted": "dead_letter", "delivery": {"batch_max": 8}});
    let scenario = Scenario::start(definition).await;
    // A receiver that accepts a batch only without `culprit`.
    let reject = crate::support::http::serve(|request| async move {
        let status = if request.body.contains("culprit") { 422 } else { 200 };
        Some(crate::support::http::Answer::status(status))
    });
    let (address, _server) = reject.await;
    scenario
        .define(
            ERP,
            json!({"url": format!("http://{address}/"), "on_exhausted": "dead_letter",
            "delivery": {"batch_max": 8}}),
        )
        .await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send_all(&["one", "two", "culprit", "four", "five"]).await;
    scenario.steer("resume", json!({})).await;
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["delivered_total"], &stats["dead_lettered_total"]), (&json!(4), &json!(1)));
    let path = format!("/v1/destinations/{ERP}/dead-letters");
    let letters = scenario.ok("GET", &path, Value::Null).await;
    assert_eq!(letters["items"][0]["sequence"], 3, "{letters}");
}

#[tokio::test]
async fn without_order_a_request_carries_several_messages() {
    let definition = json!({"ordering": "none", "delivery": {"batch_max": 8}});
    let scenario = Scenario::start(definition).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    let names: Vec<String> = (1..=40).map(|number| format!("m{number}")).collect();
    scenario.send_all(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    scenario.steer("resume", json!({})).await;
    assert_eq!(scenario.is_drained().await["delivered_total"], 40);
    let mut sequences = Vec::new();
    for body in scenario.receiver.bodies() {
        let batch: Vec<Value> = serde_json::from_str(&body).unwrap();
        assert!((1..=8).contains(&batch.len()), "{batch:?}");
        sequences.extend(batch.iter().map(|one| one["sequence"].as_u64().unwrap()));
    }
    // As the sender may have loaded only some of them when it was resumed.
    assert!(scenario.receiver.bodies().len() < 20, "{:?}", scenario.receiver.bodies());
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=40).collect::<Vec<u64>>());
}

#[tokio::test]
async fn without_order_a_refused_message_of_a_batch_holds_no_other() {
    let scenario = Scenario::start(json!({})).await;
    let accepted = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = accepted.clone();
    // A receiver that accepts a batch only without `culprit`.
    let server = crate::support::http::serve(move |request| {
        let is_refused = request.body.contains("culprit");
        let batch: Vec<Value> = serde_json::from_str(&request.body).unwrap();
        let bodies = batch.iter().map(|one| one["body"].as_str().unwrap().to_owned());
        noted.lock().unwrap().extend(bodies.filter(|_| !is_refused));
        let status = if is_refused { 503 } else { 200 };
        async move { Some(crate::support::http::Answer::status(status)) }
    });
    let (address, _server) = server.await;
    let definition = json!({"ordering": "none", "url": format!("http://{address}/"),
        "delivery": {"batch_max": 8, "breaker_failures": 0}});
    scenario.define(ERP, definition).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    let others = ["one", "two", "four", "five"];
    scenario.send_all(&["one", "two", "culprit", "four", "five"]).await;
    scenario.steer("resume", json!({})).await;
    let stats = scenario.until("the others left", |stats| stats["delivered_total"] == 4).await;
    assert_eq!(stats["pending"], 1, "{stats}");
    let mut found = accepted.lock().unwrap().clone();
    found.sort_unstable();
    let mut expected = others.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(found, expected);
    let path = format!("/v1/destinations/{ERP}/messages/3");
    scenario.ok("DELETE", &path, Value::Null).await;
    assert_eq!(scenario.is_drained().await["cancelled_total"], 1);
}

#[tokio::test]
async fn without_order_a_window_loses_nothing_when_frames_are_refused() {
    let inbox = std::sync::Arc::new(crate::support::receiver::Inbox::default());
    let receiver = crate::support::receiver::Receiver::lines(&inbox, ERP).await;
    inbox.fail(11, 0.1);
    let scenario = Scenario::start(json!({})).await;
    let delivery = json!({"window_max": 16, "lanes_max": 2, "breaker_failures": 0});
    let url = receiver.tcp_url();
    scenario.define(ERP, json!({"ordering": "none", "url": url, "delivery": delivery})).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    let names: Vec<String> = (0..200).map(|number| format!("m{number}")).collect();
    scenario.send_all(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    scenario.steer("resume", json!({})).await;
    assert_eq!(scenario.is_drained().await["delivered_total"], 200);
    let bodies = inbox.journal.all().into_iter().map(|delivery| delivery.body);
    let accepted: std::collections::HashSet<String> = bodies.collect();
    assert_eq!(accepted.len(), 200);
    assert!(inbox.struck() > 5, "{}", inbox.struck());
}

#[tokio::test]
async fn a_topic_reaches_all_its_destinations_once() {
    let scenario = Scenario::start(json!({})).await;
    scenario.define("crm", json!({})).await;
    scenario.ok("PUT", "/v1/topics/orders", json!({"destinations": [ERP, "crm"]})).await;
    let item = json!({"topic": "orders", "body": "order 7", "idempotency_key": "order 7"});
    for is_again in [false, true] {
        let answer = scenario.ok("POST", "/v1/messages", item.clone()).await;
        let deliveries = answer["deliveries"].as_array().unwrap();
        assert_eq!(deliveries.len(), 2, "{answer}");
        assert!(deliveries.iter().all(|one| one["duplicate"] == is_again), "{answer}");
    }
    eventually("both have it", async || match scenario.receiver.bodies().len() {
        2 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn the_ordering_may_change_whenever_nothing_is_pending() {
    let scenario = Scenario::start(json!({})).await;
    let mut sent = 0;
    for ordering in ["key", "none", "destination", "key", "destination", "none", "key"] {
        scenario.define(ERP, json!({"ordering": ordering})).await;
        // Sends at once, while the sender still knows the previous ordering.
        for key in [Value::Null, json!("a")] {
            scenario.send("message", json!({"key": key})).await;
            sent += 1;
        }
        let stats = scenario.is_drained().await;
        assert_eq!(stats["delivered_total"], sent, "{ordering}: {stats}");
    }
}

#[tokio::test]
async fn what_a_worker_holds_is_cancelled_when_its_attempt_has_failed() {
    let definition = json!({"ordering": "key", "transform": {"kind": "worker"}});
    let scenario = Scenario::start(definition).await;
    let sequence = scenario.send("held", json!({"key": "a"})).await;
    let lease = scenario.lease(json!({})).await;
    let path = format!("/v1/destinations/{ERP}/messages/{sequence}");
    let (status, answer) = scenario.ask("DELETE", &path, Value::Null).await;
    assert_eq!((status, &answer["state"]), (202, &json!("withdrawing")), "{answer}");
    scenario.end("fail", &lease, json!({"error": "not now", "retry_ms": 0})).await;
    assert_eq!(scenario.is_drained().await["cancelled_total"], 1);
}

#[tokio::test]
async fn a_withdrawal_behind_a_head_that_backs_off_does_not_hasten_it() {
    let definition = json!({"transform": {"kind": "worker"},
        "delivery": {"backoff_ms": 600_000, "backoff_max_ms": 600_000}});
    let scenario = Scenario::start(definition).await;
    scenario.receiver.refuse("\"one\"", 503, None);
    scenario.send_all(&["one", "two"]).await;
    let leases = scenario.lease(json!({"max": 2})).await;
    scenario.end("complete", &leases[..1], json!({"body": "one"})).await;
    scenario.until("it backs off", |stats| stats["head"]["attempts"] == 1).await;
    let path = format!("/v1/destinations/{ERP}/messages/2");
    let (status, answer) = scenario.ask("DELETE", &path, Value::Null).await;
    assert_eq!(status, 202, "{answer}");
    scenario.nothing_happens().await;
    let stats = scenario.stats().await;
    // A second attempt is possible: full jitter may choose a very short backoff.
    assert!(stats["head"]["attempts"].as_u64() <= Some(2), "{stats}");
    scenario.end("requeue", &leases[1..], json!({})).await;
    scenario.receiver.accept("\"one\"");
    scenario.steer("retry-head", json!({})).await;
    let stats = scenario.is_drained().await;
    assert_eq!((&stats["delivered_total"], &stats["cancelled_total"]), (&json!(1), &json!(1)));
}
