//! Tests that the API refuses invalid input, names the wrong field, and changes nothing.

use serde_json::{Value, json};

use super::{Service, client, said};

#[tokio::test]
async fn bad_requests_are_refused_by_name_and_change_nothing() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.define_worker("keys", "key").await;
    service.send("crm", json!(1), json!({})).await;
    service.send("keys", json!(1), json!({"key": "a"})).await;
    let before = service.get("stats").await.ok();
    let posts: Vec<(&str, Value, &str)> = vec![
        ("crm/pause", json!({"what": "all"}), "what"),
        ("crm/pause", json!({"what": "ingest", "colour": 1}), "colour"),
        ("crm/resume", json!({"what": "nothing"}), "what"),
        ("crm/retry-head", json!({"key": "a"}), "key"),
        ("crm/retry-head", json!({"sequence": -1}), "sequence"),
        ("crm/retry-head", json!({"body": 1, "body_base64": ""}), "body"),
        ("crm/retry-head", json!({"body_base64": "?"}), "body_base64"),
        ("crm/retry-head", json!({"content_type": "a/b"}), "content_type"),
        ("crm/retry-head", json!({"all": true, "body": 1}), "all"),
        ("keys/retry-head", json!({"sequence": 1}), "key"),
        ("keys/skip-head", json!({"sequence": 1}), "key"),
        ("crm/skip-head", json!({}), "sequence"),
        ("crm/skip-head", json!({"key": "a", "sequence": 1}), "key"),
        ("crm/skip-head", json!({"all": true}), "all"),
        ("crm/purge", json!({"dry_run": 1}), "dry_run"),
        ("crm/dead-letters/redrive", json!({}), "sequences"),
        ("crm/dead-letters/redrive", json!({"sequences": []}), "sequences"),
        ("crm/dead-letters/redrive", json!({"sequences": [1], "all": true}), "exactly one"),
        ("crm/dead-letters/redrive", json!({"filter": {"colour": 1}}), "filter.colour"),
        ("crm/dead-letters/discard", json!({"all": false}), "exactly one"),
        ("crm/replay", json!({}), "from_sequence"),
        ("crm/replay", json!({"from_sequence": 1, "from_time": "x"}), "from_time"),
        ("crm/replay", json!({"from_time": "yesterday"}), "from_time"),
        ("crm/replay", json!({"from_sequence": 1, "idempotency_key": ""}), "idempotency_key"),
        ("crm/replay", json!({"from_sequence": 1, "to_destination": "A B"}), "to_destination"),
    ];
    for (path, body, named) in posts {
        println!("{path} {body}");
        let answer = service.post(&format!("destinations/{path}"), body).await;
        answer.is_problem(400, "invalid_field", named);
    }
    let gets = [
        ("crm/messages?state=lost", "state"),
        ("crm/messages?state=delivering", "ready"),
        ("crm/messages?limit=0", "limit"),
        ("crm/messages?limit=1001", "limit"),
        ("crm/messages?limit=ten", "limit"),
        ("crm/messages?cursor=x", "cursor"),
        ("crm/messages?cursor=9007199254740993", "cursor"),
        ("crm/messages?colour=red", "colour"),
        ("crm/dead-letters?stage=heaven", "stage"),
        ("crm/dead-letters/x", "sequence"),
        ("crm/log?from=1", "from: there is no such parameter; did you mean from_time?"),
    ];
    for (path, named) in gets {
        println!("{path}");
        let answer = service.get(&format!("destinations/{path}")).await;
        answer.is_problem(400, "invalid_field", named);
    }
    let paths = ["messages", "messages/1", "dead-letters", "dead-letters/1", "log"];
    for path in paths.into_iter().chain(["operations", "operations/x"]) {
        let answer = service.get(&format!("destinations/nowhere/{path}")).await;
        answer.is_problem(404, "unknown_destination", "nowhere");
    }
    let paths = ["resume", "skip-head", "purge", "replay", "dead-letters/redrive"];
    for path in paths.into_iter().chain(["operations/x/cancel"]) {
        let answer = service.post(&format!("destinations/nowhere/{path}"), json!({})).await;
        answer.is_problem(404, "unknown_destination", "nowhere");
    }
    let url = service.pod.url("/v1/destinations/crm/purge");
    said(client().post(url).body("{")).await.is_problem(400, "invalid_json", "");
    let elsewhere = json!({"from_sequence": 1, "to_destination": "nowhere"});
    let elsewhere = service.post("destinations/crm/replay", elsewhere).await;
    elsewhere.is_problem(404, "unknown_destination", "nowhere");
    assert_eq!(service.get("stats").await.ok(), before);
}
