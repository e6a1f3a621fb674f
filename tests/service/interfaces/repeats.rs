//! Tests messages sent again under an idempotency key, and the status of a batch.

use serde_json::{Value, json};

use super::{Said, Service, has_shape, position, said};
use crate::support::{checker::stats, wait::eventually};

const ITEMS: &str = "/v1/messages";
const RAW: &str = "/v1/destinations/erp/messages";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// A message for `erp`, with these additional fields.
fn item(more: Value) -> Value {
    let mut item = json!({"destinations": ["erp"], "body": 1});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

/// The answer to a batch: its status, its `Retry-After`, and its lines.
struct Told {
    status: u16,
    retry_after: Option<u64>,
    replayed: bool,
    lines: Vec<Value>,
}

async fn batch(service: &Service, lines: &[Value]) -> Told {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let answer = service.post(ITEMS, NDJSON, lines.join("\n")).send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    assert_eq!(headers["content-type"], NDJSON, "{status}");
    assert!(headers.contains_key("x-request-id"), "{headers:?}");
    let retry_after = headers.get("retry-after").map(|value| value.to_str().unwrap());
    let text = answer.text().await.unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), lines.len(), "{text}");
    told.iter().filter(|line| line["code"].is_string()).for_each(has_shape);
    Told {
        status,
        retry_after: retry_after.map(|seconds| seconds.parse().unwrap()),
        replayed: headers.contains_key("idempotent-replayed"),
        lines: told,
    }
}

/// True if the answer reports that all of it had been stored before, so nothing was stored.
fn is_replay(said: &Said) -> bool {
    said.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn quoted_and_bare_key_are_one_and_a_repeat_says_so() {
    let service = Service::start().await;
    let raw = |key: &str, body: u64| {
        said(service.post(RAW, JSON, body.to_string()).header("Idempotency-Key", key))
    };
    let pairs = [
        ("order-1", "\"order-1\""),
        ("order 2, part b", "\"order 2, part b\""),
        (r#"a "b" \ c"#, r#""a \"b\" \\ c""#),
    ];
    for ((bare, quoted), sequence) in pairs.into_iter().zip(1..) {
        let (first, second) = if sequence == 1 { (bare, quoted) } else { (quoted, bare) };
        let sent = raw(first, sequence).await;
        assert_eq!((sent.status, position(&sent.body)), (202, (sequence, false)), "{first}");
        assert!(!is_replay(&sent), "{first}");

        let field = item(json!({"idempotency_key": bare, "body": sequence}));
        let as_json = || service.json(ITEMS, &item(json!({"body": sequence})));
        let repeats = [
            raw(second, sequence).await,
            raw(first, sequence).await,
            said(service.json(ITEMS, &field)).await,
            said(as_json().header("Idempotency-Key", quoted)).await,
            said(as_json().header("Idempotency-Key", bare)).await,
            said(service.json(ITEMS, &field).header("Idempotency-Key", quoted)).await,
        ];
        for (at, repeat) in repeats.into_iter().enumerate() {
            let seen = (repeat.status, position(&repeat.body), is_replay(&repeat));
            assert_eq!(seen, (202, (sequence, true), true), "{bare}, repeat {at}");
            assert_eq!(repeat.body["id"], sent.body["id"], "{bare}, repeat {at}");
        }
        // A field of JSON is the key itself: quotes would belong to it.
        let told = batch(&service, std::slice::from_ref(&field)).await;
        assert_eq!((told.status, position(&told.lines[0])), (202, (sequence, true)), "{bare}");
        // A batch has no such header: each line reports its own replay.
        assert!(!told.replayed, "{bare}");

        for other in [
            raw(second, 9).await,
            said(service.json(ITEMS, &item(json!({"idempotency_key": bare, "body": 9})))).await,
        ] {
            other.is_problem(422, "idempotency_conflict", "new key");
        }
        let told = batch(&service, &[item(json!({"idempotency_key": bare, "body": 9}))]).await;
        assert_eq!((told.status, &told.lines[0]["code"]), (422, &json!("idempotency_conflict")));
    }
    for wrong in ["\"order-1", "\"order-1\";a=b", "\"\"", "\"order\\-1\""] {
        let refused = raw(wrong, 1).await;
        refused.is_problem(400, "invalid_field", "Idempotency-Key");
        assert_eq!(refused.body["errors"][0]["header"], "Idempotency-Key", "{wrong}");
    }
    assert_eq!(stats(&service.pod, "erp").await.unwrap()["last_sequence"], 3);
    service.inbox.journal.reaches(3).await;
    assert_eq!(service.inbox.journal.all().len(), 3);
}

#[tokio::test]
async fn a_repeat_that_stores_a_missing_copy_is_no_mere_repeat() {
    let service = Service::start().await;
    service.define("crm", json!({})).await;
    let send = async |destinations: Value| {
        let item = json!({"destinations": destinations, "body": 1, "idempotency_key": "k"});
        said(service.json(ITEMS, &item)).await
    };
    assert!(!is_replay(&send(json!(["erp"])).await));
    let rest = send(json!(["erp", "crm"])).await;
    let duplicates = |said: &Said| -> Vec<bool> {
        let deliveries = said.body["deliveries"].as_array().unwrap();
        deliveries.iter().map(|copy| copy["duplicate"].as_bool().unwrap()).collect()
    };
    assert_eq!((duplicates(&rest), is_replay(&rest)), (vec![true, false], false));
    let again = send(json!(["erp", "crm"])).await;
    assert_eq!((duplicates(&again), is_replay(&again)), (vec![true, true], true));
}

#[tokio::test]
async fn batch_storing_nothing_has_status_of_first_refused_line() {
    let service = Service::start().await;
    let worker = json!({"kind": "worker"});
    service.define("full", json!({"transform": worker, "backlog_max": 1})).await;
    service.define("closed", json!({"transform": worker})).await;
    let to = |name: &str| json!({"destinations": [name], "body": 1});
    assert_eq!(said(service.json(ITEMS, &to("full"))).await.status, 202);
    let pause = json!({"what": "ingest"});
    assert_eq!(said(service.json("/v1/destinations/closed/pause", &pause)).await.status, 200);
    let used = item(json!({"idempotency_key": "used"}));
    assert_eq!(said(service.json(ITEMS, &used)).await.status, 202);
    eventually("it has left", async || {
        let stats = stats(&service.pod, "erp").await?;
        if stats["delivered_total"] == 1 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;

    let (full, closed, nowhere) = (to("full"), to("closed"), to("nowhere"));
    let (field, no_object) = (item(json!({"priority": 10})), json!("no object"));
    let long = item(json!({"body": "x".repeat(super::BODY_MAX)}));
    let conflict = item(json!({"idempotency_key": "used", "body": 2}));
    let refused: [(&[&Value], u16, &str); 10] = [
        (&[&field], 400, "invalid_field"),
        (&[&no_object, &nowhere], 400, "invalid_field"),
        (&[&nowhere, &field], 404, "unknown_destination"),
        (&[&long], 413, "body_too_large"),
        (&[&conflict], 422, "idempotency_conflict"),
        (&[&full], 429, "backlog_full"),
        (&[&closed], 429, "paused"),
        (&[&closed, &field], 429, "paused"),
        (&[&field, &full], 400, "invalid_field"),
        (&[&full, &full], 429, "backlog_full"),
    ];
    let before = service.holds().await;
    for (lines, status, code) in refused {
        let lines: Vec<Value> = lines.iter().map(|line| (*line).clone()).collect();
        let told = batch(&service, &lines).await;
        let first = &told.lines[0];
        assert_eq!((told.status, &first["code"]), (status, &json!(code)), "{lines:?}");
        assert_eq!(first["status"], status, "{lines:?}");
        assert!(told.lines.iter().all(|line| line["deliveries"].is_null()), "{:?}", told.lines);
        let is_temporary = status == 429;
        assert_eq!(told.retry_after.is_some(), is_temporary, "{lines:?}");
        assert_eq!(first["retry_after"].as_u64(), told.retry_after, "{lines:?}");
    }
    assert_eq!(service.holds().await, before);

    // In each of these batches, one line is stored, or one copy of a line that another destination refuses.
    let good = item(json!({}));
    let partly = json!({"destinations": ["erp", "nowhere"], "body": 1});
    let stored = [
        ([&field, &good], 1),
        ([&good, &full], 1),
        ([&nowhere, &partly], 2),
        ([&used, &conflict], 1),
    ];
    for (lines, refused) in stored {
        let told = batch(&service, &lines.map(Clone::clone)).await;
        assert_eq!((told.status, told.retry_after), (202, None), "{lines:?}: {:?}", told.lines);
        let count =
            |is_so: fn(&Value) -> bool| told.lines.iter().filter(|line| is_so(line)).count();
        let is_stored = count(|line| line["deliveries"][0]["sequence"].is_u64());
        let is_refused = count(|line| line["code"].is_string());
        assert_eq!((is_stored, is_refused), (1, refused), "{:?}", told.lines);
    }
}
