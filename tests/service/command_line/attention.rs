//! What needs attention: the same in the API, `status --check`, doctor and the metrics.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::{pods::client, wait::eventually},
};

/// The causes of each destination that needs attention, as `GET /v1/stats` lists them.
async fn causes(scenario: &Scenario) -> Vec<String> {
    let (status, page) = scenario.ask("GET", "/v1/stats?attention=true", Value::Null).await;
    let Some(items) = page["items"].as_array() else { return vec![format!("{status} {page}")] };
    let all = items.iter().flat_map(|item| {
        let of_one = item["attention"].as_array().unwrap().iter();
        let name = item["name"].as_str().unwrap().to_owned();
        of_one.map(move |found| format!("{name} {}", found["cause"].as_str().unwrap()))
    });
    let all: Vec<String> = all.collect();
    let count = page["totals"]["needs_attention"].as_u64();
    assert_eq!(count, Some(items.len() as u64), "{page}");
    all
}

async fn has_causes(scenario: &Scenario, expected: &[&str]) {
    eventually("these destinations need attention", async || {
        let found = causes(scenario).await;
        if found == expected { Ok(()) } else { Err(found.join(", ")) }
    })
    .await;
}

#[tokio::test]
async fn failing_lanes_and_missing_workers_need_attention() {
    // Without a breaker, all lanes fail again and again.
    let definition = json!({"ordering": "key", "delivery": {"breaker_failures": 0}});
    let scenario = Scenario::start(definition).await;
    scenario.define("full", json!({"backlog_max": 1})).await;
    scenario.define("idle", json!({"transform": {"kind": "worker"}})).await;
    let pulled = json!({"delivery": {"kind": "pull"}});
    scenario.ok("PUT", "/v1/destinations/queue", pulled).await;
    scenario.define("well", json!({"transform": {"kind": "worker"}})).await;
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    scenario.redis.give_clock().await;
    let pause = json!({"what": "delivery"});
    eventually("Redis is back", async || {
        let path = "/v1/destinations/full/pause";
        let (status, answer) = scenario.ask("POST", path, pause.clone()).await;
        if status == 200 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    for key in ["a", "b", "c"] {
        scenario.send("x", json!({"key": key})).await;
    }
    // A worker of this one took a message at its rate, and went away.
    let slowed = json!({"delivery": {"kind": "none"},
        "transform": {"kind": "worker", "rate_per_second_max": 1}});
    scenario.ok("PUT", "/v1/destinations/slowed", slowed).await;
    for name in ["full", "idle", "queue", "slowed", "slowed"] {
        let path = format!("/v1/destinations/{name}/messages");
        scenario.ok("POST", &path, json!({"body": 1})).await;
    }
    let claim = json!({"destinations": ["slowed"], "max": 1});
    let leases = scenario.ok("POST", "/v1/leases", claim).await["leases"].take();
    scenario.end("complete", leases.as_array().unwrap(), json!({"drop": true})).await;
    // At first, failed attempts and a message that waits are nothing unusual. More attempts fail than have their errors
    // stored, so that only the first of these tells how long they have failed.
    scenario
        .until("three lanes have failed often", |stats| {
            let heads = stats["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
            heads.iter().filter(|head| head["attempts"].as_u64() > Some(6)).count() == 3
        })
        .await;
    has_causes(&scenario, &["full at_limit", "full paused"]).await;

    scenario.redis.clock().step(Duration::from_secs(120), true);
    let expected = [
        "erp failing",
        "full at_limit",
        "full paused",
        "idle no_worker",
        "queue no_worker",
        "slowed no_worker",
    ];
    has_causes(&scenario, &expected).await;
    scenario
        .until("three more errors are stored of each lane", |stats| {
            let heads = stats["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
            heads.iter().filter(|head| head["attempts"].as_u64() > Some(20)).count() == 3
        })
        .await;
    let failing = scenario.stats().await["attention"][0].clone();
    assert_eq!((&failing["count"], &failing["error"]), (&json!(3), &json!("status 503")));
    let report = scenario.ok("GET", "/v1/doctor", Value::Null).await;
    let findings = report["findings"].as_array().unwrap().iter();
    let found = findings.map(|one| {
        ["severity", "check", "subject"].map(|field| one[field].as_str().unwrap()).join(" ")
    });
    let found: Vec<String> = found.collect();
    for finding in [
        "error stuck_lanes erp",
        "error stuck_lanes idle",
        "error stuck_lanes queue",
        "error backlogs full",
        "warning paused ",
    ] {
        assert!(found.contains(&finding.to_owned()), "{finding}: {found:?}");
    }
    let text = scenario.command(&["status", "--check"]).await.ended(5);
    for line in [
        "3 messages failing for longer than a minute (status 503)",
        "nobody takes any",
        "at its limit",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("well"), "{text}");
    eventually("the gauges count them", async || {
        let metrics = client().get(scenario.pod.url("/metrics")).send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let has = |cause: &str, count: u32| {
            metrics.contains(&format!("reseq_needs_attention{{cause=\"{cause}\"}} {count}\n"))
        };
        let all = has("failing", 1) && has("no_worker", 3) && has("paused", 1) && has("halted", 0);
        if all { Ok(()) } else { Err(metrics) }
    })
    .await;

    scenario.receiver.refuse_all(None);
    scenario.command(&["retry-head", ERP, "--all"]).await.ended(0);
    has_causes(&scenario, &expected[1..]).await;
    scenario.command(&["status", ERP, "well", "--check"]).await.ended(0);
}
