//! Tests that pods report the damage that they find, for as long as it lasts. A call for many
//! messages or destinations that finds damage still handles all the others.

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
    assert_eq!(scenario.ask("POST", "/v1/messages", send).await.0, 503);
    scenario.names(Some("damaged: erp: ingest: ")).await;
    scenario.steer("repair", json!({})).await;
    // A scan for damage is enough: no further call of ingest is needed.
    assert_eq!(scenario.ready().await, "ready\n");
    while scenario.work().await == 0 {}
    scenario.is_drained().await;
}

#[tokio::test]
async fn a_lane_that_cannot_be_read_keeps_no_other_from_ending() {
    let scenario = Scenario::start(worker()).await;
    scenario.send("a1", json!({"key": "a"})).await;
    scenario.send("b1", json!({"key": "b"})).await;
    let leases = scenario.lease(json!({"max": 9, "wait_ms": 20_000})).await;
    assert_eq!(leases.len(), 2);
    let ready = scenario.keys().ready(Some("a"));
    scenario.redis_ask::<String>(&["SET", &ready, "of another type"]).await;
    let statuses = scenario.ends("complete", &leases, json!({"body": "done"})).await;
    assert_eq!(statuses, ["damaged", "ok"]);
    scenario.until("the other leaves", |stats| stats["delivered_total"] == 1).await;
    scenario.names(Some("damaged: erp: complete: ")).await;

    // Ingest of lanes behaves the same.
    let in_progress = scenario.keys().in_progress(Some("a"));
    scenario.redis_ask::<String>(&["RENAME", &in_progress, "aside"]).await;
    scenario.spoil(&in_progress).await;
    let line = |key| json!({"destinations": [ERP], "body": key, "key": key}).to_string();
    let body = format!("{}\n{}\n{}\n", line("a"), line("c"), line("a"));
    let request = client().post(scenario.pod.url("/v1/messages"));
    let request = request.header("content-type", "application/x-ndjson").body(body);
    let answer = request.send().await.unwrap().text().await.unwrap();
    let lines: Vec<Value> =
        answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["code"], "damaged", "{answer}");
    assert_eq!(lines[0]["status"], 500, "{answer}");
    assert_eq!(lines[1]["deliveries"][0]["sequence"], 3, "{answer}");
    assert_eq!(lines[2]["code"], "damaged", "{answer}");
    scenario.names(Some("damaged: erp: ingest: ")).await;

    // Withdrawing behaves the same.
    let path = format!("/v1/destinations/{ERP}/messages/1");
    let (status, answer) = scenario.ask("DELETE", &path, Value::Null).await;
    assert_eq!((status, &answer["code"]), (500, &json!("damaged")), "{answer}");

    scenario.redis_ask::<u64>(&["DEL", &ready]).await;
    scenario.redis_ask::<String>(&["RENAME", "aside", &in_progress]).await;
    scenario.names(None).await;
    assert_eq!(scenario.ends("complete", &leases[..1], json!({"body": "done"})).await, ["ok"]);
    while scenario.work().await == 0 {}
    scenario.is_drained().await;
}

/// Redis cannot store the disposition of a refused head. Meanwhile, the sender does not send the
/// head again, and the other lanes continue.
#[tokio::test]
async fn head_that_cannot_end_is_not_resent_nor_blocks_others() {
    let scenario = Scenario::start(json!({"ordering": "key"})).await;
    scenario.receiver.refuse("\"a1\"", 422, None);
    scenario.spoil(&scenario.keys().halted()).await;
    scenario.send("a1", json!({"key": "a"})).await;
    scenario.names(Some("damaged: erp: halt: ")).await;
    for number in 0..5 {
        scenario.send(&format!("b{number}"), json!({"key": "b"})).await;
    }
    scenario.receives(&["b0", "b1", "b2", "b3", "b4"]).await;
    assert_eq!(scenario.receiver.arrived.load(std::sync::atomic::Ordering::Relaxed), 6);
    scenario.redis_ask::<u64>(&["DEL", &scenario.keys().halted()]).await;
    scenario.until("it is halted", |stats| stats["halted"] == 1).await;
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
        // `extend` and `requeue` need no record.
        let of_erp = if matches!(how, "extend" | "requeue") { "ok" } else { "damaged" };
        assert_eq!(statuses, [of_erp, "ok"], "{how}");
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
    // The requeued message waits and cannot be claimed; the other one can.
    let answer = scenario.ok("POST", "/v1/leases", both.clone()).await;
    assert_eq!(answer["leases"][0]["destination"], "other", "{answer}");
    assert_eq!(answer["damaged"], json!([ERP]), "{answer}");
    let (status, answer) =
        scenario.ask("POST", "/v1/leases", json!({"destinations": [ERP], "wait_ms": 0})).await;
    assert_eq!((status, &answer["code"]), (500, &json!("damaged")), "{answer}");
    scenario.redis_ask::<u64>(&["DEL", &messages]).await;
    scenario.redis_ask::<String>(&["RENAME", "aside", &messages]).await;
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
    assert_eq!((&stats["pending"], &stats["damaged"]), (&json!(1), &json!(["halted"])), "{stats}");
    let all = scenario.get("/v1/stats").await;
    let lines = all["items"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{all}");
    assert_eq!((&lines[0]["name"], &lines[0]["damaged"]), (&json!(ERP), &json!(["halted"])));
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
