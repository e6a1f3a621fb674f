//! `/v1/destinations`.

use serde_json::{Value, json};

use super::{Service, said};
use crate::support::{checker::keys, gate::Point, wait::within};

#[tokio::test]
async fn impossible_definition_is_refused_by_name_without_change() {
    let service = Service::start().await;
    service.define("crm", json!({"headers": {"authorization": "s3cret"}})).await;
    let url = "http://127.0.0.1:9/";
    let cases: Vec<(&str, Value, u16, &str, &str)> = vec![
        ("crm", json!({"url": url, "colour": "red"}), 400, "invalid_field", "colour"),
        ("crm", json!({}), 400, "invalid_field", "url"),
        ("crm", json!({"url": "nowhere"}), 400, "invalid_field", "url"),
        (
            "crm",
            json!({"url": url, "delivery": {"kind": "none"}, "transform": {"kind": "worker"}}),
            400,
            "invalid_field",
            "url",
        ),
        (
            "crm",
            json!({"delivery": {"kind": "none", "batch_max": 2}, "transform": {"kind": "worker"}}),
            400,
            "invalid_field",
            "delivery.batch_max",
        ),
        ("crm", json!({"delivery": {"kind": "none"}}), 400, "invalid_field", "delivery.kind"),
        ("crm", json!({"url": "ftp://h/"}), 400, "invalid_field", "url"),
        ("crm", json!({"url": "http://u:p@h/"}), 400, "invalid_field", "url"),
        ("crm", json!({"url": "tcp://h"}), 400, "invalid_field", "url"),
        (
            "crm",
            json!({"url": url, "headers": {"authorization": "***"}}),
            400,
            "invalid_field",
            "headers",
        ),
        ("crm", json!({"url": url, "headers": {"reseq-id": "1"}}), 400, "invalid_field", "headers"),
        ("crm", json!({"url": url, "headers": {"a b": "1"}}), 400, "invalid_field", "headers"),
        ("crm", json!({"url": url, "name": "erp"}), 400, "invalid_field", "name"),
        ("crm", json!({"url": url, "ordering": "random"}), 400, "invalid_field", "ordering"),
        (
            "crm",
            json!({"url": url, "transform": {"kind": "magic"}}),
            400,
            "invalid_field",
            "transform.kind",
        ),
        (
            "crm",
            json!({"url": url, "transform": {"kind": "http"}}),
            400,
            "invalid_field",
            "transform.url",
        ),
        (
            "crm",
            json!({"url": url, "delivery": {"framing": "morse"}}),
            400,
            "invalid_field",
            "delivery.framing",
        ),
        (
            "crm",
            json!({"url": url, "delivery": {"lanes_max": 0}}),
            400,
            "invalid_field",
            "delivery.lanes_max",
        ),
        ("crm", json!({"url": url, "backlog_max": -1}), 400, "invalid_field", "backlog_max"),
        ("crm", json!([]), 400, "invalid_field", ""),
        ("C%20R%20M", json!({"url": url}), 400, "invalid_field", "C R M"),
        ("%FF", json!({"url": url}), 400, "invalid_request", "UTF-8"),
        ("erp", json!({"url": url}), 409, "defined_in_file", "erp"),
    ];
    let before = service.holds().await;
    for (name, definition, status, code, named) in cases {
        println!("{name} {definition}");
        said(service.put(name, &definition)).await.is_problem(status, code, named);
        assert_eq!(service.holds().await, before);
    }
    let garbage = service.put("crm", &json!(null)).body("{");
    said(garbage).await.is_problem(400, "invalid_json", "");
    let removals = [
        ("/v1/destinations/erp", 409, "defined_in_file", "erp"),
        ("/v1/destinations/erp?force=true", 409, "defined_in_file", "erp"),
        ("/v1/destinations/nowhere", 404, "unknown_destination", "nowhere"),
        ("/v1/destinations/crm?force=maybe", 400, "invalid_field", "force"),
    ];
    for (path, status, code, named) in removals {
        said(service.delete(path)).await.is_problem(status, code, named);
    }
    let client = crate::support::pods::client();
    for path in [
        "/v1/destinations/nowhere",
        "/v1/destinations/nowhere/stats",
        "/v1/destinations/E%20R/stats",
    ] {
        let request = client.get(service.pod.url(path));
        said(request).await.is_problem(404, "unknown_destination", "");
    }
    assert_eq!(service.holds().await, before);
    // Refused definitions do not show; secrets are masked.
    let shown = said(client.get(service.pod.url("/v1/destinations/crm"))).await.body;
    assert_eq!(
        (&shown["headers"]["authorization"], &shown["url"]),
        (&json!("***"), &json!(service.receiver.url()))
    );
}

#[tokio::test]
async fn a_definition_that_redis_has_lost_is_followed_back() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    let mut redis = service.redis.connection().await;
    let all = keys(&mut redis).await;
    let key = all.iter().find(|key| key.ends_with(":d:crm")).expect("the destination has a hash");
    let ask = redis::cmd("HMGET").arg(key).arg(&["version", "definition"]).clone();
    let before: (String, String) = ask.query_async(&mut redis).await.unwrap();
    let changed = json!({"url": service.receiver.url(), "weight": 2});
    assert_eq!(said(service.put("crm", &changed)).await.status, 200);
    let path = "/v1/destinations/crm/messages";
    assert_eq!(said(service.post(path, "text/plain", "1")).await.status, 202);
    service.inbox.journal.reaches(1).await;
    // The state after a failover to a replica that lagged.
    let (version, definition) = before;
    let fields = [("version", version), ("definition", definition)];
    redis::cmd("HSET").arg(key).arg(&fields).exec_async(&mut redis).await.unwrap();
    let again = within("it is taken", said(service.post(path, "text/plain", "2"))).await;
    assert_eq!(again.status, 202, "{}", again.body);
    service.inbox.journal.reaches(2).await;
}

#[tokio::test]
async fn destination_with_pending_messages_needs_explicit_word() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    service.inbox.gate.hold(Point::Arrived);
    let path = "/v1/destinations/crm/messages";
    for body in ["1", "2", "3"] {
        assert_eq!(said(service.post(path, "text/plain", body)).await.status, 202);
    }
    service.inbox.gate.holds(1).await;
    let before = service.holds().await;
    let by_key = json!({"url": service.receiver.url(), "ordering": "key"});
    said(service.put("crm", &by_key)).await.is_problem(409, "wrong_state", "pending");
    said(service.delete("/v1/destinations/crm")).await.is_problem(409, "wrong_state", "force=true");
    assert_eq!(service.holds().await, before);

    let removed = said(service.delete("/v1/destinations/crm?force=true")).await;
    assert_eq!((removed.status, &removed.body["removed_messages"]), (200, &json!(3)));
    let left = keys(&mut service.redis.connection().await).await;
    let of_crm: Vec<_> = left.iter().filter(|key| key.contains(":d:crm")).collect();
    assert!(of_crm.is_empty(), "{of_crm:?}");
    said(service.post(path, "text/plain", "4")).await.is_problem(404, "unknown_destination", "crm");

    // A new destination of this name starts over, and never repeats a position.
    service.inbox.gate.let_go();
    service.define("crm", json!({"ordering": "key"})).await;
    let anew = said(service.post(path, "text/plain", "new")).await;
    assert_eq!(anew.status, 202, "{}", anew.body);
    let journal = &service.inbox.journal;
    crate::support::wait::eventually("the new one is delivered", async || {
        let all = journal.all();
        let new = all.iter().find(|one| one.body == "new").and_then(|one| one.headers.clone());
        new.map(|new| (new, all)).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    let all = journal.all();
    let places: Vec<_> = all
        .iter()
        .filter_map(|one| Some((one.headers.as_ref()?.epoch, one.headers.as_ref()?.sequence)))
        .collect();
    let (new, old) = places.split_last().unwrap();
    assert!(old.iter().all(|position| position < new), "{places:?}");
}
