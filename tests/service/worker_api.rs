//! Tests the worker API with a real pod: claims of several workers, and failed messages.

use std::sync::Arc;

use domain::{DestinationName, Stamped};
use serde_json::{Value, json};
use store::{Catalog, Store};
use support::{
    checker::keys,
    pods::{Pod, Settings, client},
    receiver::{Inbox, Receiver},
    redis::TestRedis,
    transformer::Transformer,
    wait::{eventually, within},
};
use tokio::sync::mpsc;

use crate::support;

mod attempts;
mod results;

struct Service {
    redis: TestRedis,
    pod: Pod,
    inbox: Arc<Inbox>,
    _receiver: Receiver,
    _transformer: Transformer,
}

impl Service {
    /// Starts a pod with these roles and destinations. Each destination has a name, further fields
    /// of its transform, and further fields of its own.
    async fn start(roles: &str, destinations: &[(&str, &str, &str)]) -> Service {
        let redis = TestRedis::start().await;
        let inbox = Arc::new(Inbox::default());
        let receiver = Receiver::http(&inbox).await;
        let transformer = Transformer::start(1, 5).await;
        let mut settings = Settings::new(redis.url());
        for (name, transform, more) in destinations {
            let transform = transform.replace("TRANSFORMER", &transformer.url());
            let fields = format!(
                "url = \"{}\"\ntransform = {{ {transform}, backoff_ms = 1, backoff_max_ms = 1 }}\n{more}",
                receiver.url()
            );
            settings = settings.destination(name, &fields);
        }
        let pod = Pod::start("reseq", roles, &settings).await;
        Service { redis, pod, inbox, _receiver: receiver, _transformer: transformer }
    }

    /// Starts a pod with one destination, `work`.
    async fn with_work() -> Service {
        Service::start("ingest,processor,sender", &[("work", WORKER, "")]).await
    }

    async fn send(&self, name: &str, body: Value) {
        let request = client().post(self.pod.url(&format!("/v1/destinations/{name}/messages")));
        assert_eq!(request.json(&body).send().await.unwrap().status(), 202);
    }

    async fn post(&self, path: &str, body: Value) -> (u16, String) {
        post(&self.pod.url(path), body).await
    }

    async fn lease(&self, request: Value) -> Vec<Value> {
        lease(&self.pod.url("/v1/leases"), request).await
    }

    /// Leases the next message, for an hour.
    async fn next(&self, name: &str) -> Value {
        let request = json!({"destinations": [name], "wait_ms": 60_000, "lease_ms": 3_600_000});
        within("a lease", self.lease(request)).await.remove(0)
    }

    /// Ends one lease. Returns the result of the item.
    async fn end(&self, verb: &str, item: Value) -> Value {
        let (status, text) =
            self.post(&format!("/v1/leases/{verb}"), json!({"items": [item]})).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["results"][0].take()
    }

    async fn fail(&self, lease: &Value, is_final: bool) -> Value {
        let item =
            json!({"token": lease["token"], "error": "no", "retry_ms": 0, "final": is_final});
        self.end("fail", item).await
    }

    async fn complete(&self, lease: &Value) {
        let item = json!({"token": lease["token"], "body": {"output": lease["sequence"]}});
        assert_eq!(self.end("complete", item).await["status"], "ok");
    }

    /// The size of a sorted set of a destination.
    async fn count(&self, name: &str, noun: &str) -> usize {
        let mut redis = self.redis.connection().await;
        let end = format!(":d:{name}:{noun}");
        let all = keys(&mut redis).await;
        let Some(key) = all.iter().find(|key| key.ends_with(&end)) else { return 0 };
        ::redis::cmd("ZCARD").arg(key).query_async(&mut redis).await.unwrap()
    }

    async fn stats(&self, name: &str) -> Value {
        let url = self.pod.url(&format!("/v1/destinations/{name}/stats"));
        client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// A message as stored in Redis.
    async fn held(&self, name: &str, sequence: u64) -> Stamped {
        let redis = config::Redis { url: self.redis.url().to_owned(), ..Default::default() };
        let lease = std::time::Duration::from_secs(5);
        let (store, _) = Store::open(&redis, lease).await.unwrap();
        let name: DestinationName = name.parse().unwrap();
        let catalog = Catalog::load(store.clone()).await.unwrap();
        let known = catalog.find(&name).await.unwrap().unwrap();
        store.messages(&known, &[sequence]).await.unwrap().remove(0).expect("it is pending")
    }
}

const WORKER: &str = "kind = \"worker\"";

async fn post(url: &str, body: Value) -> (u16, String) {
    let answer = client().post(url).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn lease(url: &str, request: Value) -> Vec<Value> {
    let (status, text) = post(url, request).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_value(serde_json::from_str::<Value>(&text).unwrap()["leases"].take()).unwrap()
}

#[tokio::test]
async fn min_is_all_or_nothing() {
    let service = Service::with_work().await;
    service.send("work", json!(1)).await;
    service.send("work", json!(2)).await;
    let three = json!({"destinations": ["work"], "min": 3, "max": 5});
    assert!(service.lease(three).await.is_empty());
    // A request for fewer messages gets them, even while another request waits for more.
    let url = service.pod.url("/v1/leases");
    let patient = json!({"destinations": ["work"], "min": 3, "max": 5, "wait_ms": 60_000});
    let patient = tokio::spawn(async move { lease(&url, patient).await });
    let first = service.next("work").await;
    assert_eq!(first["sequence"], 1);
    assert_eq!(service.end("requeue", json!({"token": first["token"]})).await["status"], "ok");
    service.send("work", json!(3)).await;
    let leases = within("three messages", patient).await.unwrap();
    let sequences: Vec<_> =
        leases.iter().map(|lease| lease["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, [1, 2, 3]);
}

#[tokio::test]
async fn checkpoint_passes_to_next_attempt_after_crash_or_failure() {
    let service = Service::with_work().await;
    service.send("work", json!({"rows": 1000})).await;
    let first = service.next("work").await;
    assert_eq!((&first["attempt"], &first["checkpoint"]), (&json!(1), &Value::Null));
    assert_eq!(first["last_error"], Value::Null);
    let long = json!({"token": first["token"], "checkpoint": "x".repeat(64 * 1024)});
    let (status, text) = service.post("/v1/leases/extend", json!({"items": [long]})).await;
    assert!(status == 400 && text.contains("items[0].checkpoint"), "{status} {text}");
    // The worker dies at once.
    let noted = json!({"token": first["token"], "checkpoint": {"page": 7}, "lease_ms": 100});
    assert_eq!(service.end("extend", noted).await["status"], "ok");
    let second = service.next("work").await;
    assert_eq!((&second["attempt"], &second["checkpoint"]), (&json!(2), &json!({"page": 7})));
    assert_eq!(second["last_error"]["kind"], "stalled");
    // Extending without a checkpoint keeps the old one.
    service.end("extend", json!({"token": second["token"]})).await;
    assert_eq!(service.fail(&second, false).await["status"], "ok");
    let third = service.next("work").await;
    assert_eq!((&third["attempt"], &third["checkpoint"]), (&json!(3), &json!({"page": 7})));
    let error = &third["last_error"];
    assert_eq!((&error["kind"], &error["detail"]), (&json!("failed"), &json!("no")));
    assert!(error["occurred_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{error}");
    service.end("extend", json!({"token": third["token"], "checkpoint": null})).await;
    service.fail(&third, false).await;
    let fourth = service.next("work").await;
    assert_eq!((&fourth["attempt"], &fourth["checkpoint"]), (&json!(4), &Value::Null));
    service.complete(&fourth).await;
    service.inbox.journal.reaches(1).await;
    assert_eq!(service.inbox.journal.all()[0].headers.as_ref().unwrap().attempt, 1);
}

#[tokio::test]
async fn two_idle_workers_share_slow_traffic() {
    const MESSAGES: u64 = 20;
    let service = Service::with_work().await;
    let (done, mut ends) = mpsc::unbounded_channel();
    for worker in 0..2 {
        let (url, done) = (service.pod.url("/v1/leases"), done.clone());
        tokio::spawn(async move {
            let request = json!({"destinations": ["work"], "max": 4, "wait_ms": 60_000});
            loop {
                for one in lease(&url, request.clone()).await {
                    let items = json!({"items": [{"token": one["token"], "body": 1}]});
                    let (status, text) = post(&format!("{url}/complete"), items).await;
                    assert!(status == 200 && text.contains("ok"), "{text}");
                    done.send(worker).unwrap();
                }
            }
        });
    }
    let mut served = [0; 2];
    for number in 0..MESSAGES {
        service.send("work", json!(number)).await;
        served[within("it is completed", ends.recv()).await.unwrap()] += 1;
    }
    assert!((8..=12).contains(&served[0]), "{served:?}");
}

#[tokio::test]
async fn worker_of_several_destinations_gets_each_by_weight_in_turn() {
    let destinations = [("light", WORKER, ""), ("heavy", WORKER, "weight = 3")];
    let service = Service::start("ingest", &destinations).await;
    for number in 0..10 {
        service.send("light", json!(number)).await;
        service.send("heavy", json!(number)).await;
    }
    let leases = service.lease(json!({"destinations": ["light", "heavy"], "max": 8})).await;
    let of = |name: &str| leases.iter().filter(|lease| lease["destination"] == name).count();
    assert_eq!((of("light"), of("heavy")), (2, 6));
    let mut turns = Vec::new();
    for _ in 0..4 {
        let mut one = service.lease(json!({"destinations": ["light", "heavy"]})).await;
        turns.push(one.remove(0)["destination"].take());
    }
    assert_eq!(turns, ["light", "heavy", "heavy", "heavy"]);
}

#[tokio::test]
async fn what_is_used_up_is_halted_skipped_or_dropped() {
    let worker = format!("{WORKER}, attempts_max = 2");
    let service = Service::start(
        "ingest,processor,sender",
        &[
            ("halt", &worker, ""),
            ("dead_letter", &worker, "on_exhausted = \"dead_letter\""),
            ("drop", &worker, "on_exhausted = \"drop\"\nordering = \"key\""),
            ("none", &worker, "on_exhausted = \"dead_letter\"\nordering = \"none\""),
        ],
    )
    .await;
    for (name, fate) in [
        ("halt", "halted"),
        ("dead_letter", "dead_lettered"),
        ("drop", "dropped"),
        ("none", "dead_lettered"),
    ] {
        for number in 0..3 {
            service.send(name, json!(format!("{name} {number}"))).await;
        }
        let first = service.next(name).await;
        let said = service.fail(&first, false).await;
        assert_eq!((&said["status"], &said["exhausted"]), (&json!("ok"), &Value::Null), "{name}");
        let again = service.next(name).await;
        assert_eq!((&again["sequence"], &again["attempt"]), (&first["sequence"], &json!(2)));
        let said = service.fail(&again, false).await;
        assert_eq!((&said["status"], &said["exhausted"]), (&json!("ok"), &json!(fate)), "{name}");
        // The second message fails permanently at once; the third succeeds.
        let said = service.fail(&service.next(name).await, true).await;
        assert_eq!(said["exhausted"], fate, "{name}");
        service.complete(&service.next(name).await).await;
    }
    service.inbox.journal.reaches(3).await;
    let halted =
        (service.count("halt", "halted").await, service.count("halt", "dead-letters").await);
    assert_eq!((halted, service.inbox.journal.messages_of("halt")), ((2, 0), 0));
    for (name, dead) in [("dead_letter", 2), ("drop", 0), ("none", 2)] {
        assert_eq!(service.count(name, "halted").await, 0, "{name}");
        assert_eq!(service.count(name, "dead-letters").await, dead, "{name}");
        assert_eq!(service.inbox.journal.messages_of(name), 1, "{name}");
    }
    eventually("both are passed", async || {
        let stats = service.stats("drop").await;
        if stats["dropped_total"] == 2 { Ok(()) } else { Err(stats.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn queue_without_receiver_ends_processed_messages_in_order() {
    let service = Service::with_work().await;
    let path = service.pod.url("/v1/destinations/queue");
    let queue = json!({"delivery": {"kind": "none"}, "ordering": "key", "log_max": 10,
        "transform": {"kind": "worker", "backoff_ms": 1, "attempts_max": 2},
        "on_exhausted": "dead_letter"});
    let defined: Value =
        client().put(&path).json(&queue).send().await.unwrap().json().await.unwrap();
    assert_eq!((&defined["delivery"]["kind"], &defined["url"]), (&json!("none"), &Value::Null));
    for body in [1, 2] {
        let message = json!({"destinations": ["queue"], "key": "a", "body": body});
        assert_eq!(service.post("/v1/messages", message).await.0, 202);
    }
    let (first, second) = (service.next("queue").await, service.next("queue").await);
    service.complete(&second).await;
    // The first message is not processed, so the second one waits.
    let stats = service.stats("queue").await;
    assert_eq!((&stats["ready"], &stats["delivered_total"]), (&json!(1), &json!(0)), "{stats}");
    service.fail(&first, true).await;
    let is_over = async |delivered: u64, dead_lettered: u64| {
        eventually("all have ended", async || {
            let stats = service.stats("queue").await;
            let ended =
                [&stats["pending"], &stats["delivered_total"], &stats["dead_lettered_total"]];
            let expected = [&json!(0), &json!(delivered), &json!(dead_lettered)];
            if ended == expected { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
    };
    is_over(1, 1).await;
    // With a receiver, later messages are delivered.
    let receiver = json!({"url": service._receiver.url(), "delivery": null});
    assert!(client().patch(&path).json(&receiver).send().await.unwrap().status().is_success());
    service.send("queue", json!(3)).await;
    service.complete(&service.next("queue").await).await;
    service.inbox.journal.reaches(1).await;
    is_over(2, 1).await;
    assert_eq!(service.inbox.journal.messages_of("queue"), 1);
}

#[tokio::test]
async fn what_kills_its_workers_is_given_up_by_the_owner() {
    let worker = format!("{WORKER}, stalls_max = 2");
    let destinations = [("work", &*worker, "on_exhausted = \"dead_letter\"")];
    let service = Service::start("ingest,processor,sender", &destinations).await;
    service.send("work", json!("poison")).await;
    for attempt in 1..=2 {
        let request = json!({"destinations": ["work"], "wait_ms": 60_000, "lease_ms": 100});
        let leases = within("a lease", service.lease(request)).await;
        assert_eq!((&leases[0]["sequence"], &leases[0]["attempt"]), (&json!(1), &json!(attempt)));
    }
    service.send("work", json!("good")).await;
    service.complete(&service.next("work").await).await;
    service.inbox.journal.reaches(1).await;
    eventually("it is a dead letter", async || match service.count("work", "dead-letters").await {
        1 => Ok(()),
        count => Err(format!("{count}")),
    })
    .await;
    assert_eq!(service.count("work", "halted").await, 0);
}

#[tokio::test]
async fn a_record_says_how_its_processing_went_and_keeps_the_input() {
    let http = "kind = \"http\", url = \"TRANSFORMER\"";
    let destinations = [
        ("work", WORKER, "log_bodies = true"),
        ("plain", WORKER, ""),
        ("http", http, "log_bodies = true"),
    ];
    let service = Service::start("ingest,processor", &destinations).await;
    for name in ["work", "plain"] {
        service.send(name, json!("in")).await;
        service.fail(&service.next(name).await, false).await;
        service.complete(&service.next(name).await).await;
        let held = service.held(name, 1).await;
        assert_eq!(held.processed.unwrap().attempts, 2);
        assert_eq!(&*held.message.body.bytes, br#"{"output":1}"#);
        assert_eq!(held.input.map(|body| body.bytes), (name == "work").then(|| "\"in\"".into()));
        assert_eq!(held.accounted_bytes, 4);
    }
    service.send("http", json!("in")).await;
    eventually("it is processed", async || {
        let held = service.held("http", 1).await;
        let processed = held.processed.ok_or_else(|| "it is not".to_owned())?;
        assert_eq!(processed.attempts, 1);
        assert_eq!(held.input.map(|body| body.bytes), Some("\"in\"".into()));
        Ok(())
    })
    .await;
}
