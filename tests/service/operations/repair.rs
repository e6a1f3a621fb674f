//! Tests manual damage in Redis: `repair` finds and repairs it, and messages flow again. Removing
//! a destination leaves no data behind, whatever the damage.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use serde_json::{Value, json};
use store::keys::DestinationKeys;

use super::Service;

impl Service {
    fn keys(&self, name: &str) -> DestinationKeys {
        self.store.keys().destination(&name.parse().unwrap())
    }

    async fn redis_does(&self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let _: redis::Value = self.redis.ask(&words).await.unwrap();
    }

    /// All keys of a destination with their contents, and the entries of its partition about its messages.
    async fn held(&self, name: &str) -> BTreeMap<String, String> {
        let keys = self.keys(name);
        let mut all: Vec<String> = self.redis.ask(&["KEYS", &keys.pattern()]).await.unwrap();
        all.retain(|key| !key.contains(":operation:"));
        let p = &keys.partition;
        all.extend([keys.hash(), p.leases(), p.delayed(), p.releasable()]);
        let mut held = BTreeMap::new();
        for key in all {
            let digest: Vec<String> =
                self.redis.ask(&["DEBUG", "DIGEST-VALUE", &key]).await.unwrap();
            held.insert(key, digest[0].clone());
        }
        held
    }

    async fn pause(&self, name: &str) {
        self.post(&format!("destinations/{name}/pause"), json!({})).await.ok();
    }

    /// Checks that a dry run changes nothing. Returns what it found.
    async fn dry_run(&self, name: &str) -> Value {
        self.pause(name).await;
        let before = self.held(name).await;
        let path = format!("destinations/{name}/repair");
        let found = self.post(&path, json!({"dry_run": true})).await.ok();
        assert_eq!(self.held(name).await, before, "{name}: {found}");
        found
    }

    /// Pauses the destination, repairs it, and resumes it.
    async fn repair(&self, name: &str, request: Value) -> Value {
        self.pause(name).await;
        let done = self.post(&format!("destinations/{name}/repair"), request).await.ok();
        self.post(&format!("destinations/{name}/resume"), json!({})).await.ok();
        done
    }

    /// Processes all messages that can be leased, and delivers these lanes. Returns the messages that left each lane.
    async fn flow(&self, name: &str, lanes: &[Option<&str>]) -> Vec<Vec<u64>> {
        for lease in self.lease(name, 100).await {
            let done = json!({"items": [{"token": lease["token"], "body": 1}]});
            assert_eq!(self.post("leases/complete", done).await.status, 200);
        }
        self.redis_does(&format!("DEL {}", self.keys(name).partition.owner())).await;
        let hand = self.hand(name).await;
        let mut left = Vec::new();
        for lane in lanes {
            left.push(hand.deliver(*lane).await);
        }
        left
    }
}

/// The commands that do the damage, the kinds that `repair` reports, and the messages that leave
/// lanes `k` and `j` afterwards.
type Damage = (&'static [&'static str], &'static [&'static str], [&'static [u64]; 2]);

const ALL: [&[u64]; 2] = [&[1, 2, 3], &[4]];

const DAMAGES: [Damage; 16] = [
    (&["LREM {d}:waiting 0 2"], &["nowhere"], ALL),
    (&["DEL {d}:waiting"], &["nowhere"], ALL),
    (&["ZREM {d}:in-progress:k 2"], &["no_lane", "left_over"], [&[1, 3], &[4]]),
    // An unreadable message blocks only its own lane.
    (&["HDEL {d}:messages 2"], &["damaged"], [&[1], &[4]]),
    (&["HSET {d}:messages 2 garbage"], &["damaged"], [&[1], &[4]]),
    (
        &["ZADD {d}:halted 1 77", "HSET {d}:withdrawals 78 c1_k", "HSET {d}:attempts 79 x"],
        &["left_over"],
        ALL,
    ),
    (&["ZADD {p}:delayed 1 {n}/77", "ZADD {p}:leases 1 {n}/78/x"], &["left_over"], ALL),
    (&["RPUSH {d}:waiting 77"], &["left_over"], ALL),
    (&["ZADD {d}:ready:k 77 77"], &["left_over"], ALL),
    (&["ZADD {p}:delayed 9999999999999 {n}/1", "ZADD {d}:ready:k 1 1"], &["twice"], ALL),
    (&["ZADD {d}:dead-letters 55 55", "ZADD {d}:dead-lettered-at 1 56"], &["dead_letter"], ALL),
    (&["ZREM {p}:active:worker {n}"], &["hint"], ALL),
    (&["HINCRBY {d} ready 5", "HINCRBY {d} bytes 99", "HINCRBY {d} settled -1"], &["counter"], ALL),
    (&["DEL {d}:waiting", "SET {d}:waiting x", "SET {d}:halted x"], &["wrong_type"], ALL),
    (&["DEL {d}:in-progress:k", "SET {d}:in-progress:k x"], &["wrong_type"], ALL),
    (&["SET {d}:previous x", "SET {d}:ids x", "SET {p}:operations x"], &["wrong_type"], ALL),
];

#[tokio::test]
async fn each_damage_is_told_and_repaired_and_messages_flow_again() {
    let service = Service::start().await;
    for (number, (damages, kinds, flows)) in DAMAGES.into_iter().enumerate() {
        let name = format!("crm-{number}");
        service.define_worker(&name, "key").await;
        for key in ["k", "k", "k", "j"] {
            service.send(&name, json!("x"), json!({"key": key})).await;
        }
        let healthy = service.repair(&name, json!({})).await;
        assert_eq!(healthy["matched"], 0, "{healthy}");
        assert_eq!(healthy["counters_verified"], true, "{healthy}");
        let keys = service.keys(&name);
        let partition = keys.partition.leases().replace(":leases", "");
        for damage in damages {
            let damage = damage.replace("{d}", &keys.hash()).replace("{n}", &name);
            service.redis_does(&damage.replace("{p}", &partition)).await;
        }
        let dry = service.dry_run(&name).await;
        let told: Vec<&str> = super::each(&dry, "kind")
            .into_iter()
            .filter_map(|kind| kinds.iter().find(|known| kind == **known).copied())
            .collect();
        assert_eq!(told.first(), kinds.first(), "{damages:?}: {dry}");
        let done = service.repair(&name, json!({})).await;
        assert!(done["matched"].as_u64() > Some(0), "{damages:?}: {done}");
        assert_eq!(done["matched"], done["affected"], "{damages:?}: {done}");
        let again = service.repair(&name, json!({})).await;
        assert_eq!(again["matched"], 0, "{damages:?}: {again} after {done}");
        assert_eq!(again["counters_verified"], true, "{damages:?}: {again}");
        let left = service.flow(&name, &[Some("k"), Some("j")]).await;
        assert_eq!(left, flows, "{damages:?}: {done}");
        let last = service.dry_run(&name).await;
        assert_eq!(last["matched"], 0, "{damages:?}: {last}");
    }
}

#[tokio::test]
async fn unheld_message_becomes_dead_letter_and_damaged_one_halts() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    for n in 1..=3 {
        service.send("crm", json!(n), json!({})).await;
    }
    let keys = service.keys("crm");
    service.redis_does(&format!("ZREM {} 2", keys.in_progress(None))).await;
    service.redis_does(&format!("HDEL {} 3", keys.messages())).await;
    service.repair("crm", json!({})).await;
    let page = service.get("destinations/crm/dead-letters").await.ok();
    assert_eq!(super::each(&page, "sequence"), [2]);
    let shown = service.get("destinations/crm/dead-letters/2").await.ok();
    assert_eq!(shown["body"], 2);
    assert!(shown["reason"].as_str().unwrap().starts_with("repair: "), "{shown}");
    let halted: Vec<u64> = service.redis.ask(&["ZRANGE", &keys.halted(), "0", "-1"]).await.unwrap();
    assert_eq!(halted, [3]);
    assert_eq!(service.flow("crm", &[None]).await, [[1]]);
    let counts = service.counts("crm").await;
    assert_eq!(
        (&counts["dead_lettered_total"], &counts["pending"]),
        (&json!(1), &json!(1)),
        "{counts}"
    );
}

#[tokio::test]
async fn repair_needs_a_paused_destination_and_leaves_leases_alone() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    service.send("crm", json!("x"), json!({"key": "k"})).await;
    let leases = service.lease("crm", 1).await;
    let repair = || service.post("destinations/crm/repair", json!({}));
    for part in ["ingest", "processing", "delivery"] {
        repair().await.is_problem(409, "wrong_state", "reseq destinations pause crm");
        service.post("destinations/crm/pause", json!({"what": part})).await.ok();
    }
    assert_eq!(repair().await.ok()["matched"], 0);
    // A lease can end; no other begins.
    let done = json!({"items": [{"token": leases[0]["token"]}]});
    assert_eq!(service.post("leases/requeue", done).await.status, 200);
    assert_eq!(service.lease("crm", 1).await, Vec::<Value>::new());
    assert_eq!(repair().await.ok()["matched"], 0);
    service.post("destinations/crm/resume", json!({})).await.ok();
    assert_eq!(service.flow("crm", &[Some("k")]).await, [[1]]);
}

#[tokio::test]
async fn key_that_nothing_rebuilds_is_named_and_stays() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    service.send("crm", json!("x"), json!({"key": "k"})).await;
    let messages = service.keys("crm").messages();
    service.redis_does(&format!("RENAME {messages} {messages}:aside")).await;
    service.redis_does(&format!("SET {messages} x")).await;
    let done = service.repair("crm", json!({})).await;
    assert_eq!(
        (&done["matched"], &done["affected"], &done["failed"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!(
        (&done["items"][0]["kind"], &done["items"][0]["examples"][0]),
        (&json!("lost_key"), &json!(messages))
    );
    service.redis_does(&format!("RENAME {messages}:aside {messages}")).await;
    assert_eq!(service.repair("crm", json!({})).await["matched"], 0);
    assert_eq!(service.flow("crm", &[Some("k")]).await, [[1]]);
}

#[tokio::test]
async fn interrupted_repair_is_completed_by_the_next() {
    let service = Service::start().await;
    service.define_worker("crm", "key").await;
    send_many(&service, "crm", 1_500).await;
    let keys = service.keys("crm");
    let harm = async || {
        service
            .redis_does(&format!("DEL {} {}", keys.waiting(), keys.in_progress(Some("k"))))
            .await;
        service.redis_does(&format!("SET {} x", keys.in_progress(Some("k")))).await;
    };
    service.pause("crm").await;
    let entry = super::known(&service.store, "crm").await;
    // Stops after some calls, and after more each time.
    for calls in (0..).step_by(7) {
        harm().await;
        let left = AtomicU64::new(calls);
        let goes_on = |_, _| left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        let is_stopped = service.store.repair(&entry, false, &goes_on).await.is_err();
        let done = service.store.repair(&entry, false, &|_, _| true).await.unwrap();
        assert!(done.counters_verified && done.matched() == done.affected(), "{calls}: {done:?}");
        let counts = service.counts("crm").await;
        assert_eq!(
            (&counts["pending"], &counts["waiting"]),
            (&json!(1_500), &json!(1_500)),
            "{calls}"
        );
        let order: Vec<u64> =
            service.redis.ask(&["LRANGE", &keys.waiting(), "0", "-1"]).await.unwrap();
        assert!(order.into_iter().eq(1..=1_500), "{calls}");
        if !is_stopped {
            assert!(calls > 20, "{calls}");
            break;
        }
    }
}

/// Sends this many messages in batches.
async fn send_many(service: &Service, name: &str, count: u64) {
    for from in (0..count).step_by(1_000) {
        let line = |n| format!("{}\n", json!({"destinations": [name], "body": n, "key": "k"}));
        let lines: String = (from..count.min(from + 1_000)).map(line).collect();
        let batch = super::client().post(service.pod.url("/v1/messages"));
        let batch = batch.header("content-type", "application/x-ndjson").body(lines);
        assert_eq!(batch.send().await.unwrap().status().as_u16(), 202);
    }
}

#[tokio::test]
async fn more_than_fits_into_a_page_is_repaired_in_every_mode() {
    const COUNT: u64 = 2_500;
    let service = Service::start().await;
    for (ordering, processing, lane, nowhere) in [
        ("destination", "parallel", None, COUNT),
        ("key", "parallel", Some("k"), COUNT),
        ("none", "parallel", None, COUNT),
        // One message waits for processing. The others await their turn behind it.
        ("key", "serial", Some("k"), 1),
    ] {
        let name = format!("{ordering}-{processing}");
        let worker = json!({"kind": "worker"});
        let fields = json!({"transform": worker, "ordering": ordering, "processing": processing});
        service.define(&name, fields).await;
        send_many(&service, &name, COUNT).await;
        let keys = service.keys(&name);
        // Removes the list of waiting messages, and takes one message out of its lane.
        service.redis_does(&format!("DEL {}", keys.waiting())).await;
        service.redis_does(&format!("ZREM {} 1200", keys.in_progress(lane))).await;
        service.dry_run(&name).await;
        let done = service.repair(&name, json!({})).await;
        let count_of = |kind: &str| {
            let items = done["items"].as_array().unwrap();
            items.iter().find(|item| item["kind"] == kind).map_or(0, |item| {
                assert_eq!(item["matched"], item["affected"], "{name}: {done}");
                item["matched"].as_u64().unwrap()
            })
        };
        let counts = ["nowhere", "no_lane"].map(count_of);
        assert_eq!(counts, [nowhere.min(COUNT - 1), 1], "{name}: {done}");
        let again = service.repair(&name, json!({})).await;
        let told = (&again["matched"], &again["counters_verified"]);
        assert_eq!(told, (&json!(0), &json!(true)), "{name}: {again}");
        let stats = service.counts(&name).await;
        assert_eq!(stats["pending"], COUNT - 1, "{name}: {stats}");
        assert_eq!(stats["waiting"], COUNT - 1, "{name}: {stats}");
        if processing == "parallel" {
            assert_eq!(service.lease(&name, 100).await.len(), 100, "{name}");
        } else {
            assert_eq!(service.lease(&name, 100).await.len(), 1, "{name}");
        }
    }
}

#[tokio::test]
async fn a_removal_leaves_no_key_whatever_is_damaged() {
    let service = Service::start().await;
    for damage in [
        "HSET {d}:messages 1 garbage 2 garbage",
        "HDEL {d}:messages 1 2",
        // The state after an interrupted removal.
        "DEL {d}:messages;HSET {d} deleted 1",
        "HSET {d}:messages none garbage",
        "RENAME {d}:in-progress:k {d}:in-progress:other",
        "COPY {d} {d}:in-progress:k REPLACE",
        "COPY {d} {d}:waiting REPLACE",
        "SET {d}:messages x",
        "SET {d} x",
    ] {
        service.define_worker("crm", "key").await;
        for key in ["k", "k", "j"] {
            service.send("crm", json!("x"), json!({"key": key})).await;
        }
        let keys = service.keys("crm");
        for command in damage.split(';') {
            service.redis_does(&command.replace("{d}", &keys.hash())).await;
        }
        let gone = service.delete("destinations/crm?force=true").await;
        assert_eq!(gone.status, 200, "{damage}: {gone:?}");
        let left: Vec<String> = service.redis.ask(&["KEYS", &keys.pattern()]).await.unwrap();
        assert_eq!(left, Vec::<String>::new(), "{damage}");

        service.define_worker("crm", "key").await;
        service.send("crm", json!("x"), json!({"key": "k"})).await;
        assert_eq!(service.flow("crm", &[Some("k")]).await, [[1]], "{damage}");
        assert_eq!(service.delete("destinations/crm?force=true").await.status, 200);
    }
}

#[tokio::test]
async fn repair_command_says_what_it_did_and_exits_accordingly() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    service.send("crm", json!(1), json!({})).await;
    service.run(&["repair", "crm", "--yes"]).await.failed(3, "reseq destinations pause crm");
    let paused = "crm: ingest is paused, processing is paused, delivery is paused";
    assert_eq!(service.said(&["pause", "crm"]).await, paused);
    assert_eq!(service.said(&["repair", "crm"]).await, "nothing to repair");
    service.redis_does(&format!("DEL {}", service.keys("crm").waiting())).await;
    let dry = service.run(&["repair", "crm", "--dry-run"]).await.ended(6);
    assert!(dry.contains("nowhere"), "{dry}");
    service.run(&["repair", "crm"]).await.failed(1, "Repair 1 of crm? Add --yes");
    let done = service.run(&["repair", "crm", "--yes", "-o", "json"]).await.ended(6);
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!((&done["matched"], &done["affected"]), (&json!(1), &json!(1)));
    assert_eq!(service.said(&["repair", "crm", "--yes"]).await, "nothing to repair");
}
