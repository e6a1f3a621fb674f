//! `reseq doctor`.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

/// The findings, each as `severity check subject`.
fn found(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let word = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    findings
        .map(|one| ["severity", "check", "subject"].map(|field| word(one, field)).join(" "))
        .collect()
}

#[tokio::test]
async fn doctor_names_faults_and_remedies_worst_sets_exit_code() {
    let scenario = Scenario::start(json!({"transform": {"kind": "worker"}})).await;
    let set = async |name: &str, value: &str| {
        scenario.redis.ask::<()>(&["CONFIG", "SET", name, value]).await.unwrap();
    };
    // The sender needs a moment to take the partitions.
    eventually("all partitions have an owner", async || {
        let pods = scenario.ok("GET", "/v1/pods", Value::Null).await;
        match pods["items"][0]["partitions"].as_array().map(Vec::len) {
            Some(64) => Ok(()),
            _ => Err(pods.to_string()),
        }
    })
    .await;
    // Without a memory limit of Redis there is a warning.
    let report = scenario.json(&["doctor"], 7).await;
    assert_eq!(found(&report), ["warning redis_memory the primary"], "{report}");
    set("maxmemory", "1gb").await;
    let text = scenario.command(&["doctor"]).await.ended(0);
    assert!(text.contains("ok       redis_reachable, ") && text.contains("0 errors"), "{text}");

    set("maxmemory-policy", "allkeys-lru").await;
    set("appendfsync", "no").await;
    scenario.send_all(&["one"]).await;
    let lease = scenario.lease(json!({})).await;
    scenario.end("fail", &lease, json!({"error": "no", "final": true})).await;
    scenario.steer("pause", json!({"what": "ingest"})).await;
    let report = scenario.json(&["doctor"], 5).await;
    let expected = [
        "error redis_eviction the primary",
        "error stuck_lanes erp",
        "warning redis_fsync the primary",
        "info paused ",
    ];
    assert_eq!(found(&report), expected, "{report}");
    let text = scenario.command(&["doctor"]).await.ended(5);
    for part in [
        "maxmemory-policy is allkeys-lru",
        "do Set maxmemory-policy noeviction.",
        "reseq why erp",
        "2 errors, 1 warning ",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    // It finds damage, and a Redis that does not answer.
    let name = scenario.key("halted");
    scenario.redis.ask::<()>(&["DEL", &name]).await.unwrap();
    scenario.redis.ask::<()>(&["SET", &name, "x"]).await.unwrap();
    scenario.stats().await;
    let report = scenario.json(&["doctor"], 5).await;
    assert!(found(&report).contains(&format!("error damage {ERP}")), "{report}");
    scenario.redis.kill();
    let report = eventually("Redis does not answer", async || {
        let (status, report) = scenario.ask("GET", "/v1/doctor", Value::Null).await;
        match report["findings"][0]["check"] == "redis_reachable" {
            true => Ok(report),
            false => Err(format!("{status} {report}")),
        }
    })
    .await;
    assert_eq!(found(&report).len(), 1, "{report}");
    // The sentinels, tokens and certificates do not need this server.
    let checks = report["checks"].as_array().unwrap().len();
    assert_eq!(report["not_checked"].as_array().unwrap().len(), checks - 3, "{report}");
}
