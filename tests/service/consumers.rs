//! Tests delivery `pull`: consumers take the messages of a destination over HTTP, in order.

use serde_json::{Value, json};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::{eventually, within},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::support;

struct Service {
    redis: TestRedis,
    settings: Settings,
    /// The pod that serves the API.
    pod: Pod,
    sender: Pod,
}

impl Service {
    async fn start() -> Service {
        let redis = TestRedis::start().await;
        let mut settings = Settings::new(redis.url());
        settings.sender_lease_ms = 1500;
        let pod = Pod::start("api", "ingest,processor", &settings).await;
        let sender = Pod::start("sender", "sender", &settings).await;
        Service { redis, settings, pod, sender }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = client().request(method.parse().unwrap(), self.pod.url(path));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Defines a destination. Unless the fields change it, its leases do not end within a test.
    async fn define(&self, name: &str, fields: Value) {
        let mut definition = json!({"delivery": {"kind": "pull", "timeout_ms": 600_000,
            "backoff_ms": 1, "backoff_max_ms": 10}});
        for (field, value) in fields.as_object().unwrap() {
            match value.as_object() {
                Some(inner) => {
                    inner.iter().for_each(|(inner, value)| definition[field][inner] = value.clone())
                }
                None => definition[field] = value.clone(),
            }
        }
        self.ok("PUT", &format!("/v1/destinations/{name}"), definition).await;
    }

    /// Sends messages, each given by its key and body.
    async fn send(&self, name: &str, messages: &[(&str, u64)]) {
        for (key, body) in messages {
            let message = json!({"destinations": [name], "key": key, "body": body});
            self.ok("POST", "/v1/messages", message).await;
        }
    }

    /// Sends messages to an empty destination that become free for consumers together.
    async fn send_at_once(&self, name: &str, messages: &[(&str, u64)]) {
        let path = format!("/v1/destinations/{name}");
        let delivery = json!({"what": "delivery"});
        self.ok("POST", &format!("{path}/pause"), delivery.clone()).await;
        self.send(name, messages).await;
        self.until(name, json!({"ready": messages.len()})).await;
        self.ok("POST", &format!("{path}/resume"), delivery).await;
    }

    async fn consume(&self, name: &str, request: Value) -> Vec<Value> {
        let path = format!("/v1/destinations/{name}/consume");
        let answer = within("messages", self.ok("POST", &path, request)).await;
        answer["deliveries"].as_array().unwrap().clone()
    }

    /// Takes at least one message.
    async fn next(&self, name: &str, max: u64) -> Vec<Value> {
        let request = json!({"max": max, "wait_ms": 60_000, "consumer": "test"});
        let taken = self.consume(name, request).await;
        assert!(!taken.is_empty());
        taken
    }

    /// Takes messages until there are this many of a lane, all of one lease.
    async fn take(&self, name: &str, count: usize) -> Vec<Value> {
        eventually("the run of the lane", async || {
            let taken = self.next(name, 100).await;
            if taken.len() == count {
                return Ok(taken);
            }
            self.end("requeue", &taken[0], json!({})).await;
            Err(format!("{}", taken.len()))
        })
        .await
    }

    /// Acknowledges a message. Returns the result.
    async fn end(&self, verb: &str, message: &Value, more: Value) -> Value {
        let mut item = json!({"token": message["token"]});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("/v1/deliveries/{verb}");
        let mut answer = self.ok("POST", &path, json!({"items": [item]})).await;
        answer["results"][0].take()
    }

    async fn accept(&self, message: &Value) -> Value {
        self.end("accept", message, json!({})).await["status"].take()
    }

    async fn until(&self, name: &str, expected: Value) {
        eventually("the stats", async || {
            let stats =
                self.ok("GET", &format!("/v1/destinations/{name}/stats"), Value::Null).await;
            let is_so = expected.as_object().unwrap().iter().all(|(of, is)| stats[of] == *is);
            if is_so { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
    }
}

fn bodies(taken: &[Value]) -> Vec<u64> {
    taken.iter().map(|message| message["body"].as_u64().unwrap()).collect()
}

/// When a lease expires.
fn expiry(of: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(of["expires_at"].as_str().unwrap(), &Rfc3339).unwrap()
}

fn is(taken: &[Value], key: &str) -> Vec<u64> {
    let of_key = taken.iter().filter(|message| message["key"] == key).cloned();
    bodies(&of_key.collect::<Vec<_>>())
}

#[tokio::test]
async fn consumers_get_each_lane_in_order_and_one_at_a_time() {
    let service = Service::start().await;
    service.define("keyed", json!({"ordering": "key", "log_max": 10})).await;
    service.send("keyed", &[("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]).await;
    service.until("keyed", json!({"ready": 5})).await;
    let (mut all, mut first): (Vec<Value>, Option<Value>) = (Vec::new(), None);
    while all.len() < 5 {
        let taken = service.next("keyed", 100).await;
        // No consumer gets messages of a lane while another consumer holds the lane.
        let nothing = service.consume("keyed", json!({"max": 100})).await;
        for lane in ["a", "b"].into_iter().filter(|lane| !is(&taken, lane).is_empty()) {
            assert_eq!(is(&nothing, lane), [0; 0], "{lane}");
        }
        for other in &nothing {
            service.end("requeue", other, json!({})).await;
        }
        for message in &taken {
            let last = taken.iter().rfind(|one| one["key"] == message["key"]).unwrap();
            if last == message {
                // This also accepts the earlier messages of its lane.
                assert_eq!(service.accept(message).await, "ok");
            }
        }
        first.get_or_insert_with(|| taken[0].clone());
        all.extend(taken);
    }
    assert_eq!((is(&all, "a"), is(&all, "b")), (vec![1, 3, 5], vec![2, 4]));
    let one = &all[0];
    assert_eq!((&one["attempt"], &one["destination"]), (&json!(1), &json!("keyed")), "{one}");
    assert!(one["expires_at"].as_str().unwrap().ends_with('Z') && one["epoch"].is_u64(), "{one}");
    service.until("keyed", json!({"pending": 0, "delivered_total": 5})).await;
    // A repeated acknowledgement changes nothing.
    assert_eq!(service.accept(&first.unwrap()).await, "settled");
    let log = service.ok("GET", "/v1/destinations/keyed/log", Value::Null).await;
    assert_eq!(log["items"].as_array().unwrap().len(), 5, "{log}");

    // Without ordering each message is a lane. The whole destination may also be one lane.
    service.define("none", json!({"ordering": "none"})).await;
    service.define("whole", json!({})).await;
    for name in ["none", "whole"] {
        service.send(name, &[("a", 1), ("b", 2), ("c", 3)]).await;
        let mut got = Vec::new();
        while got.len() < 3 {
            let taken = service.next(name, 2).await;
            assert!(taken.len() <= 2);
            got.extend(bodies(&taken));
            for message in &taken {
                assert_eq!(service.accept(message).await, "ok");
            }
        }
        if name == "none" {
            got.sort_unstable();
        }
        assert_eq!(got, [1, 2, 3], "{name}");
        service.until(name, json!({"pending": 0, "delivered_total": 3})).await;
    }
}

#[tokio::test]
async fn refused_or_requeued_comes_again_late_call_changes_nothing() {
    let service = Service::start().await;
    service.define("erp", json!({"on_exhausted": "dead_letter"})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3)]).await;
    let taken = service.take("erp", 3).await;
    // Giving a message back does not count as an attempt.
    assert_eq!(service.end("requeue", &taken[0], json!({})).await["status"], "ok");
    assert_eq!(service.accept(&taken[0]).await, "stale_lease");
    let taken = service.take("erp", 3).await;
    assert_eq!((bodies(&taken), &taken[0]["attempt"]), (vec![1, 2, 3], &json!(1)));
    let extended = service.end("extend", &taken[0], json!({})).await;
    assert_eq!(extended["status"], "ok", "{extended}");
    assert!(expiry(&extended) >= expiry(&taken[0]), "{extended} {taken:?}");
    // Refusing the second message accepts the first.
    let refusal = json!({"error": "not now", "retry_ms": 0});
    assert_eq!(service.end("refuse", &taken[1], refusal).await["status"], "ok");
    assert_eq!(service.end("refuse", &taken[1], json!({})).await["status"], "stale_lease");
    let taken = service.next("erp", 100).await;
    assert_eq!((&taken[0]["body"], &taken[0]["attempt"]), (&json!(2), &json!(2)), "{taken:?}");
    assert_eq!(taken[0]["last_error"]["detail"], "not now", "{taken:?}");
    let refusal = json!({"error": "never", "final": true});
    assert_eq!(service.end("refuse", &taken[0], refusal).await["status"], "ok");
    let taken = service.next("erp", 100).await;
    assert_eq!((bodies(&taken), &taken[0]["attempt"]), (vec![3], &json!(1)), "{taken:?}");
    assert_eq!(service.accept(&taken[0]).await, "ok");
    let expected = json!({"pending": 0, "delivered_total": 2, "dead_lettered_total": 1});
    service.until("erp", expected).await;

    // A consumer dies. Its lease expires, and another consumer gets the message, as another attempt.
    service.define("short", json!({"delivery": {"timeout_ms": 100}})).await;
    service.send("short", &[("a", 1)]).await;
    let dead = service.next("short", 1).await;
    service.define("short", json!({"delivery": {"timeout_ms": 60_000}})).await;
    let taken = service.next("short", 1).await;
    assert_eq!((bodies(&taken), &taken[0]["attempt"]), (vec![1], &json!(2)), "{taken:?}");
    assert_eq!(taken[0]["last_error"]["kind"], "stalled", "{taken:?}");
    assert_eq!(service.accept(&dead[0]).await, "stale_lease");
    assert_eq!(service.end("extend", &dead[0], json!({})).await["status"], "stale_lease");
    assert_eq!(service.accept(&taken[0]).await, "ok");
    service.until("short", json!({"pending": 0, "delivered_total": 1})).await;
}

#[tokio::test]
async fn withdrawal_waits_for_consumer_kind_change_for_no_messages() {
    let service = Service::start().await;
    service.define("erp", json!({"log_max": 10})).await;
    service.send("erp", &[("a", 1), ("a", 2), ("a", 3)]).await;
    service.until("erp", json!({"ready": 3})).await;
    let path = "/v1/destinations/erp/messages";
    // No consumer holds this message.
    let cancelled = service.ok("DELETE", &format!("{path}/2"), Value::Null).await;
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let mut taken = service.next("erp", 100).await;
    assert_eq!(taken[0]["body"], 1);
    let held = service.ok("DELETE", &format!("{path}/1"), Value::Null).await;
    assert_eq!(held["state"], "withdrawing", "{held}");
    // The message was accepted before it could be withdrawn.
    assert_eq!(service.accept(&taken[0]).await, "ok");
    while taken.iter().all(|one| one["body"] != 3) {
        taken = service.next("erp", 100).await;
    }
    // The delivery kind cannot change while a consumer holds messages.
    let push = json!({"url": "http://127.0.0.1:9/", "delivery": null});
    let (status, problem) = service.ask("PATCH", "/v1/destinations/erp", push.clone()).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")), "{problem}");
    // While delivery is paused, consumers get no messages.
    service.ok("POST", "/v1/destinations/erp/pause", json!({"what": "delivery"})).await;
    let last = taken.last().unwrap().clone();
    assert_eq!(service.end("requeue", &last, json!({})).await["status"], "ok");
    assert!(service.consume("erp", json!({"max": 9, "wait_ms": 300})).await.is_empty());
    service.ok("POST", "/v1/destinations/erp/resume", json!({"what": "delivery"})).await;
    let taken = service.next("erp", 9).await;
    assert_eq!(bodies(&taken), [3]);
    assert_eq!(service.accept(&taken[0]).await, "ok");
    let expected = json!({"pending": 0, "delivered_total": 2, "cancelled_total": 1});
    service.until("erp", expected).await;
    service.ok("PATCH", "/v1/destinations/erp", push).await;
    let consume = "/v1/destinations/erp/consume";
    let (status, problem) = service.ask("POST", consume, json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("wrong_state")), "{problem}");
    for (body, named) in [(json!({"max": 0}), "max"), (json!({"wait_ms": 60_001}), "wait_ms")] {
        let (status, problem) = service.ask("POST", consume, body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("invalid_field")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with(named), "{problem}");
    }
}

#[tokio::test]
async fn consumers_go_on_after_sender_death_and_redis_restart() {
    let mut service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3)]).await;
    let taken = service.take("erp", 3).await;
    service.sender.kill();
    // Redis holds the lease and the accepted messages, so consumers do not need the sender.
    assert_eq!(service.accept(&taken[0]).await, "ok");
    let sender = Pod::start("other", "sender", &service.settings).await;
    service.until("erp", json!({"delivered_total": 1})).await;
    assert!(service.consume("erp", json!({"max": 9})).await.is_empty(), "it is held");
    assert_eq!(service.accept(&taken[1]).await, "ok");
    service.until("erp", json!({"delivered_total": 2})).await;

    // Redis may have lost data: leased messages come again, once their leases must be over.
    service.define("erp", json!({"delivery": {"timeout_ms": 500}})).await;
    service.end("requeue", &taken[2], json!({})).await;
    let taken = service.next("erp", 1).await;
    service.redis.kill_and_restart().await;
    let again = eventually("the message comes again", async || {
        let request = json!({"wait_ms": 1000});
        let (status, answer) = service.ask("POST", "/v1/destinations/erp/consume", request).await;
        match answer["deliveries"].as_array() {
            Some(taken) if !taken.is_empty() => Ok(taken.clone()),
            _ => Err(format!("{status} {answer}")),
        }
    })
    .await;
    assert_eq!((bodies(&again), bodies(&taken)), (vec![3], vec![3]));
    assert_eq!(service.accept(&taken[0]).await, "stale_lease");
    // The lease is short, so the test may have to take the message again.
    eventually("it is accepted", async || {
        let taken = service.consume("erp", json!({"wait_ms": 1000})).await;
        let accepted = match taken.first() {
            Some(message) => service.accept(message).await,
            None => service.accept(&again[0]).await,
        };
        match accepted.as_str() {
            Some("ok" | "settled") => Ok(()),
            _ => Err(accepted.to_string()),
        }
    })
    .await;
    service.until("erp", json!({"pending": 0})).await;
    drop(sender);
}

#[tokio::test]
async fn why_says_that_a_consumer_is_missing_or_who_holds_the_message() {
    let service = Service::start().await;
    service.define("erp", json!({"ordering": "key"})).await;
    service.send("erp", &[("a", 1), ("b", 2)]).await;
    let blocked_by = async |cause: &str| {
        eventually(cause, async || {
            let why = service.ok("GET", "/v1/destinations/erp/why?key=a", Value::Null).await;
            if why["cause"] == *cause { Ok(why) } else { Err(why.to_string()) }
        })
        .await
    };
    let why = blocked_by("awaiting_consumer").await;
    let explanation = why["explanation"].as_str().unwrap();
    assert!(explanation.contains("waits for a consumer that takes from erp"), "{explanation}");
    assert_eq!((&why["head"]["state"], &why["head"]["lease"]), (&json!("ready"), &Value::Null));
    // Messages that wait for a consumer do not count as being delivered.
    service.until("erp", json!({"ready": 2, "delivering": 0})).await;

    let mut taken = Vec::new();
    while taken.len() < 2 {
        taken.extend(service.next("erp", 100).await);
    }
    let why = blocked_by("consuming").await;
    assert_eq!(why["explanation"], "Message 1 is held by test.", "{why}");
    let lease = &why["head"]["lease"];
    assert_eq!(lease["consumer"], "test", "{lease}");
    assert!(lease["expires_at"].as_str().unwrap().ends_with('Z'), "{lease}");
    service.until("erp", json!({"delivering": 2})).await;
    let page = service.ok("GET", "/v1/destinations/erp/messages", Value::Null).await;
    for message in page["items"].as_array().unwrap() {
        assert_eq!(message["lease"]["consumer"], "test", "{message}");
    }
    for message in &taken {
        assert_eq!(service.end("requeue", message, json!({})).await["status"], "ok");
    }
    blocked_by("awaiting_consumer").await;
    service.until("erp", json!({"ready": 2, "delivering": 0})).await;
}

#[tokio::test]
async fn what_has_become_ready_while_nobody_came_is_taken_in_one_call() {
    let service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send("erp", &[("a", 1)]).await;
    let offered = async || {
        let why = service.ok("GET", "/v1/destinations/erp/why", Value::Null).await;
        if why["cause"] == "awaiting_consumer" { Ok(()) } else { Err(why.to_string()) }
    };
    eventually("the first waits for a consumer", offered).await;
    service.send("erp", &[("a", 2), ("a", 3), ("a", 4)]).await;
    // `take` claims the lane, and gives it back until the run is complete.
    let taken = service.take("erp", 4).await;
    assert_eq!(bodies(&taken), [1, 2, 3, 4]);
    assert_eq!(service.accept(&taken[3]).await, "ok");
    service.until("erp", json!({"pending": 0, "delivered_total": 4})).await;
}

#[tokio::test]
async fn withdrawal_of_a_held_message_waits_for_its_lease() {
    let service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3), ("a", 4)]).await;
    let taken = service.take("erp", 4).await;
    for sequence in [2, 3] {
        let path = format!("/v1/destinations/erp/messages/{sequence}");
        let cancelled = service.ok("DELETE", &path, Value::Null).await;
        assert_eq!(cancelled["state"], "withdrawing", "{cancelled}");
    }
    assert_eq!(service.accept(&taken[0]).await, "ok");
    service.until("erp", json!({"delivered_total": 1})).await;
    // The owner has settled the first message, and taken none of the others.
    assert!(service.consume("erp", json!({"max": 9})).await.is_empty());
    assert_eq!(service.end("extend", &taken[2], json!({})).await["status"], "ok");
    // Messages that the consumer accepts count as delivered. Messages that it gives back are withdrawn.
    assert_eq!(service.accept(&taken[1]).await, "ok");
    service.until("erp", json!({"delivered_total": 2, "cancelled_total": 0})).await;
    assert_eq!(service.end("requeue", &taken[3], json!({})).await["status"], "ok");
    let taken = service.next("erp", 9).await;
    assert_eq!(bodies(&taken), [4]);
    assert_eq!(service.accept(&taken[0]).await, "ok");
    let expected = json!({"pending": 0, "delivered_total": 3, "cancelled_total": 1});
    service.until("erp", expected).await;
}

#[tokio::test]
async fn sender_that_releases_less_takes_nothing_from_a_consumer() {
    let mut service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3), ("a", 4)]).await;
    let taken = service.take("erp", 4).await;
    service.sender.drains().await;
    let mut settings = service.settings.clone();
    // This line goes into the section `sender`, which is the last one.
    settings.destinations = "release_batch_max = 1\n".to_owned();
    let sender = Pod::start("other", "sender", &settings).await;
    assert_eq!(service.accept(&taken[0]).await, "ok");
    service.until("erp", json!({"delivered_total": 1})).await;
    assert!(service.consume("erp", json!({"max": 9})).await.is_empty(), "it is held");
    assert_eq!(service.accept(&taken[3]).await, "ok");
    service.until("erp", json!({"pending": 0, "delivered_total": 4})).await;
    drop(sender);
}

#[tokio::test]
async fn accepted_messages_do_not_come_again_without_a_sender() {
    let mut service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3)]).await;
    service.sender.kill();
    // Consumers need no sender.
    let taken = service.take("erp", 3).await;
    assert_eq!(service.accept(&taken[1]).await, "ok");
    assert_eq!(service.end("requeue", &taken[2], json!({})).await["status"], "ok");
    // The first two messages are not settled yet.
    let again = service.next("erp", 9).await;
    assert_eq!((bodies(&again), &again[0]["attempt"]), (vec![3], &json!(1)));
    assert_eq!(service.accept(&again[0]).await, "ok");
    for repeated in [&taken[1], &taken[0], &again[0]] {
        assert_eq!(service.accept(repeated).await, "settled");
    }
    assert!(service.consume("erp", json!({"max": 9})).await.is_empty());
    let sender = Pod::start("other", "sender", &service.settings).await;
    service.until("erp", json!({"pending": 0, "delivered_total": 3})).await;
    assert_eq!(service.accept(&taken[1]).await, "settled");
    drop(sender);
}

#[tokio::test]
async fn innocent_messages_beside_a_deadly_one_are_not_given_up() {
    let service = Service::start().await;
    let lease = json!({"timeout_ms": 2000, "attempts_max": 2});
    let more = json!({"ordering": "key", "on_exhausted": "drop", "delivery": lease});
    service.define("erp", more).await;
    // Message 5 is the deadly one, in a lane of eight. Other lanes have one message each.
    let mut messages: Vec<(&str, u64)> = (1..=8).map(|body| ("a", body)).collect();
    messages.extend([("b", 11), ("c", 12), ("d", 13)]);
    service.send_at_once("erp", &messages).await;
    let mut handled = Vec::new();
    eventually("all but one are handled", async || {
        let taken = service.consume("erp", json!({"max": 100, "wait_ms": 100})).await;
        // The consumer handles all messages that it took, and then accepts. Message 5 ends it before that.
        if bodies(&taken).contains(&5) {
            return Err(format!("{:?}", bodies(&taken)));
        }
        for message in &taken {
            if ["ok", "settled"].map(Value::from).contains(&service.accept(message).await) {
                handled.extend(bodies(std::slice::from_ref(message)));
            }
        }
        let stats = service.ok("GET", "/v1/destinations/erp/stats", Value::Null).await;
        if stats["pending"] == 0 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
    handled.sort_unstable();
    handled.dedup();
    assert_eq!(handled, [1, 2, 3, 4, 6, 7, 8, 11, 12, 13]);
    service.until("erp", json!({"delivered_total": 10, "dropped_total": 1})).await;
}

#[tokio::test]
async fn head_held_by_consumer_is_oldest_despite_many_free_lanes() {
    let service = Service::start().await;
    service.define("parcels", json!({"ordering": "key"})).await;
    service.send("parcels", &[("held", 0)]).await;
    service.next("parcels", 1).await;
    let keys: Vec<String> = (0..40).map(|number| format!("free-{number}")).collect();
    let free: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    service.send("parcels", &free).await;
    service.until("parcels", json!({"pending": 41, "waiting": 0, "processing": 0})).await;
    let stats = service.ok("GET", "/v1/destinations/parcels/stats", Value::Null).await;
    let (head, next) = (&stats["head"], &stats["heads"][1]);
    assert_eq!((&head["sequence"], &head["state"]), (&json!(1), &json!("delivering")), "{stats}");
    assert_eq!(next["state"], "ready", "nobody holds it: {stats}");
}

/// The length of lost leases does not depend on definitions made since.
#[tokio::test]
async fn wait_for_forgotten_leases_does_not_become_shorter() {
    let service = Service::start().await;
    service.define("erp", json!({})).await;
    service.send_at_once("erp", &[("a", 1)]).await;
    let expires = expiry(&service.next("erp", 1).await[0]).unix_timestamp() * 1000;
    let mut redis = service.redis.connection().await;
    let found = redis::cmd("KEYS").arg("reseq:*:d:erp").query_async(&mut redis).await;
    let [hash]: [String; 1] = found.unwrap();
    // The destination is one lane.
    let forgotten = format!("{hash}:consumer-leases");
    redis::cmd("HDEL").arg(forgotten).arg("").exec_async(&mut redis).await.unwrap();
    let epoch = hash.replace("d:erp", "epoch");
    redis::cmd("HDEL").arg(epoch).arg("server").exec_async(&mut redis).await.unwrap();
    let nothing = json!({"max": 9});
    assert!(service.consume("erp", nothing.clone()).await.is_empty());
    service.define("erp", json!({"delivery": {"timeout_ms": 500}})).await;
    assert!(service.consume("erp", nothing).await.is_empty());
    let from = redis::cmd("HGET").arg(hash).arg("consumers_from_ms").query_async(&mut redis).await;
    let from: i64 = from.unwrap();
    assert!(from >= expires, "consumers may get it {} ms too early", expires - from);
}

#[tokio::test]
async fn refused_head_of_a_destination_that_is_one_lane_waits() {
    let service = Service::start().await;
    let waits = json!({"backoff_ms": 600_000, "backoff_max_ms": 600_000});
    service.define("erp", json!({"delivery": waits})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2)]).await;
    let taken = service.take("erp", 2).await;
    assert_eq!(
        service.end("refuse", &taken[0], json!({"retry_ms": 600_000})).await["status"],
        "ok"
    );
    eventually("the sender has decided", async || {
        let why = service.ok("GET", "/v1/destinations/erp/why", Value::Null).await;
        if why.to_string().contains("\"backoff\"") { Ok(()) } else { Err(why.to_string()) }
    })
    .await;
    for _ in 0..2 {
        assert!(service.consume("erp", json!({"max": 9})).await.is_empty());
    }
    service.ok("POST", "/v1/destinations/erp/retry-head", json!({})).await;
    let taken = service.next("erp", 9).await;
    assert_eq!((bodies(&taken), &taken[0]["attempt"]), (vec![1, 2], &json!(2)), "{taken:?}");
}

#[tokio::test]
async fn refusal_behind_many_accepted_messages_counts() {
    let mut service = Service::start().await;
    service.define("erp", json!({"on_exhausted": "dead_letter"})).await;
    service.send_at_once("erp", &[("a", 1), ("a", 2), ("a", 3), ("a", 4)]).await;
    let taken = service.take("erp", 4).await;
    service.sender.drains().await;
    let mut settings = service.settings.clone();
    // This line goes into the section `sender`, which is the last one.
    settings.destinations = "release_batch_max = 1\n".to_owned();
    let sender = Pod::start("other", "sender", &settings).await;
    let refusal = json!({"error": "never", "final": true});
    assert_eq!(service.end("refuse", &taken[2], refusal).await["status"], "ok");
    service.until("erp", json!({"delivered_total": 2, "dead_lettered_total": 1})).await;
    let taken = service.next("erp", 9).await;
    assert_eq!((bodies(&taken), &taken[0]["attempt"]), (vec![4], &json!(1)), "{taken:?}");
    drop(sender);
}
