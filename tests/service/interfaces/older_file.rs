//! Tests that a process with an earlier configuration file does not win silently.

use serde_json::{Value, json};

use super::said;
use crate::support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
};

const ERP: &str = "/v1/destinations/erp";

/// A pod whose file defines `erp` with this weight.
async fn pod(redis: &TestRedis, weight: u64, rule: &str) -> Pod {
    let fields = format!("url = \"http://127.0.0.1:9/\"\nweight = {weight}");
    let mut settings = Settings::new(redis.url()).destination("erp", &fields);
    settings.environment = vec![("RESEQ_DEFINITIONS_FILE".into(), rule.into())];
    Pod::start(&format!("weight-{weight}"), "ingest,processor,sender", &settings).await
}

async fn again(pod: &mut Pod) {
    pod.terminate();
    pod.ended().await;
    pod.restart().await;
}

async fn get(pod: &Pod, path: &str) -> Value {
    let answer = said(client().get(pod.url(path))).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

async fn weight(pod: &Pod) -> Value {
    get(pod, ERP).await["weight"].clone()
}

/// Actor and outcome of what was done to the destination, the newest first.
async fn audited(pod: &Pod) -> Vec<Value> {
    let page = get(pod, "/v1/audit?destination=erp").await;
    let entries = page["items"].as_array().unwrap().iter();
    entries.map(|entry| json!([entry["actor"], entry["outcome"]])).collect()
}

/// What the doctor of this pod says of its file.
async fn found(pod: &Pod) -> Vec<Value> {
    let report = get(pod, "/v1/doctor").await;
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|found| found["check"] == "definitions").cloned().collect()
}

const OTHERWISE: &str = "a destination runs otherwise than the configuration file says";

#[tokio::test]
async fn a_pod_with_an_older_file_changes_nothing_and_says_so() {
    let redis = TestRedis::start().await;
    let mut old = pod(&redis, 1, "changed").await;
    let new = pod(&redis, 2, "changed").await;
    assert_eq!(weight(&new).await, 2);
    assert_eq!(audited(&new).await, [json!(["configuration_file", "succeeded"])]);
    assert!(new.log().contains("the configuration file has changed a destination"));

    again(&mut old).await;
    assert_eq!(weight(&old).await, 2);
    assert_eq!(audited(&old).await[0], json!(["configuration_file", "not_written"]));
    let log = old.log();
    let line = log.lines().find(|line| line.contains(OTHERWISE)).expect("a line of the log");
    assert!(line.contains("WARN") && line.contains("erp") && line.contains("weight"), "{line}");
    assert_eq!(found(&new).await, [] as [Value; 0]);
    let [finding] = &found(&old).await[..] else { panic!("one finding") };
    assert_eq!((&finding["severity"], &finding["subject"]), (&json!("warning"), &json!("erp")));
    assert!(finding["summary"].as_str().unwrap().contains("says (weight)"), "{finding}");
    assert!(finding["action"].as_str().unwrap().contains("rollback erp --to"), "{finding}");

    // Whoever wants the earlier form takes its version; starts with either file leave it.
    let versions = get(&old, &format!("{ERP}/versions")).await;
    assert_eq!(versions["items"][0]["actor"], "configuration_file");
    let to = json!({"to": versions["items"][1]["version"]});
    let back = said(client().post(old.url(&format!("{ERP}/rollback"))).json(&to)).await;
    assert_eq!((back.status, &back.body["weight"]), (200, &json!(1)), "{}", back.body);
    assert_eq!(found(&old).await, [] as [Value; 0]);
    let mut new = new;
    again(&mut new).await;
    assert_eq!(weight(&new).await, 1);
    assert!(new.log().contains(OTHERWISE));
    // What is new in a file is written.
    let newest = pod(&redis, 3, "changed").await;
    assert_eq!(weight(&newest).await, 3);
    again(&mut new).await;
    assert_eq!(weight(&new).await, 3);
}

#[tokio::test]
async fn the_file_always_wins_if_the_rule_says_so() {
    let redis = TestRedis::start().await;
    let mut old = pod(&redis, 1, "always").await;
    let new = pod(&redis, 2, "always").await;
    let back = said(client().post(new.url(&format!("{ERP}/rollback")))).await;
    back.is_problem(409, "defined_in_file", "erp");
    again(&mut old).await;
    assert_eq!((weight(&new).await, audited(&new).await.len()), (json!(1), 3));
    assert!(found(&new).await[0]["action"].as_str().unwrap().contains("next start"));
}
