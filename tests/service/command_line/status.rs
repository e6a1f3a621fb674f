//! `reseq status`, and the retry of all lanes that it leads to.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::wait::eventually,
};

/// A receiver that refuses everything for now, and lanes that wait ten minutes after each attempt.
async fn refusing(ordering: &str) -> Scenario {
    let delivery = json!({"backoff_ms": 600_000, "backoff_max_ms": 600_000});
    let scenario = Scenario::start(json!({"ordering": ordering, "delivery": delivery})).await;
    scenario.receiver.refuse_all(Some((503, usize::MAX)));
    for n in 0..6 {
        let fields = if ordering == "key" { json!({"key": format!("k{n}")}) } else { json!({}) };
        scenario.send(&format!("m{n}"), fields).await;
    }
    scenario
}

#[tokio::test]
async fn status_hint_lists_heads_in_backoff_and_all_are_retried() {
    let scenario = refusing("key").await;
    let hint = eventually("six heads are stuck", async || {
        let text = scenario.command(&["status"]).await.ended(0);
        let hint = text.lines().find_map(|line| line.split("and more; reseq ").nth(1));
        hint.map(str::to_owned).ok_or(text)
    })
    .await;
    assert_eq!(hint, format!("messages list {ERP} --state ready"));
    let hinted: Vec<&str> = hint.split(' ').collect();
    let listed = scenario.json(&hinted, 0).await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(6), "{listed}");
    drains_with_retry(&scenario).await;
}

#[tokio::test]
async fn retry_of_all_ends_delivery_backoff_in_other_orders() {
    for ordering in ["destination", "none"] {
        let scenario = refusing(ordering).await;
        eventually("an attempt has failed", async || {
            let stats = scenario.stats().await;
            if stats["head"]["attempts"] == 1 { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
        drains_with_retry(&scenario).await;
    }
}

/// The receiver works again: `retry-head --all` is enough.
async fn drains_with_retry(scenario: &Scenario) {
    scenario.receiver.refuse_all(None);
    eventually("all is delivered", async || {
        // An attempt that was in flight may fail after the retry.
        scenario.command(&["retry-head", ERP, "--all"]).await.ended(0);
        let stats = scenario.stats().await;
        if stats["pending"] == 0 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn status_selects_sorts_and_waits_until_drained() {
    let scenario = Scenario::start(json!({})).await;
    for name in ["abc", "xyz"] {
        scenario.define(name, json!({"transform": {"kind": "worker"}})).await;
    }
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send_all(&["one", "two"]).await;
    let names = |status: &Value| -> Vec<String> {
        let items = status["items"].as_array().unwrap().iter();
        items.map(|item| item["destination"].as_str().unwrap().to_owned()).collect()
    };
    let all = scenario.json(&["status"], 0).await;
    assert_eq!(names(&all), ["abc", ERP, "xyz"]);
    assert_eq!(all["items"][1]["stats"]["head"]["sequence"], 1, "{all}");
    for sort in ["pending", "stuck"] {
        let sorted = scenario.json(&["status", "--sort", sort], 0).await;
        assert_eq!(names(&sorted), [ERP, "abc", "xyz"], "{sort}");
    }
    let two = scenario.json(&["status", "xyz", ERP], 0).await;
    assert_eq!(names(&two), ["xyz", ERP]);
    scenario.command(&["status", "nobody"]).await.failed(3, "unknown_destination");

    scenario.command(&["status", "xyz", "--until-drained"]).await.ended(0);
    let wait = scenario.command(&["status", "--until-drained"]);
    let (waited, _) = tokio::join!(wait, scenario.steer("resume", json!({"what": "delivery"})));
    assert!(waited.ended(0).contains(ERP));
    assert_eq!(scenario.stats().await["pending"], 0);
}
