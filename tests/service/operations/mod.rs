//! Tests interventions at a destination, over HTTP and by command, with a real pod and Redis.
//!
//! The pod has no sender. The test acts as the sender, through the store, so it controls which
//! messages are delivered, and when.

use std::time::Duration;

use reqwest::{RequestBuilder, header::HeaderMap};
use serde_json::{Value, json};
use store::{Catalog, CatalogEntry, LaneRequest, LogEntry, Owner, OwnerToken, Settled, Store};
use support::{
    pods::{Pod, Settings, client},
    redis::TestRedis,
    wait::eventually,
};

use crate::support;

mod bodies;
mod bounds;
mod bulk;
pub mod commands;
mod dead_letters;
mod filters;
mod history;
mod input;
mod lanes;
mod messages;
mod purge;
mod repair;
mod shards;
mod versions;

/// A pod without a sender, and a store for the test as the sender.
struct Service {
    redis: TestRedis,
    pod: Pod,
    store: Store,
}

/// An answer of the API.
#[derive(Debug)]
struct Said {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

/// The test as the owner of a destination's partition.
struct Hand {
    store: Store,
    name: String,
    owner: Owner,
}

impl Service {
    async fn start() -> Service {
        let redis = TestRedis::start().await;
        let settings = Settings::new(redis.url());
        let settings = settings.destination("filed", "url = \"http://127.0.0.1:9/\"");
        let pod = Pod::start("reseq", "ingest,processor", &settings).await;
        let of_redis = config::Redis { url: redis.url().to_owned(), ..Default::default() };
        let (store, _) = Store::open(&of_redis, Duration::from_secs(5)).await.unwrap();
        Service { redis, pod, store }
    }

    /// Creates a destination. Without a `url` it gets one without a listener.
    async fn define(&self, name: &str, mut fields: Value) {
        if fields["url"].is_null() {
            fields["url"] = "http://127.0.0.1:9/".into();
        }
        let url = self.pod.url(&format!("/v1/destinations/{name}"));
        let made = said(client().put(url).json(&fields)).await;
        assert!(matches!(made.status, 200 | 201), "{made:?}");
    }

    /// Creates a destination with a worker transform. No worker runs.
    async fn define_worker(&self, name: &str, ordering: &str) {
        let transform = json!({"kind": "worker"});
        self.define(name, json!({"transform": transform, "ordering": ordering})).await;
    }

    async fn get(&self, path: &str) -> Said {
        said(client().get(self.pod.url(&format!("/v1/{path}")))).await
    }

    /// Sends a POST. Waits for the end of a bulk operation longer than clients usually do.
    async fn post(&self, path: &str, body: Value) -> Said {
        let request = client().post(self.pod.url(&format!("/v1/{path}"))).json(&body);
        said(request.header("prefer", "wait=60")).await
    }

    /// Begins a bulk operation without waiting for its end. Returns the operation in the answer.
    async fn begin(&self, path: &str, body: Value) -> Value {
        let request = client().post(self.pod.url(&format!("/v1/{path}"))).json(&body);
        let answer = said(request.header("prefer", "respond-async")).await;
        match answer.status {
            202 => assert_eq!(answer.headers["location"].to_str().unwrap(), place_of(&answer.body)),
            // A short operation may end before the answer.
            _ => assert_eq!((answer.status, &answer.body["state"]), (200, &json!("succeeded"))),
        }
        answer.body
    }

    /// Waits until an operation has ended, while it makes progress. Returns it.
    async fn ended(&self, begun: &Value) -> Value {
        let path = place_of(begun).replacen("/v1/", "", 1);
        let mut last = begun.clone();
        while last["state"] == "running" {
            last = eventually("an operation goes on", async || {
                let now = self.get(&path).await.ok();
                if now != last { Ok(now) } else { Err(now.to_string()) }
            })
            .await;
        }
        last
    }

    async fn delete(&self, path: &str) -> Said {
        said(client().delete(self.pod.url(&format!("/v1/{path}")))).await
    }

    /// Sends one message as JSON, with further fields. Returns its sequence.
    async fn send(&self, name: &str, body: Value, mut more: Value) -> u64 {
        more["destinations"] = json!([name]);
        more["body"] = body;
        let answer = self.post("messages", more).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.body["deliveries"][0]["sequence"].as_u64().unwrap()
    }

    /// Leases up to `max` messages as a worker.
    async fn lease(&self, name: &str, max: usize) -> Vec<Value> {
        let request = json!({"destinations": [name], "max": max, "lease_ms": 600_000});
        let answer = self.post("leases", request).await;
        answer.body["leases"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone()
    }

    /// Leases one message and fails it permanently.
    async fn halt_next(&self, name: &str, error: &str) {
        let lease = self.lease(name, 1).await.remove(0);
        self.fail(&lease, error, true).await;
    }

    async fn fail(&self, lease: &Value, error: &str, is_final: bool) {
        let item = json!({"token": lease["token"], "error": error, "final": is_final,
            "retry_ms": if is_final { 0 } else { 3_600_000 }});
        let answer = self.post("leases/fail", json!({"items": [item]})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Acquires the destination's partition.
    async fn hand(&self, name: &str) -> Hand {
        let token = OwnerToken::random();
        let known = known(&self.store, name).await;
        let lease = Duration::from_secs(600);
        let owned = self.store.acquire_partition(known.partition, &token, lease).await.unwrap();
        let owner = Owner { token, epoch: owned.epoch };
        Hand { store: self.store.clone(), name: name.to_owned(), owner }
    }

    /// Delivers once, with a partition that an earlier `hand` has acquired.
    async fn hand_again(&self, name: &str) -> Vec<u64> {
        let known = known(&self.store, name).await;
        let keys = self.store.keys().partition(known.partition);
        let mut redis = self.redis.connection().await;
        let _: () = ::redis::cmd("DEL").arg(keys.owner()).query_async(&mut redis).await.unwrap();
        self.hand(name).await.deliver(None).await
    }

    async fn counts(&self, name: &str) -> Value {
        self.get(&format!("destinations/{name}/stats")).await.body
    }
}

async fn known(store: &Store, name: &str) -> std::sync::Arc<CatalogEntry> {
    let catalog = Catalog::load(store.clone()).await.unwrap();
    catalog.refresh(&name.parse().unwrap()).await.unwrap().unwrap()
}

impl Hand {
    /// Delivers or skips the releasable messages of a lane, and logs them.
    async fn deliver(&self, lane: Option<&str>) -> Vec<u64> {
        let now = self.store.server_time_ms().await.unwrap();
        self.deliver_at(lane, |_| now).await
    }

    /// Like `deliver`, as if each sequence had left at this time.
    async fn deliver_at(&self, lane: Option<&str>, at_ms: impl Fn(u64) -> u64) -> Vec<u64> {
        let known = known(&self.store, &self.name).await;
        let request = |settled, limit| LaneRequest {
            key: lane.map(str::to_owned),
            settled,
            held_upto: 0,
            limit,
        };
        let wanted = [request(Settled::default(), 1000)];
        let released = self.store.release(&self.owner, &known, &wanted).await.unwrap();
        let messages = &released.runs[0].messages;
        if messages.is_empty() {
            return Vec::new();
        }
        let with_body = known.destination.log_bodies;
        let has_log = known.destination.log_max > 0;
        let mut settled = Settled::default();
        for message in messages {
            let at = at_ms(message.position.sequence);
            settled.add(message, has_log.then(|| LogEntry::of(message, at, 3, with_body)));
        }
        let settled = [request(settled, 0)];
        self.store.release(&self.owner, &known, &settled).await.unwrap();
        messages.iter().map(|message| message.position.sequence).collect()
    }
}

/// Sends a request. A problem must have the shape of all problems.
async fn said(request: RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let content_type = headers.get("content-type").cloned();
    let text = answer.text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
    if status >= 400 {
        assert_eq!(content_type.unwrap(), "application/problem+json", "{status} {text}");
        assert!(body["code"].is_string() && body["detail"].is_string(), "{text}");
    }
    Said { status, headers, body }
}

impl Said {
    /// Checks that this is the given problem, and that its detail contains `named`.
    fn is_problem(&self, status: u16, code: &str, named: &str) {
        let seen = (self.status, self.body["code"].as_str().unwrap_or("no code"));
        assert_eq!(seen, (status, code), "{}", self.body);
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.contains(named), "{detail:?} does not name {named:?}");
    }

    /// Checks that this is a success. Returns the body.
    fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }

    /// Checks that this is an operation that has succeeded. Returns its result.
    fn done(self) -> Value {
        work_of("succeeded", self.ok())
    }
}

/// The path of an operation.
fn place_of(operation: &Value) -> String {
    let word = |field: &str| operation[field].as_str().unwrap_or_else(|| panic!("{operation}"));
    format!("/v1/destinations/{}/operations/{}", word("destination"), word("id"))
}

/// Checks that an operation is in this state. Returns its result: the counts, and the fields of its kind.
fn work_of(state: &str, mut operation: Value) -> Value {
    assert_eq!(operation["state"], state, "{operation}");
    let fields = operation.as_object_mut().unwrap();
    for field in ["id", "kind", "destination", "state", "started_at", "updated_at"] {
        assert!(fields.remove(field).is_some_and(|value| value.is_string()), "{field}: {fields:?}");
    }
    // A dry run only counts.
    let is_dry = fields.remove("dry_run").and_then(|value| value.as_bool()).unwrap();
    assert!(!is_dry || fields["affected"] == 0, "{fields:?}");
    operation
}

/// A field of each item of a list.
fn each(list: &Value, field: &str) -> Vec<Value> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item[field].clone()).collect()
}
