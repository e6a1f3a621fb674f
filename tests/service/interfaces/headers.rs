//! Tests headers that describe a message: with a raw body, with a message as JSON, and where they
//! are not allowed.

use serde_json::{Value, json};

use super::{Service, position, said};
use crate::support::checker::stats;

const ITEMS: &str = "/v1/messages";
const NDJSON: &str = "application/x-ndjson";

/// A message for this destination, with these additional fields.
fn item(destination: &str, more: Value) -> Value {
    let mut item = json!({"destinations": [destination], "body": 1});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

#[tokio::test]
async fn json_message_is_stamped_once_under_its_header_key() {
    let service = Service::start().await;
    let send =
        |body: Value| service.json(ITEMS, &item("erp", body)).header("Idempotency-Key", "order-7");
    assert_eq!(position(&said(send(json!({}))).await.body), (1, false));
    assert_eq!(position(&said(send(json!({}))).await.body), (1, true));
    // The field, the field with the header, and the header with a raw body mean the same key.
    let field = json!({"idempotency_key": "order-7"});
    assert_eq!(position(&said(send(field.clone())).await.body), (1, true));
    assert_eq!(position(&said(service.json(ITEMS, &item("erp", field))).await.body), (1, true));
    let raw = service.post("/v1/destinations/erp/messages", "application/json", "1");
    assert_eq!(position(&said(raw.header("Idempotency-Key", "order-7")).await.body), (1, true));
    said(send(json!({"body": 2}))).await.is_problem(422, "idempotency_conflict", "");
    assert_eq!(stats(&service.pod, "erp").await.unwrap()["last_sequence"], 1);
}

#[tokio::test]
async fn headers_beside_json_say_what_they_say_beside_a_raw_body() {
    let service = Service::start().await;
    let by_key = json!({"ordering": "key", "transform": {"kind": "worker"}});
    service.define("lanes", by_key).await;
    let send = service.json(ITEMS, &item("lanes", json!({})));
    let send = send.header("Reseq-Key", "kont%C5%8D 7").header("Reseq-Id", "order%207");
    let answer = said(send.header("Reseq-Delay", "10m")).await;
    assert_eq!((answer.status, &answer.body["id"]), (202, &json!("order 7")), "{}", answer.body);
    let path = service.pod.url("/v1/destinations/lanes/messages/1");
    let shown = said(crate::support::pods::client().get(path)).await.body;
    assert_eq!((&shown["key"], &shown["state"]), (&json!("kontō 7"), &json!("delayed")), "{shown}");

    service.define("any", json!({"ordering": "none", "transform": {"kind": "worker"}})).await;
    let send = service.json(ITEMS, &item("any", json!({})));
    let send = send.header("Reseq-Priority", "9").header("Reseq-Due-At", "2999-01-01T00:00:00Z");
    said(send).await.is_problem(400, "invalid_field", "Reseq-Due-At: ");
    let send = service.json(ITEMS, &item("any", json!({}))).header("Reseq-Priority", "9");
    assert_eq!(said(send).await.status, 202);
    let path = service.pod.url("/v1/destinations/any/messages/1");
    let shown = said(crate::support::pods::client().get(path)).await.body;
    assert_eq!(shown["priority"], 9, "{shown}");
}

#[tokio::test]
async fn header_and_field_are_refused_only_if_they_differ() {
    let service = Service::start().await;
    let time = "2020-01-01T00:00:00Z";
    let before = service.holds().await;
    for (header, value, fields, named) in [
        ("Idempotency-Key", "a", json!({"idempotency_key": "b"}), "idempotency_key"),
        ("Reseq-Key", "a", json!({"key": "b"}), "key"),
        ("Reseq-Key", "a%20b", json!({"key": "a%20b"}), "key"),
        ("Reseq-Id", "a", json!({"id": "b"}), "id"),
        ("Reseq-Delay", "1s", json!({"delay_ms": 1001}), "delay_ms"),
        ("Reseq-Delay", "1s", json!({"delay_ms": 0}), "delay_ms"),
        ("Reseq-Delay", "1s", json!({"due_at": time}), "due_at"),
        ("Reseq-Due-At", time, json!({"delay_ms": 1}), "delay_ms"),
        ("Reseq-Due-At", time, json!({"due_at": "2020-01-01T00:00:01Z"}), "due_at"),
        ("Reseq-Priority", "1", json!({"priority": 2}), "priority"),
    ] {
        let answer = said(service.json(ITEMS, &item("erp", fields)).header(header, value)).await;
        answer.is_problem(400, "invalid_field", header);
        answer.is_problem(400, "invalid_field", named);
    }
    assert_eq!(service.holds().await, before);
    let both =
        item("erp", json!({"key": "a b", "id": "i", "idempotency_key": "k", "delay_ms": 1000}));
    let both = service.json(ITEMS, &both).header("Reseq-Key", "a%20b").header("Reseq-Id", "i");
    let both = both.header("Idempotency-Key", "k").header("Reseq-Delay", "1s");
    assert_eq!(said(both).await.status, 202);
    let same = item("erp", json!({"due_at": "2020-01-01T01:00:00+01:00"}));
    let same = service.json(ITEMS, &same).header("Reseq-Due-At", "2020-01-01T00:00:00Z");
    assert_eq!(said(same).await.status, 202);
}

#[tokio::test]
async fn a_batch_refuses_headers_of_one_message_and_names_the_field() {
    let service = Service::start().await;
    let before = service.holds().await;
    for (header, value, field) in [
        ("Idempotency-Key", "k", "idempotency_key"),
        ("Reseq-Key", "k", "\"key\""),
        ("Reseq-Id", "i", "\"id\""),
        ("Reseq-Delay", "1s", "delay_ms"),
        ("Reseq-Due-At", "2020-01-01T00:00:00Z", "due_at"),
        ("Reseq-Priority", "4", "priority"),
    ] {
        let batch = service.post(ITEMS, NDJSON, item("erp", json!({})).to_string());
        let answer = said(batch.header(header, value)).await;
        answer.is_problem(400, "invalid_field", header);
        answer.is_problem(400, "invalid_field", field);
    }
    assert_eq!(service.holds().await, before);
}

#[tokio::test]
async fn unknown_reseq_header_is_refused_wherever_messages_come() {
    let service = Service::start().await;
    let before = service.holds().await;
    for (header, nearest) in [
        ("Reseq-Kye", "Reseq-Key"),
        ("Idempotence-Key", "Idempotency-Key"),
        ("reseq-dealy", "Reseq-Delay"),
    ] {
        let one = item("erp", json!({}));
        for request in [
            service.post("/v1/destinations/erp/messages", "text/plain", "x"),
            service.json(ITEMS, &one),
            service.post(ITEMS, NDJSON, one.to_string()),
        ] {
            let answer = said(request.header(header, "1s")).await;
            answer.is_problem(400, "invalid_field", nearest);
            answer.is_problem(400, "invalid_field", &header.to_ascii_lowercase());
        }
    }
    let two = service.post("/v1/destinations/erp/messages", "text/plain", "x");
    let two = two.header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    said(two).await.is_problem(400, "invalid_field", "given twice");
    assert_eq!(service.holds().await, before);
    // One Reseq may deliver to another.
    let chained = service.post("/v1/destinations/erp/messages", "text/plain", "x");
    let chained = chained.header("Reseq-Sequence", "7").header("Reseq-Previous", "6");
    let chained = chained.header("Reseq-Epoch", "1").header("Reseq-Attempt", "2");
    assert_eq!(said(chained.header("Reseq-Origin", "crm/1/2")).await.status, 202);
}
