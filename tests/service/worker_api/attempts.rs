//! Attempts that do not end, and messages that come back later.

use domain::LeaseToken;
use serde_json::{Value, json};
use support::{
    checker::keys,
    pods::client,
    wait::{eventually, within},
};

use super::{Service, WORKER};
use crate::support;

/// Two hours: longer than an attempt may take.
const LONG_MS: u64 = 7_200_000;

/// The token of a lease, as if its message had been claimed that much earlier.
fn claimed_earlier(lease: &Value, by_ms: u64) -> Value {
    let mut token = LeaseToken::decode(lease["token"].as_str().unwrap()).unwrap();
    token.claimed_ms -= by_ms;
    token.encode().into()
}

impl Service {
    async fn extend(&self, token: &Value, more: Value) -> Value {
        let mut item = json!({"token": token, "lease_ms": 3_600_000});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.end("extend", item).await
    }

    async fn later(&self, lease: &Value, delay_ms: u64) -> Value {
        self.end("requeue", json!({"token": lease["token"], "delay_ms": delay_ms})).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let url = self.pod.url(&format!("/v1/destinations/{path}"));
        client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Changes a number in the stored attempts of a message.
    async fn set_attempts(&self, name: &str, sequence: u64, position: usize, number: u64) {
        let mut redis = self.redis.connection().await;
        let end = format!(":d:{name}:attempts");
        let key = keys(&mut redis).await.into_iter().find(|key| key.ends_with(&end)).unwrap();
        let script = "local attempts = cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1]))
            attempts[tonumber(ARGV[2])] = tonumber(ARGV[3])
            redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(attempts))";
        let mut eval = ::redis::cmd("EVAL");
        eval.arg(script).arg(1).arg(key).arg(sequence).arg(position).arg(number);
        eval.exec_async(&mut redis).await.unwrap();
    }
}

#[tokio::test]
async fn attempt_extended_for_too_long_fails() {
    let worker = format!("{WORKER}, attempts_max = 2");
    let destinations = [("work", &*worker, "")];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    service.send("work", json!("hangs")).await;
    let first = service.next("work").await;
    let token = claimed_earlier(&first, LONG_MS);
    assert_eq!(service.extend(&first["token"], json!({})).await["status"], "ok");
    let said = service.extend(&token, json!({})).await;
    assert_eq!(
        (&said["status"], &said["exhausted"]),
        (&json!("attempt_timeout"), &Value::Null),
        "{said}"
    );
    let detail = said["detail"].as_str().unwrap();
    for part in ["stop working", "3600000 ms (transform.attempt_ms_max)", "checkpoints", "raise"] {
        assert!(detail.contains(part), "{detail}");
    }
    // The lease has ended, whoever asks.
    for verb in ["extend", "fail"] {
        let said = service.end(verb, json!({"token": first["token"]})).await;
        assert_eq!(said["status"], "stale_lease", "{verb}");
    }

    let second = service.next("work").await;
    assert_eq!((&second["sequence"], &second["attempt"]), (&json!(1), &json!(2)));
    assert_eq!(second["last_error"]["kind"], "timeout");
    let said = service.extend(&claimed_earlier(&second, LONG_MS), json!({})).await;
    assert_eq!(
        (&said["status"], &said["exhausted"]),
        (&json!("attempt_timeout"), &json!("halted"))
    );
    let why = service.get("work/why").await;
    assert_eq!(why["cause"], "halted");
    assert!(why["explanation"].as_str().unwrap().contains("transform.attempt_ms_max"), "{why}");
}

#[tokio::test]
async fn checkpoint_begins_attempt_limit_again() {
    let service = Service::with_work().await;
    service.send("work", json!("long")).await;
    let lease = service.next("work").await;
    let token = claimed_earlier(&lease, LONG_MS);
    // A checkpoint shows that the work goes on, even if it comes late.
    for more in [json!({"checkpoint": {"page": 1}}), json!({}), json!({"checkpoint": null})] {
        let said = service.extend(&token, more.clone()).await;
        assert_eq!(said["status"], "ok", "{more}");
        assert!(said["expires_at"].is_string(), "{more}");
    }
    service.set_attempts("work", 1, 9, 1).await;
    assert_eq!(service.extend(&token, json!({})).await["status"], "attempt_timeout");
}

#[tokio::test]
async fn attempt_without_limit_is_extended_for_ever() {
    let worker = format!("{WORKER}, attempt_ms_max = 0");
    let destinations = [("work", &*worker, "")];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    service.send("work", json!("very long")).await;
    let token = claimed_earlier(&service.next("work").await, 1000 * LONG_MS);
    assert_eq!(service.extend(&token, json!({})).await["status"], "ok");
    assert_eq!(service.held("work", 1).await.attempts, domain::Attempts::default());
}

#[tokio::test]
async fn last_attempt_without_room_for_its_dead_letter_halts() {
    let policy = "on_exhausted = \"dead_letter\"\ndead_letters_max = 1";
    let service = Service::start("ingest,processor,sender", &[("work", WORKER, policy)]).await;
    for body in [1, 2] {
        service.send("work", json!(body)).await;
    }
    let request = json!({"destinations": ["work"], "max": 2, "min": 2});
    let leases = within("two leases", service.lease(request)).await;
    let item = |lease: &Value| json!({"token": lease["token"], "final": true});
    let items: Vec<Value> = leases.iter().map(item).collect();
    let (status, text) = service.post("/v1/leases/fail", json!({"items": items})).await;
    assert_eq!(status, 200, "{text}");
    let results: Value = serde_json::from_str(&text).unwrap();
    let said = [0, 1].map(|at| results["results"][at]["exhausted"].as_str());
    assert_eq!(said, [Some("dead_lettered"), Some("halted")]);
    // It leaves by itself when there is room, so it is no error yet.
    eventually("the log says how it leaves", async || {
        let log = service.pod.log();
        let mut lines = log.lines().filter(|line| line.contains("room for its dead letter"));
        if lines.any(|line| line.contains("WARN")) { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(!service.pod.log().contains("a message is halted, and waits for an operator"));
}

#[tokio::test]
async fn many_overdue_attempts_end_with_one_request() {
    let destinations = [("work", WORKER, "on_exhausted = \"drop\""), ("other", WORKER, "")];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    for name in ["work", "work", "work", "other"] {
        service.send(name, json!(1)).await;
    }
    let request = json!({"destinations": ["work"], "max": 3, "min": 3, "lease_ms": 3_600_000});
    let leases = within("three leases", service.lease(request)).await;
    let tokens = [
        claimed_earlier(&leases[0], LONG_MS),
        leases[1]["token"].clone(),
        json!("none"),
        claimed_earlier(&leases[2], LONG_MS),
        claimed_earlier(&service.next("other").await, LONG_MS),
    ];
    let items: Vec<Value> = tokens.iter().map(|token| json!({"token": token})).collect();
    let (status, text) = service.post("/v1/leases/extend", json!({"items": items})).await;
    assert_eq!(status, 200, "{text}");
    let results: Value = serde_json::from_str(&text).unwrap();
    let said: Vec<&str> =
        (0..5).filter_map(|at| results["results"][at]["status"].as_str()).collect();
    let overdue = "attempt_timeout";
    assert_eq!(said, [overdue, "ok", "stale_lease", overdue, overdue]);
    for name in ["work", "other"] {
        let next = service.next(name).await;
        assert_eq!((&next["sequence"], &next["attempt"]), (&json!(1), &json!(2)), "{name}");
    }
}

#[tokio::test]
async fn message_asked_for_later_waits_without_an_attempt() {
    let service = Service::with_work().await;
    service.send("work", json!("poll")).await;
    service.send("work", json!("behind")).await;
    let lease = service.next("work").await;
    // Messages behind it are processed meanwhile, and wait for it.
    service.complete(&service.next("work").await).await;
    let saved = service.extend(&lease["token"], json!({"checkpoint": {"job": 7}})).await;
    assert_eq!(saved["status"], "ok");
    let said = service.later(&lease, 3_600_000).await;
    assert_eq!((&said["status"], &said["exhausted"]), (&json!("ok"), &Value::Null));
    assert_eq!(service.later(&lease, 1).await["status"], "stale_lease");

    let shown = service.get("work/messages/1").await;
    assert_eq!((&shown["state"], &shown["attempts"]), (&json!("delayed"), &json!(0)));
    assert_eq!(shown["asked_later"], json!({"times": 1, "until": shown["due_at"]}));
    let why = service.get("work/why").await;
    assert_eq!((&why["cause"], &why["next_attempt_at"]), (&json!("delayed"), &shown["due_at"]));
    let explanation = why["explanation"].as_str().unwrap();
    assert!(explanation.contains("worker of message 1 asked"), "{explanation}");
    assert!(explanation.contains("1 of at most 1000"), "{explanation}");
    assert_eq!(service.stats("work").await["head"]["blocked_by"], "delay");

    let (status, text) = service.post("/v1/destinations/work/retry-head", json!({})).await;
    assert_eq!(status, 200, "{text}");
    // It comes back by itself, each time as the first attempt.
    for times in 1..=12 {
        let lease = service.next("work").await;
        assert_eq!((&lease["sequence"], &lease["attempt"]), (&json!(1), &json!(1)), "{times}");
        assert_eq!(lease["checkpoint"], json!({"job": 7}));
        assert_eq!(service.later(&lease, 1).await["status"], "ok");
    }
    let lease = service.next("work").await;
    let shown = service.get("work/messages/1").await;
    assert_eq!(shown["asked_later"], json!({"times": 13}), "{shown}");
    // A failure counts as always, and then it waits for its backoff.
    let item = json!({"token": lease["token"], "error": "no", "retry_ms": 3_600_000});
    assert_eq!(service.end("fail", item).await["status"], "ok");
    assert_eq!(service.get("work/why").await["cause"], "backoff");
    assert_eq!(service.get("work/messages/1").await["asked_later"], json!({"times": 13}));
    service.post("/v1/destinations/work/retry-head", json!({})).await;
    assert_eq!(service.inbox.journal.messages_of("work"), 0);
    service.complete(&service.next("work").await).await;
    service.inbox.journal.reaches(2).await;
}

#[tokio::test]
async fn message_asked_for_too_often_is_given_up() {
    let destinations = [
        ("halt", WORKER, "ordering = \"key\""),
        ("dead_letter", WORKER, "on_exhausted = \"dead_letter\"\nordering = \"none\""),
    ];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    for (name, fate) in [("halt", "halted"), ("dead_letter", "dead_lettered")] {
        service.send(name, json!(name)).await;
        assert_eq!(service.later(&service.next(name).await, 1).await["status"], "ok");
        let lease = service.next(name).await;
        service.set_attempts(name, 1, 10, 999).await;
        // The 1,000th request, then one more.
        assert_eq!(service.later(&lease, 1).await["exhausted"], Value::Null, "{name}");
        let said = service.later(&service.next(name).await, 1).await;
        assert_eq!((&said["status"], &said["exhausted"]), (&json!("ok"), &json!(fate)), "{name}");
    }
    let shown = service.get("halt/messages/1").await;
    let error = shown["last_error"]["detail"].as_str().unwrap();
    assert!(error.contains("more than 1000 times"), "{shown}");
    assert_eq!(shown["asked_later"], json!({"times": 1001}));
    eventually("it is a dead letter", async || {
        match service.count("dead_letter", "dead-letters").await {
            1 => Ok(()),
            count => Err(format!("{count}")),
        }
    })
    .await;
    // An operator may let the worker ask again.
    let (status, text) = service.post("/v1/destinations/halt/retry-head", json!({"key": ""})).await;
    assert_eq!(status, 200, "{text}");
    let said = service.later(&service.next("halt").await, 1).await;
    assert_eq!((&said["status"], &said["exhausted"]), (&json!("ok"), &Value::Null));
}

#[tokio::test]
async fn bad_delays_and_limits_are_refused() {
    let service = Service::with_work().await;
    for delay in [json!(86_400_001), json!(-1), json!("30s")] {
        let items = json!({"items": [{"token": "x", "delay_ms": delay}]});
        let (status, text) = service.post("/v1/leases/requeue", items).await;
        assert_eq!(status, 400, "{text}");
        assert!(text.contains("delay_ms"), "{text}");
    }
    let definition =
        json!({"url": "http://127.0.0.1:9/", "transform": {"kind": "worker", "attempt_ms_max": 5}});
    let url = service.pod.url("/v1/destinations/short");
    let answer = client().put(url).json(&definition).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains("transform.attempt_ms_max"));
}
