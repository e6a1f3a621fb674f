//! Damage is reported by those who see it, for as long as it lasts. A damaged message halts its lane, a key of the
//! wrong type its destination; a call for many destinations serves all the others.

use serde_json::{Value, json};

use crate::{
    policies::scenario::{ERP, Scenario},
    support::{pods::client, wait::eventually},
};

impl Scenario {
    async fn ready(&self) -> String {
        let answer = client().get(self.pod.url("/readyz")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "the pod stays ready");
        answer.text().await.unwrap()
    }

    /// Waits until `/readyz` reports this damage, and the metric agrees; `None`: no damage.
    async fn names(&self, what: Option<&str>) {
        eventually(&format!("/readyz names {what:?}"), async || {
            let text = self.ready().await;
            let is_so = match what {
                Some(what) => text.contains(what),
                None => text == "ready\n",
            };
            let metric = self.pod.metric("reseq_damaged{place=\"erp\"}").await;
            let expected = if what.is_some() { 1.0 } else { 0.0 };
            if is_so && metric == expected { Ok(()) } else { Err(format!("{metric}: {text}")) }
        })
        .await;
    }

    async fn ask_bytes(&self, words: &[&[u8]]) {
        let (name, rest) = words.split_first().unwrap();
        let mut command = redis::cmd(std::str::from_utf8(name).unwrap());
        for word in rest {
            command.arg(*word);
        }
        command.exec_async(&mut self.redis.connection().await).await.unwrap();
    }

    /// Replaces a key by a string.
    async fn spoil(&self, key: &str) {
        self.redis_ask::<u64>(&["DEL", key]).await;
        self.redis_ask::<String>(&["SET", key, "of another type"]).await;
    }

    async fn ends(&self, how: &str, leases: &[Value], fields: Value) -> Vec<String> {
        let items = leases.iter().map(|lease| {
            let mut item = json!({"token": lease["token"]});
            item.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
            item
        });
        let items = json!({"items": items.collect::<Vec<_>>()});
        let answer = self.ok("POST", &format!("/v1/leases/{how}"), items).await;
        let statuses = answer["results"].as_array().unwrap().iter();
        statuses.map(|result| result["status"].as_str().unwrap().to_owned()).collect()
    }
}

fn worker() -> Value {
    json!({"transform": {"kind": "worker"}, "ordering": "key"})
}

#[tokio::test]
async fn a_damaged_message_is_named_until_it_is_gone() {
    for how in ["dead_letter", "cancel", "purge", "put back", "remove"] {
        let mut scenario = Scenario::start(worker()).await;
        scenario.names(None).await;
        for (body, key) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            scenario.send(body, json!({"key": key})).await;
        }
        let messages = scenario.keys().messages();
        let record: Vec<u8> = scenario.redis_ask(&["HGET", &messages, "1"]).await;
        scenario.damage("garbage", "1").await;
        scenario.damage("missing", "2").await;
        while scenario.work().await == 0 {}
        scenario.names(Some("damaged: erp: messages: 2 cannot be read: 1, 2\n")).await;
        if how == "cancel" {
            // A pod that starts after the damage was found finds it again.
            scenario.let_go().await;
            scenario.pod.restart().await;
            scenario.names(Some("damaged: erp: messages: 2 cannot be read: 1, 2\n")).await;
        }
        match how {
            "dead_letter" => {
                scenario.steer("skip-head", json!({"key": "a", "sequence": 1})).await;
                scenario.names(Some("damaged: erp: messages: 1 cannot be read: 2\n")).await;
                scenario.steer("skip-head", json!({"key": "a", "sequence": 2})).await;
            }
            "cancel" => {
                scenario.cancel(1).await;
                scenario.cancel(2).await;
            }
            "purge" => drop(scenario.steer("purge", json!({})).await),
            "put back" => {
                scenario.ask_bytes(&[b"HSET", messages.as_bytes(), b"1", &record]).await;
                scenario.names(Some("damaged: erp: messages: 1 cannot be read: 2\n")).await;
                scenario.steer("retry-head", json!({"key": "a", "sequence": 1})).await;
                scenario.cancel(2).await;
            }
            _ => drop(scenario.ok("DELETE", "/v1/destinations/erp?force=true", Value::Null).await),
        }
        scenario.names(None).await;
    }
}

#[tokio::test]
async fn message_damaged_before_delivery_is_named_until_it_is_gone() {
    let mut scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send_four().await;
    scenario.let_go().await;
    scenario.damage("cut", "2").await;
    scenario.pod.restart().await;
    scenario.steer("resume", json!({"what": "delivery"})).await;
    scenario.names(Some("damaged: erp: messages: 1 cannot be read: 2\n")).await;
    scenario.cancel(2).await;
    scenario.names(None).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn what_a_repair_removed_is_not_named_any_more() {
    let scenario = Scenario::start(worker()).await;
    scenario.send("a1", json!({"key": "a"})).await;
    scenario.spoil(&scenario.keys().waiting()).await;
    let send = json!({"destinations": [ERP], "body": "a2", "key": "a"});
    assert_eq!(scenario.ask("POST", "/v1/messages", send).await.0, 500);
    scenario.names(Some("damaged: erp: ingest: ")).await;
    scenario.steer("pause", json!({})).await;
    scenario.steer("repair", json!({})).await;
    // A scan for damage is enough: no further call of ingest is needed.
    assert_eq!(scenario.ready().await, "ready\n");
    scenario.steer("resume", json!({})).await;
    while scenario.work().await == 0 {}
    scenario.is_drained().await;
}

#[tokio::test]
async fn key_of_wrong_type_halts_its_destination_until_it_is_right() {
    let scenario = Scenario::start(worker()).await;
    for body in ["a1", "b1"] {
        scenario.send(body, json!({"key": body[..1]})).await;
    }
    let leases = scenario.lease(json!({"max": 9, "min": 2, "wait_ms": 20_000})).await;
    assert_eq!(leases.len(), 2);
    scenario.send("b2", json!({"key": "b"})).await;
    let ready = scenario.keys().ready(Some("a"));
    scenario.spoil(&ready).await;
    let statuses = scenario.ends("complete", &leases, json!({"body": "done"})).await;
    assert_eq!(statuses, ["damaged", "damaged"]);
    scenario.names(Some("damaged: erp: complete: ")).await;

    // Each call says which key it is, and what helps.
    let found = format!("the Redis key {ready} has the type string instead of zset");
    let item = json!({"destinations": [ERP], "body": "b3", "key": "b"});
    let lease = json!({"destinations": [ERP], "wait_ms": 0});
    let cancel = format!("/v1/destinations/{ERP}/messages/3");
    for (method, path, body) in [
        ("POST", "/v1/messages", item),
        ("POST", "/v1/leases", lease),
        ("DELETE", cancel.as_str(), Value::Null),
    ] {
        let (status, answer) = scenario.ask(method, path, body).await;
        assert_eq!((status, &answer["code"]), (500, &json!("damaged")), "{path}: {answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains(&found) && detail.contains("reseq repair"), "{path}: {detail}");
    }
    let why = scenario.get(&format!("/v1/destinations/{ERP}/why")).await;
    assert_eq!(why["cause"], "damaged", "{why}");
    assert!(why["explanation"].as_str().unwrap().contains(&found), "{why}");
    assert_eq!(why["actions"][1]["command"], "reseq repair erp", "{why}");
    let doctor = scenario.get("/v1/doctor").await.to_string();
    assert!(doctor.contains(&found), "{doctor}");

    scenario.steer("pause", json!({})).await;
    scenario.steer("repair", json!({})).await;
    scenario.names(None).await;
    scenario.steer("resume", json!({})).await;
    assert_eq!(scenario.ends("complete", &leases, json!({"body": "done"})).await, ["ok", "ok"]);
    while scenario.work().await == 0 {}
    scenario.is_drained().await;
    let mut received = scenario.received();
    received.sort();
    assert_eq!(received, ["b2", "done", "done"]);
}

/// A processor keeps its leases and its results until the key is right: no attempt is lost.
#[tokio::test]
async fn results_wait_while_a_wrong_type_halts_the_destination() {
    let scenario = Scenario::start(json!({})).await;
    let policies = json!({"ordering": "key", "on_exhausted": "drop",
                          "transform": {"attempts_max": 1, "stalls_max": 1}});
    scenario.define("shaped", scenario.with_transform(policies)).await;
    let keys = store::Keys::new("reseq", 64).destination(&"shaped".parse().unwrap());
    let gate = scenario.transformer.gate.write().await;
    for (body, key) in [("a1", "a"), ("b1", "b")] {
        let item = json!({"destinations": ["shaped"], "body": body, "key": key});
        scenario.ok("POST", "/v1/messages", item).await;
    }
    eventually("both are being processed", async || {
        match scenario.transformer.arrived.load(std::sync::atomic::Ordering::Relaxed) {
            2 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    let ready = keys.ready(Some("a"));
    scenario.spoil(&ready).await;
    drop(gate);
    eventually("the results cannot be stored", async || {
        let text = scenario.ready().await;
        if text.contains("damaged: shaped: complete: ") { Ok(()) } else { Err(text) }
    })
    .await;
    scenario.redis_ask::<u64>(&["DEL", &ready]).await;
    eventually("both are delivered", async || match scenario.receiver.bodies().len() {
        2 => Ok(()),
        count => Err(count.to_string()),
    })
    .await;
    assert_eq!(scenario.transformer.arrived.load(std::sync::atomic::Ordering::Relaxed), 2);
}

/// Redis cannot store what becomes of a refused head. The sender does not send it again meanwhile.
#[tokio::test]
async fn head_that_cannot_end_is_not_sent_again_meanwhile() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    let arrived = || scenario.receiver.arrived.load(std::sync::atomic::Ordering::Relaxed);
    scenario.receiver.refuse("\"a1\"", 422, None);
    let gate = scenario.receiver.gate.write().await;
    scenario.send("a1", json!({"key": "a"})).await;
    eventually("it is being delivered", async || {
        if arrived() == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    scenario.spoil(&scenario.keys().halted()).await;
    drop(gate);
    scenario.names(Some("damaged: erp: halt: ")).await;
    scenario.redis_ask::<u64>(&["DEL", &scenario.keys().halted()]).await;
    scenario.until("it is halted", |stats| stats["halted"] == 1).await;
    assert_eq!(arrived(), 1);
    scenario.names(None).await;
    scenario.cancel(1).await;
    scenario.is_drained().await;
}

#[tokio::test]
async fn unreadable_destination_keeps_no_other_from_its_workers() {
    let scenario = Scenario::start(worker()).await;
    scenario.define("other", worker()).await;
    let both = json!({"destinations": [ERP, "other"], "max": 9, "wait_ms": 20_000});
    let send = async |name: &str| {
        let item = json!({"destinations": [name], "body": name, "key": "k"});
        scenario.ok("POST", "/v1/messages", item).await;
    };
    send(ERP).await;
    send("other").await;
    let mut leases = Vec::new();
    while leases.len() < 2 {
        leases.extend(scenario.lease(both.clone()).await);
    }
    leases.sort_by_key(|lease| lease["destination"].to_string());
    // So that claims look at both.
    send(ERP).await;
    let messages = scenario.keys().messages();
    scenario.redis_ask::<String>(&["RENAME", &messages, "aside"]).await;
    scenario.spoil(&messages).await;
    for how in ["extend", "fail", "complete", "requeue"] {
        let fields = match how {
            "complete" => json!({"body": 1}),
            "fail" => json!({"retry_ms": 0}),
            _ => json!({}),
        };
        let statuses = scenario.ends(how, &leases, fields).await;
        assert_eq!(statuses, ["damaged", "ok"], "{how}");
        if how == "fail" {
            let again = scenario.lease(json!({"destinations": ["other"], "wait_ms": 20_000})).await;
            leases[1] = again[0].clone();
        }
        if how == "complete" {
            send("other").await;
            let again = scenario.lease(json!({"destinations": ["other"], "wait_ms": 20_000})).await;
            leases[1] = again[0].clone();
        }
    }
    // The requeued message can be claimed.
    let answer = scenario.ok("POST", "/v1/leases", both.clone()).await;
    assert_eq!(answer["leases"][0]["destination"], "other", "{answer}");
    assert_eq!(answer["damaged"], json!([ERP]), "{answer}");
    let (status, answer) =
        scenario.ask("POST", "/v1/leases", json!({"destinations": [ERP], "wait_ms": 0})).await;
    assert_eq!((status, &answer["code"]), (500, &json!("damaged")), "{answer}");
    scenario.redis_ask::<u64>(&["DEL", &messages]).await;
    scenario.redis_ask::<String>(&["RENAME", "aside", &messages]).await;
    assert_eq!(scenario.ends("complete", &leases[..1], json!({"body": 1})).await, ["ok"]);
    while scenario.work().await == 0 {}
    scenario.is_drained().await;
}

#[tokio::test]
async fn a_listing_that_meets_damage_says_so_and_goes_on() {
    let scenario = Scenario::start(json!({"ordering": "key", "on_exhausted": "dead_letter"})).await;
    scenario.define("other", json!({})).await;
    for body in ["a1", "a2", "a3"] {
        scenario.send(body, json!({"key": "a"})).await;
    }
    scenario.is_drained().await;
    let keys = scenario.keys();

    let log = keys.log();
    scenario.redis_ask::<u64>(&["HSET", &log, "2", "what cannot be read"]).await;
    let listed = scenario.get(&format!("/v1/destinations/{ERP}/log")).await;
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 3, "{listed}");
    assert_eq!((&items[1]["sequence"], items[1]["damaged"].is_string()), (&json!(2), true));
    assert!(items[0]["damaged"].is_null() && items[2]["damaged"].is_null(), "{listed}");

    // A listed dead letter without a record.
    scenario.redis_ask::<u64>(&["ZADD", &keys.dead_letters(), "2", "2"]).await;
    let listed = scenario.get(&format!("/v1/destinations/{ERP}/dead-letters")).await;
    assert_eq!(listed["items"][0]["sequence"], 2, "{listed}");
    assert!(listed["items"][0]["damaged"].is_string(), "{listed}");

    // A field that is not a sequence hides no message from the list.
    scenario.steer("pause", json!({"what": "delivery"})).await;
    scenario.send("a4", json!({"key": "a"})).await;
    scenario.redis_ask::<u64>(&["HSET", &keys.messages(), "no number", "x"]).await;
    let listed = scenario.get(&format!("/v1/destinations/{ERP}/messages")).await;
    assert_eq!(listed["items"][0]["sequence"], 4, "{listed}");
    scenario.redis_ask::<u64>(&["HDEL", &keys.messages(), "no number"]).await;

    // A counter that cannot be read is listed as damaged; the others are shown.
    scenario.spoil(&keys.halted()).await;
    let stats = scenario.stats().await;
    let is_named = |found: &Value| found["damaged"].as_array().unwrap().contains(&json!("halted"));
    assert!(stats["pending"] == 1 && is_named(&stats), "{stats}");
    let all = scenario.get("/v1/stats").await;
    let lines = all["items"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{all}");
    assert!(lines[0]["name"] == ERP && is_named(&lines[0]), "{all}");
    assert!(lines[1]["damaged"].is_null(), "{all}");
    scenario.redis_ask::<u64>(&["DEL", &keys.halted()]).await;
    scenario.steer("resume", json!({"what": "delivery"})).await;
    scenario.is_drained().await;
}

/// A value of the wrong kind is damage, not a lost answer: the client must not repeat the request.
#[tokio::test]
async fn answer_with_wrong_content_is_damage_and_not_unconfirmed() {
    let scenario = Scenario::start(json!({})).await;
    let hash = scenario.keys().hash();
    scenario.redis_ask::<u64>(&["HSET", &hash, "settled", "many"]).await;
    let (status, answer) =
        scenario.ask("GET", &format!("/v1/destinations/{ERP}/log"), Value::Null).await;
    assert_eq!((status, &answer["code"]), (500, &json!("unreadable")), "{answer}");
    scenario.names(Some("damaged: erp: HGET: ")).await;
    let stats = scenario.stats().await;
    assert_eq!(stats["damaged"], json!(["settled"]), "{stats}");
}

/// Hints name destinations and lanes. A hint that is not UTF-8 is ignored and hides no other.
#[tokio::test]
async fn a_hint_that_cannot_be_read_hides_no_other() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    let definition = scenario.with_transform(json!({"ordering": "key"}));
    scenario.define("shaped", definition).await;
    let keys = scenario.keys();
    let shaped = store::Keys::new("reseq", 64).destination(&"shaped".parse().unwrap());
    for key in [
        keys.partition.releasable(),
        keys.lanes(),
        keys.partition.leases(),
        keys.partition.delayed(),
        shaped.partition.active(store::Claimers::Builtin),
    ] {
        scenario.ask_bytes(&[b"ZADD", key.as_bytes(), b"1", b"\xff\xfe"]).await;
    }
    scenario.send("a1", json!({"key": "a"})).await;
    let item = json!({"destinations": ["shaped"], "body": "s1", "key": "s", "delay_ms": 1});
    scenario.ok("POST", "/v1/messages", item).await;
    eventually("both are delivered", async || {
        let found = scenario.receiver.bodies();
        if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}
