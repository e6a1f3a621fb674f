//! Producers that wait for results, and say how often and how fast their messages are tried.

use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    wait::{eventually, within},
};

use super::{Service, WORKER};
use crate::support;

/// Longer than a result is waited for in these tests.
const LONG_MS: u64 = 60_000;

/// Asks a pod for the result of a message.
async fn result_at(pod: &Pod, name: &str, sequence: u64, wait_ms: u64) -> (u16, Value) {
    let path = format!("/v1/destinations/{name}/messages/{sequence}/result?id=m{sequence}");
    let url = pod.url(&format!("{path}&wait_ms={wait_ms}"));
    let answer = client().get(url).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

impl Service {
    async fn result(&self, name: &str, sequence: u64) -> Value {
        let (status, result) = result_at(&self.pod, name, sequence, 0).await;
        assert_eq!(status, 200, "{result}");
        result
    }

    /// Sends message `sequence` with further fields.
    async fn send_one(&self, name: &str, sequence: u64, more: Value) -> (u16, String) {
        let mut message = json!({"destinations": [name], "body": 1, "id": format!("m{sequence}")});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("/v1/messages", message).await
    }

    async fn complete_with(&self, lease: &Value, output: Value) {
        let mut item = output;
        item["token"] = lease["token"].clone();
        assert_eq!(self.end("complete", item).await["status"], "ok");
    }
}

#[tokio::test]
async fn result_wakes_the_producer_that_waits_at_another_pod() {
    let service = Service::with_work().await;
    let other = Pod::start("other", "ingest", &Settings::new(service.redis.url())).await;
    assert_eq!(service.send_one("work", 1, json!({"keep_result": true})).await.0, 202);
    assert_eq!(service.result("work", 1).await["state"], "pending");
    let waiting = tokio::spawn(async move { result_at(&other, "work", 1, LONG_MS).await });
    let lease = service.next("work").await;
    service.complete_with(&lease, json!({"body": {"total": 7}})).await;
    let (status, result) = within("the result", waiting).await.unwrap();
    assert_eq!(
        (status, &result["state"], &result["body"]),
        (200, &json!("processed"), &json!({"total": 7})),
        "{result}"
    );
    assert_eq!((&result["id"], &result["sequence"]), (&json!("m1"), &json!(1)));
    // It is kept after the message has left.
    eventually("it is delivered", async || {
        let stats = service.get("work/stats").await;
        (stats["delivered_total"] == 1).then_some(()).ok_or(stats.to_string())
    })
    .await;
    assert_eq!(service.result("work", 1).await["body"], json!({"total": 7}));
    // Whoever does not know its id gets nothing.
    let url = service.pod.url("/v1/destinations/work/messages/1/result?id=m2");
    assert_eq!(client().get(url).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn result_that_is_none_says_why() {
    let worker = format!("{WORKER}, attempts_max = 1");
    let more = "ordering = \"none\"";
    let service = Service::start("ingest,processor,sender", &[("work", &worker, more)]).await;
    let kept = json!({"keep_result": true});
    for sequence in 1..=6 {
        let more = if sequence == 5 { json!({}) } else { kept.clone() };
        assert_eq!(service.send_one("work", sequence, more).await.0, 202);
    }
    let mut leases = service.lease(json!({"destinations": ["work"], "max": 5})).await;
    leases.sort_by_key(|lease| lease["sequence"].as_u64());
    service.complete_with(&leases[0], json!({"drop": true})).await;
    service.complete_with(&leases[1], json!({"body": "two"})).await;
    service.end("fail", json!({"token": leases[2]["token"], "error": "no such tax"})).await;
    service.complete_with(&leases[3], json!({"body_base64": "/w==", "content_type": "a/b"})).await;
    assert_eq!(result_at(&service.pod, "work", 5, LONG_MS).await.0, 409);
    service.complete_with(&leases[4], json!({"body": 1})).await;
    let cancel = service.pod.url("/v1/destinations/work/messages/6");
    assert_eq!(client().delete(cancel).send().await.unwrap().status(), 200);

    let state = async |sequence| {
        let (status, result) = result_at(&service.pod, "work", sequence, LONG_MS).await;
        assert_eq!(status, 200, "{result}");
        result
    };
    assert_eq!(state(1).await["state"], "dropped");
    assert_eq!(state(2).await["body"], "two");
    let result = state(3).await;
    assert_eq!(
        (&result["state"], &result["error"]["detail"]),
        (&json!("failed"), &json!("no such tax"))
    );
    let result = state(4).await;
    assert_eq!((&result["body_base64"], &result["content_type"]), (&json!("/w=="), &json!("a/b")));
    assert_eq!(state(5).await["state"], "not_kept");
    assert_eq!(state(6).await["state"], "cancelled");
}

/// A dead letter keeps its place in its lane until what is before it has left.
#[tokio::test]
async fn result_of_dead_letter_behind_others_has_its_error() {
    let worker = format!("{WORKER}, attempts_max = 1");
    let more = "on_exhausted = \"dead_letter\"";
    let service = Service::start("ingest,processor,sender", &[("work", &worker, more)]).await;
    for sequence in 1..=2 {
        let sent = service.send_one("work", sequence, json!({"keep_result": true})).await;
        assert_eq!(sent.0, 202);
    }
    let leases = service.lease(json!({"destinations": ["work"], "max": 2})).await;
    let second = leases.iter().find(|lease| lease["sequence"] == 2).unwrap();
    service.end("fail", json!({"token": second["token"], "error": "no such tax"})).await;
    let (_, result) = result_at(&service.pod, "work", 2, LONG_MS).await;
    let found = (&result["state"], &result["error"]["detail"]);
    assert_eq!(found, (&json!("failed"), &json!("no such tax")), "{result}");
}

#[tokio::test]
async fn message_with_fewer_attempts_halts_before_others() {
    let worker = format!("{WORKER}, attempts_max = 3");
    let destinations =
        [("work", &*worker, "ordering = \"none\""), ("as-is", "kind = \"none\"", "")];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    assert_eq!(
        service.send_one("work", 1, json!({"attempts_max": 1, "backoff_ms": 1})).await.0,
        202
    );
    assert_eq!(service.send_one("work", 2, json!({})).await.0, 202);
    for lease in service.lease(json!({"destinations": ["work"], "max": 2})).await {
        let said = service.end("fail", json!({"token": lease["token"]})).await;
        let exhausted = if lease["sequence"] == 1 { json!("halted") } else { Value::Null };
        assert_eq!(said["exhausted"], exhausted, "{said}");
    }
    for (name, more, part) in [
        (
            "work",
            json!({"attempts_max": 4}),
            "attempts_max (Reseq-Attempts-Max): work allows at most 3",
        ),
        ("work", json!({"attempts_max": 0}), "attempts_max: it is a number from 1"),
        ("work", json!({"backoff_ms": 2}), "backoff_ms (Reseq-Backoff): work allows at most 1"),
        ("as-is", json!({"keep_result": true}), "as-is has no transform"),
    ] {
        let (status, answer) = service.send_one(name, 9, more).await;
        assert!(status == 422 || status == 400, "{status} {answer}");
        assert!(answer.contains(part), "{answer}");
    }
    let raw = client().post(service.pod.url("/v1/destinations/work/messages")).body("1");
    let raw = raw.header("Reseq-Attempts-Max", "2").header("Reseq-Keep-Result", "true");
    let raw = raw.header("Reseq-Id", "m3").header("Reseq-Backoff", "1ms").send().await.unwrap();
    assert_eq!(raw.status(), 202);
    assert_eq!(service.result("work", 3).await["state"], "pending");
}
