//! `reseq lanes`.

use serde_json::json;

use crate::policies::scenario::{ERP, Scenario};

#[tokio::test]
async fn lanes_with_most_pending_are_listed_partial_scan_says_so() {
    let scenario =
        Scenario::start(json!({"ordering": "key", "transform": {"kind": "worker"}})).await;
    for (key, count) in [("a b", 5), ("b", 3), ("c", 1), ("d", 4)] {
        for n in 0..count {
            scenario.send(&format!("{key}{n}"), json!({"key": key})).await;
        }
    }
    let lease = scenario.lease(json!({})).await;
    scenario.end("fail", &lease, json!({"error": "no", "final": true})).await;

    let text = scenario.command(&["lanes", ERP, "--limit", "3"]).await.ended(0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    for (line, parts) in
        lines[1..].iter().zip([["\"a b\"", " 5 "], ["\"d\"", " 4 "], ["\"b\"", " 3 "]])
    {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
    }
    // Without a terminal, the bars have no colours.
    assert!(lines[1].contains("halted") && lines[1].ends_with('█'), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let found = scenario.json(&["lanes", ERP], 0).await;
    assert_eq!((found["items"].as_array().unwrap().len(), &found["complete"]), (4, &json!(true)));
    assert_eq!(found["items"][0]["head"]["state"], "halted", "{found}");
    assert_eq!(found["items"][0]["head"]["sequence"], 1, "{found}");

    // Many other keys: the first part does not reach the end.
    scenario.redis.ask::<()>(&["DEBUG", "POPULATE", "60000"]).await.unwrap();
    let part = scenario.ok("GET", "/v1/destinations/erp/lanes?limit=1", json!(null)).await;
    assert!(part["next_cursor"].is_string() && part["progress"].as_f64() < Some(1.0), "{part}");
    let partial = scenario.json(&["lanes", ERP, "--scan-time", "0ms"], 0).await;
    assert_eq!(partial["complete"], false, "{partial}");
    let text = scenario.command(&["lanes", ERP, "--scan-time", "0ms"]).await.ended(0);
    assert!(text.contains("partial: ") && text.contains("--scan-time"), "{text}");
    let whole = scenario.json(&["lanes", ERP, "--limit", "1"], 0).await;
    assert_eq!((&whole["complete"], &whole["progress"]), (&json!(true), &json!(1.0)), "{whole}");
    let only = whole["items"].as_array().unwrap();
    assert_eq!((only.len(), &only[0]["key"], &only[0]["pending"]), (1, &json!("a b"), &json!(5)));

    // Other orderings have one lane, or no lanes to list.
    for (name, ordering) in [("whole", "destination"), ("loose", "none")] {
        let worker = json!({"ordering": ordering, "transform": {"kind": "worker"}});
        scenario.define(name, worker).await;
        let item = json!({"destinations": [name], "body": 1});
        scenario.ok("POST", "/v1/messages", item).await;
    }
    let found = scenario.json(&["lanes", "whole"], 0).await;
    assert_eq!(
        (&found["items"][0]["key"], &found["items"][0]["pending"]),
        (&json!(null), &json!(1))
    );
    let text = scenario.command(&["lanes", "loose"]).await.ended(0);
    assert!(text.contains("each message is a lane of its own"), "{text}");
    scenario.command(&["lanes", "nowhere"]).await.failed(3, "unknown_destination");
    let (status, problem) =
        scenario.ask("GET", "/v1/destinations/erp/lanes?limit=101", json!(null)).await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
}
