//! Tests `transform.rate_per_second_max`: the attempts of all processors and workers together, by the clock of Redis.

use futures::future::join_all;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::{
        pods::{Pod, Settings, client},
        wait::eventually,
    },
};

/// The time of an RFC 3339 text, in milliseconds since 1970.
fn time_ms(text: &Value) -> i128 {
    let time = OffsetDateTime::parse(text.as_str().unwrap(), &Rfc3339).unwrap();
    time.unix_timestamp_nanos() / 1_000_000
}

async fn asked(pod: &Pod, path: &str, body: Value) -> Value {
    let request = client().post(pod.url(path)).header("content-type", "application/json");
    let answer = request.body(body.to_string()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Claims and completes until nothing is pending. Returns when each message was claimed, in ms by Redis.
async fn works(scenario: &Scenario, pod: &Pod) -> Vec<i128> {
    let (mut claimed, lease_ms) = (Vec::new(), 60_000);
    let request = json!({"destinations": [ERP], "max": 10, "wait_ms": 300, "lease_ms": lease_ms});
    while scenario.stats().await["pending"] != 0 {
        let answer = asked(pod, "/v1/leases", request.clone()).await;
        let leases = answer["leases"].as_array().unwrap();
        claimed.extend(leases.iter().map(|one| time_ms(&one["expires_at"]) - lease_ms));
        let items: Vec<_> =
            leases.iter().map(|one| json!({"token": one["token"], "drop": true})).collect();
        if !items.is_empty() {
            asked(pod, "/v1/leases/complete", json!({"items": items})).await;
        }
    }
    claimed
}

#[tokio::test]
async fn workers_of_two_pods_together_keep_the_rate() {
    let (rate, burst, count) = (30, 4, 75);
    let transform = json!({"kind": "worker", "rate_per_second_max": rate, "burst": burst});
    let scenario = Scenario::start(json!({"ordering": "none", "transform": transform})).await;
    for number in 0..count {
        scenario.send(&format!("m{number}"), json!({})).await;
    }
    let second = Pod::start("second", "ingest", &Settings::new(scenario.redis.url())).await;
    let pods = [&scenario.pod, &second, &scenario.pod, &second];
    let mut claimed = join_all(pods.map(|pod| works(&scenario, pod))).await.concat();
    claimed.sort_unstable();
    assert_eq!(claimed.len(), count, "each is claimed once");
    for (at, begin) in claimed.iter().enumerate() {
        let within = claimed[at..].iter().take_while(|time| **time < begin + 1000).count();
        assert!(within < rate + burst, "{within} in the second from {begin}: {claimed:?}");
        let at_once = claimed[at..].iter().take_while(|time| *time == begin).count();
        assert!(at_once <= burst, "{at_once} at {begin}: {claimed:?}");
    }
}

/// Each of five attempts takes 200 ms of the rate; without it, the backoffs take at most 20 ms.
#[tokio::test]
async fn failed_attempts_use_the_rate_too() {
    let scenario = Scenario::start(json!({})).await;
    let transform = json!({"rate_per_second_max": 5});
    scenario.define(ERP, scenario.with_transform(json!({"transform": transform}))).await;
    scenario.transformer.refuse("\"one\"", 503, Some(4));
    let gate = scenario.receiver.gate.write().await;
    scenario.send("one", json!({})).await;
    scenario
        .until("it is processed", |stats| stats["ready"] == 1 || stats["delivering"] == 1)
        .await;
    let path = format!("/v1/destinations/{ERP}/messages/1");
    let message = scenario.ok("GET", &path, Value::Null).await;
    drop(gate);
    let last_ms = time_ms(&message["errors"][0]["occurred_at"]);
    let took_ms = last_ms - time_ms(&message["received_at"]);
    assert!(took_ms >= 600, "the fourth attempt began too early: {message}");
}

#[tokio::test]
async fn destination_at_its_rate_rests_and_why_names_it() {
    let transform = json!({"kind": "worker", "rate_per_second_max": 1});
    let scenario = Scenario::start(json!({"transform": transform})).await;
    let name = ERP.parse().unwrap();
    let partition = store::Keys::new("reseq", 64).destination(&name).partition;
    scenario.send_all(&["1", "2", "3"]).await;
    let first = scenario.lease(json!({"max": 10, "lease_ms": 3_600_000})).await;
    assert_eq!(first.len(), 1, "{first:?}");
    scenario.end("complete", &first, json!({"drop": true})).await;
    // Time for the rate: a rest of any length.
    let hash = store::Keys::new("reseq", 64).destination(&name).hash();
    let now_ms = scenario.redis.ask::<Vec<u64>>(&["TIME"]).await.unwrap()[0] * 1000;
    let later_ms = (now_ms + 3_600_000).to_string();
    let rest = ["ZADD", &partition.delayed(), "XX", &later_ms, &format!("{ERP}/rate")];
    scenario.redis.ask::<u64>(&rest).await.unwrap();
    let until = ["HSET", &hash, "granted_until", &format!("{later_ms}000")];
    scenario.redis.ask::<u64>(&until).await.unwrap();
    let why = scenario.blocked_by("transform_rate_limit").await;
    let said = why["explanation"].as_str().unwrap();
    assert!(said.contains("waits for transform.rate_per_second_max: 1/s, next in "), "{why}");
    let command = why["actions"][0]["command"].as_str().unwrap();
    assert!(command.contains("transform.rate_per_second_max"), "{why}");
    assert!(why["next_attempt_at"].is_string(), "{why}");
    let active = partition.active(store::Claimers::Worker);
    let hint: Option<f64> = scenario.redis.ask(&["ZSCORE", &active, ERP]).await.unwrap();
    assert_eq!(hint, None, "nobody claims in vain");

    // Without a rate, the others are claimed at once.
    scenario.define(ERP, json!({"transform": {"kind": "worker"}})).await;
    let rest = scenario.lease(json!({"max": 10, "wait_ms": 60_000})).await;
    assert_eq!(rest.len(), 2, "{rest:?}");
}

/// The pod that knows when the rest ends is killed.
#[tokio::test]
async fn rest_ends_without_the_pod_that_began_it() {
    let scenario = Scenario::start(json!({})).await;
    let transform = json!({"kind": "worker", "rate_per_second_max": 1});
    scenario.define(ERP, json!({"ordering": "none", "transform": transform})).await;
    let mut other = Pod::start("other", "ingest", &Settings::new(scenario.redis.url())).await;
    scenario.send_all(&["1", "2"]).await;
    let request = json!({"destinations": [ERP], "max": 10});
    let answer = asked(&other, "/v1/leases", request).await;
    assert_eq!(answer["leases"].as_array().unwrap().len(), 1, "{answer}");
    other.kill();
    let second = scenario.lease(json!({"wait_ms": 60_000})).await;
    assert_eq!(second.len(), 1);
}

#[tokio::test]
async fn min_above_the_burst_is_refused() {
    let transform = json!({"kind": "worker", "rate_per_second_max": 9, "burst": 2});
    let scenario = Scenario::start(json!({"transform": transform})).await;
    let request = json!({"destinations": [ERP], "min": 3, "max": 3});
    let (status, problem) = scenario.ask("POST", "/v1/leases", request).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("transform.burst"), "{problem}");
    scenario.send_all(&["1", "2", "3"]).await;
    eventually("two come together", async || {
        let leases = scenario.lease(json!({"min": 2, "max": 5})).await;
        if leases.len() == 2 { Ok(()) } else { Err(format!("{leases:?}")) }
    })
    .await;
}
