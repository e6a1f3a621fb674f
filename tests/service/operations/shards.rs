//! Tests destinations with several shards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Service, each};
use crate::support::wait::eventually;

const SHARDS: usize = 4;
const KEYS: usize = 20;

impl Service {
    /// Creates a destination with shards, and sends two messages for each key. Returns the shard of each key.
    async fn define_shards(&self) -> BTreeMap<String, String> {
        let transform = json!({"kind": "worker"});
        let fields = json!({"transform": transform, "ordering": "key", "shards": SHARDS});
        self.define("orders", fields).await;
        let mut of_keys = BTreeMap::new();
        for number in 0..2 * KEYS {
            let key = format!("k{}", number % KEYS);
            let body = json!({"destinations": ["orders"], "body": number, "key": key});
            let sent = self.post("messages", body).await;
            assert_eq!(sent.status, 202, "{sent:?}");
            let shard = sent.body["deliveries"][0]["destination"].as_str().unwrap().to_owned();
            let before = of_keys.insert(key, shard.clone());
            assert!(before.is_none_or(|before| before == shard), "a key changed its shard");
        }
        let used: BTreeSet<&String> = of_keys.values().collect();
        assert_eq!(used.len(), SHARDS, "{of_keys:?}");
        of_keys
    }

    /// All items of a list, page by page.
    async fn all_pages(&self, path: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}?limit=7{cursor}")).await.ok();
            all.extend(page["items"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}

#[tokio::test]
async fn shards_are_one_destination_to_those_who_look() {
    let service = Service::start().await;
    let of_keys = service.define_shards().await;
    assert_eq!(each(&service.get("destinations").await.ok(), "name"), ["filed", "orders"]);
    let stats = service.counts("orders").await;
    assert_eq!((&stats["pending"], &stats["waiting"]), (&json!(40), &json!(40)), "{stats}");
    let all = service.get("stats").await.ok();
    assert_eq!(each(&all, "name"), ["filed", "orders"]);
    assert_eq!((&all["items"][1]["pending"], &all["totals"]["pending"]), (&json!(40), &json!(40)));

    let listed = service.all_pages("destinations/orders/messages").await;
    assert_eq!(listed.len(), 2 * KEYS);
    for message in &listed {
        let (shard, key) = (message["shard"].as_str().unwrap(), message["key"].as_str().unwrap());
        assert_eq!(shard.trim_end_matches("~0"), of_keys[key], "{message}");
        let shown = format!("destinations/{shard}/messages/{}", message["sequence"]);
        assert_eq!(service.get(&shown).await.ok()["id"], message["id"]);
        let by_id =
            format!("destinations/orders/messages/by-id/{}", message["id"].as_str().unwrap());
        assert_eq!(service.get(&by_id).await.ok()["key"], message["key"]);
    }
    let of_key = service.get("destinations/orders/messages?key=k3").await.ok();
    assert_eq!(each(&of_key, "key"), ["k3", "k3"]);
    assert_eq!(service.all_pages("destinations/orders/lanes").await.len(), KEYS);
    let why = service.get("destinations/orders/why?key=k3").await.ok();
    assert_eq!((&why["destination"], &why["behind"]), (&json!(of_keys["k3"]), &json!(1)));
    let why = service.get("destinations/orders/why").await.ok();
    assert_eq!(why["head"]["key"], "k0", "the oldest head: {why}");

    // As in answers: with a sequence, the name of the destination is that of its first shard.
    let [first, same] =
        ["orders", "orders~0"].map(|name| format!("destinations/{name}/messages/1"));
    assert_eq!(service.get(&first).await.ok()["id"], service.get(&same).await.ok()["id"]);
    let of_range = service.get("destinations/orders/messages?from_sequence=1").await;
    of_range.is_problem(400, "invalid_field", "orders~0 to orders~3");
    let skip = service.post("destinations/orders/skip-head", json!({"sequence": 1})).await;
    skip.is_problem(400, "invalid_field", "orders~0 to orders~3");
    let heads = super::client().head(service.pod.url("/v1/destinations/orders/messages"));
    assert_eq!(heads.send().await.unwrap().status(), 200);
    for cursor in ["garbage", "1", "99999.1", "-1."] {
        let page = service.get(&format!("destinations/orders/messages?cursor={cursor}")).await;
        page.is_problem(400, "invalid_field", "cursor");
    }
    let of_shards = [0, 1, 2, 3].map(|shard| format!("orders~{shard}"));
    let mut pending = 0;
    for shard in &of_shards {
        pending += service.counts(shard).await["pending"].as_u64().unwrap();
    }
    assert_eq!(pending, 40);
    for body in ["one", "two"] {
        let message = json!({"destinations": ["orders"], "id": "same", "body": body, "key": body});
        assert_eq!(service.post("messages", message).await.status, 202);
    }
    let same = service.get("destinations/orders/messages/by-id/same").await.ok();
    assert!(["one", "two"].contains(&same["body"].as_str().unwrap()), "{same}");
    assert!(of_shards.iter().any(|shard| same["shard"] == **shard), "{same}");
    let exact = r#"{"b":1,"a":1234567890123456789012345,"a":2}"#;
    let url = service.pod.url("/v1/destinations/orders/messages");
    let raw = super::client().post(url).header("content-type", "application/json");
    let raw = raw.header("reseq-id", "exact").header("reseq-key", "k1").body(exact);
    assert_eq!(super::said(raw).await.status, 202);
    let url = service.pod.url("/v1/destinations/orders/messages/by-id/exact");
    let shown = super::client().get(url).send().await.unwrap().text().await.unwrap();
    assert!(shown.contains("1234567890123456789012345"), "the body is as it arrived: {shown}");
    let consume = service.post("destinations/orders/consume", json!({"key": "k1"})).await;
    consume.is_problem(400, "invalid_field", "orders~0 to orders~3");
    let again = json!({"from_time": "2020-01-01T00:00:00Z", "to_destination": "orders"});
    let again = service.post("destinations/orders/replay", again).await.done();
    assert_eq!(again["matched"], 0, "each shard replays to itself: {again}");
    let replay = json!({"from_sequence": 1, "to_destination": "orders"});
    let replayed = service.post("destinations/filed/replay", replay).await;
    replayed.is_problem(400, "invalid_field", "belong to several shards");
    let unknown = service.get("destinations/orders/messages/by-id/nothing").await;
    unknown.is_problem(404, "unknown_message", "no message with this id");
    let cancelled = service.delete("destinations/orders~2/messages/1").await.ok();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
}

#[tokio::test]
async fn actions_reach_all_shards_and_are_counted_together() {
    let service = Service::start().await;
    service.define_shards().await;
    let leases = service.lease("orders", 1_000).await;
    assert_eq!(leases.len(), 2 * KEYS);
    let destinations = leases.iter().map(|lease| lease["destination"].as_str().unwrap());
    assert_eq!(destinations.collect::<BTreeSet<_>>().len(), SHARDS);
    let mut failed = BTreeSet::new();
    for lease in leases.iter().filter(|lease| failed.insert(lease["key"].as_str())).take(5) {
        service.fail(lease, "cannot read this", true).await;
    }
    assert_eq!(service.counts("orders").await["halted"], 5);

    let paused = service.post("destinations/orders/pause", json!({"what": "ingest"})).await.ok();
    assert_eq!(paused["paused"]["ingest"], true);
    for shard in 0..SHARDS {
        let shown = service.get(&format!("destinations/orders~{shard}")).await.ok();
        assert_eq!(shown["paused"], paused["paused"], "orders~{shard}");
    }
    let to_one = service.post("destinations/orders~2/resume", json!({})).await;
    to_one.is_problem(409, "wrong_state", "orders~2 is a shard of orders");
    service.post("destinations/orders/resume", json!({})).await.ok();

    let retried = service.post("destinations/orders/retry-head", json!({"all": true})).await.done();
    assert_eq!(retried["affected"], 5, "{retried}");
    let begun = service.post("destinations/orders/purge", json!({})).await.ok();
    assert_eq!((&begun["state"], &begun["destination"]), (&json!("succeeded"), &json!("orders")));
    assert_eq!(begun["affected"], 40, "{begun}");
    let id = begun["id"].as_str().unwrap();
    let shown = service.get(&format!("destinations/orders/operations/{id}")).await.ok();
    assert_eq!((&shown["affected"], &shown["id"]), (&json!(40), &begun["id"]));
    let entries = service.get("audit?action=purge").await.ok();
    assert_eq!(each(&entries, "outcome"), ["succeeded", "running"], "{entries}");
    assert_eq!(
        (&entries["items"][0]["affected"], &entries["items"][0]["operation"]),
        (&json!(40), &begun["id"])
    );
    let retry = service.post("destinations/orders/retry-head", json!({})).await;
    retry.is_problem(400, "invalid_field", "orders~0 to orders~3");
}

#[tokio::test]
async fn the_definition_of_shards_is_that_of_the_destination() {
    let service = Service::start().await;
    service.define_shards().await;
    let url = service.pod.url("/v1/destinations/orders");
    let patch = super::client().patch(url).json(&json!({"backlog_max": 80}));
    let patched = super::said(patch).await.ok();
    assert_eq!((&patched["backlog_max"], &patched["shards"]), (&json!(80), &json!(SHARDS)));
    for shard in 0..SHARDS {
        let shown = service.get(&format!("destinations/orders~{shard}")).await.ok();
        assert_eq!(shown["backlog_max"], 80, "orders~{shard}");
    }
    // Each shard has a part of the limit, and one of them is full with 20 messages of its own.
    let mut refused = 0;
    for number in 0..100 {
        let body = json!({"destinations": ["orders"], "body": number, "key": format!("k{number}")});
        refused += usize::from(service.post("messages", body).await.status == 429);
    }
    assert!((40..=100).contains(&refused), "{refused}");
    let other = json!({"url": "http://127.0.0.1:9/", "ordering": "key", "shards": 5});
    let put = super::client().put(service.pod.url("/v1/destinations/orders")).json(&other);
    super::said(put).await.is_problem(409, "wrong_state", "shards cannot change");
    let to_shard = super::client().put(service.pod.url("/v1/destinations/orders~1")).json(&other);
    super::said(to_shard).await.is_problem(409, "wrong_state", "orders~1 is a shard of orders");
    let to_shard = service.post("messages", json!({"destinations": ["orders~1"], "body": 1})).await;
    to_shard.is_problem(400, "invalid_field", "send to orders");

    // What one shard would refuse changes none of them.
    let patch = super::client().patch(service.pod.url("/v1/destinations/orders"));
    let patched = super::said(patch.json(&json!({"ordering": "none", "weight": 7}))).await;
    patched.is_problem(409, "wrong_state", "ordering cannot change while messages are pending");
    for name in ["orders", "orders~3"] {
        let shown = service.get(&format!("destinations/{name}")).await.ok();
        assert_eq!((&shown["ordering"], &shown["weight"]), (&json!("key"), &json!(1)), "{name}");
    }
    for name in ["orders~200", "orders~2", "orders~0"] {
        let removed = service.delete(&format!("destinations/{name}?force=true")).await;
        removed.is_problem(409, "wrong_state", "make the same request to orders");
    }
    let removed = service.delete("destinations/orders").await;
    removed.is_problem(409, "wrong_state", "force=true");
    assert!(service.counts("orders").await["pending"].as_u64() > Some(39), "all shards are there");
    let removed = service.delete("destinations/orders?force=true").await.ok();
    assert!(removed["removed_messages"].as_u64().unwrap() >= 40, "{removed}");
    for shard in 0..SHARDS {
        let gone = service.get(&format!("destinations/orders~{shard}")).await;
        gone.is_problem(404, "unknown_destination", "orders");
    }
    let kept = service.get("removed-destinations").await.ok();
    assert_eq!(each(&kept, "name"), ["orders"], "{kept}");
    // A shard that an earlier removal has left stands in the way of the next definition until it is removed, too.
    let mut left = domain::Destination::new("orders~1".parse().unwrap(), "http://127.0.0.1:9/");
    (left.ordering, left.shards) = (domain::Ordering::Key, 4);
    service.store.define(&left).await.unwrap();
    let put = super::client().put(service.pod.url("/v1/destinations/orders")).json(&other);
    super::said(put).await.is_problem(409, "wrong_state", "remove orders again");
    service.delete("destinations/orders").await.ok();
    let put = super::client().put(service.pod.url("/v1/destinations/orders")).json(&other);
    assert_eq!(super::said(put).await.status, 201);
}

#[tokio::test]
async fn shards_that_a_process_has_not_defined_are_defined_by_another() {
    let service = Service::start().await;
    let mut orders = domain::Destination::new("orders".parse().unwrap(), "http://127.0.0.1:9/");
    (orders.ordering, orders.shards) = (domain::Ordering::None, 3);
    // As if a process had ended right after it defined the first shard.
    service.store.define(&orders).await.unwrap();
    service.store.pause(&orders.name, None, None, Some(true)).await.unwrap();
    eventually("all shards are defined and paused", async || {
        for shard in 0..3 {
            let shown = service.get(&format!("destinations/orders~{shard}")).await;
            if shown.body["paused"]["delivery"] != json!(true) {
                return Err(shown.body.to_string());
            }
        }
        Ok(())
    })
    .await;
    let mut used = BTreeSet::new();
    for number in 0..30 {
        let body = json!({"destinations": ["orders"], "body": number, "idempotency_key": format!("i{number}")});
        let first = service.post("messages", body.clone()).await;
        let again = service.post("messages", body).await;
        assert_eq!((first.status, again.status), (202, 202), "{first:?}");
        let [first, again] = [first, again].map(|answer| answer.body["deliveries"][0].clone());
        assert_eq!((&again["duplicate"], &again["sequence"]), (&json!(true), &first["sequence"]));
        used.insert(first["destination"].as_str().unwrap().to_owned());
    }
    assert_eq!(used.len(), 3);
    let names_source =
        json!({"destinations": ["orders"], "body": 1, "source": {"name": "s", "position": "1"}});
    service.post("messages", names_source).await.is_problem(400, "invalid_field", "source");
}

#[tokio::test]
async fn copies_of_a_topic_and_of_batches_find_their_shards() {
    let service = Service::start().await;
    service.define_worker("crm", "destination").await;
    let of_keys = service.define_shards().await;
    let topic = service.pod.url("/v1/topics/all");
    let topic = super::client().put(topic).json(&json!({"destinations": ["crm", "orders"]}));
    assert_eq!(super::said(topic).await.status, 201);
    let lines: Vec<String> = (0..KEYS)
        .map(|number| {
            json!({"topic": "all", "body": number, "key": format!("k{number}")}).to_string()
        })
        .collect();
    let batch = super::client().post(service.pod.url("/v1/messages"));
    let batch = batch.header("content-type", "application/x-ndjson").body(lines.join("\n"));
    let answer = batch.send().await.unwrap().text().await.unwrap();
    for (number, line) in answer.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let stored: Vec<&str> = line["deliveries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|copy| copy["destination"].as_str().unwrap())
            .collect();
        assert_eq!(stored, ["crm", of_keys[&format!("k{number}")].as_str()], "{line}");
    }
    assert_eq!(service.counts("orders").await["pending"], 3 * KEYS);
}
